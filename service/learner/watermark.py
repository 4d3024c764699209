"""The watermark: how far the time of events has come, on two topics together."""

import math
from collections.abc import Collection
from typing import Literal

from kaboost.service.kafka.ends import Ends

NOWHERE = -math.inf
Topic = Literal["features", "labels"]


class Watermark:
    """Follow the event times of features and labels, by partition.

    A partition with unread records holds the watermark back at its own latest time: features do
    not expire while their label may be among them, nor labels while their features may be. Where
    partitions are read to their ends, the watermark is the latest time that was known when the
    broker was last asked, and said, that they are. It never goes back, and no clock moves it.
    """

    def __init__(
        self, features: float = NOWHERE, labels: float = NOWHERE, time: float = NOWHERE
    ) -> None:
        self._latest = {"features": features, "labels": labels}  # seconds since 1970
        self.time = time
        self._times: dict[Topic, dict[int, float]] = {"features": {}, "labels": {}}
        self._unread: dict[Topic, Collection[int]] = {"features": (), "labels": ()}
        self._asked = 0  # the last question about ends
        self._latest_when_asked = self._confirmed = NOWHERE

    @property
    def features(self) -> float:
        """The latest event time of features so far, seconds since 1970."""
        return self._latest["features"]

    @property
    def labels(self) -> float:
        """The latest event time of labels so far, seconds since 1970."""
        return self._latest["labels"]

    def see(self, topic: Topic, partition: int, time: float, record_time: float) -> None:
        """Note an event time; one after its record was written is the record's time."""
        time = min(time, record_time)
        times = self._times[topic]
        times[partition] = max(times.get(partition, NOWHERE), time)
        self._latest[topic] = max(self._latest[topic], time)

    def latest(self, topic: Topic, partition: int, record_time: float) -> float:
        """Return the time that counts for a record that lacks its own: the latest so far of its
        partition, or else of its topic; the record's time before any. It moves nothing.
        """
        for time in (self.reached(topic, partition), self._latest[topic]):
            if time > NOWHERE:
                return min(time, record_time)
        return record_time

    def read(self, ends: Ends) -> None:
        """Move the watermark by what is known of the partitions' ends."""
        if ends.confirmed == ends.asked == self._asked:
            self._confirmed = self._latest_when_asked
        if ends.asked != self._asked:
            self._asked = ends.asked
            self._latest_when_asked = max(self._latest.values())
        self._unread = {"features": ends.unread_events, "labels": ends.unread_labels}
        reached = min(self._reached("features"), self._reached("labels"))
        if ends.any_read:
            reached = min(reached, self._confirmed)
        self.time = max(self.time, reached)

    def reached(self, topic: Topic, partition: int) -> float:
        """Return the latest event time of a partition, seconds since 1970."""
        return self._times[topic].get(partition, NOWHERE)

    def _reached(self, topic: Topic) -> float:
        """Return the time up to which a topic is read; infinity where it is read to its end."""
        return min((self.reached(topic, p) for p in self._unread[topic]), default=math.inf)
