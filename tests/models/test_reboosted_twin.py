"""A whole structure of rebuilt trees is its naive twin, event by event."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.ensemble import served_trees
from kaboost.models.reboosted.predict import tree_scores
from kaboost.models.reboosted.scratch import allocate
from kaboost.models.reboosted.trees.binning import to_keys
from tests.models.number_streams import levels
from tests.naive.reboosted import MISSING
from tests.naive.structure import How, Structure

D, LEVELS, SEED = 4, 9, 5
OF_THE_BANK = ("loss", "rates", "budget")


@kernel
def fill_scores(trees, keys, a):
    """Fill a.scores and a.F with the structure's scores of one event."""
    tree_scores(trees, keys, a.leaves[0], a)


def specification(how):
    """The specification of a model of one such structure."""
    one = {name: getattr(how, name) for name in How._fields if name not in OF_THE_BANK}
    bank = {
        "kind": "reboosted_trees",
        "structures": [{**one, "lags": False}],
        "budget": how.budget,
    }
    return {"bank": bank, "loss": how.loss, "seed": SEED}


SMALL = How("squared", 5, 6, 3, 0.3, window=150, least_rows=60, part=0.5, least_h=5.3, lam=1.3)
SLOW = SMALL._replace(budget=100)
LARGE = SMALL._replace(trees=3, leaves=40, depth=9, window=2500, least_rows=2400, part=0.1)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize(
    ("sizes", "apart", "n", "many", "longest"),
    [(SMALL, 1e9, 2_500, 80, 0), (LARGE, 1e9, 3_500, 5, 1), (SLOW, 0.0, 2_500, 20, 4)],
)
def test_structure_is_its_twin(loss, sizes, apart, n, many, longest):
    """Partial sums, leaf learners, starts of sweeps and prefixes of the window after every event,
    while trees are drawn, grown and added over one event or several, or wait for theirs.
    """
    how = sizes._replace(loss=loss)
    booster, twin = kaboost.build(specification(how), D), Structure(how, SEED)
    bank = booster.trees
    bank.params.background_min_ns[...] = apart
    X, y = levels(n, D, LEVELS, loss)
    w = np.ones(n)  # tests/models/test_reboosted_weights.py has other importances
    codes = np.where(np.isnan(X), MISSING, np.nan_to_num(X)).astype(int)
    a, spans = allocate(bank, booster.stack, D), []
    for t in range(n):
        fill_scores(served_trees(bank), to_keys(X[t : t + 1])[0], a)
        assert a.F[0] == pytest.approx(twin.partial_sums(codes[t]), abs=1e-5)
        assert a.scores[:5] == pytest.approx(twin.scores(codes[t]), abs=1e-5)
        was = int(bank.schedule.status[0]), int(bank.schedule.grown[0])
        kaboost.learn_many(booster, X[t : t + 1], y[t : t + 1], w[t : t + 1])
        now = int(bank.schedule.status[0]), int(bank.schedule.grown[0])
        twin.learn(codes[t], y[t], w[t])
        if bank.bins.rebin_at == 100:
            twin.set_base_score()
        if was[0] == 0 and (now[0] > 0 or now[1] > was[1]):
            twin.start_tree()
            spans.append(0)
        if now[1] > was[1]:
            twin.commit()
        spans[-1:] = [one + (now[0] > 0) for one in spans[-1:]]
        assert bank.base_score[0] == pytest.approx(twin.base_score, abs=1e-6)
        if now[0] == 0:
            kept = np.arange(max(0, t + 1 - how.window), t + 1)
            P = np.array(twin.P)[kept]  # thousands: pytest.approx would take minutes
            np.testing.assert_allclose(bank.window.prefix[0, kept], P, rtol=0, atol=1e-5)

    assert twin.count - (bank.schedule.status[0] > 0) == bank.schedule.grown[0] > many
    assert longest <= max(spans) <= 60 * longest
