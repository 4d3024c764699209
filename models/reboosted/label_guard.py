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
from kaboost.models.reboosted.state import NUMBERS
from kaboost.models.types import Loss, Vec
from kaboost.models.verbs import value_gradient_hessian

ROUNDING = 1e-9  # share of the mean within which labels may differ by rounding alone
MIN_JITTER = 1e-3  # in units of the label: as much is no rounding, whatever the mean
LEAST_SHARE = 1e-13  # of the mean, that the spread of labels has at least in float64
OFFSET_SPREADS = 10.0  # deviations of the first labels' mean from 0 that make it the offset
SHIFT_RESIDUALS = 5.0  # usual residuals by which the labels of a possible shift are off
SHIFT_EVENTS = 8.0  # consecutive residuals off by about the same that make a shift
PAUSE_EVENTS = 50.0  # events without a new count after one that was no shift
BACKOFF = 64.0  # ages of a stream without moves, once the offset moved back and forth
BIAS_RATE = 2e-3  # of the running mean residual, an event: of a quantile it is not 0
MAX_SHIFT_SPREADS = 1e40  # deviations
MAX_STUCK_MOVES = 5.0  # to a stuck label: later ones may be explained by features
STUCK = 2.0  # of `away`
OUTLIER_GROWTH = 1.5  # factor on the deviation with every outlier
DEFLATION = 0.96  # factor on the inflated distance with every other label
DEVIATION_RATE = 1e-3  # lowest rate of the deviation, an event
FAR_LABEL = 1e20  # whose gradient shows whether a loss bounds it
MIN_SPREAD = 1e-12  # in units of the label


@kernel
def has_bounded_gradient(loss: Loss) -> bool:
    """Return whether a far label is of no more weight in the loss than a near one."""
    _, g, _ = value_gradient_hessian(loss, FAR_LABEL, 0.0)
    return bool(g < FAR_LABEL / 1e6)


@kernel
def label_to_learn(
    scale: LabelScale, loss: Loss, y: float, event: tuple[int, int], score: float,
    filters: LinearFilters, row: InputRow,
) -> float:  # fmt: skip
    """Return what `guard_label` does where scores are numbers, else y; `event` is the event's
    number t and the scale of scores.
    """
    t, link = event
    if link != NUMBERS:
        return y
    return guard_label(scale, y, t, score, filters, row, has_bounded_gradient(loss))


@kernel
def limit_label(scale: LabelScale, label: Vec, event: tuple[int, int], offset: float) -> float:
    """Limit a label (1,), in place, to the farthest that is no outlier, for the losses of metrics:
    one wild label spoils no sum for good. Return it less the offset; `event` is its number t and
    the scale of scores.
    """
    t, link = event
    y = float(label[0]) - offset
    if link != NUMBERS or t < FIRST_LABELS or scale.deviation[()] == 0.0:
        return y
    mean = float(scale.mean[()])
    limit = _outlier_distance(scale)
    if abs(y - mean) > limit:
        y = mean + limit if y > mean else mean - limit
        label[0] = y + offset
    return y


@kernel
def _outlier_distance(scale: LabelScale) -> float:
    """Return the distance from the mean label beyond which a label is an outlier."""
    return float(OUTLIER_SPREADS * _spread(scale) * (1.0 + scale.shift[0].inflation))


@kernel
def _spread(scale: LabelScale) -> float:
    """Return the usual distance of labels from their mean, at least that of rounding."""
    return max(float(scale.deviation[()]), ROUNDING * abs(float(scale.mean[()])), MIN_SPREAD)


