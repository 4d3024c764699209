"""Inferred kinds in the service: first values that are dirty, in records and requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost.models.features.readings import MISSING_TEXTS
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError
from kaboost.service.events.decoders import make_decoder
from kaboost.service.events.json import JsonDecoder
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.boosters import array_bytes
from tests.kafka.client import encode
from tests.models.test_schema import SPEC
from tests.service.learning import learned, learning, settings_for, until
from tests.service.serving import Program, publish
from tests.service.test_inference import TREES

Start = Callable[..., tuple[Settings, Program]]

COERCE = {"coerce": True}


def events(values: Sequence[Any], seed: int = 0) -> tuple[list[dict[str, Any]], list[int]]:
    r = np.random.default_rng(seed)
    rows = [{"x": value, "clean": float(r.normal())} for value in values]
    return rows, [int(row["clean"] > 0.0) for row in rows]


def served(
    model: Model, decoder: Any, values: list[bytes], cut: int
) -> list[tuple[int, EventError]]:
    """Learn records as the trainer does; return the faults."""
    faults = []
    for first in range(0, len(values), cut):
        unread, at = values[first : first + cut], first
        while unread:
            decoded = decoder.decode(unread)
            faults += [(at + k, error) for k, error in decoded.faults]
            if len(decoded.y):
                model.learn(decoded.table, decoded.y, decoded.w)
            decoder.follow(model.encoder.schema)
            if decoded.new_features:
                model.add_features(decoded.new_features)
                decoder.add_features(decoded.new_features)
            unread, at = unread[decoded.consumed :], at + decoded.consumed
    return faults


VALUES = st.lists(
    st.sampled_from([1.5, 2, 0, True, False, "a", "b", "", "N/A", None, 2**55, 7e9, "1,5"]),
    min_size=30,
    max_size=90,
)


@settings(max_examples=12, deadline=None)
@given(VALUES, st.integers(1, 60))
def test_records_are_learned_as_rows_are(values: list[Any], cut: int) -> None:
    """The library and the service have the same kinds and the same bytes, however they are cut."""
    rows, y = events([*values, *[3.25] * 20])
    library, service = Model("binary", SPEC), Model("binary", SPEC)
    library.learn_many(rows, y)
    decoder = JsonDecoder(service.encoder.schema, service.labels)
    faults = served(service, decoder, [encode(*one) for one in zip(rows, y, strict=True)], cut)

    assert [] == faults
    assert library.describe() == service.describe()
    assert array_bytes(library.to_arrays()) == array_bytes(service.to_arrays())


@pytest.mark.parametrize("cut", [1, 50, 1_000])
def test_a_misfit_after_the_first_values_is_a_dead_letter(cut: int) -> None:
    """Exactly from the 201st value on, in batches of any size."""
    values = ["dirty", *np.linspace(0.0, 9.0, 199).tolist(), "late", "N/A", 1.0]
    rows, y = events(values)
    model = Model("binary", SPEC)
    decoder = JsonDecoder(model.encoder.schema, model.labels)
    faults = served(model, decoder, [encode(*one) for one in zip(rows, y, strict=True)], cut)

    assert [(200, "feature_type")] == [(place, error.code) for place, error in faults]
    assert "number" == model.kinds["x"]


@pytest.mark.parametrize("plain", [True, False])
def test_categories_by_name(tmp_path: Path, plain: bool) -> None:
    """Numbers and booleans of a declared category, in records of any shape."""
    mapped = {} if plain else {"events": {"features": "features", "label": "label"}}
    one = settings_for(
        "h:1", tmp_path, "t", features={"schema": {"mcc": "category", "n": "number"}}, **mapped
    )
    model = Model("binary", SPEC, {"mcc": "category", "n": "number"})
    sent = [5411, "5411", 5411.0, True, "true", None, 10**30]
    values = [encode({"mcc": value, "n": 1.0}, 1) for value in sent]
    decoded = make_decoder(model.encoder.schema, model.labels, one).decode(values)

    assert [] == decoded.faults
    names = ["5411", "5411", "5411", "true", "true", None, str(10**30)]
    assert [names] == [list(column) for column in decoded.table.categories]


@pytest.mark.parametrize("text", sorted(MISSING_TEXTS))
def test_texts_for_missing_values_are_missing(text: str) -> None:
    """In a declared number and boolean; in a category they are names."""
    schema = {"n": "number", "b": "boolean", "c": "category"}
    decoder = JsonDecoder(schema, Model(features=schema, spec={"bank": "linear"}).labels)
    rows = [{"n": text, "b": text.upper(), "c": text}, {"n": 1.0, "b": True, "c": "x"}]
    decoded = decoder.decode([encode(row, 1) for row in rows])

    assert [] == decoded.faults
    np.testing.assert_array_equal([[np.nan], [1.0]], decoded.table.numbers)
    np.testing.assert_array_equal([[np.nan], [1.0]], decoded.table.booleans)
    assert [[text, "x"]] == [list(column) for column in decoded.table.categories]


@pytest.mark.parametrize("seed", range(3))
def test_coercion_infers_kinds_from_texts(tmp_path: Path, seed: int) -> None:
    """Decimal commas, truth in words, and a dirty first value; codes stay texts."""
    r = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = [{"amount": "n.v.", "vip": "yes", "zip": "00100"}]
    rows += [
        {
            "amount": f"{value:.2f}".replace(".", ","),
            "vip": ("yes", "no", "TRUE")[k % 3],
            "zip": f"0{k % 7:04d}",
        }
        for k, value in enumerate(r.normal(40.0, 9.0, 260))
    ]
    one = settings_for(
        "h:1",
        tmp_path,
        "t",
        features={"schema": "auto"},
        model={"bank": TREES},
        events={"coerce": True},
    )
    model = Model("binary", SPEC)
    decoder = make_decoder(model.encoder.schema, model.labels, one)
    faults = served(model, decoder, [encode(row, k % 2) for k, row in enumerate(rows)], 37)

    assert [] == faults
    assert {"amount": "number", "vip": "boolean", "zip": "category"} == model.kinds


def test_requests_are_read_as_records_are(serve: Start) -> None:
    """A text for a missing value, a name as a number, and what is refused, by its place."""
    schema = {"age": "number", "mcc": "category"}
    wanted, program = serve(features={"schema": schema}, model={"bank": TREES})
    model = Model("binary", wanted.model, schema)
    rows = [{"age": k % 40, "mcc": 5000 + k % 3} for k in range(300)]
    model.learn_many(rows, [int(k % 3 == 0) for k in range(300)])
    publish(wanted, model)
    program.ready()

    assert (
        program.predict({"age": "N/A", "mcc": 5000})["probability"]
        == (model.predict_proba_one({"mcc": "5000"})[1])
    )
    many = {"instances": [{"age": "-", "mcc": 5001.0}, {"features": {"age": 3, "mcc": "5001"}}]}
    found = program.client.post("/predict", json=many).json()["predictions"]
    expected = [{"mcc": "5001"}, {"age": 3, "mcc": "5001"}]
    assert [one["probability"] for one in found] == [
        model.predict_proba_one(row)[1] for row in expected
    ]
    refused = program.client.post("/predict", json={"features": {"age": "old", "mcc": 0.5}})
    assert 422 == refused.status_code
    pointers = {error["pointer"] for error in refused.json()["errors"]}
    assert {"#/features/age", "#/features/mcc"} == pointers


def test_a_learner_restarts_in_the_midst_of_first_values(
    topic: str, make_settings: Callable[..., Settings], send: Callable[..., None], caplog: Any
) -> None:
    """What it learned before and after is what a model learns without a stop; it says so once."""
    values = ["dirty", 1.5, "x", *np.linspace(0.0, 5.0, 60).tolist(), True, 3.5, None, "N/A"]
    rows, y = events(values)
    records = [encode(*one) for one in zip(rows, y, strict=True)]
    options = make_settings(topic, features={"schema": "auto"}, model={"bank": TREES})
    send(topic, records[:2])
    caplog.set_level("INFO")
    for count in (2, len(records)):
        with learning(options) as running:
            until(lambda count=count: learned(options) == count)
            assert 0 == running.stop()
        if count == 2:
            send(topic, records[2:])
    checkpoint, _ = FolderCheckpointStore(options.checkpoints.directory).restore()
    assert checkpoint is not None
    found = checkpoint.state.model
    twin = Model("binary", options.model, options.features.columns)
    twin.learn_many(rows, y)
    said = [vars(one) for one in caplog.records if one.message.startswith("an inferred kind")]

    assert twin.describe() == found.describe()
    assert array_bytes(twin.to_arrays()) == array_bytes(found.to_arrays())
    assert [("x", "category", "number")] == [(o["feature"], o["before"], o["kind"]) for o in said]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (20261120, None), ("20261120", None), (20261120.0, None), (20261320, 20261320.0),
        (5, 5.0), (0.5, 0.0), (-86400, -86400.0), ("7", 7.0), (1763632800, 1763632800.0),
    ],
)  # fmt: skip
def test_a_date_without_hyphens_is_a_dead_letter(value: Any, seconds: float | None) -> None:
    """With its remedy; small numbers that are none are seconds since 1970."""
    schema = {"when": "datetime"}
    decoder = JsonDecoder(schema, Model(features=schema, spec={"bank": "linear"}).labels)
    decoded = decoder.decode([encode({"when": value}, 1)])

    if seconds is not None:
        assert ([], [[seconds]]) == (decoded.faults, decoded.table.times.tolist())
        return
    ((_, error),) = decoded.faults
    assert "feature_type" == error.code
    assert "write it as '2026-11-20'" in error.message
