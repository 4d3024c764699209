"""Numeric labels so far from all others that one of them would spoil a model."""

from __future__ import annotations

import numpy as np

from kaboost.models.types import Vec

FIRST_LABELS = 20  # checked together; no label is an outlier before there are so many
OUTLIER_SPREADS = 30.0  # mean absolute deviations: no Gaussian label of 10^100 is as far
FIRST_OUTLIER_SPREADS = 100.0  # the same from the median of the first labels


def replace_outliers(labels: Vec) -> bool:
    """Replace outliers among the first labels (n,) by their median, in place; return whether there
    were any: those farther than FIRST_OUTLIER_SPREADS typical distances from it.

    Typical is the median distance, and where most labels are one, the mean distance of all but the
    farthest: of nineteen zeros and one number nobody can say whether it is far.
    """
    centre = float(np.sort(labels)[len(labels) // 2])  # one of them, if half are elsewhere
    off = labels - centre
    distances = np.sort(abs(off))
    typical = float(distances[(len(labels) - 1) // 2]) or float(distances[:-1].mean())
    far = abs(off) > FIRST_OUTLIER_SPREADS * typical
    if typical == 0.0 or not far.any():
        return False
    labels[far] = centre
    return True
