"""Paired comparison of losses: the verdict keeps its probability of error, and needs no batches."""

import numpy as np
import pytest

from kaboost.models.evaluation.paired import (
    EVENTS,
    LOOKS,
    PairedLosses,
    add,
    estimate,
    is_better,
    judge,
    paired_losses,
    parts,
    student_quantile,
)
from kaboost.models.types import Vec

AFTER = 200


def feed(
    pair: PairedLosses, first: Vec, second: Vec, *, margin: float = 0.0, skipped: int = 0
) -> list[bool]:
    """Compare events of importance 1; return the verdict of every look."""
    verdicts = []
    for span, events in parts(pair, np.ones(len(first)), skipped):
        if events and add(pair, events, (float(first[span].sum()), float(second[span].sum()))):
            verdicts.append(judge(pair, margin, 0.95))
    return verdicts


def correlated(source: np.random.Generator, n: int) -> Vec:
    """Draw losses whose neighbours resemble one another."""
    noise = source.standard_normal(n + 4)
    return 1.0 + 0.1 * np.convolve(noise, np.ones(5), "valid")


def test_equal_models_are_rarely_taken_for_better() -> None:
    """In at most 5 of 100 rounds of four looks, with some room for 400 of them; were every look
    judged as if it were the only one, it would be twice as often.
    """
    source = np.random.default_rng(1)
    wrong = 0
    for _ in range(400):
        first, second = (correlated(source, 9 * AFTER) for _ in range(2))
        pair = paired_losses(AFTER)
        verdicts = feed(pair, first, second)
        assert len(LOOKS) == len(verdicts)
        wrong += any(verdicts)

    assert wrong <= 400 * 0.05 + 2 * (400 * 0.05 * 0.95) ** 0.5


def test_a_better_model_is_found_and_the_margin_is_kept() -> None:
    """One whose loss is 10 % lower is better by 5 % and not by 20 %."""
    source = np.random.default_rng(5)
    first = correlated(source, 4 * AFTER + 50)
    second = first - 0.1 + 0.01 * source.standard_normal(len(first))
    pair, strict = paired_losses(AFTER), paired_losses(AFTER)

    assert [True] * 3 == feed(pair, first, second, margin=0.05)
    assert is_better(pair)
    assert [False] * 3 == feed(strict, first, second, margin=0.2)
    found = estimate(pair, 0.95)
    assert found is not None
    assert found.low < 0.1 / first[: found.events].mean() < found.high
    assert found.high - found.low < 0.02


@pytest.mark.parametrize("skipped", [0, 77])
def test_the_sizes_of_batches_change_nothing(skipped: int) -> None:
    """Nor do events of importance 0; what is skipped is in no block."""
    source = np.random.default_rng(3)
    first, second = source.random(700), source.random(700)
    whole, cut = paired_losses(100), paired_losses(100)
    feed(whole, first, second, skipped=skipped)
    for begin in range(0, 700, 13):
        span = slice(begin, begin + 13)
        feed(cut, first[span], second[span], skipped=max(0, skipped - begin))

    np.testing.assert_allclose(whole.sums, cut.sums, rtol=1e-12)
    np.testing.assert_array_equal(whole.counts, cut.counts)
    assert 700 - skipped == whole.counts[EVENTS]
    ignored = [span for span, n in parts(paired_losses(100), np.zeros(9), 3) if n]
    assert [] == ignored


def test_a_full_round_ends() -> None:
    """The next one begins with nothing, and keeps the last verdict until its first look."""
    pair = paired_losses(100)
    n = 8 * 100 + 200
    feed(pair, np.ones(n), np.full(n, 0.5))

    assert 0 < pair.counts[EVENTS] < 200
    assert is_better(pair)
    assert [] == feed(pair, np.ones(3), np.ones(3))
    assert is_better(pair)


def test_a_model_that_has_diverged_is_not_better() -> None:
    """Nor does the other one's divergence stop the comparison with a warning."""
    for first, second in ((1.0, 1e300), (1e300, 1e300), (0.0, 0.0)):
        pair = paired_losses(100)
        assert not any(feed(pair, np.full(500, first), np.full(500, second)))
    assert estimate(paired_losses(100), 0.95) is None


@pytest.mark.parametrize(
    ("error", "freedom", "known"),
    [(0.025, 10, 2.228), (0.0125, 15, 2.490), (0.05, 30, 1.697), (0.005, 21, 2.831)],
)
def test_quantiles_are_those_of_the_tables(error: float, freedom: int, known: float) -> None:
    """Of Student's t, to the digits that tables print."""
    assert known == pytest.approx(student_quantile(error, freedom), abs=2e-3)
