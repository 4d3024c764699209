"""Why events are not learned though the learner runs, such as a silent broker."""

import logging
import time
from collections.abc import Callable

from kaboost.service.metrics import LearnerMetrics

AFTER_SECONDS = 5.0  # a shorter one is no news: a large dead letter is on its way

log = logging.getLogger(__name__)


class Stalls:
    """Follow one reason after another; one thread calls."""

    def __init__(
        self, metrics: LearnerMetrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._reason = ""
        self._since = 0.0
        self._logged = False

    def note(self, reason: str, seconds: float = 0.0) -> None:
        """Note why nothing is learned now, and since how many seconds; "" if it is."""
        now = self._clock()
        if reason != self._reason:
            if self._logged:
                log.info("learning goes on", extra={"seconds": round(now - self._since)})
            self._reason, self._since, self._logged = reason, now - seconds, False
        if self.description and not self._logged:
            self._logged = True
            log.error("learning stalled", extra={"reason": reason})
        self._metrics.stalled_seconds.set(now - self._since if reason else 0.0)

    @property
    def description(self) -> str:
        """The reason and how long it has lasted, once that is AFTER_SECONDS; else empty."""
        seconds = self._clock() - self._since
        if not self._reason or seconds < AFTER_SECONDS:
            return ""
        return f"{self._reason} for {seconds:.0f} s"
