"""The watermark: how far the time of events has come, on two topics together."""

import math

NOWHERE = -math.inf


class Watermark:
    """Follow the latest event times of features and labels.

    The watermark is the later of both times where both topics are read to their ends. A topic with
    unread records holds it back: features do not expire while their label may be among them, nor
    labels while their features may be. It never goes back, and no clock moves it.
    """

    def __init__(
        self, features: float = NOWHERE, labels: float = NOWHERE, time: float = NOWHERE
    ) -> None:
        self.features = features  # latest event times so far, seconds since 1970
        self.labels = labels
        self.time = time
        self._read_to_end = {"features": False, "labels": False}

    def see(self, topic: str, time: float, record_time: float) -> None:
        """Note an event time; one after its record was written is the record's time."""
        latest = max(getattr(self, topic), min(time, record_time))
        setattr(self, topic, latest)

    def read(self, topic: str, *, to_end: bool) -> None:
        """Note whether all records of a topic are read, and move the watermark."""
        self._read_to_end[topic] = to_end
        behind = [getattr(self, name) for name, at_end in self._read_to_end.items() if not at_end]
        now = min(behind) if behind else max(self.features, self.labels)
        self.time = max(self.time, now)

    @property
    def labels_are_behind(self) -> bool:
        """Whether labels should be read next: their time is behind that of the features."""
        return self.labels < self.features