@kernel
def guard_label(
    scale: LabelScale, y: float, t: int, score: float, filters: LinearFilters, row: InputRow,
    robust: bool,
) -> float:  # fmt: skip
    """Return the label to learn: y, or the served `score` where y is not to be learned; both less
    the offset. `row` holds the event's inputs of the linear learners; `robust` is whether the
    loss's gradient has a bound.

    One label a million times too large would spoil label means, window and filters for thousands
    of events, and permanently what no other event corrects; clipped, it still would. Where outliers
    go on, the deviation grows by a half with each, until they are none: a thousand deviations take
    nine events. With a robust loss less than a tenth of labels stay outliers for ever.

    Where residuals are off by the same again and again, the level has shifted and not the rule.
    Until that is certain nothing is learned but the first such label: alone it may be a rare one.
    """
    shift, mean = scale.shift[0], float(scale.mean[()])
    off, early = y - mean, t < FIRST_LABELS
    far = abs(off) > _outlier_distance(scale)
    outlier = not early and scale.deviation[()] != 0.0 and far
    again = not early and _continues_shift(scale, (y, score), t, outlier, filters, row)
    if again and shift.count >= SHIFT_EVENTS:
        return y - _move_offset(scale, t)
    if not again and shift.count <= 1.0:
        shift.deviation = scale.deviation[()]
    if not outlier:
        shift.inflation = max((1.0 + shift.inflation) * DEFLATION - 1.0, 0.0)
        if again:
            return score
        rate = max(1.0 / (t + 1.0), DEVIATION_RATE)
        scale.deviation[()] += rate * (abs(off) - scale.deviation[()])
        return y
    if not again and robust:
        shift.inflation = OUTLIER_GROWTH * (1.0 + shift.inflation) - 1.0
    elif not again:
        scale.deviation[()] = OUTLIER_GROWTH * _spread(scale)
    return score


@kernel
def _continues_shift(
    scale: LabelScale, label: tuple[float, float], t: int, outlier: bool,
    filters: LinearFilters, row: InputRow,
) -> bool:  # fmt: skip
    """Return whether a label, which is y and its served score, continues a possible shift. An event
    with an unseen value is no part of one: the value may explain it.
    """
    y, score = label
    shift, unit = scale.shift[0], float(scale.residual[()])
    off, count = y - score - shift.bias, shift.count
    if (count > 0.0 or abs(off) > SHIFT_RESIDUALS * unit) and has_news(filters, row):
        shift.count = count if count > 1.0 else 0.0
        return False
    large = SHIFT_RESIDUALS * unit < abs(off) <= MAX_SHIFT_SPREADS * shift.deviation
    if not _returns(shift, off):  # a way back is always open
        large = large and t >= shift.blocked_until and (outlier or t >= shift.paused_until)
    seen = y + float(scale.offset[()])
    shift.different += 1.0 if seen != shift.label else 0.0
    shift.label = seen
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
def _returns(shift: np.record, off: float) -> bool:
    """Return whether a residual is that of a label where labels were before the last move."""
    return bool(shift.away > 0.0 and abs(off + shift.last_move) <= 0.5 * abs(shift.last_move))


@kernel
def _restart_count(shift: np.record, off: float, t: int, large: bool) -> None:
    """Begin to count with this residual if it is `large`; else count none."""
    if shift.count > 1.0:  # the rule changes: do not keep back every other event
        shift.paused_until = max(shift.paused_until, t + PAUSE_EVENTS)
    shift.count, shift.level, shift.different = 1.0 if large else 0.0, off, 0.0
    shift.bias += 0.0 if large else BIAS_RATE * off


@kernel
def _move_offset(scale: LabelScale, t: int) -> float:
    """Move the offset by the level of the shift, or back to where it was; return by how much.

    Labels that go back and forth should be explained by features, from which nothing can be learned
    while the offset follows: a second move within half of the stream's age, or a move back, blocks
    further ones for long. A label that is stuck, and then well again, explains nothing: some such
    moves block none.
    """
    shift = scale.shift[0]
    back, level, offset = _returns(shift, shift.level), float(shift.level), scale.offset[()]
    stuck = not back and shift.different == 0.0 and shift.stuck_moves < MAX_STUCK_MOVES
    if back:
        level = shift.home - offset  # to the bit: a level of 1e20 would leave its rounding
    repeated = t < 2.0 * shift.moved_at or abs(level + shift.last_move) < 0.5 * abs(level)
    if repeated and not stuck and not (back and shift.away == STUCK):
        shift.blocked_until = BACKOFF * t
    shift.away = 0.0 if back else (STUCK if stuck else 1.0)
    shift.stuck_moves += 1.0 if stuck else 0.0
    shift.home = offset
    scale.offset[()] = offset + level
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
    rounding = max(min(ROUNDING * abs(mean), MIN_JITTER), LEAST_SHARE * abs(mean))
    return mean if rounding < spread < abs(mean) / OFFSET_SPREADS else 0.0
