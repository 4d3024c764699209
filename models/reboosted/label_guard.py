"""Labels so far from all others that one of them would spoil a model: of numbers, which have no
bounds. The first labels are looked at together, each later one against what is typical by then.
"""

from __future__ import annotations

from typing import Any

from kaboost.models.features.label_outliers import FIRST_LABELS, OUTLIER_SPREADS
from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.linear import has_news
from kaboost.models.types import Vec

ROUNDING = 1e-9  # of the mean: labels that are nearer to each other may differ by rounding alone
OFFSET_SPREADS = (
    10.0  # typical distances of the first labels' mean from 0 from which on labels are offset
)
SHIFT_RESIDUALS = 5.0  # usual residuals that an answer is off where a run begins
SHIFT_ANSWERS = 8.0  # answers in turn that are off by the same tell of a new level
PAUSE_EVENTS = 50.0  # events without runs after one that came to nothing
BACKOFF = 64.0  # times its age that a stream is without moves which was moved to and fro
BIAS_RATE = 2e-3  # of the usual residual: of a quantile it is not 0
MAX_SHIFT_SPREADS = (
    1e9  # usual spreads that a level may be away, for what is left of labels less the origin
)
# What `Scale.run` knows: how many answers in turn were off, and by what; what a residual and a
# label's distance are otherwise; when and by what the origin was last moved; until when it is not.
COUNT, LEVEL, BIAS, USUAL, MOVED, LAST, BARRED = range(7)
SHIFT_FIELDS = 7


@kernel
def guard_label(scale: Any, y: float, t: int, said: float, lines: Any, row: Any) -> float:
    """Return the label to learn: y, or what was `said` of it where it is not to be learned. All are
    less the origin. `has_news` tells what is new of its features.

    One label a million times too large would spoil lags, window and filters for thousands of
    events, and for ever what no other event tells of; cut short it would still do that. Where
    labels go on being farther than OUTLIER_SPREADS typical distances from the mean label, what is
    typical follows them, half as much again with each: a thousand distances take nine events.

    Where answers are off by the same again and again, the level has changed and not the rule: the
    origin is moved, and all that was learned stays. Meanwhile nothing is learned, but for the first
    such label: alone it would be a rare one.
    """
    run, mean = scale.shift, float(scale.mean[()])
    off, early = y - mean, t < FIRST_LABELS
    typical = max(float(scale.deviation[()]), ROUNDING * abs(mean), 1e-12)
    again = not early and _continues_shift(
        run, y - said - run[BIAS], (float(scale.residual[()]), t, lines, row)
    )
    if again and run[COUNT] >= SHIFT_ANSWERS:
        return y - _move_offset(scale, t)
    if not again and run[COUNT] <= 1.0:
        run[USUAL] = scale.deviation[()]
    if early or scale.deviation[()] == 0.0 or abs(off) <= OUTLIER_SPREADS * typical:
        if again:
            return said
        scale.deviation[()] += max(1.0 / (t + 1.0), 1e-3) * (abs(off) - scale.deviation[()])
        return y
    if not again:
        scale.deviation[()] = 1.5 * typical
    return said


@kernel
def _continues_shift(run: Vec, off: float, known: Any) -> bool:
    """Return whether an answer that was `off`, beside what is usual, goes on with a run of such."""
    unit, t, lines, row = known
    if (run[COUNT] > 0.0 or abs(off) > SHIFT_RESIDUALS * unit) and has_news(lines, row):
        run[COUNT] = run[COUNT] if run[COUNT] > 1.0 else 0.0
        return False
    surprise = (
        SHIFT_RESIDUALS * unit < abs(off) <= MAX_SHIFT_SPREADS * run[USUAL] and t >= run[BARRED]
    )
    if run[COUNT] > 1.0 and abs(off - run[LEVEL]) <= 0.5 * abs(run[LEVEL]):
        run[LEVEL] += (off - run[LEVEL]) / run[COUNT]  # of one that was learned from, and of others
    elif run[COUNT] == 1.0 and surprise and off * run[LEVEL] > 0.0:
        run[LEVEL] = off
    else:
        if run[COUNT] > 1.0:  # it was no level: where rules change, not every other event is wasted
            run[BARRED] = max(run[BARRED], t + PAUSE_EVENTS)
        run[COUNT], run[LEVEL] = 1.0 if surprise else 0.0, off
        run[BIAS] += 0.0 if surprise else BIAS_RATE * off
        return False
    run[COUNT] += 1.0
    return True


@kernel
def _move_offset(scale: Any, t: int) -> float:
    """Move the origin to the new level; return by how much.

    Labels that go to and fro are to be told by their features, from which nothing can be learned
    while the origin follows: who moves twice in half its life, or back, is barred for long.
    """
    run, up = scale.shift, float(scale.shift[LEVEL])
    if t < 2.0 * run[MOVED] or abs(up + run[LAST]) < 0.5 * abs(up):
        run[BARRED] = BACKOFF * t
    scale.offset[()] += up
    scale.deviation[()] = run[USUAL]
    run[COUNT], run[MOVED], run[LAST] = 0.0, t, up
    return up


def label_offset(labels: Vec) -> float:
    """Return the mean of the first labels (n,) where it is so far from 0 for their spread that a
    model had to learn it as one learns a rule; else 0.

    Its filters and what is typical begin at 0: prices of a million, give or take three, would be
    off by hundreds for a thousand events. Labels that are all one but for rounding have no spread
    yet; put about 0 they would teach that none is ever off.
    """
    mean = float(labels.mean())
    typical = float(abs(labels - mean).mean())
    return mean if ROUNDING * abs(mean) < typical < abs(mean) / OFFSET_SPREADS else 0.0
