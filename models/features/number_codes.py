"""Numbers that measure nothing: those that name things, and one that stands for a missing value."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from kaboost.models.types import Vec

MIN_CODES = 100  # numbers that are looked at, at least
LEAST_NAME = 1e6  # smallest whole number that may name a thing: trees tell smaller ones apart
LEAST_IDENTIFIER = 1e8  # the same, where few numbers come twice
ROUND_AMOUNT = 100  # greatest common divisor from which on whole numbers are amounts
RISES = (0.25, 0.75)  # part of steps that rise, of numbers in no order: times rise more often
MISSING_CODES = (
    -1.0, -9.0, -99.0, -100.0, -200.0, -999.0, -9999.0, -99999.0, -32768.0, 999.0, 9999.0, 99999.0,
    999999.0,
)  # fmt: skip
MIN_REPEATS, MIN_SHARE = 5, 0.02  # of a number that stands for a missing value
GAP = 10.0  # mean steps between the other numbers, from them to it


def are_names(values: Vec) -> Literal["category", "unsure", ""]:
    """Return whether numbers (n,), in the order they came, name things rather than measure.

    They do if they are large whole numbers, in no order, and come more than once; "unsure" where
    most come once. Dates as 20261120, round amounts and times are none.

    Examples
    --------
    >>> are_names(1e9 + np.array([3.0, 1.0, 4.0, 1.0, 5.0, 3.0, 4.0, 5.0, 1.0, 3.0]))
    'category'
    """
    if not (values == np.floor(values)).all() or np.abs(values).min(initial=math.inf) < LEAST_NAME:
        return ""
    distinct = np.unique(values)
    if len(distinct) < 2 or len(distinct) > len(values) or _are_dates(distinct):
        return ""
    steps = np.diff(values)
    rises = float((steps[steps != 0.0] > 0.0).mean())
    divisor = math.gcd(*map(int, distinct))
    if not RISES[0] <= rises <= RISES[1] or divisor >= ROUND_AMOUNT:
        return ""
    if 2 * len(distinct) <= len(values):
        return "category"
    return "unsure" if np.abs(values).min() >= LEAST_IDENTIFIER else ""


def missing_code(values: Vec) -> float:
    """Return the number among values (n,) that stands for a missing one; NaN if none does.

    It is a usual code such as -999, comes often, and is far outside of all others.

    Examples
    --------
    >>> missing_code(np.array([*range(50), *[-999.0] * 6]))
    -999.0
    """
    for code in MISSING_CODES:
        is_code = values == code
        repeats = int(is_code.sum())
        if repeats < max(MIN_REPEATS, MIN_SHARE * len(values)):
            continue
        others = np.unique(values[~is_code])
        if len(others) < 2:
            continue
        step = (others[-1] - others[0]) / (len(others) - 1)
        gap = max(others[0] - code, code - others[-1])
        if gap > GAP * step and gap > 2.0:
            return code
    return math.nan


def _are_dates(distinct: Vec) -> bool:
    """Return whether all numbers are dates such as 20261120."""
    years, rest = np.divmod(distinct, 10_000.0)
    months, days = np.divmod(rest, 100.0)
    plausible = (years >= 1900) & (years < 2200) & (months >= 1) & (months <= 12)
    return bool((plausible & (days >= 1) & (days <= 31)).all())
