"""Notice partitions that are not read though they have unread records, or that have no leader."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

NOTICE_SECONDS = 3.0  # of no progress, before it is one
STUCK_SECONDS = 60.0  # after which the client is given up: a new one reads
NO_LEADER = -1


class Position(NamedTuple):
    """How far one partition is read, by the client's statistics."""

    offset: int  # the next one that is taken
    fetched: int  # the next one that the client asks for
    queued: int  # records that the client holds
    leader: int


class Problem(NamedTuple):
    """Why a partition is not read, and for how long."""

    reason: str = ""
    seconds: float = 0.0


class FetchWatch:
    """Follow the positions of one topic's partitions; one thread calls, about once a second."""

    def __init__(self, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = topic
        self._clock = clock
        self._since: dict[int, tuple[float, tuple[str, Position]]] = {}
        self._updated_at = clock()
        self.problem = Problem()
        self.stuck = Problem()  # where a new client may help

    def update(self, positions: Mapping[int, Position], ends: Mapping[int, int]) -> None:
        """Take the positions of the partitions that should be read, and the broker's ends."""
        now = self._clock()
        if now - self._updated_at > NOTICE_SECONDS:
            self._since.clear()  # nobody read meanwhile
        self._updated_at = now
        before, self._since = self._since, {}
        found: list[tuple[float, str, bool]] = []
        for partition, position in positions.items():
            reason = self._reason(partition, position, ends.get(partition, 0))
            if not reason:
                continue
            state = reason, position
            known = before.get(partition)
            since = known[0] if known and known[1] == state else now
            self._since[partition] = since, state
            found.append((now - since, reason, position.leader != NO_LEADER))
        self.problem = _longest(found)
        self.stuck = _longest([each for each in found if each[2]])

    def _reason(self, partition: int, position: Position, end: int) -> str:
        name = f"{self._topic}[{partition}]"
        if position.leader == NO_LEADER:
            return f"{name} has no leader"
        # With an empty queue the client is past transaction markers, which are no records.
        if position.queued == 0 and end > max(position.offset, position.fetched):
            return f"the client does not read the unread records of {name}"
        return ""


def _longest(found: list[tuple[float, str, bool]]) -> Problem:
    seconds, reason, _ = max(found, default=(0.0, "", False))
    return Problem(reason, seconds) if seconds >= NOTICE_SECONDS else Problem()
