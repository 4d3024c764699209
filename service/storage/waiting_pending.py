"""Changes of a waiting store that are in memory until there are many, or until the commit.

Ids are random, so 100,000 changes one by one would read and write nearly as many pages of the
index. In one go, in its order, each page is written once.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kaboost.service.storage.waiting_database import Database

MOST = 100_000  # changes of one kind in memory, about 20 MB


class Mark(NamedTuple):
    """A state that the table `queue` does not have yet."""

    time: float
    stored: int  # `done` in the table
    state: int
    label: float | None
    weight: float | None  # what the label counts


class Pending:
    """Ids to add and to remove, and states to set; searches must look here too."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.clear()

    def clear(self) -> None:
        """Drop everything, as the open transaction is dropped."""
        self._ids: dict[int, list[int]] = {}  # by hash, numbers that the table lacks
        self.forgotten: dict[int, int] = {}  # hashes by number, to be removed
        self.marks: dict[int, Mark] = {}  # by number

    def add_ids(self, hashes: Iterable[int], first: int) -> None:
        """Add the ids of consecutive entries."""
        for number, key in enumerate(hashes, first):
            self._ids.setdefault(key, []).append(number)

    def numbers(self, hashes: Iterable[int]) -> list[int]:
        """Return the numbers of ids that are only here."""
        ids = self._ids
        return [number for key in hashes if key in ids for number in ids[key]]

    def forget(self, hashes: Sequence[int], numbers: Sequence[int]) -> None:
        """Remove ids of entries that the table has."""
        self.forgotten.update(zip(numbers, hashes, strict=True))

    def flush_much(self) -> None:
        """Write what has become much."""
        if len(self._ids) > MOST:
            self._flush_ids()
        if len(self.forgotten) > MOST:
            self._flush_forgotten()
        if len(self.marks) > MOST:
            self.flush_marks()

    def flush_found(self) -> None:
        """Write what a removal looks for: ids and states."""
        self._flush_ids()
        self.flush_marks()

    def flush(self) -> None:
        """Write everything."""
        self.flush_found()
        self._flush_forgotten()

    def _flush_ids(self) -> None:
        rows = [(key, number) for key, numbers in self._ids.items() for number in numbers]
        self._database.execute_many("INSERT INTO ids VALUES (?, ?)", sorted(rows))
        self._ids = {}

    def _flush_forgotten(self) -> None:
        rows = sorted((key, number) for number, key in self.forgotten.items())
        self._database.execute_many("DELETE FROM ids WHERE hash = ? AND number = ?", rows)
        self.forgotten = {}

    def flush_marks(self) -> None:
        """Write the states."""
        marks = self.marks.items()
        old = sorted((mark.stored, mark.time, number) for number, mark in marks)
        new = sorted(
            (int(mark.state > 0), mark.time, number, mark.state, mark.label, mark.weight)
            for number, mark in marks
        )
        execute = self._database.execute_many
        removed = execute("DELETE FROM queue WHERE done = ? AND time = ? AND number = ?", old)
        assert removed == len(old) or not old, "an entry that is not there was marked"
        execute("INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?)", new)
        self.marks = {}
