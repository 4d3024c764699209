"""A bank driven without a rule, beside its naive twin: what tests of a single bank share."""

from __future__ import annotations

import numpy as np

import kaboost
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import SingleScratch
from kaboost.models.verbs import bank_scratch_rows, learn, learn_one, predict, update_shared
from tests.models.bank_twins import arrays_of
from tests.naive.booster import BANKS


def params_of(bank):
    """The bank's words with every default."""
    return kaboost.normalise_spec({"bank": bank, "loss": "squared"})["bank"]


def make(bank, d, m, seed=7):
    return kaboost.BANKS[bank["kind"]].make(params_of(bank), d, m, seed)


def twin_of(bank, d, m, seed=7):
    return BANKS[bank["kind"]](params_of(bank), d, m, seed)


@kernel
def say(bank, x, h, bank_scratch):
    predict(bank, x, h, bank_scratch)


@kernel
def teach(bank, x, h, task, mode, bank_scratch):
    predict(bank, x, h, bank_scratch)
    learn(bank, x, h, task[0], task[1], mode, bank_scratch)


@kernel
def teach_in_turn(bank, x, task, mode, times, single):
    target, weight = task
    update_shared(bank, x)
    for k in range(times * weight.shape[0]):
        i = k // times
        for c in range(target.shape[0]):
            single.target[c, 0] = target[c, i]
        single.weight[0] = weight[i]
        learn_one(bank, i, x, mode, single)


def drive(bank, X, targets, weights, mode, in_turn=0):
    """What the bank (m, N) said before it learned each event; targets (B, m, N), weights (B, N).

    With `in_turn`, learner after learner, each event so many times.
    """
    predicted = np.empty_like(targets)
    _, m, N = targets.shape
    rows = bank_scratch_rows(bank)
    bank_scratch = np.empty((rows, N))
    single = SingleScratch(np.empty((m, 1)), np.empty((m, 1)), np.empty(1), np.empty((rows, 1)))
    for x, h, target, weight in zip(X, predicted, targets.copy(), weights.copy(), strict=True):
        if in_turn:
            say(bank, x, h, bank_scratch)
            teach_in_turn(bank, x, (target, weight), mode, in_turn, single)
        else:
            teach(bank, x, h, (target, weight), mode, bank_scratch)
    return predicted


def drive_twin(twin, X, targets, weights, mode):
    """The same of the naive bank."""
    predicted = np.empty_like(targets)
    for x, h, target, weight in zip(X, predicted, targets, weights, strict=True):
        x = list(x)
        for i, one in enumerate(twin.learners):
            h[:, i] = one.predict(x)
        twin.see(x)
        for i, one in enumerate(twin.learners):
            one.learn(x, list(target[:, i]), weight[i], mode)
    return predicted


def bytes_of(bank):
    """Every array of a bank and of its parts, as bytes by name."""
    return {name: array.tobytes() for name, array in arrays_of(bank).items()}


def steps(events, m, N, seed=1):
    """Features (B, 4), targets (B, m, N) with steps in the features, weights (B, N) with zeros."""
    r = np.random.default_rng(seed)
    X = r.normal(size=(events, 4))
    X[r.random(X.shape) < 0.1] = 0.0
    low, high = X[:, 0] > 0, X[:, 1] > 0.3
    z = np.stack([3 * low + 2 * (low & high), high - 1.0 * low, 1.0 * (X[:, 2] > 0)], axis=1)
    targets = np.repeat(z[:, :m, None], N, axis=2) + 0.3 * r.normal(size=(events, m, N))
    weights = np.where(
        r.random((events, N)) < 0.1, 0.0, r.choice([1.0, 1.0, 0.5, 2.0], (events, N))
    )
    return X, targets, weights
