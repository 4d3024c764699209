"""Names that nobody declared: limits an event and an hour, a trial for the others."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message

from kaboost.service.config.settings import Settings
from kaboost.service.events.new_names import (
    HOUR_MS,
    MAX_CANDIDATES,
    PROVEN_EVENTS,
    Known,
    NewNames,
)
from kaboost.service.storage.checkpoints import Checkpoint, FolderCheckpointStore
from tests.kafka.client import encode, produce
from tests.service.learning import gauge, learned, learning, saved, until
from tests.service.test_inference import TREES
from tests.service.test_late_corrections import message, trainer

Make = Callable[..., Settings]
Send = Callable[..., None]
NONE, SOME = Known(0, 0), Known(10, 0)
START = 1_795_600_000_000 // HOUR_MS * HOUR_MS  # milliseconds


def numbers(*names: str) -> dict[str, str]:
    """Return the kinds of some names."""
    return dict.fromkeys(names, "number")


def many(count: int, prefix: str = "n") -> dict[str, str]:
    """Return the kinds of many names."""
    return numbers(*(f"{prefix}{k}" for k in range(count)))


def test_the_first_event_brings_as_many_as_one_may() -> None:
    """The limit of an hour begins after it; the rest of its names is on trial."""
    names = NewNames(per_event=30, per_hour=5)
    assert not names.on_trial(again=False)

    assert 30 == len(names.admit(many(40), 1, NONE))
    assert names.on_trial(again=True)
    names.end_event()
    assert names.on_trial(again=False)  # none of them is proven
    names.begin(2, Known(30, 30))
    assert names.on_trial(again=False)
    names.begin(3, Known(30, 4))
    assert not names.on_trial(again=False)


def test_an_hour_brings_few() -> None:
    """And the next hour as many again; an event of an earlier one changes nothing."""
    names = NewNames(per_event=3, per_hour=5)

    assert 3 == len(names.admit(many(4), 7, SOME))
    assert names.on_trial(again=True)
    names.end_event()
    assert not names.on_trial(again=False)
    assert 2 == len(names.admit(many(4, "m"), 7, Known(13, 3)))
    assert names.is_closed
    names.begin(6, Known(15, 0))
    assert names.is_closed
    names.begin(8, Known(15, 0))
    assert not names.on_trial(again=False)
    assert numbers("x") == names.admit(numbers("x"), 8, Known(15, 0))


def test_open_features_are_few_or_as_many_as_others() -> None:
    """A trickle of names with data in them, hour after hour, comes to an end."""
    names, known = NewNames(per_event=100, per_hour=5), Known(4, 0)
    for hour in range(1, 9):
        names.begin(hour, known)
        taken = 0 if names.on_trial(again=False) else len(names.admit(many(3), hour, known))
        known = Known(known.features + taken, known.unproven + taken)

    assert Known(9, 5) == known
    names.begin(10, Known(40, 10))
    assert not names.is_closed


def test_a_name_is_proven_by_its_events() -> None:
    """Then it is taken up, whatever the limits are; others stay on trial, also over a restart."""
    names = NewNames(per_event=3, per_hour=5)
    names.admit(many(9), 7, SOME)
    names.admit(many(9, "m"), 7, SOME)
    for k in range(PROVEN_EVENTS - 1):
        assert {} == names.count(numbers("real", f"junk{k}"))
    names = NewNames(3, 5, names.state())
    proven = names.count(numbers("real", "junk"))

    assert numbers("real") == proven == names.admit(proven, 7, Known(20, 20))
    assert "real" not in names.candidates
    assert 1 == names.candidates["junk"]


def test_rare_names_are_forgotten() -> None:
    """Of any number of names at most 1,000 are kept, and those that come often are among them."""
    names = NewNames(per_event=3, per_hour=5)
    proven: dict[str, str] = {}
    for k in range(10_000):
        more = {"real": "number"} if k % 50 == 0 and not proven else {}
        proven |= names.count(numbers(f"user_{k}") | more)
        assert len(names.candidates) <= MAX_CANDIDATES

    assert numbers("real") == proven


@pytest.fixture
def junk(broker: Any, topic: str) -> list[bytes]:
    """Events, each with a name of its own; from the 300th on with a feature that stays."""
    rows = [
        {"x": float(k % 7), "kind": "abc"[k % 3], f"user_{k}": 1.0}
        | ({"real": float(k % 5)} if k >= 300 else {})
        for k in range(400)
    ]
    values = [encode(row, k % 2) for k, row in enumerate(rows)]
    for part in range(2):  # two hours of records
        first = 200 * part
        produce(
            broker.bootstrap,
            topic,
            values[first : first + 200],
            timestamp=START + part * HOUR_MS,
        )
    return values


def serves(settings: Settings) -> bool:
    """Return whether the learner's metrics can be read."""
    with socket.socket() as caller:
        return 0 == caller.connect_ex(("127.0.0.1", settings.metrics.port))


