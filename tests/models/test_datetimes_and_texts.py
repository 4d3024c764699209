"""Models learn what a clock and a word decide, however the stream is cut."""

import numpy as np
import pytest

from kaboost import Model
from tests.boosters import array_bytes

SCHEMA = {"when": "datetime", "note": "text", "noise": "number"}
# Four structures, as the default model has: the same compiled code.
TREES = {
    "kind": "reboosted_trees",
    "max_memory": 12,
    "structures": [{"trees": 3, "leaves": 8}] * 4,
}
SPECS = {"trees": {"bank": TREES, "seed": 3}, "nag": {"bank": {"kind": "linear", "step": "nag"}}}
WORDS = ["a", "cheap", "flat", "with", "garden", "and", "an", "old", "kitchen", "near", "park"]


def office_hours(count, seed=5):
    """Draw events that count in office hours on working days, or if their text says so."""
    r = np.random.default_rng(seed)
    start = np.datetime64("2026-01-01T00:00:00")
    rows, labels = [], []
    for _ in range(count):
        when = (start + r.integers(0, 86_400 * 365)).item()
        words = [*r.choice(WORDS, 6), *(["URGENT!"] if r.random() < 0.2 else [])]
        rows.append(
            {
                "when": when.isoformat() + f"+{r.integers(15):02}:00",
                "note": " ".join(r.permutation(words)),
                "noise": float(r.normal()),
            }
        )
        open_ = when.weekday() < 5 and 7 <= when.hour < 19
        labels.append(int(open_ or "URGENT!" in words))
    return rows, labels


def wrong(model, rows, labels):
    """Learn the events; return the share of the last half that was predicted wrongly."""
    predicted = model.learn_many(rows, labels)[:, 1] > 0.5
    return (predicted != np.array(labels))[len(rows) // 2 :].mean()


@pytest.mark.parametrize(("name", "bound"), [("trees", 0.03), ("nag", 0.13)])
def test_clock_and_word_are_learned(name, bound):
    """Both kinds matter: without either of them the same model is much worse."""
    rows, labels = office_hours(6_000)
    full = wrong(Model("binary", SPECS[name], SCHEMA), rows, labels)
    assert full < bound
    for gone in ("when", "note"):
        blind = [{key: value for key, value in row.items() if key != gone} for row in rows]
        assert full + 0.04 < wrong(Model("binary", SPECS[name], SCHEMA), blind, labels)


@pytest.mark.parametrize("name", SPECS)
def test_no_trace_of_batches_or_files(name, tmp_path):
    """Cut anywhere, saved and loaded on the way: every byte of the state is the same."""
    rows, labels = office_hours(400)
    whole, cut = (Model("binary", SPECS[name], SCHEMA) for _ in range(2))
    predicted = whole.learn_many(rows, labels)
    parts = [cut.learn_many(rows[:130], labels[:130])]
    cut.save(tmp_path / "model")
    cut = Model.load(tmp_path / "model")
    parts += [cut.learn_many(rows[k : k + 7], labels[k : k + 7]) for k in range(130, 400, 7)]

    np.testing.assert_array_equal(predicted, np.concatenate(parts))
    assert array_bytes(whole.to_arrays()) == array_bytes(cut.to_arrays())


def test_pins_beside_inferred_kinds():
    """A text is one where the schema says so; beside it others join as they come."""
    rows, labels = office_hours(300)
    model = Model("binary", SPECS["trees"], {"note": "text", "when": "datetime", "*": "auto"})
    model.learn_many(rows, labels)

    assert {**SCHEMA, "noise": "number"} == model.encoder.kinds
    assert ["noise"] == model.encoder.schema.inferred
    assert "noise" == model.encoder.columns[-1]
