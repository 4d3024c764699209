"""Whether labels that come on a topic of their own have stopped while events keep coming."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kaboost.service.learner.wall_clock import minutes_of

GAPS = 50  # between labels that say what is usual
LEAST_EVENTS, LEAST_SECONDS = 100, 5.0  # without a label: fewer say nothing
RECENT_SECONDS = 10.0  # since the last event: events keep coming
TIMES_USUAL = 3.0  # the longest of these gaps


class _Gap(NamedTuple):
    """Between two labels."""

    events: int
    seconds: float


class LabelSilence:
    """Count what has come since the last label; one thread calls."""

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._gaps: deque[_Gap] = deque(maxlen=GAPS)
        self._events = 0  # since the last label
        self._event_at = clock()
        self._began, self._since = clock(), wall()
        self._has_label = False

    def note(self, events: int, labels: int) -> None:
        """Count the records of a batch."""
        if events:
            self._event_at = self._clock()
        if not labels:
            self._events += events
            return
        now = self._clock()
        if self._has_label:
            self._gaps.append(_Gap(self._events, now - self._began))
        self._has_label, self._events = True, 0
        self._began, self._since = now, self._wall()

    def describe(self, waiting: int) -> dict[str, Any] | None:
        """Return the state and the words for it, None while labels or no events come.

        The state is `stopped`, `none yet` (nothing is known of what is usual), or `awaited`: it is
        no longer than usual.
        """
        if not self._events:
            return None
        since = minutes_of(self._since)
        begin = f"no label since {since}" if self._has_label else f"no label yet, since {since}"
        text = f"{begin}, while {self._events:,} events have come; {waiting:,} wait for their label"
        if self._is_long:
            is_known = self._has_label and bool(self._gaps)
            return {"state": "stopped" if is_known else "none yet", "text": text}
        keeps_coming = self._clock() - self._event_at < RECENT_SECONDS
        return {"state": "awaited", "text": text} if keeps_coming else None

    @property
    def _is_long(self) -> bool:
        """Whether more has come without a label than is usual."""
        events = max((gap.events for gap in self._gaps), default=0)
        seconds = max((gap.seconds for gap in self._gaps), default=0.0)
        return self._events >= max(
            LEAST_EVENTS, TIMES_USUAL * events
        ) and self._clock() - self._began >= max(LEAST_SECONDS, TIMES_USUAL * seconds)
