"""Refitted trees: CART by the naive twin, a ring of pairs, learners that share nothing."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.kernels.random import generator
from kaboost.models.types import LOGISTIC, SQUARE
from kaboost.models.verbs import learner_view, reset_learner
from tests.models.bank_pair import bytes_of, drive, drive_twin, make, steps, twin_of

SMALL = {"kind": "refit_trees", "n": 2, "every": 3}


@pytest.mark.parametrize("mode", [SQUARE, LOGISTIC])
@pytest.mark.parametrize(
    ("words", "m"),
    [({}, 1), ({}, 3), ({"every": 1, "depth": 1}, 1), ({"capacity": 17}, 1), ({"depth": 6}, 3)],
    ids=str,
)
def test_twin(words, m, mode):
    """Every answer is that of a tree fitted by brute force to the same pairs."""
    own = {**SMALL, **words}
    bank, task = make(own, 4, m), steps(50, m, 2)
    predicted = drive(bank, *task, mode)

    np.testing.assert_allclose(predicted, drive_twin(twin_of(own, 4, m), *task, mode), 1e-9, 1e-12)
    assert (bank.feat >= 0).sum() >= 2


def test_finds_what_is_there():
    """Two cuts at known places are found, and their means."""
    X = np.array([[0.0, 5.0], [1.0, 4.0], [2.0, 5.0], [3.0, 4.0]])
    targets = np.array([1.0, 1.0, 7.0, 9.0])[:, None, None]
    bank = make({**SMALL, "n": 1, "every": 4}, 2, 1)
    drive(bank, X, targets, np.ones((4, 1)), SQUARE)

    assert bank.feat[0, :7].tolist() == [0, -1, 0, -1, -1, -1, -1]
    assert bank.cut[0, [0, 2]].tolist() == [1.5, 2.5]
    assert bank.v[0, [1, 5, 6], 0].tolist() == [1.0, 7.0, 9.0]


def test_taught_in_turn_and_renewed():
    """One learner at a time leaves the bytes of the whole bank; a renewed one is fresh."""
    task = steps(40, 2, 2)
    whole, pair = make(SMALL, 4, 2), make(SMALL, 4, 2)
    drive(whole, *task, SQUARE)
    drive(pair, *task, SQUARE, in_turn=1)
    assert bytes_of(whole) == bytes_of(pair)

    reset_learner(pair, 0, generator(1))
    assert bytes_of(learner_view(pair, 0)) == bytes_of(learner_view(make(SMALL, 4, 2), 0))
    assert bytes_of(learner_view(pair, 1)) == bytes_of(learner_view(whole, 1))


def test_too_large():
    """A ring beyond two GiB is refused."""
    bank = {"kind": "refit_trees", "capacity": 10_000_000}
    with pytest.raises(kaboost.ModelError, match="smaller n or capacity"):
        kaboost.build({"bank": bank, "loss": "squared"}, 10)
