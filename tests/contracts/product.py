"""The product of every rule, bank and loss; test_contracts.py runs it as plain Python, in parts."""

from __future__ import annotations

import os

import numpy as np
import pytest

import kaboost
from kaboost.models import verbs
from tests.contracts import checks, subjects

FIRST, EVERY = map(int, os.environ["PRODUCT_PART"].split("/"))
PART = slice(FIRST, None, EVERY)


@pytest.mark.parametrize(
    ("rule", "bank", "loss", "m"),
    list(subjects.product())[PART],
    ids=lambda part: str(part.get("step", part["kind"])) if isinstance(part, dict) else str(part),
)
def test_pair(rule, bank, loss, m):
    """Every check holds for a pair that can be; the others are refused with reason and remedy."""
    if subjects.forbidden(rule, bank, loss, m):
        with pytest.raises(kaboost.ModelError, match="; "):
            subjects.make(rule, bank, loss, m)
    else:
        checks.keeps(subjects.make(rule, bank, loss, m))


@pytest.mark.parametrize(
    "subject",
    [subjects.make(*parts) for parts in subjects.partners()][PART],
    ids=lambda subject: subject.name,
)
def test_partners(subject):
    """Every check holds for every listed set of parameters."""
    checks.keeps(subject)


@pytest.mark.parametrize("bank", subjects.BANKS, ids=lambda bank: "-".join(map(str, bank.values())))
def test_a_bank_of_n_is_n_banks_of_one(bank):
    """No learner's state depends on another's: fed alone, with its own target and weight, each
    moves alike.
    """
    r = np.random.default_rng(3)
    params = kaboost.normalise_spec({"bank": bank, "loss": "squared"})["bank"]
    make = kaboost.BANKS[params["kind"]].make
    N, m, d = params["n"], 2, 4
    whole = make(params, d, m, 9)
    # A learner i of cyclic banks sees feature i mod d: a bank of one is that of learner 0.
    ones = [make(params, d, m, 9) for _ in range(N)]
    for x in r.normal(size=(12, d)):
        h, bank_scratch = np.empty((m, N)), np.empty((verbs.bank_scratch_rows(whole), N))
        target, weight = r.normal(size=(m, N)), r.choice([0.0, 1.0, 2.0], N)
        verbs.predict(whole, x, h, bank_scratch)
        verbs.learn(whole, x, h, target.copy(), weight.copy(), 0, bank_scratch)
        for i, one in enumerate(ones):
            alone = np.where(np.arange(N) == i, weight, 0.0)
            verbs.predict(one, x, h, bank_scratch)
            verbs.learn(one, x, h, target.copy(), alone, 0, bank_scratch)
    for i, alone in enumerate(ones):
        expected = dict(leaves(verbs.learner_view(alone, i)))
        for name, value in leaves(verbs.learner_view(whole, i)):
            np.testing.assert_array_equal(value, expected[name], name)


def leaves(part, prefix=""):
    """Every value of a tree of NamedTuples with its dotted name."""
    for name, value in part._asdict().items():
        if hasattr(value, "_asdict"):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
