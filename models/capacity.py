"""Capacity: how many columns of features a model can hold within the memory of its bank."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate, islice
from typing import Any

from kaboost.models.build import check
from kaboost.models.features.columns import WIDTHS, reserved_width
from kaboost.models.types import ModelError


def fits_memory(spec: Mapping[str, Any], width: int, m: int) -> bool:
    """Return whether a model of m outputs can be built with so many columns."""
    try:
        check(spec, width, m)
    except ModelError:
        return False
    return True


def reserve_width(spec: Mapping[str, Any], columns: int, m: int) -> int:
    """Return how many columns to allocate for `columns`: more, as far as memory allows.

    Raises
    ------
    ModelError
        When memory does not suffice for `columns`, or the model cannot be built at all.
    """
    width = reserved_width(columns)
    if fits_memory(spec, width, m):
        return width
    check(spec, columns or width, m)
    widths = range(columns, width)  # the widest that fits: every widening takes about 0.1 s
    return widths[bisect_left(widths, True, key=lambda n: not fits_memory(spec, n, m)) - 1]


def affordable_features(
    spec: Mapping[str, Any], m: int, used: int, allocated: int, new: Mapping[str, str]
) -> dict[str, str]:
    """Return the first new features that memory suffices for.

    A feature is added while one more feature of the widest inferred kind would still fit, so the
    result depends on the features before it, and not on how they were batched.

    Parameters
    ----------
    spec, m
        The filled-in specification and the number of outputs.
    used, allocated
        Columns that features use now, and columns of the booster.
    new
        New features and their kinds.
    """
    after = accumulate((WIDTHS[kind] for kind in new.values()), initial=used)
    needed = [width + WIDTHS["category"] for width in after][: len(new)]
    full = bisect_left(
        needed, True, key=lambda width: width > allocated and not fits_memory(spec, width, m)
    )
    return dict(islice(new.items(), full))
