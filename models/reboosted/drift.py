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

FAST, SLOW = 0.01, 0.0005  # rates of the means that watch the loss
# Deviations of the fast mean, part of the slow one, and events until the next time.
DOUBT = (5.0, 0.35, 1000)
ALARM = (5.5, 0.5, 2000)
ONE = 10.0  # deviations: a loss of numbers farther above the mean tells no more by itself
SOON = (
    100  # events after an alarm in which trees that were begun before it take their places, at best
)


@kernel
def watch(pace: Any, lost: float, t: int, link: int) -> bool:
    """Learn what event t lost; sound the alarm where the served loss of late is clearly above that
    of long, and return whether to doubt. A single number that is far off is neither sign; of
    counts (poisson) it may be one.
    """
    seen = pace.watch
    fast, slow = max(1.0 / (t + 1.0), FAST), max(1.0 / (t + 1.0), SLOW)
    off = lost - seen[1]
    # The variance hears of the whole loss first: who has heard but one loss would else be deaf.
    seen[2] += slow * (off * off - seen[2])
    if link == NUMBERS:
        lost = min(lost, seen[1] + ONE * math.sqrt(seen[2]))
    seen[0] += fast * (lost - seen[0])
    seen[1] += slow * (lost - seen[1])
    doubt = _rises(seen, DOUBT, t - int(pace.doubt[()]))
    if doubt:
        pace.doubt[()] = t
    if _rises(seen, ALARM, t - int(pace.alarm[()])):
        pace.alarm[()] = t
        seen[1] = seen[0]
        for k in range(pace.due.shape[0]):
            pace.due[k] = max(min(int(pace.due[k]), t + SOON), int(pace.soonest[k]))
    return doubt


@kernel
def _rises(seen: Any, by: Any, since: int) -> bool:
    clear, part, quiet = by
    rise = seen[0] - seen[1]
    # The mean of 2 / rate - 1 independent losses varies by that part of their variance.
    above = rise > clear * math.sqrt(seen[2] * FAST / 2.0) and rise > part * seen[1]
    return bool(above and since > quiet)
