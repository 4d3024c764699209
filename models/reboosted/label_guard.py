"""Outliers and level shifts among labels that are numbers.

An outlier is counted but not learned. A level shift, the same step in all labels, moves the label
offset, and what was learned stays. The first labels are checked together, each later one against
the running statistics. The thresholds were tuned on artificial streams with steps, ramps, walks
and several kinds of noise (docs/adr/0021).
"""

from __future__ import annotations

import numpy as np

from kaboost.models.features.label_outliers import FIRST_LABELS, OUTLIER_SPREADS
from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.label_scale import LabelScale
from kaboost.models.reboosted.linear import LinearFilters
from kaboost.models.reboosted.linear_inputs import InputRow, has_news
from kaboost.models.types import Vec

ROUNDING = 1e-9  # share of the mean within which labels may differ by rounding alone
OFFSET_SPREADS = 10.0  # deviations of the first labels' mean from 0 that make it the offset
SHIFT_RESIDUALS = 5.0  # usual residuals by which the labels of a possible shift are off
SHIFT_EVENTS = 8.0  # consecutive residuals off by about the same that make a shift
PAUSE_EVENTS = 50.0  # events without a new count after one that was no shift
BACKOFF = 64.0  # ages of a stream without moves, once the offset moved back and forth
BIAS_RATE = 2e-3  # of the running mean residual, an event: of a quantile it is not 0
MAX_SHIFT_SPREADS = 1e9  # deviations; labels less a farther offset would keep too few digits
OUTLIER_GROWTH = 1.5  # factor on the deviation with every outlier
DEVIATION_RATE = 1e-3  # lowest rate of the deviation, an event
MIN_SPREAD = 1e-12  # in units of the label


@kernel
def guard_label(
    scale: LabelScale, y: float, t: int, score: float, filters: LinearFilters, row: InputRow
) -> float:
    """Return the label to learn: y, or the served `score` where y is not to be learned; both less
    the offset. `row` holds the event's inputs of the linear learners.

    One label a million times too large would spoil label means, window and filters for thousands
    of events, and permanently what no other event corrects; clipped, it still would. Where outliers
    go on, the deviation grows by a half with each, until they are none: a thousand deviations take
    nine events.

    Where residuals are off by the same again and again, the level has shifted and not the rule.
    Until that is certain nothing is learned but the first such label: alone it may be a rare one.
    """
    shift, mean = scale.shift[0], float(scale.mean[()])
    off, early = y - mean, t < FIRST_LABELS
    spread = max(float(scale.deviation[()]), ROUNDING * abs(mean), MIN_SPREAD)
    again = not early and _continues_shift(
        shift, y - score - shift.bias, float(scale.residual[()]), t, filters, row
    )
    if again and shift.count >= SHIFT_EVENTS:
        return y - _move_offset(scale, t)
    if not again and shift.count <= 1.0:
        shift.deviation = scale.deviation[()]
    if early or scale.deviation[()] == 0.0 or abs(off) <= OUTLIER_SPREADS * spread:
        if again:
            return score
        rate = max(1.0 / (t + 1.0), DEVIATION_RATE)
        scale.deviation[()] += rate * (abs(off) - scale.deviation[()])
        return y
    if not again:
        scale.deviation[()] = OUTLIER_GROWTH * spread
    return score


@kernel
def _continues_shift(
    shift: np.record, off: float, unit: float, t: int, filters: LinearFilters, row: InputRow
) -> bool:
    """Return whether a residual that is `off` beyond the bias continues a possible shift; `unit` is
    the usual residual. An event with an unseen value is no part of one: the value may explain it.
    """
    count = shift.count
    if (count > 0.0 or abs(off) > SHIFT_RESIDUALS * unit) and has_news(filters, row):
        shift.count = count if count > 1.0 else 0.0
        return False
    large = SHIFT_RESIDUALS * unit < abs(off) <= MAX_SHIFT_SPREADS * shift.deviation
    large = large and t >= shift.blocked_until
    level = shift.level
    if count > 1.0 and abs(off - level) <= 0.5 * abs(level):
        shift.level += (off - level) / count  # the mean, without the one that was learned
    elif count == 1.0 and large and off * level > 0.0:
        shift.level = off
    else:
        _restart_count(shift, off, t, large)
        return False
    shift.count += 1.0
    return True


@kernel
def _restart_count(shift: np.record, off: float, t: int, large: bool) -> None:
    """Begin to count with this residual if it is `large`; else count none."""
    if shift.count > 1.0:  # the rule changes: do not keep back every other event
        shift.blocked_until = max(shift.blocked_until, t + PAUSE_EVENTS)
    shift.count, shift.level = 1.0 if large else 0.0, off
    shift.bias += 0.0 if large else BIAS_RATE * off


@kernel
def _move_offset(scale: LabelScale, t: int) -> float:
    """Move the offset by the level of the shift; return the level.

    Labels that go back and forth should be explained by features, from which nothing can be learned
    while the offset follows: a second move within half of the stream's age, or a move back, blocks
    further ones for long.
    """
    shift = scale.shift[0]
    level = float(shift.level)
    if t < 2.0 * shift.moved_at or abs(level + shift.last_move) < 0.5 * abs(level):
        shift.blocked_until = BACKOFF * t
    scale.offset[()] += level
    scale.deviation[()] = shift.deviation
    shift.count, shift.moved_at, shift.last_move = 0.0, t, level
    return level


def label_offset(labels: Vec) -> float:
    """Return the offset for the first labels (n,): their mean where it is large relative to their
    spread, else 0.

    Filters and statistics start at 0: prices of a million, +-3, would be off by hundreds for a
    thousand events. Labels that are equal but for rounding have no spread yet: centred, they would
    make every later residual an outlier.
    """
    mean = float(labels.mean())
    spread = float(abs(labels - mean).mean())
    return mean if ROUNDING * abs(mean) < spread < abs(mean) / OFFSET_SPREADS else 0.0
