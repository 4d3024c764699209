"""Regression stumps: the best line so far speaks."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.types import LINEAR, LOGISTIC, SQUARE
from tests.models.bank_twins import agree, made, say, tasks, teach


def stumps(**options):
    return {"kind": "stumps", "n": 3, **options}


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("options", [{}, {"use_zeros": True, "decay": 0.9}], ids=str)
@pytest.mark.parametrize("mode", [SQUARE, LINEAR, LOGISTIC])
def test_stumps_are_their_twin(mode, options, m):
    """Targets, slopes and classes move every learner as the specification says; weight 0 does
    not.
    """
    agree(mode, m, **stumps(lr=0.05, **options))


def test_the_line_that_erred_least_speaks():
    """Feature 2 explains the target: it answers, and without it another one does."""
    bank, _ = made(**stumps(n=1))
    r = np.random.default_rng(2)
    for _ in range(200):
        x = r.normal(size=4)
        teach(bank, x, 2.0 * x[2] + 1.0)

    assert say(bank, [0.0, 0.0, 1.5, 0.0])[0][0, 0] == pytest.approx(4.0, abs=0.1)
    assert say(bank, [5.0, 1.0, 1.5, 1.0])[0][0, 0] == pytest.approx(4.0, abs=0.1)
    assert say(bank, [5.0, 0.0, 0.0, 0.0])[0][0, 0] != 0.0


def test_zeros_are_silent_unless_they_mean_something():
    """Without a feature the answer is 0; with use_zeros a feature of 0 says its c."""
    silent, _ = made(**stumps(n=1))
    speaking, _ = made(**stumps(n=1, use_zeros=True))
    for bank in (silent, speaking):
        for _ in range(50):
            teach(bank, np.zeros(4), 3.0)

    assert say(silent, np.zeros(4))[0][0, 0] == 0.0
    assert say(speaking, np.zeros(4))[0][0, 0] == pytest.approx(3.0, abs=0.1)


def test_a_feature_never_met_is_tried():
    """Its average error counts as 0, so it speaks first, and it says 0."""
    bank, _ = made(**stumps(n=1))
    teach(bank, [1.0, 0.0, 0.0, 0.0], 3.0)

    assert say(bank, [1.0, 0.0, 0.0, 0.0])[0][0, 0] != 0.0
    assert say(bank, [1.0, 0.0, 0.0, 1.0])[0][0, 0] == 0.0


def test_decay_forgets_old_errors():
    """After a change of what is true, the feature that is right now speaks sooner."""
    answers = []
    for decay in (1.0, 0.9):
        bank, _ = made(**stumps(n=1, decay=decay))
        r = np.random.default_rng(5)
        for t in range(260):
            x = r.choice([-1.0, 1.0], 4)
            teach(bank, x, x[0] if t < 200 else -x[1])
        answers.append(say(bank, [1.0, 1.0, 1.0, 1.0])[0][0, 0])

    assert answers[1] == pytest.approx(-1.0, abs=0.2)
    assert answers[0] != pytest.approx(-1.0, abs=0.2)


def test_a_line_that_ran_away_does_not_speak():
    """A feature too large for the rate spoils its own line alone."""
    bank, _ = made(**stumps(n=1))
    with np.errstate(all="ignore"):
        for _ in range(300):
            teach(bank, [1e10, 1.0, 0.0, 0.0], 2.0)

    assert say(bank, [1e10, 1.0, 0.0, 0.0])[0][0, 0] == pytest.approx(2.0, abs=0.1)


def test_a_renewed_learner_is_a_fresh_one():
    """Learner 1 forgets everything; the others keep every byte."""
    bank, fresh = made(m=2, **stumps())[0], made(m=2, **stumps())[0]
    for x, target, weight in tasks(20, 2, 3):
        teach(bank, x, target, weight + 1.0)
    before = [np.copy(array) for array in bank[:4]]
    kaboost.models.verbs.reset_learner(bank, 1, kaboost.models.kernels.random.generator(1))

    for array, empty, old in zip(bank[:4], fresh[:4], before, strict=True):
        np.testing.assert_array_equal(array[..., 1], empty[..., 1])
        np.testing.assert_array_equal(array[..., ::2], old[..., ::2])
