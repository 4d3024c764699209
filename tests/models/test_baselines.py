"""The baselines are what interface and specification say, in any batching, compiled or not."""

import csv
import doctest
import gzip
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost import ModelError
from kaboost.models.evaluation import baselines as module
from kaboost.models.evaluation import late_baselines
from kaboost.models.evaluation.baselines import (
    PREDICTORS,
    progressive_validation,
    record,
    with_classes,
)
from kaboost.models.evaluation.late_baselines import capture_baselines, record_captured
from kaboost.models.features.labels import labels
from kaboost.models.state import tree
from tests.boosters import digest
from tests.models import streams
from tests.outcomes import outcome

ELEC2 = Path(__file__).parents[2] / "data" / "elec2.csv.gz"
TASKS = {task: labels(task, classes) for task, classes in streams.CLASSES.items()}


def naive_losses(C, y, w):
    """Return weighted sums of loss and error of prior and last label, from the definitions."""
    sums = np.zeros((2, 2))
    past = []
    for label, weight in zip(y, w, strict=True):
        if weight > 0:
            for p, known in enumerate([past, following(past)]):
                counts = [sum(n for k, n in known if k == c) for c in range(C)]
                probabilities = [(n + 1) / (sum(counts) + C) for n in counts]
                sums[0, p] -= weight * math.log(probabilities[int(label)])
                sums[1, p] += weight * (np.argmax(probabilities) != label)
            past.append((label, weight))
    return sums


def following(past):
    """Return the labels, with weights, that came right after the label that came last."""
    return [now for before, now in pairwise(past) if before[0] == past[-1][0]]


def naive_differences(y, w):
    """Return the same for a regression: running mean and last value, 0 before any."""
    sums, past = np.zeros((2, 2)), []
    for value, weight in zip(y, w, strict=True):
        if weight > 0:
            mean = weighted_mean(past)
            for p, predicted in enumerate([mean, past[-1][0] if past else 0.0]):
                sums[0, p] += weight * (value - predicted) ** 2 / 2
                sums[1, p] += weight * abs(value - predicted)
            past.append((value, weight))
    return sums


def weighted_mean(past):
    """Return the weighted mean of (value, weight) pairs, 0 of none."""
    return sum(v * n for v, n in past) / sum(n for _, n in past) if past else 0.0


def compared(task, y, w, cuts=()):
    """Return baselines that saw a stream, cut into batches."""
    seen = progressive_validation(TASKS[task])
    for begin, end in pairwise([0, *sorted(cuts), len(y)]):
        part = slice(begin, end)
        predicted = (0.1 + 0.7 * y[part]) if task == "binary" else None
        record(seen, outcome(0.25 * y[part], 0.5 * y[part], predicted), y[part], w[part])
    return seen


def naive_late(C, y, w, delay):
    """Return losses and errors of baselines that know the labels up to `delay` events before."""
    sums = np.zeros((2, 2))
    known_at, joined = [], []  # how many labels had come by each event; (last one then, label, w)
    for k in range(len(y) + delay):
        if k < len(y):
            known_at.append(len(joined))
        if k >= delay:
            event = k - delay
            value, weight, known = y[event], w[event], joined[: known_at[event]]
            if weight > 0:
                last = known[-1][1] if known else (None if C else 0.0)
                for p, predicted in enumerate(late_predictions(C, known, last)):
                    loss, error = assessed(predicted, value)
                    sums[:, p] += weight * loss, weight * error
                joined.append((last, value, weight))
    return sums


def late_predictions(C, known, last):
    """Return what prior and last label predict: probabilities of C classes, or a number."""
    if not C:
        return weighted_mean([(value, weight) for _, value, weight in known]), last
    after = [each for each in known if each[0] == last and last is not None]
    counts = [[sum(n for _, k, n in of if k == c) for c in range(C)] for of in (known, after)]
    return tuple(np.array([(n + 1) / (sum(of) + C) for n in of]) for of in counts)


def assessed(predicted, value):
    """Return loss and error of probabilities, or of a number."""
    if isinstance(predicted, float):
        return (value - predicted) ** 2 / 2, abs(value - predicted)
    return -math.log(predicted[int(value)]), float(np.argmax(predicted) != value)


def late(task, y, w, delay):
    """Return baselines of events whose labels came so many events later."""
    seen = progressive_validation(TASKS[task])
    captured = []
    for k in range(len(y) + delay):
        captured.append(capture_baselines(seen))
        if k >= delay:
            part = slice(k - delay, k - delay + 1)
            predicted = (0.1 + 0.7 * y[part]) if task == "binary" else None
            result = outcome(0.25 * y[part], 0.5 * y[part], predicted)
            record_captured(seen, result, np.array(captured[part]), y[part], w[part])
    return seen


def arrays_of(seen):
    """Return the arrays as they lie in a file."""
    return tree.to_arrays(seen, "validation")


def restored(task, arrays):
    """Return what these arrays are the state of."""
    return tree.from_arrays(progressive_validation(TASKS[task]), arrays, "validation")


