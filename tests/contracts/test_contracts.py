"""Every valid rule x bank x loss keeps every promise of its parts.

Compiling a triple takes seconds, so the product of all of them runs as plain Python (product.py, in
processes without the JIT); compiled, every rule, every bank and every loss runs at least once and
must leave the very bytes that plain Python leaves.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kaboost
from tests.contracts import checks, subjects

PRODUCT = Path(__file__).with_name("product.py")
PARTS = 4  # of the product, which take a minute each; `make test` runs the first
SERVED = [subjects.make(*parts) for parts in subjects.cover()]
AVERAGED = ({"kind": "sgb", "averaged": True}, subjects.BANKS[0], *subjects.LOSSES[0])
REGROWN = (subjects.RULES[0], subjects.REBOOSTED, subjects.LOWERED[0], 1)
# The one but last serves another hypothesis than it learns; the last has no rule of its own.
COMPILED = [*SERVED, subjects.make(*AVERAGED), subjects.make(*REGROWN)]
# What is asked for an answer: the first of every rule, which decides what is served.
RULES = [(one.spec["rule"]["kind"], one.spec["rule"].get("averaged")) for one in COMPILED]
ASKED = [rule not in RULES[:k] for k, rule in enumerate(RULES)]
NAMES = [
    "-".join(str(one.spec[part]["kind"]) for part in ("rule", "bank", "loss"))
    + ("-averaged" if one.spec["rule"].get("averaged") else "")
    for one in COMPILED
]
pytestmark = pytest.mark.timeout(1500)


def plainly(*arguments, **environment):
    """Start this Python without the JIT."""
    return subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": ".", **environment},
    )  # fmt: skip


def test_every_part_is_listed():
    """A new rule, bank or loss is in `subjects`; what is not there has tests of its own."""
    banks = {bank["kind"] for bank in (*subjects.BANKS, subjects.REBOOSTED)}

    assert set(kaboost.RULES) == {rule["kind"] for rule in subjects.RULES} | {"gb", "ogb_batch"}
    assert set(kaboost.BANKS) == banks | {"conv"}
    assert set(kaboost.LOSSES) == {loss["kind"] for loss, _ in subjects.LOSSES}


@pytest.mark.parametrize("part", range(PARTS))
def test_product(part):
    """Every pair that can be keeps every promise, every other one is refused with a reason."""
    run = plainly("-m", "pytest", "-q", str(PRODUCT), PRODUCT_PART=f"{part}/{PARTS}")
    out, _ = run.communicate()

    assert run.returncode == 0, out[-5000:]
    assert " passed" in out


@pytest.mark.parametrize("k", range(len(COMPILED)), ids=NAMES)
def test_compiled_equals_plain(k):
    """Every rule, bank and loss leaves the same state compiled as in plain Python, and every rule
    predicts the same.
    """
    program = (
        "from tests.contracts import test_contracts as t;"
        f"print(t.checks.digest_after(t.COMPILED[{k}], t.ASKED[{k}]))"
    )
    plain, _ = plainly("-c", program).communicate()

    assert checks.digest_after(COMPILED[k], ASKED[k]) == plain.strip()


@pytest.mark.parametrize("k", [0, len(COMPILED) - 1], ids=["linear", "reboosted_trees"])
def test_compiled(k):
    """Every promise is kept compiled, too."""
    checks.keeps(COMPILED[k])
