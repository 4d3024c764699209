"""Prediction intervals: they hold the share of labels that they name, whatever the stream does."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from river.datasets import synth

from kaboost import Model
from kaboost.models.adapters.from_river import RiverModel
from kaboost.models.evaluation.intervals import (
    LEVELS,
    WARMUP_EVENTS,
    Intervals,
    bounds,
    intervals,
    update_many,
)
from kaboost.models.state.format import pack, unpack
from kaboost.models.state.tree import to_arrays
from kaboost.models.types import ModelError
from tests.naive.intervals import Naive
from tests.specs import LINEAR

Noise = Callable[[np.random.Generator], np.ndarray]
T, DRIFT = 24_000, 12_000
AFTER = np.arange(T) >= DRIFT
FADE = np.where(AFTER, np.exp(-(np.arange(T) - DRIFT) / 300.0), 0.0)
NOISES: dict[str, Noise] = {
    "at rest": lambda r: r.normal(size=T),
    "three times as loud": lambda r: r.normal(size=T) * np.where(AFTER, 3.0, 1.0),
    "a third as loud": lambda r: r.normal(size=T) * np.where(AFTER, 1 / 3, 1.0),
    "a hundred times as loud": lambda r: r.normal(size=T) * np.where(AFTER, 100.0, 1.0),
    "wrong, then relearned": lambda r: r.normal(size=T) * (1.0 + 6.0 * FADE),
    "biased, then relearned": lambda r: r.normal(size=T) + 5.0 * FADE,
    "heavy tails": lambda r: r.standard_t(2, T),
    "heavy tails, louder": lambda r: r.standard_t(2, T) * np.where(AFTER, 3.0, 1.0),
    "skewed": lambda r: r.lognormal(0.0, 1.0, T) - 1.6,
    "skewed, then the other way": lambda r: (
        (r.lognormal(0.0, 1.0, T) - 1.6) * np.where(AFTER, -1, 1)
    ),
    "outliers": lambda r: np.where(r.random(T) < 0.001, 1e30, r.normal(size=T)),
    "waves": lambda r: r.normal(size=T) * np.exp(np.sin(np.arange(T) / 200.0)),
    "mostly zero": lambda r: np.where(r.random(T) < 0.75, 0.0, r.normal(size=T)),
    "constant, then noise": lambda r: np.where(AFTER, r.normal(size=T), 0.0),
}
WILD = st.floats(-1e308, 1e308) | st.sampled_from([0.0, 1e30, -1e30, 1e-300, np.inf, np.nan])
EVENT = st.tuples(WILD, st.floats(-1e308, 1e308), st.sampled_from([0.0, 1e-9, 0.5, 1.0, 3.0, 1e15]))


def followed(
    predicted: np.ndarray, y: np.ndarray, level: float = 0.9, every: int = 10
) -> tuple[Intervals, np.ndarray]:
    """Ask, then learn, `every` events at a time; which labels lay inside."""
    seen, inside = intervals(), np.zeros(len(y), bool)
    for k in range(0, len(y), every):
        p, label = predicted[k : k + every], y[k : k + every]
        low, high = bounds(seen, p, level).T
        inside[k : k + every] = (low <= label) & (label <= high)
        update_many(seen, p, label, np.ones(len(p)))
    return seen, inside


def drawn(events: int = 400, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw predictions, labels and weights, louder where the prediction is high."""
    r = np.random.default_rng(seed)
    predicted = r.normal(size=events)
    return (
        predicted,
        predicted + np.exp(predicted) * r.standard_t(3, events),
        r.choice([0.0, 1.0, 2.5], events),
    )


def watched(predicted: np.ndarray, y: np.ndarray, w: np.ndarray, parts: int = 1) -> Intervals:
    """Learn these events in so many batches."""
    seen = intervals()
    for k in np.array_split(np.arange(len(y)), parts):
        update_many(seen, predicted[k], y[k], w[k])
    return seen