@pytest.mark.parametrize("task", TASKS)
def test_baselines_equal_their_naive_twin(task):
    """Loss and error of prior and last label are those that the definitions give."""
    y, w = streams.targets(task, 200), streams.weights(200)
    C = len(TASKS[task].classes)
    expected = naive_losses(C, y, w) if C else naive_differences(y, w)
    seen = compared(task, y, w)

    np.testing.assert_allclose(seen.loss_sum[1:], expected[0], rtol=1e-12)
    np.testing.assert_allclose(seen.error_sum[1:], expected[1], rtol=1e-12)
    np.testing.assert_allclose(seen.loss_sum[0], 0.25 * (w * y).sum(), rtol=1e-12)
    np.testing.assert_allclose(seen.mean_error[0], 0.5 * (w * y).sum() / w.sum(), rtol=1e-12)
    assert len(PREDICTORS) == len(seen.mean_loss)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("delay", [0, 1, 30, 400])
def test_late_baselines_know_only_labels_that_had_come(task, delay):
    """What they predict is of the moment of the event, not of its label."""
    y, w = streams.targets(task, 200), streams.weights(200)
    expected = naive_late(len(TASKS[task].classes), y, w, delay)
    seen = late(task, y, w, delay)

    np.testing.assert_allclose(seen.loss_sum[1:], expected[0], rtol=1e-10)
    np.testing.assert_allclose(seen.error_sum[1:], expected[1], rtol=1e-10)
    np.testing.assert_allclose(seen.loss_sum[0], 0.25 * (w * y).sum(), rtol=1e-12)


def test_a_late_outlier_spoils_no_sum():
    """Means that were captured while it was among the labels are bounded when those come."""
    y = streams.targets("regression", 200)
    y[5] = 1e12
    seen = late("regression", y, np.ones(200), delay=10)

    assert (seen.mean_error[1:] < 10.0).all(), seen.mean_error


@pytest.mark.parametrize("task", TASKS)
def test_labels_at_once_are_no_late_ones(task):
    """Without delay all figures are those of labels in the events."""
    y, w = streams.targets(task, 200), streams.weights(200)
    others = arrays_of(compared(task, y, w))

    for name, array in arrays_of(late(task, y, w, 0)).items():
        np.testing.assert_allclose(array, others[name], rtol=1e-10, err_msg=name)


@pytest.mark.parametrize("task", TASKS)
def test_windows_forget(task):
    """A window is the mean with weights that fall by .999 an event."""
    y, w = streams.targets(task, 500), streams.weights(500)
    kept = w > 0
    fading = w[kept] * 0.999 ** np.arange(kept.sum() - 1, -1, -1)
    seen = compared(task, y, w)

    expected = (fading * 0.25 * y[kept]).sum() / fading.sum()
    np.testing.assert_allclose(seen.window_loss[0], expected, rtol=1e-12)
    np.testing.assert_allclose(seen.window_error[0], 2 * expected, rtol=1e-12)


@pytest.mark.parametrize("task", TASKS)
@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.sets(st.integers(0, 100)))
def test_any_batching_gives_the_same_bytes(task, cuts):
    """Where the stream is cut into batches leaves no trace."""
    y, w = streams.targets(task, 100), streams.weights(100)
    expected = digest(arrays_of(compared(task, y, w)))

    assert expected == digest(arrays_of(compared(task, y, w, cuts)))


def test_plain_python_gives_the_same_bytes():
    """With numba's compiler off not a bit differs, at numbers of 1e308 neither."""
    assert streams.compared() == streams.digest_of_other_mode("baselines")


def test_elec2_is_as_hard_as_it_is_known_to_be():
    """On the electricity stream the prior loses 0.68 nats and the last label 0.415."""
    with gzip.open(ELEC2, "rt") as file:
        y = np.array([row["class"] == "UP" for row in csv.DictReader(file)], dtype=np.float64)
    seen = progressive_validation(TASKS["binary"])
    record(seen, outcome(np.zeros(len(y)), np.zeros(len(y))), y, np.ones(len(y)))

    np.testing.assert_allclose(seen.mean_loss[1:], [0.68183, 0.41518], atol=5e-6)
    np.testing.assert_allclose(1 - seen.mean_error[2], 0.853303, atol=1e-4)


def test_runaway_model_counts_as_lost():
    """A loss that is nan, inf or huge counts 1e12 and poisons no sum."""
    seen = progressive_validation(TASKS["regression"])
    lost = np.array([np.nan, np.inf, 1e300, 1.0])
    record(seen, outcome(lost, lost), np.array([1e308, -1e308, 0.0, 1.0]), np.ones(4))

    assert seen.loss_sum[0] == 3e12 + 1.0
    assert all(np.isfinite(array).all() for array in arrays_of(seen).values())


def numbers(n=400, **outliers):
    """Return n labels near 1,000, some replaced, and predictions of the model that are off by 1."""
    y = 1000.0 + np.random.default_rng(7).normal(size=n)
    for place, value in outliers.items():
        y[int(place[1:])] = value
    return y


def loss_of(y, predicted):
    """Return the baselines of a regression that learned y after these predictions."""
    seen = progressive_validation(TASKS["regression"])
    with np.errstate(over="ignore"):
        record(seen, outcome((predicted - y) ** 2 / 2, abs(predicted - y)), y, np.ones(len(y)))
    return seen


