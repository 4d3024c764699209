"""The sizes of the default structures that an effort pays for.

Effort 1 is about 15 microseconds an event, ten times that effort 10. Work on new trees grows with
it, and so does capacity: without more and slower trees, or more leaves, more work changes little.
Sizes stand in a table at four efforts, chosen on the streams of `bench/effort.py`, and are
interpolated between them; below effort 1 only the work is less, above 20 only more.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kaboost.models.reboosted.config import STRUCTURES, Structure

LOW, HIGH = 0.1, 100.0  # efforts that may be set


class Level(NamedTuple):
    """Sizes of one structure at one effort."""

    effort: float
    trees: int
    leaves: int
    depth: int
    eta: float
    share: float
    part: float
    least_rows: int


CALM = (
    Level(1.0, 80, 64, 8, 0.12, 2.0, 0.3, 8000),
    Level(2.0, 160, 64, 8, 0.07, 2.0, 0.3, 8000),
    Level(10.0, 200, 64, 8, 0.06, 2.0, 0.3, 8000),
    Level(20.0, 240, 64, 8, 0.05, 2.0, 0.3, 8000),
)
DEEP = (
    Level(1.0, 100, 256, 12, 0.1, 2.0, 0.3, 8000),
    Level(2.0, 300, 256, 14, 0.06, 2.0, 0.3, 8000),
    Level(10.0, 400, 384, 15, 0.05, 3.0, 0.3, 8000),
    Level(20.0, 400, 512, 16, 0.05, 4.0, 0.45, 12_000),
)

# A tree of classes is grown along one direction of their logits: it needs more leaves, and more
# rows for the values of rare classes. Means of the last classes are noise where events are
# shuffled, and only trees of short windows see them. Chosen on shuffled Covertype and poker hands.
CALM_CLASSES = (
    Level(1.0, 100, 64, 10, 0.1, 2.0, 1.0, 64_000),
    Level(2.0, 160, 64, 10, 0.07, 2.0, 1.0, 64_000),
    Level(10.0, 200, 64, 10, 0.06, 2.0, 1.0, 64_000),
    Level(20.0, 240, 64, 10, 0.05, 2.0, 1.0, 64_000),
)
DEEP_CLASSES = (
    Level(1.0, 100, 512, 16, 0.1, 6.0, 1.0, 64_000),
    Level(2.0, 200, 512, 16, 0.08, 6.0, 1.0, 64_000),
    Level(10.0, 300, 1024, 16, 0.06, 6.0, 1.0, 64_000),
    Level(20.0, 400, 1024, 16, 0.05, 6.0, 1.0, 64_000),
)


def structures_of(effort: float, *, of_classes: bool = False) -> tuple[Structure, ...]:
    """Return the default structures at an effort; those of short windows stay as they are.

    Parameters
    ----------
    effort
        The setting.
    of_classes
        Whether a leaf holds a value for each of several classes.

    Examples
    --------
    >>> [(one.trees, one.leaves) for one in structures_of(2.0)]
    [(160, 64), (300, 256), (64, 16), (64, 16)]
    """
    calm, deep, *short = STRUCTURES
    if of_classes:
        calm = calm._replace(lags=False, least_h=5.0, lam=2.0)
        return (_at(calm, CALM_CLASSES, effort), _at(deep, DEEP_CLASSES, effort), *short)
    return (_at(calm, CALM, effort), _at(deep, DEEP, effort), *short)


def _at(one: Structure, levels: tuple[Level, ...], effort: float) -> Structure:
    """Return a structure with the sizes of an effort, which lies between two levels."""
    effort = min(max(effort, levels[0].effort), levels[-1].effort)
    above = next(k for k, level in enumerate(levels[1:], 1) if effort <= level.effort)
    low, high = levels[above - 1], levels[above]
    part = math.log(effort / low.effort) / math.log(high.effort / low.effort)
    sizes = {}
    for name in Level._fields[1:]:
        a, b = getattr(low, name), getattr(high, name)
        if a == b or part in (0.0, 1.0):  # exactly
            sizes[name] = b if part else a
        else:
            value = math.exp((1.0 - part) * math.log(a) + part * math.log(b))
            sizes[name] = round(value) if isinstance(a, int) else value
    return one._replace(**sizes)