@pytest.mark.parametrize("name", NOISES)
def test_nine_of_ten_labels_lie_inside(name: str) -> None:
    """88 to 92 % of the last 10,000; and 85 to 95 % of the first thousand after the drift."""
    y = NOISES[name](np.random.default_rng(7))
    seen, inside = followed(np.zeros(T), y)

    assert 0.88 <= inside[-10_000:].mean() <= 0.92
    assert 0.85 <= inside[DRIFT : DRIFT + 1000].mean() <= 0.95
    assert 0.85 <= seen.coverage[LEVELS.index(0.9)] <= 0.95


@pytest.mark.parametrize("level", [0.5, 0.65, 0.8, 0.93, 0.99])
def test_every_level_holds_what_it_names(level: float) -> None:
    """Also a level between two that are followed."""
    for name in ("three times as loud", "skewed"):
        _, inside = followed(np.zeros(T), NOISES[name](np.random.default_rng(8)), level)
        assert abs(inside[-10_000:].mean() - level) <= 0.02


def test_both_sides_are_missed_alike() -> None:
    """Skewed noise has a longer interval above than below."""
    y = NOISES["skewed"](np.random.default_rng(9))
    seen, _ = followed(np.zeros(T), y)
    low, high = bounds(seen, np.zeros(1), 0.9)[0]

    assert high > 2.0 * -low
    assert 0.03 < (y[-10_000:] < low).mean() < 0.07
    assert 0.03 < (y[-10_000:] > high).mean() < 0.07


