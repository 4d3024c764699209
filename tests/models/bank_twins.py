"""A bank and its naive twin taught the same tasks, weights of 0 among them, in any mode."""

from __future__ import annotations

import numpy as np

import kaboost
from kaboost.models import verbs
from kaboost.models.types import SQUARE
from tests.naive.booster import BANKS

FEATURES = 4


def made(m=1, d=FEATURES, **bank):
    """A bank of the specification, and its parameters."""
    full = kaboost.normalise_spec({"bank": bank, "loss": "squared"})
    kaboost.build(full, d, m)  # refuses what cannot be
    return kaboost.BANKS[bank["kind"]].make(full["bank"], d, m, 7), full["bank"]


def say(bank, x):
    """What every learner says of x, (m, N), and the scratch for `learn`."""
    shape = bank.w.shape if hasattr(bank, "w") else bank[1].shape
    h, bank_scratch = (
        np.empty((shape[0], shape[-1])),
        np.empty((verbs.bank_scratch_rows(bank), shape[-1])),
    )
    verbs.predict(bank, np.asarray(x, float), h, bank_scratch)
    return h, bank_scratch


def teach(bank, x, target, weight=1.0, mode=SQUARE):
    """Teach every learner; a number stands for the same for all. Return what was said before."""
    h, bank_scratch = say(bank, x)
    task = np.broadcast_to(target, h.shape).astype(float)
    weights = np.broadcast_to(weight, h.shape[1:]).astype(float)
    verbs.learn(bank, np.asarray(x, float), h.copy(), task, weights, mode, bank_scratch)
    return h


def tasks(count, m, N, seed=3):
    """Features with zeros, targets +-1 that serve every mode, weights of which a third are 0."""
    r = np.random.default_rng(seed)
    for _ in range(count):
        x = r.normal(size=FEATURES) * (r.random(FEATURES) < 0.8)
        yield x, np.sign(r.normal(size=(m, N))), r.choice([0.0, 1.0, 2.5], N)


def arrays_of(bank):
    """The arrays of a bank and of its parts, by name."""
    found = {}
    for name, value in bank._asdict().items():
        if isinstance(value, np.ndarray):
            found[name] = value
        elif hasattr(value, "_asdict"):
            found |= {f"{name}.{inner}": array for inner, array in arrays_of(value).items()}
    return found


def resting(bank, weight):
    """The bytes of all learners that have weight 0."""
    return [array[..., weight == 0.0].tobytes() for array in arrays_of(bank).values()]


def agree(mode, m, **params):
    """Both say the same of every event; a learner of weight 0 keeps its bytes."""
    bank, full = made(m=m, **params)
    twin = BANKS[params["kind"]](full, FEATURES, m, 7)
    for x, target, weight in tasks(60, m, full["n"]):
        before = resting(bank, weight)
        predicted = teach(bank, x, target, weight, mode)
        assert before == resting(bank, weight)
        expected = np.transpose([one.predict(list(x)) for one in twin.learners])
        np.testing.assert_allclose(predicted, expected, rtol=1e-9, atol=1e-12)
        twin.see(list(x))
        for i, one in enumerate(twin.learners):
            one.learn(list(x), list(target[:, i]), weight[i], mode)
