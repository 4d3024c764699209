"""How often each caller may ask: a token bucket of one second's worth."""

import time
from collections.abc import Callable, Hashable

MOST_CALLERS = 10_000  # of which a bucket is kept


class RateLimit:
    """Count the requests of each caller.

    Parameters
    ----------
    per_second
        Requests of one caller; as many may come at once.
    clock
        Seconds of a monotonic clock.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second)
        self._clock = clock
        self._buckets: dict[Hashable, tuple[float, float]] = {}  # what is left, and when

    def wait_of(self, name: Hashable) -> float:
        """Take one request of whoever has a name: 0, or the seconds until the next one may come."""
        now = self._clock()
        left, before = self._buckets.get(name, (self._most, now))
        left = min(self._most, left + (now - before) * self._per_second)
        if left < 1.0:
            self._buckets[name] = (left, now)
            return (1.0 - left) / self._per_second
        if len(self._buckets) >= MOST_CALLERS and name not in self._buckets:
            self._buckets.clear()  # subjects of tokens may be many: all start with a full bucket
        self._buckets[name] = (left - 1.0, now)
        return 0.0
