"""Which names that nobody declared become features: limits an event and an hour, and a trial.

Producers sometimes put data into names, such as `user_4711`. Each name would be a feature for good,
so only some are taken up at once. The others are counted, and those that come often enough are
taken up as well; those that do not are forgotten again.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

PROVEN_EVENTS = 20  # with a name on trial, after which it is taken up
NAMES_REMEDY = (
    "do not put data into names; declare what matters in features.schema, or raise "
    "features.max_new_per_event and features.max_new_per_hour"
)
TRIAL_REMEDY = (
    "correct those that are misspelt; the others become features once they have come in "
    f"{PROVEN_EVENTS} events, or declare them in features.schema"
)
MAX_CANDIDATES = 1_000  # names on trial
HOUR_MS = 3_600_000


class Known(NamedTuple):
    """The features of a schema."""

    features: int
    unproven: int  # of which few values have come: their inferred kinds are open


class NewNames:
    """Decide for one stream, by its own times; what is decided depends on the records alone."""

    def __init__(
        self, per_event: int, per_hour: int, state: Mapping[str, Any] | None = None
    ) -> None:
        self._per_event = per_event
        self._per_hour = per_hour
        kept = state or {}
        self.hour: int = kept.get("hour", 0)  # since 1970, the latest of any record
        self._taken: int = kept.get("taken", 0)  # at once, in this hour
        # How many more may be: set by a new hour and by every name, not by each event, of which a
        # decoder knows only once they are learned.
        self._allowance: int = kept.get("allowance", per_event)
        self.candidates: dict[str, int] = dict(kept.get("candidates", {}))  # name → events
        self._values: dict[str, list[int]] = dict(kept.get("values", {}))  # at an hour, by feature
        self._rest_waits = False  # the other names of the event that is decoded again

    def state(self) -> dict[str, Any]:
        """Return what the checkpoint needs."""
        counts = {"hour": self.hour, "taken": self._taken, "allowance": self._allowance}
        return {**counts, "candidates": self.candidates, "values": self._values}

    @property
    def is_closed(self) -> bool:
        """Whether no name is taken up at once until the next hour."""
        return self._allowance <= 0

    def begin(self, hour: int, known: Known) -> None:
        """Note the hour of a record, before which the known features are those of the model."""
        if hour > self.hour:
            self.hour, self._taken = hour, 0
            self._allowance = self._count_allowance(known)

    def on_trial(self, *, again: bool) -> bool:
        """Whether new names of an event are counted, not taken up at once.

        `again` stands for the event that was decoded before: the rest of too many names waits.
        """
        return self.is_closed or (again and self._rest_waits)

    def end_event(self) -> None:
        """Forget which event had too many names."""
        self._rest_waits = False

    def count(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Count an event with names on trial; return those that have come often enough."""
        for name in kinds:
            if name not in self.candidates and len(self.candidates) >= MAX_CANDIDATES:
                self._forget_rare()
            if name in self.candidates or len(self.candidates) < MAX_CANDIDATES:
                self.candidates[name] = self.candidates.get(name, 0) + 1
        return {n: kind for n, kind in kinds.items() if self.candidates.get(n, 0) >= PROVEN_EVENTS}

    def admit(self, kinds: Mapping[str, str], hour: int, known: Known) -> dict[str, str]:
        """Return which new names become features now; the others of the event are on trial.

        The first event with features brings as many as one event may.
        """
        self.begin(hour, known)
        limit = min(
            self._per_event, self._count_allowance(known) if known.features else self._per_event
        )
        admitted: dict[str, str] = {}
        at_once = 0
        for name, kind in kinds.items():
            proven = self.candidates.get(name, 0) >= PROVEN_EVENTS
            if proven or at_once < limit:
                admitted[name] = kind
                at_once += not proven
                self.candidates.pop(name, None)
        self._taken += at_once if known.features else 0
        features = Known(known.features + len(admitted), known.unproven + len(admitted))
        self._allowance = self._count_allowance(features)
        self._rest_waits = len(admitted) < len(kinds)
        return admitted

    def without_values(self, values: Mapping[str, int]) -> set[str]:
        """Return the features that have had as many values at an attempt in an earlier hour as now,
        and note the others. `values` has those that have had few.
        """
        for name, count in values.items():
            if self._values.get(name, [-1])[0] != count:
                self._values[name] = [count, self.hour]
        self._values = {name: noted for name, noted in self._values.items() if name in values}
        return {name for name, (_, hour) in self._values.items() if hour < self.hour}

    def refuse(self) -> None:
        """Note that there is no room for the other names of this event: new ones are on trial until
        the next hour.
        """
        self._taken, self._allowance, self._rest_waits = self._per_hour, 0, True

    def _count_allowance(self, known: Known) -> int:
        """Return how many names may be taken up at once now.

        Features with few values are at most as many as an hour brings, or as the others are.
        """
        few = max(self._per_hour, known.features - known.unproven) - known.unproven
        return max(0, min(self._per_hour - self._taken, few))

    def _forget_rare(self) -> None:
        """Forget the names that came once since, so that frequent ones stay (Misra and Gries)."""
        self.candidates = {n: count - 1 for n, count in self.candidates.items() if count > 1}


def hours(times: Iterable[int]) -> list[int]:
    """Return the hours of milliseconds since 1970."""
    return [time // HOUR_MS for time in times]
