"""How good a model is in words: against the better baseline, and where it is going."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kaboost.models.evaluation.baselines import PREDICTORS
from kaboost.models.types import Mat

FEW_EVENTS = 100  # below which losses say little
CLEARLY = 0.9  # of the recent loss of the usual baseline, below which another one is better
# The trend compares blocks: their recent losses share no event, so that their noise can be seen.
BLOCK_EVENTS, BLOCK_POINTS = 1_000, 20  # at least, of a block
COMPARED_BLOCKS = 3  # the last ones, with as many before them
TREND_BLOCKS = 30  # that are looked through
BEGINS = (0.05, 4.0)  # a trend: change of the ratio to a baseline, and in standard errors
ENDS = (0.02, 1.0)  # the same for its end, so that it does not come and go
EVENT, MODEL, BASELINE = 0, 5, 6  # columns of the history
BASELINES = {
    "regression": ("always predicting the average", "repeating the last label"),
    "classes": ("always predicting the usual shares", "repeating the last label"),
}


def quality(task: str, progressive: Mapping[str, Any], events: int, points: Mat) -> str:
    """Return how good the model is against the better baseline, and where it is going.

    Parameters
    ----------
    task
        regression, binary or multiclass.
    progressive
        Losses of model and baselines, as of `GET /model`.
    events
        That were learned.
    points
        Of the history, (n, 8): event, time, three mean losses, three recent ones.

    Examples
    --------
    >>> losses = {"model": 0.7, "prior": 1.0, "last_label": 1.4}
    >>> progressive = {name: {"recent_loss": loss} for name, loss in losses.items()}
    >>> quality("regression", progressive, 500, np.empty((0, 8)))
    '30 % better than always predicting the average'
    """
    if events < FEW_EVENTS:
        return f"too few events to judge: {events:,} of {FEW_EVENTS}"
    model = progressive.get("model", {}).get("recent_loss")
    which = _better(progressive)
    if model is None or which is None:
        return ""
    baseline = progressive[PREDICTORS[1 + which]]["recent_loss"]
    words = BASELINES["regression" if task == "regression" else "classes"][which]
    if baseline <= 0.0:
        return f"the loss of {words} is 0: nothing is left to learn"
    share = round(100 * abs(1.0 - model / baseline))
    if not share:
        compared = f"as good as {words}"
    else:
        compared = f"{share:,} % {'better' if model < baseline else 'worse'} than {words}"
    return "; ".join(filter(None, [compared, trend(points, which)]))


def _better(progressive: Mapping[str, Any]) -> int | None:
    """Return the better baseline: that of all events, unless the other one is clearly better now.

    Two that are about as good would otherwise take turns.
    """
    found = [progressive.get(name, {}) for name in PREDICTORS[1:]]
    now = {k: of["recent_loss"] for k, of in enumerate(found) if of.get("recent_loss") is not None}
    if not now:
        return None
    usual = min(now, key=lambda k: found[k].get("loss") or now[k])
    best = min(now, key=lambda k: now[k])
    return best if now[best] < CLEARLY * now[usual] else usual


def trend(points: Mat, which: int) -> str:
    """Return whether the recent loss falls, relative to that of a baseline; "" if it is too early.

    All blocks are looked through in their order, as a trend ends later than it begins. They end at
    fixed numbers of events: nothing changes until the next one is complete.
    """
    if len(points) < 2:
        return ""
    stride = float(points[-1, EVENT] - points[-2, EVENT])
    size = max(BLOCK_POINTS, -(-BLOCK_EVENTS // stride)) * stride
    ends = points[points[:, EVENT] % size == 0][-TREND_BLOCKS:]
    ends = ends[(ends[:, BASELINE + which] > 0.0) & np.isfinite(ends[:, MODEL])]
    ratios = ends[:, MODEL] / ends[:, BASELINE + which]
    state = ""
    for k in range(2 * COMPARED_BLOCKS, len(ratios) + 1):
        before, now = np.split(ratios[k - 2 * COMPARED_BLOCKS : k], 2)
        noise = np.median(np.abs(np.diff(ratios[:k]))) * np.sqrt(2.0 / COMPARED_BLOCKS)
        change, level = now.mean() - before.mean(), before.mean()
        share, errors = ENDS if state.startswith("getting") else BEGINS
        if abs(change) <= max(share * level, errors * noise):
            state = "steady"
        else:
            state = "getting better" if change < 0.0 else "getting worse"
    return state
