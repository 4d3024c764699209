"""Outliers among numeric labels: one of them could spoil a model."""

from __future__ import annotations

import numpy as np

from kaboost.models.types import Vec

FIRST_LABELS = 20  # checked together; before them no label is an outlier
OUTLIER_SPREADS = 30.0  # mean absolute deviations: far beyond any Gaussian label
FIRST_OUTLIER_SPREADS = 100.0  # the same from the median of the first labels


def replace_outliers(labels: Vec) -> bool:
    """Replace outliers among the first labels (n,) by their median, in place; return whether there
    were any.

    An outlier is farther from the median than FIRST_OUTLIER_SPREADS typical distances. The typical
    distance is the median one, or, where that is 0, the mean of all but the largest. Where that is
    0 as well, as for nineteen zeros and one number, there is no outlier.
    """
    centre = float(np.sort(labels)[len(labels) // 2])  # always one of the labels
    off = labels - centre
    distances = np.sort(abs(off))
    typical = float(distances[(len(labels) - 1) // 2]) or float(distances[:-1].mean())
    far = abs(off) > FIRST_OUTLIER_SPREADS * typical
    if typical == 0.0 or not far.any():
        return False
    labels[far] = centre
    return True
