"""Two signs that the stream has changed, both of a rise of the served loss.

Doubt is cheap and comes early: the stack's weights become about as unsure as at the start, and find
in a hundred events which scores are to be trusted now, or to be turned round. An alarm is dear: the
first structure forgets the past, and the work on new trees begins anew.
"""

from __future__ import annotations

import math
from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.state import NUMBERS

FAST_RATE, SLOW_RATE = 0.01, 0.0005  # rates of the means that watch the loss
# Deviations of the fast mean, part of the slow one, and events until the next time.
WARNING = (5.0, 0.35, 1000)
DRIFT = (5.5, 0.5, 2000)
OUTLIER_DEVIATIONS = (
    10.0  # deviations: a loss of numbers farther above the mean tells no more by itself
)
COMMIT_DELAY = (
    100  # events after an alarm in which trees that were begun before it take their places, at best
)


@kernel
def update_drift(schedule: Any, lost: float, t: int, link: int) -> bool:
    """Learn what event t lost; sound the alarm where the served loss of late is clearly above that
    of long, and return whether to doubt. A single number that is far off is neither sign; of
    counts (poisson) it may be one.
    """
    seen = schedule.loss_statistics
    fast, slow = max(1.0 / (t + 1.0), FAST_RATE), max(1.0 / (t + 1.0), SLOW_RATE)
    off = lost - seen[1]
    # The variance hears of the whole loss first: who has heard but one loss would else be deaf.
    seen[2] += slow * (off * off - seen[2])
    if link == NUMBERS:
        lost = min(lost, seen[1] + OUTLIER_DEVIATIONS * math.sqrt(seen[2]))
    seen[0] += fast * (lost - seen[0])
    seen[1] += slow * (lost - seen[1])
    doubt = _exceeds(seen, WARNING, t - int(schedule.warning_at[()]))
    if doubt:
        schedule.warning_at[()] = t
    if _exceeds(seen, DRIFT, t - int(schedule.drift_at[()])):
        schedule.drift_at[()] = t
        seen[1] = seen[0]
        for k in range(schedule.commit_at.shape[0]):
            schedule.commit_at[k] = max(
                min(int(schedule.commit_at[k]), t + COMMIT_DELAY), int(schedule.earliest_commit[k])
            )
    return doubt


@kernel
def _exceeds(seen: Any, by: Any, since: int) -> bool:
    clear, part, quiet = by
    rise = seen[0] - seen[1]
    # The mean of 2 / rate - 1 independent losses varies by that part of their variance.
    above = rise > clear * math.sqrt(seen[2] * FAST_RATE / 2.0) and rise > part * seen[1]
    return bool(above and since > quiet)
