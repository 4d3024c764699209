"""Which features are broken: values that are missing, another unit, values that were never seen.

A drift of the stream is none: values have to jump, from one window of sampled events to the next.
What is shown stays until the feature is clearly as before, so that it does not come and go.
"""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kaboost.service.learner.feature_watch import (
    REFERENCE_SECONDS,
    Difference,
    FeatureWatch,
    Jump,
)
from kaboost.service.learner.wall_clock import minutes_of

MISSING = (0.2, 0.1)  # more than before: it begins above the first, and ends below the second
TIMES = (5.0, 2.5)  # the median, or one part in so many of it
UNSEEN = (0.5, 0.25)  # share of the values
SHIFTED = (0.6, 0.3)  # distance from the earlier values, of another unit
RENEWED_SECONDS = 43_200.0  # since a fault: new values that are replaced again are none
SHOWN = 20  # at most, the first ones
VERY_LARGE = 100.0  # from which on a factor is rounded


class _Fault(NamedTuple):
    """What is wrong with a feature, and since when."""

    kind: str
    since: float


class BrokenFeatures:
    """The faults of the features of one learner; one thread calls."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._faults: dict[str, _Fault] = {}
        self._renewed: set[str] = set()  # features whose values are replaced now and then

    def update(self, watch: FeatureWatch, found: Mapping[str, Difference]) -> None:
        """Compare the features again. Those that are broken do not become the usual for a day."""
        for name, difference in found.items():
            before = self._faults.get(name)
            jump = partial(watch.jump, name)
            if before and self._is_renewed(before, difference, jump):
                self._renewed.add(name)
            kind = _kind(difference, before.kind if before else "", jump)
            if not kind or (kind == "unseen" and name in self._renewed):
                self._faults.pop(name, None)
            elif before is None or kind != before.kind:
                self._faults[name] = _Fault(kind, before.since if before else self._wall())
        self._renewed &= found.keys()
        for name in self._faults.keys() - found.keys():
            del self._faults[name]
        begin = self._wall() - REFERENCE_SECONDS
        watch.held = {name for name, fault in self._faults.items() if fault.since > begin}

    def _is_renewed(self, fault: _Fault, now: Difference, jump: Callable[[], Jump | None]) -> bool:
        """Whether the new values of a fault were replaced by newer ones, as a date or a build is:
        that is the usual of such a feature.
        """
        if fault.kind != "unseen" or self._wall() - fault.since < RENEWED_SECONDS:
            return False
        found = jump() if _has_new_values(now, False) else None
        return found is not None and _has_new_values(found.recent, False)

    def report(self, found: Mapping[str, Difference]) -> list[dict[str, Any]]:
        """Describe the faults, the oldest first."""
        ordered = sorted(self._faults, key=lambda name: self._faults[name].since)
        return [
            {"name": name, "text": _words(name, self._faults[name], found[name])}
            for name in ordered[:SHOWN]
        ]


def _kind(now: Difference, before: str, jump: Callable[[], Jump | None]) -> str:
    """Return what is wrong with a feature, "" if nothing is."""
    if now.missing - now.missing_before > MISSING[before == "missing"]:
        return "missing"
    for kind, differs in DIFFERS.items():
        if not differs(now, before == kind):
            continue
        if before in DIFFERS or _has_jumped(kind, jump()):
            return kind
    return ""


def _has_jumped(kind: str, found: Jump | None) -> bool:
    """Whether a fault of the values begins.

    New values are none where those right before were new as well, as with an identifier of a batch;
    nor where there was one value, such as a version: the model has learned nothing from it.
    """
    if found is None or not DIFFERS[kind](found.recent, False):
        return False
    were_new = any(_has_new_values(each, False) for each in found.before)
    return kind != "unseen" or not (found.was_constant or were_new)


def _has_other_unit(now: Difference, lasts: bool) -> bool:
    times = max(now.times, 1.0 / now.times) if now.times > 0.0 else math.nan
    return times > TIMES[lasts] and now.shift > SHIFTED[lasts]


def _has_new_values(now: Difference, lasts: bool) -> bool:
    return now.unseen > UNSEEN[lasts]


# By kind: whether values differ from earlier ones, and, at the beginning, from those right before.
DIFFERS: dict[str, Callable[[Difference, bool], bool]] = {
    "unit": _has_other_unit,
    "unseen": _has_new_values,
}


def _words(name: str, fault: _Fault, now: Difference) -> str:
    since = f"since {minutes_of(fault.since)}"
    if fault.kind == "missing":
        usual = f"usually {100 * now.missing_before:.0f} %"
        return f"feature {name} is missing in {100 * now.missing:.0f} % of events {since}; {usual}"
    if fault.kind == "unit":
        return (
            f"feature {name} is about {_factor(now.times)} what it was {since}, "
            "as with another unit"
        )
    return f"{100 * now.unseen:.0f} % of the values of feature {name} are new {since}"


def _factor(times: float) -> str:
    """Word how many times a value is another.

    Examples
    --------
    >>> [_factor(times) for times in (0.0101, 6.3, 98.7, 1032.0)]
    ['1/99 of', '6 times', '99 times', '1,000 times']
    """
    large = times if times >= 1.0 else 1.0 / times
    shown = f"{float(f'{large:.2g}'):,.0f}" if large >= VERY_LARGE else f"{large:.0f}"
    return f"{shown} times" if times >= 1.0 else f"1/{shown} of"
