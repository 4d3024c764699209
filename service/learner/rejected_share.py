"""Whether so many records are rejected that somebody should look, and how bad it is."""

from typing import Any

from kaboost.service.learner.progress import RecentRecords

LEAST_RECORDS = 20  # rejected, among the last 1,000
FIRST_RECORDS = 10  # rejected, of fewer than twice as many
SOME = (0.01, 0.005)  # share from which it is a warning, and below which no longer
HALF = (0.5, 0.4)  # the same for bad


class RejectedShare:
    """Judge the last records of one topic; it does not come and go at a limit."""

    def __init__(self) -> None:
        self._level = ""

    def report(self, recent: RecentRecords) -> dict[str, Any] | None:
        """Return the level, share and words, without values of records; None for few rejected."""
        ratio, begins = recent.ratio, not self._level
        least = FIRST_RECORDS if ratio >= HALF[0] else LEAST_RECORDS
        if ratio <= SOME[not begins] or (begins and recent.rejected < least):
            self._level = ""
        elif ratio >= HALF[self._level == "bad"]:
            self._level = "bad"
        else:
            self._level = "warning"
        if not self._level:
            return None
        words = recent.describe(with_example=False)
        return {
            "level": self._level,
            "share": round(ratio, 4),
            "text": f"{100 * ratio:.0f} %: {words}",
        }