@pytest.mark.parametrize("place", [0, 3, 19, 20, 200])
@pytest.mark.parametrize("value", [1e308, -1e9])
def test_no_label_spoils_the_baselines(place, value):
    """After one wild label, wherever it comes, prior and last label are as good as without it."""
    clean = numbers()
    wild = numbers(**{f"_{place}": value})
    expected, seen = loss_of(clean, clean + 1), loss_of(wild, np.r_[clean[:1], wild[:-1]])

    assert seen.mean_loss[1] < expected.mean_loss[1] + 0.5 * (31 * 31) / len(clean) * 3
    assert seen.window_loss[1] < 10 * expected.window_loss[1] + 10
    assert abs(seen.mean - 1000) < 1
    assert seen.mean_loss[0] < 0.5 * 1000**2 * 2 / len(clean) + 20  # a poisoned answer, bounded


def test_baselines_follow_a_shift():
    """When all labels move, the spread grows with them, and the last label is right at once."""
    y = np.r_[numbers(200), numbers(200) + 1e6]
    seen = loss_of(y, y)

    before = seen.loss_sum[2]
    record(seen, outcome(np.zeros(100), np.zeros(100)), numbers(100) + 1e6, np.ones(100))
    assert seen.loss_sum[2] - before < 200
    assert abs(seen.last - y[-1]) < 10


def test_one_answer_spoils_no_lifetime():
    """A model that is wrong by 1e9 once loses as much as 31 spreads, no more."""
    y = numbers()
    predicted = y.copy()
    predicted[100] = 1e9
    seen = loss_of(y, predicted)

    assert 0 < seen.loss_sum[0] < 0.5 * 40**2
    assert seen.error_sum[0] < 40


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.sets(st.integers(0, 100)), st.integers(0, 99), st.integers(0, 99))
def test_batching_of_wild_labels_leaves_no_trace(cuts, i, j):
    """That holds for outliers as well, also among the first labels."""
    y = numbers(100, **{f"_{i}": 1e200, f"_{j}": -1e7})
    w = streams.weights(100)
    whole, cut = (progressive_validation(TASKS["regression"]) for _ in range(2))
    record(whole, outcome(y, y), y, w)
    for begin, end in pairwise([0, *sorted(cuts), 100]):
        record(cut, outcome(y[begin:end], y[begin:end]), y[begin:end], w[begin:end])

    assert digest(arrays_of(whole)) == digest(arrays_of(cut))


@pytest.mark.parametrize("task", TASKS)
def test_arrays_go_on_where_they_stopped(task):
    """Arrays to a file and back are the same baselines."""
    y, w = streams.targets(task, 100), streams.weights(100)
    seen = compared(task, y[:40], w[:40])
    again = restored(task, {k: v.copy() for k, v in arrays_of(seen).items()})
    predicted = (0.1 + 0.7 * y[40:]) if task == "binary" else None
    record(again, outcome(0.25 * y[40:], 0.5 * y[40:], predicted), y[40:], w[40:])

    assert digest(arrays_of(compared(task, y, w))) == digest(arrays_of(again))


def test_foreign_arrays_are_refused():
    """Baselines of another task, or of none, are not taken for these."""
    for arrays in ({}, arrays_of(progressive_validation(TASKS["multiclass"]))):
        with pytest.raises(ModelError, match=r"validation\."):
            restored("binary", arrays)


def test_before_any_event_nothing_is_claimed():
    """Means of nothing are nan, also after events of weight 0."""
    seen = progressive_validation(TASKS["binary"])
    fresh = digest(arrays_of(seen))
    record(seen, outcome(np.ones(2), np.ones(2)), np.ones(2), np.zeros(2))

    assert np.isnan([seen.mean_loss, seen.mean_error, seen.window_loss, seen.window_error]).all()
    assert fresh == digest(arrays_of(seen))


def test_examples_run():
    """The examples in the docstrings give what they show."""
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(late_baselines).failed == 0


def test_late_labels_of_classes_that_came_meanwhile():
    """Each such class has the share that was captured for a class still to come."""
    open_labels = labels("multiclass", "auto").with_class("a").with_class("b")
    seen, y = progressive_validation(open_labels), np.array([0.0, 1.0, 0.0])
    record(seen, outcome(np.zeros(3), np.zeros(3)), y, np.ones(3))
    captured = capture_baselines(seen, may_grow=True)
    seen = with_classes(seen, 4)
    before = seen.loss_sum.copy()
    record_captured(
        seen, outcome(np.zeros(2), np.zeros(2)), captured[None].repeat(2, 0), np.array([3.0, 0.0]),
        np.ones(2),
    )  # fmt: skip

    np.testing.assert_allclose([-math.log(1 / 6 * 3 / 6), -math.log(1 / 4 * 1 / 4)],
                               (seen.loss_sum - before)[1:])  # fmt: skip
    assert [2.0, 1.0, 0.0, 1.0] == (seen.counts - [1.0, 0.0, 0.0, 0.0]).tolist()
    assert 1.0 == seen.transitions[0, 3]
