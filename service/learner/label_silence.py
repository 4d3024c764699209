"""Whether labels that come on a topic of their own have stopped while events keep coming."""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kaboost.service.learner.wall_clock import minutes_of

GAPS = 50  # between labels that say what is usual; more while they matter
KNOWN_GAPS = 10  # from which on it is known what is usual: of fewer the longest says little
MEMORY = 3.0  # lengths of a gap for which it counts, whatever comes after it: a pause of a day
# is not forgotten over a burst of labels
APART_EVENTS, APART_SECONDS = 100, 1.0  # between two arrivals: nearer labels are one
LEAST_EVENTS, LEAST_SECONDS = 100, 5.0  # without a label: fewer say nothing
PAUSE_SECONDS = 2.0  # that count at most between two batches of events
RECENT_SECONDS = 10.0  # since the last event: events keep coming
TIMES_USUAL = 4.0  # the longest of these gaps


class _Count(NamedTuple):
    """Of what has come: events, and the seconds in which they came."""

    events: int = 0
    seconds: float = 0.0

    def since(self, other: "_Count") -> "_Count":
        return _Count(self.events - other.events, self.seconds - other.seconds)

    def or_more(self, other: "_Count") -> "_Count":
        return _Count(max(self.events, other.events), max(self.seconds, other.seconds))


class _Gap(NamedTuple):
    """The longest one between two labels, until an arrival of them."""

    size: _Count
    ended: float  # as of `_Count.seconds`


class LabelSilence:
    """Count what has come since the last label; one thread calls.

    Seconds count only while events come, at most PAUSE_SECONDS for each batch of them. So the
    clock stands in a quiet night, while learning is paused or stalled, and while kernels compile.
    """

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._gaps: list[_Gap] = []
        self._first: list[_Gap] = []  # that before the first label: a start is often in a pause
        self._count = self._at_label = self._at_arrival = _Count()
        self._longest = _Count()  # without a label, since the last arrival
        self._event_at: float | None = None
        self._since = wall()
        self._has_label = False

    def note(self, events: int, labels: int) -> None:
        """Count the records of a batch."""
        if events:
            now = self._clock()
            passed = now - self._event_at if self._event_at is not None else 0.0
            seconds = self._count.seconds + min(passed, PAUSE_SECONDS)
            self._count = _Count(self._count.events + events, seconds)
            self._event_at = now
        if labels:
            self._note_gap()
            self._at_label, self._has_label, self._since = self._count, True, self._wall()

    def _note_gap(self) -> None:
        """Count the gap before a label. Labels of a burst are one arrival: gaps within it say
        nothing of the next one.
        """
        self._longest = self._longest.or_more(self._count.since(self._at_label))
        size, now = self._count.since(self._at_arrival), self._count.seconds
        is_near = size.events < APART_EVENTS or size.seconds < APART_SECONDS
        if is_near and self._has_label:
            return
        gap, self._longest, self._at_arrival = _Gap(self._longest, now), _Count(), self._count
        if not self._has_label:
            self._first = [gap]
            return
        older, last = self._gaps[: 1 - GAPS], self._gaps[1 - GAPS :]
        self._gaps = [*_remembered(older, now), *last, gap]
        self._first = _remembered(self._first, now)

    def describe(self, waiting: int) -> dict[str, Any] | None:
        """Return the state and the words for it, None while labels or no events come.

        The state is `stopped`; `late`, where only one gap was as long; `none yet`; or `awaited`: it
        is no longer than usual, or it is not known what is usual. `stopped` begins while events
        come, and lasts until a label comes.
        """
        events = self._count.since(self._at_label).events
        if not events:
            return None
        since = minutes_of(self._since)
        begin = f"no label since {since}" if self._has_label else f"no label yet, since {since}"
        text = f"{begin}, while {events:,} events have come; {waiting:,} wait for their label"
        if not self._has_label and self._is_long(self._all_gaps):
            return {"state": "none yet", "text": text}
        if len(self._gaps) >= KNOWN_GAPS:
            if self._is_long(self._all_gaps):
                return {"state": "stopped", "text": text}
            if self._is_long(sorted(self._all_gaps)[:-1]):
                return {"state": "late", "text": f"{text}; only once it took as long"}
        assert self._event_at is not None
        keeps_coming = self._clock() - self._event_at < RECENT_SECONDS
        return {"state": "awaited", "text": text} if keeps_coming else None

    @property
    def _all_gaps(self) -> list[_Gap]:
        return [*self._first, *self._gaps]

    def _is_long(self, gaps: Iterable[_Gap]) -> bool:
        """Whether more has come without a label than these gaps make usual."""
        sizes = [gap.size for gap in gaps]
        events = max((size.events for size in sizes), default=0)
        seconds = max((size.seconds for size in sizes), default=0.0)
        silence = self._count.since(self._at_label)
        return silence.events >= max(LEAST_EVENTS, TIMES_USUAL * events) and (
            silence.seconds >= max(LEAST_SECONDS, TIMES_USUAL * seconds)
        )


def _remembered(gaps: Iterable[_Gap], now: float) -> list[_Gap]:
    return [gap for gap in gaps if now - gap.ended < MEMORY * gap.size.seconds]
