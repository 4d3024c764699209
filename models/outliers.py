"""Labels so far from all others that one of them would spoil a model: of numbers, which have no
bounds. The first labels are looked at together, each later one against what is typical by then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.linear_filters import FLAT
from models.types import Vec
from models.verbs import kernel

FIRST_LABELS = 20  # that are looked at together; none is far before
FAR = 30.0  # typical distances from the mean: of Gaussian labels none in 10^100 is as far
OFFSET = 10.0  # typical distances of the first labels' mean from 0 from which on labels are offset
FAR_EARLY = 100.0  # typical distances from the median of so few


@kernel
def tame(scale: Any, y: float, t: int, said: float) -> float:
    """Return the label to learn: y, or where it is farther than FAR typical distances from the mean
    label, what was `said` of it.

    One label a million times too large would spoil lags, window and filters for thousands of
    events, and for ever what no other event tells of; cut short it would still do that. Where
    labels go on being far, what is typical follows them, half as much again with each: a thousand
    distances take nine events.
    """
    mean = float(scale.mean[()])
    off = y - mean
    typical = max(float(scale.spread[()]), FLAT * abs(mean), 1e-12)
    if t < FIRST_LABELS or scale.spread[()] == 0.0 or abs(off) <= FAR * typical:
        scale.spread[()] += max(1.0 / (t + 1.0), 1e-3) * (abs(off) - scale.spread[()])
        return y
    scale.spread[()] = 1.5 * typical
    return said


def cut_first(labels: Vec) -> bool:
    """Bring those of the first labels (n,) that are farther than FAR_EARLY typical distances from
    their median there; return whether there were any.

    Typical is the median distance, and where most labels are one, the mean distance of all but the
    farthest: of nineteen zeros and one number nobody can say whether it is far.
    """
    centre = float(np.median(labels))
    off = labels - centre
    typical = float(np.median(abs(off))) or float(np.sort(abs(off))[:-1].mean())
    far = abs(off) > FAR_EARLY * typical
    if typical == 0.0 or not far.any():
        return False
    labels[far] = centre
    return True


def offset(labels: Vec) -> float:
    """Return the mean of the first labels (n,) where it is so far from 0 for their spread that a
    model had to learn it as one learns a rule; else 0.

    Its filters and what is typical begin at 0: prices of a million, give or take three, would be
    off by hundreds for a thousand events. Labels that are all one but for rounding have no spread
    yet; put about 0 they would teach that none is ever off.
    """
    mean = float(labels.mean())
    typical = float(abs(labels - mean).mean())
    return mean if FLAT * abs(mean) < typical < abs(mean) / OFFSET else 0.0