def test_a_snapshot_holds_for_long() -> None:
    """At rest the slow scale wins: intervals of one moment hold for thousands of events."""
    r = np.random.default_rng(10)
    y, fresh = r.normal(size=T), r.normal(size=20_000)
    shares = []
    for end in range(T // 2, T, 1000):
        low, high = bounds(watched(np.zeros(end), y[:end], np.ones(end)), np.zeros(1), 0.9)[0]
        shares.append(((low <= fresh) & (fresh <= high)).mean())

    assert 0.875 < min(shares)
    assert max(shares) < 0.925


def test_intervals_grow_with_the_prediction_where_errors_do() -> None:
    """Noise that is e times as loud a deviation higher: each quarter of predictions is held."""
    r = np.random.default_rng(11)
    predicted = r.normal(size=T)
    y = predicted + np.exp(0.5 * predicted) * r.normal(size=T)
    seen, inside = followed(predicted, y)
    quarters = np.digitize(predicted[-10_000:], np.quantile(predicted, [0.25, 0.5, 0.75]))

    assert 0.4 < seen.tilt < 0.6
    for quarter in range(4):
        assert 0.88 <= inside[-10_000:][quarters == quarter].mean() <= 0.92


@pytest.mark.parametrize("bank", ["linear", "reboosted_trees"])
def test_a_model_keeps_it_through_drifts(bank: str) -> None:
    """River's drifting Friedman function, learned by a model of ours, and its label doubled."""
    source = synth.FriedmanDrift(drift_type="gra", position=(6000, 12_000), seed=3)
    pairs = list(islice(source, T))
    names = {str(name): "number" for name in pairs[0][0]}
    model = Model("regression", {"bank": bank}, names)
    inside = []
    for k in range(0, T, 20):
        rows = [{str(name): v for name, v in x.items()} for x, _ in pairs[k : k + 20]]
        y = np.array([label for _, label in pairs[k : k + 20]]) * (1 + (k >= 18_000))
        low, high = model.predict_interval_many(rows, 0.9).T
        inside.extend((low <= y) & (y <= high))
        model.learn_many(rows, y)

    assert 0.88 <= np.mean(inside[-10_000:]) <= 0.92
    for drift in (6000, 12_000, 18_000):
        assert 0.85 <= np.mean(inside[drift : drift + 1000]) <= 0.95


def test_the_kernel_is_the_naive_twin() -> None:
    """Ends of all levels, event by event."""
    predicted, y, w = drawn(900)
    y[300:400] = predicted[300:400] + 30.0
    naive, seen = Naive(), intervals()
    for k in range(len(y)):
        lows, highs = naive.say(predicted[k])
        for level, low, high in zip(LEVELS, lows, highs, strict=True):
            found = bounds(seen, predicted[k : k + 1], level)[0]
            np.testing.assert_allclose(found, [low, high], rtol=1e-7, atol=1e-7)
        update_many(seen, predicted[k : k + 1], y[k : k + 1], w[k : k + 1])
        if w[k]:
            naive.learn(predicted[k], y[k], w[k])


@effort(max_examples=60)
@given(events=st.lists(EVENT, min_size=25, max_size=60), predicted=st.floats(-1e150, 1e150))
def test_wider_levels_hold_narrower_ones(events: list[Any], predicted: float) -> None:
    """Whatever came before, predictions that are no numbers among it; and nothing is nan."""
    with np.errstate(all="ignore"):  # plain Python warns where a kernel does not
        seen = watched(*np.array(events).T)
    ends = np.array([bounds(seen, np.array([predicted]), q)[0] for q in np.linspace(0.5, 0.99, 30)])

    assert (ends[1:, 0] <= ends[:-1, 0]).all()
    assert (ends[1:, 1] >= ends[:-1, 1]).all()
    assert (ends[:, 0] <= ends[:, 1]).all()
    assert all(np.isfinite(array).all() for array in to_arrays(seen).values())


@effort(max_examples=30)
@given(seed=st.integers(0, 999), parts=st.integers(1, 400))
def test_any_batches_give_the_same_bytes(seed: int, parts: int) -> None:
    """One by one, all at once, or anything between."""
    events = drawn(seed=seed)
    whole, parted = to_arrays(watched(*events)), to_arrays(watched(*events, parts=parts))

    assert {k: v.tobytes() for k, v in whole.items()} == {k: v.tobytes() for k, v in parted.items()}


@effort(max_examples=30)
@given(seed=st.integers(0, 999), power=st.integers(-40, 40), heavier=st.integers(-9, 9))
def test_units_are_the_streams_own(seed: int, power: int, heavier: int) -> None:
    """Labels and predictions in other units: intervals in those units, to the last bit; so with
    other units of weight, of which only ratios count.
    """
    predicted, y, w = drawn(seed=seed)
    unit = 2.0**power
    ours = bounds(watched(predicted, y, w), predicted, 0.9)
    theirs = bounds(watched(predicted * unit, y * unit, w * 2.0**heavier), predicted * unit, 0.9)

    np.testing.assert_array_equal(ours * unit, theirs)


def test_weight_0_moves_nothing() -> None:
    """Not even a count."""
    predicted, y, _ = drawn()
    w = np.ones(len(y))
    seen = watched(predicted, y, w)
    before = {name: array.tobytes() for name, array in to_arrays(seen).items()}
    update_many(seen, predicted, y + 50.0, 0.0 * w)

    assert before == {name: array.tobytes() for name, array in to_arrays(seen).items()}


def test_heavier_events_count_more() -> None:
    """Where every other event weighs three times as much, the share is of weight."""
    r = np.random.default_rng(12)
    y, w = r.normal(size=T), np.tile([1.0, 3.0], T // 2)
    y[1::2] *= 4.0
    low, high = bounds(watched(np.zeros(T), y, w), np.zeros(1), 0.8)[0]
    inside = (low <= y) & (y <= high)

    assert 0.77 < np.average(inside, weights=w) < 0.83
    assert inside.mean() > 0.84


def test_a_constant_label_has_no_width() -> None:
    """Said right every time: the interval is the prediction, and it held."""
    y = np.full(500, 7.0)
    seen = watched(y, y, np.ones(500))

    assert [7.0, 7.0] == bounds(seen, np.array([7.0]), 0.9)[0].tolist()
    assert (seen.coverage == 1.0).all()


def test_few_events_say_nothing_yet() -> None:
    """Infinite before 20 events, and no coverage is claimed of that."""
    predicted, y, _ = drawn()
    early, late = (
        watched(predicted[:n], y[:n], np.ones(n)) for n in (WARMUP_EVENTS - 1, WARMUP_EVENTS)
    )

    assert [-np.inf, np.inf] == bounds(early, np.zeros(1), 0.9)[0].tolist()
    assert np.isfinite(bounds(late, np.zeros(1), 0.9)).all()
    assert np.isnan(late.coverage).all()


@pytest.mark.parametrize("level", [0.0, 0.49, 0.991, 1.0, 90.0, np.nan])
def test_levels_beyond_are_refused(level: float) -> None:
    """With the range."""
    with pytest.raises(ModelError, match=r"interval: .* is not a level from 0.5 to 0.99"):
        bounds(intervals(), np.zeros(1), level)


def taught(**spec: Any) -> Model:
    """Teach a regression a hundred events."""
    model = Model("regression", spec, {"x": "number"})
    r = np.random.default_rng(3)
    model.learn_many([{"x": x} for x in r.normal(size=100)], r.poisson(2.0, 100).astype(float))
    return model


def test_a_model_answers_one_as_many(tmp_path: Path) -> None:
    """One row as many, and a saved model goes on bit for bit."""
    model = taught()
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    rows = [{"x": x} for x in (-1.0, 0.0, None)]
    for each in (model, again):
        each.learn_many(rows, [0.0, 1.0, 2.0])

    ends = model.predict_interval_many(rows, 0.8)
    assert [tuple(pair) for pair in ends.tolist()] == [
        again.predict_interval_one(row, 0.8) for row in rows
    ]
    assert pack(model.to_arrays(), {}) == pack(again.to_arrays(), {})


def test_a_file_of_before_gets_intervals_anew(tmp_path: Path) -> None:
    """It learns on; half of the arrays are none of ours."""
    model = taught()
    model.save(tmp_path / "model")
    header, arrays = unpack((tmp_path / "model").read_bytes())
    kept = {k: v.copy() for k, v in arrays.items() if not k.startswith("intervals.")}
    old = Model.from_arrays(header["model"], kept)

    assert (-np.inf, np.inf) == old.predict_interval_one({"x": 0.0})
    assert not old.serving_only
    old.learn_many([{"x": 0.0}] * WARMUP_EVENTS, [1.0] * WARMUP_EVENTS)
    assert np.isfinite(old.predict_interval_one({"x": 0.0})).all()
    with pytest.raises(ModelError, match=r"\'intervals.scales\' is missing"):
        Model.from_arrays(
            header["model"],
            kept | {"intervals.quantile_multipliers": arrays["intervals.quantile_multipliers"]},
        )


def test_counts_are_not_below_0() -> None:
    """With the loss poisson, also before anything is known."""
    low, _ = taught(loss="poisson").predict_interval_one({"x": 0.0}, 0.99)
    fresh = Model("regression", LINEAR | {"loss": "poisson"}, {"x": "number"})

    assert low >= 0.0
    assert (0.0, np.inf) == fresh.predict_interval_one({})


def test_a_river_model_has_them_too() -> None:
    """They know prediction and label only; an event of weight 0 tells them nothing."""
    r = np.random.default_rng(4)
    x = r.normal(size=3000)
    y = 2.0 * x + r.normal(size=3000)
    model = RiverModel("regression", {"river": "linear_model.LinearRegression"}, {"x": "number"})
    model.learn_many([{"x": v} for v in x], y)
    before = model.predict_interval_one({"x": 0.5}, 0.9)
    model.learn_many([{"x": 0.5}] * 9, [99.0] * 9, [0.0] * 9)
    low, high = model.predict_interval_many([{"x": v} for v in x], 0.9).T

    assert before == model.predict_interval_one({"x": 0.5}, 0.9)
    assert 0.87 < ((low <= y) & (y <= high)).mean() < 0.93


def test_classes_have_none() -> None:
    """Their probabilities say it, and their files hold nothing of it."""
    model = Model("binary", LINEAR, {"x": "number"})

    with pytest.raises(ModelError, match="probabilities"):
        model.predict_interval_one({"x": 0.0})
    assert not any(name.startswith("intervals") for name in model.to_arrays())
