"""Warning and drift: two levels of a rise of the served loss, as in DDM.

A warning is cheap and comes early: the stacking weights' covariance is inflated to about what it
was at the start, and within a hundred events they find which scores to trust, or to invert. A
drift is costly: the first structure forgets the past, and its trees are rebuilt.

The thresholds of DRIFT were tuned on synth_bin with its rule moved to other columns, those of
WARNING and the rest on artificial streams (bench/README.md, docs/adr/0022).

Gama, Medas, Castillo, Rodrigues, Learning with Drift Detection, 2004.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import NUMBERS, Schedule
from kaboost.models.types import Vec


class Threshold(NamedTuple):
    """When the fast mean of the loss is clearly above the slow one."""

    deviations: float  # of the fast mean
    share: float  # of the slow mean
    pause: int  # events since the last time


WARNING = Threshold(5.0, 0.35, 1000)
DRIFT = Threshold(5.5, 0.5, 2000)
FAST_RATE, SLOW_RATE = 0.01, 0.0005  # of the running means of the loss, an event
OUTLIER_DEVIATIONS = 10.0  # a loss of numbers counts as at most this far above the slow mean
COMMIT_DELAY = 100  # events after a drift until trees that were started before it may be committed
FAST, SLOW, VARIANCE = 0, 1, 2  # places in `Schedule.loss_statistics`


@kernel
def update_drift(schedule: Schedule, loss: float, t: int, link: int) -> bool:
    """Record the served loss of event t, and set `schedule.drift_at` at a drift; return whether
    there is a warning. A single outlier among numbers causes neither; among counts it may.
    """
    seen = schedule.loss_statistics
    fast, slow = max(1.0 / (t + 1.0), FAST_RATE), max(1.0 / (t + 1.0), SLOW_RATE)
    off = loss - seen[SLOW]
    # With the unclipped loss, and first: else the first loss would clip all later ones.
    seen[VARIANCE] += slow * (off * off - seen[VARIANCE])
    if link == NUMBERS:
        loss = min(loss, seen[SLOW] + OUTLIER_DEVIATIONS * math.sqrt(seen[VARIANCE]))
    seen[FAST] += fast * (loss - seen[FAST])
    seen[SLOW] += slow * (loss - seen[SLOW])
    warning = _exceeds(seen, WARNING, t - int(schedule.warning_at[()]))
    if warning:
        schedule.warning_at[()] = t
    if _exceeds(seen, DRIFT, t - int(schedule.drift_at[()])):
        _set_drift(schedule, t)
    return warning


@kernel
def _set_drift(schedule: Schedule, t: int) -> None:
    """Record a drift at event t; trees in the background are committed sooner."""
    seen = schedule.loss_statistics
    schedule.drift_at[()] = t
    seen[SLOW] = seen[FAST]
    commit_soon(schedule, t)


@kernel
def commit_soon(schedule: Schedule, t: int) -> None:
    """Commit trees in the background soon after event t."""
    for k in range(schedule.commit_at.shape[0]):
        soon = min(int(schedule.commit_at[k]), t + COMMIT_DELAY)
        schedule.commit_at[k] = max(soon, int(schedule.earliest_commit[k]))


@kernel
def _exceeds(seen: Vec, threshold: Threshold, since: int) -> bool:
    rise = seen[FAST] - seen[SLOW]
    # The mean of 2 / rate - 1 independent losses has that fraction of their variance.
    deviation = math.sqrt(seen[VARIANCE] * FAST_RATE / 2.0)
    clear = rise > threshold.deviations * deviation and rise > threshold.share * seen[SLOW]
    return bool(clear and since > threshold.pause)