def candidates(settings: Settings) -> float | None:
    """Return how many names are on trial."""
    return gauge(settings, "kaboost_feature_names_on_trial")


def restored(settings: Settings) -> Checkpoint:
    """Read the newest checkpoint."""
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    return checkpoint


def test_junk_names_leave_room_for_features(
    topic: str, make_settings: Make, junk: list[bytes], tmp_path: Any, caplog: Any
) -> None:
    """The state is a function of the stream: batches of any size give the same bytes, and a stop
    in between changes nothing.
    """
    found: list[Checkpoint] = []
    waiting: list[float] = []
    for batch, stops in ((7, False), (2_000, False), (64, True)):
        folder = tmp_path / str(batch)
        settings = make_settings(
            topic,
            kafka={"batch_events": batch, "group_id": f"{topic}-{batch}"},
            features={"schema": "auto", "max_new_per_hour": 4},
            model={"bank": TREES},
            checkpoints={"directory": str(folder / "checkpoints")},
            snapshots={"directory": str(folder / "snapshots")},
        )
        if stops:
            with learning(settings) as learner:
                until(lambda settings=settings: saved(settings).get(0, 0) >= 64)
                assert 0 == learner.stop()
        with learning(settings) as learner:
            until(lambda settings=settings: learned(settings) == len(junk))
            waiting.append(until(lambda s=settings: serves(s) and candidates(s)))
            assert 0 == learner.stop()
        found.append(restored(settings))
    kinds, arrays = found[0].state.model.kinds, found[0].state.model.to_arrays()

    assert {"x", "kind", "user_0", "real"} <= kinds.keys()
    assert len(kinds) <= 3 + 4 + 1
    assert [len(found[0].header["new_names"]["candidates"])] * 3 == waiting
    assert waiting[0] > 300
    for other in found[1:]:
        assert kinds == other.state.model.kinds
        assert found[0].header["new_names"] == other.header["new_names"]
        for name, array in other.state.model.to_arrays().items():
            np.testing.assert_array_equal(array, arrays[name], err_msg=name)
    logged = [line for line in caplog.records if "names of features are on trial" in line.message]
    assert "do not put data into names" in logged[0].remedy


def test_one_event_does_not_exhaust_the_schema(topic: str, make_settings: Make, send: Send) -> None:
    """One record with 10,000 names brings as few as an hour does; later features are taken up."""
    features = {"schema": "auto", "max_new_per_hour": 4}
    settings = make_settings(topic, features=features, model={"bank": TREES})
    usual = [encode({"x": float(k % 7), "kind": "abc"[k % 3]}, k % 2) for k in range(20)]
    junk = encode({f"user_{k}": 1.0 for k in range(10_000)}, 1)
    later = [encode({"x": 1.0, "real": float(k % 5)}, k % 2) for k in range(PROVEN_EVENTS + 5)]
    send(topic, [*usual, junk, *later])
    with learning(settings) as learner:
        until(lambda: learned(settings) == len(usual) + 1 + len(later))
        assert 0 == learner.stop()
    kinds = restored(settings).state.model.kinds

    assert {"x", "kind", "real"} <= kinds.keys()
    assert len(kinds) <= 3 + 4


@pytest.mark.parametrize(("limit", "at_once"), [({}, False), ({"max_new_per_hour": 5}, True)])
def test_misspelt_names_of_requests_are_on_trial(
    tmp_path: Path, limit: dict[str, int], at_once: bool
) -> None:
    """Where the events are the answers of `POST /predict`, one of them adds no feature; those that
    come again and again do.
    """
    sections: dict[str, dict[str, Any]] = {
        "events": {},
        "features": {"schema": {"*": "auto"}, **limit},
        "predictions": {"topic": "events"},
        "model": {"bank": TREES},
    }

    def answer(number: int, **more: float) -> Message:
        features = {"amount": 2.5 * number, "shop": "abc"[number % 3], **more}
        return message("events", number, {"id": f"r{number}", "features": features})

    with trainer(tmp_path, **sections) as made:
        made.learn([answer(k) for k in range(5)])
        made.learn([answer(5, amout=3.0)])
        known = {"amount", "shop"} | ({"amout"} if at_once else set())
        assert known == made.state.model.kinds.keys()

        made.learn([answer(6 + k, later=1.0) for k in range(PROVEN_EVENTS)])
        assert known | {"later"} == made.state.model.kinds.keys()
