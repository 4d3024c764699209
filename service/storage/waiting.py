"""The store of features that wait for their labels, and of labels that wait for their features.

Work between two commits is one transaction. `begin` undoes what came after the commit that a
checkpoint names, so state, offsets and waiting features are of one moment (docs/adr/0023).
"""

import math
import struct
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from kaboost.service.errors import CheckpointError
from kaboost.service.storage import waiting_generations as generations
from kaboost.service.storage.early import EarlyLabel, EarlyLabels
from kaboost.service.storage.waiting_database import Database, decode_id, encode_id, id_hashes
from kaboost.service.storage.waiting_pending import Mark, Pending

WAITING, JOINED, EXPIRED, HELD = range(4)
FILE = "waiting.sqlite"
FORGOTTEN_ROWS = 20_000  # at most in one call
SKIPPED_ROWS = 10_000  # marked ones among those that wait in the table
COLUMNS = (
    "e.number, e.id, e.time, e.weight, e.row, e.checksum, coalesce(q.state, 0), q.label, q.weight"
)
STATE = "LEFT JOIN queue q ON q.done = 1 AND q.time = e.time AND q.number = e.number"
BY_NUMBER = f"SELECT {COLUMNS} FROM entry e {STATE} WHERE e.number IN ({{}})"
PACK = struct.Struct("<qdd").pack
State = tuple[float, int, float | None, float | None]  # time, state, label, its weight

__all__ = [
    "EXPIRED",
    "HELD",
    "JOINED",
    "WAITING",
    "EarlyLabel",
    "Entry",
    "NewEntry",
    "WaitingStore",
]


class NewEntry(NamedTuple):
    """Features of one event that begin to wait."""

    id: str
    time: float  # of the event, seconds since 1970
    weight: float
    row: bytes


class Entry(NamedTuple):
    """Features of one event."""

    number: int  # order of arrival
    id: str
    time: float  # of the event, seconds since 1970
    weight: float
    row: bytes
    state: int  # WAITING, JOINED, EXPIRED, or HELD: joined, but not learned yet
    label: float  # nan while it waits
    label_weight: float  # what the label counts; nan while it waits


class WaitingStore(EarlyLabels):
    """Features by id, on disk, with at most `max_memory` bytes of them in memory."""

    def __init__(self, directory: Path, max_memory: int) -> None:
        super().__init__(Database(directory / FILE, max_memory))
        self._pending = Pending(self._database)
        self._seen: dict[int, State] = {}  # the entries that were found last, by number
        self.held = 0  # entries whose label is known and not learned
        self._first_held = math.inf  # none of them has an earlier time

    def begin(self, generation: int) -> None:
        """Be exactly as at `commit(generation)`; generation 0 is empty and removes what is there.

        Raises CheckpointError if the file is missing, damaged, or does not reach back.
        """
        if generation == 0:
            self._counters = generations.start_empty(self._database)
        else:
            self._counters = generations.restore(self._database, generation)
        self._committed(generation)
        self._pending.clear()
        self._seen = {}
        with self._database.operation():
            sql = "SELECT count(*), min(time) FROM queue WHERE done = 1 AND state = ?"
            self.held, first = self._database.execute(sql, (HELD,)).fetchone()
        self._first_held = math.inf if first is None else first

    def commit(self, generation: int, keep_from: int) -> None:
        """Make everything durable as `generation`; those before `keep_from` are given up.

        After NotWritten because of too little space nothing has changed: try it again.
        """
        assert generation > self._generation, "generations grow"
        with self._database.operation():
            self._pending.flush()
            generations.prune(self._database, min(keep_from, generation))
            generations.record(self._database, generation, self._counters)
        self._committed(generation)

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        self._database.close()

    @property
    def waiting(self) -> int:
        """How many entries wait."""
        return self._counters.waiting

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return self._database.size

    def add(self, entries: Sequence[NewEntry]) -> list[int]:
        """Add entries; return the indices of those whose id is there already, which are not."""
        with self._database.operation():
            keys = [encode_id(entry.id) for entry in entries]
            hashes = id_hashes(keys)
            known = self._known(hashes)
            first = number = self._counters.number
            refused: list[int] = []
            added: list[tuple[Any, ...]] = []
            new_hashes: list[int] = []
            for i, (key, entry) in enumerate(zip(keys, entries, strict=True)):
                if key in known:
                    refused.append(i)
                    continue
                known.add(key)
                _, time, weight, row = entry
                time, weight = time + 0.0, weight + 0.0  # SQLite knows no negative zero
                digest = crc32(PACK(number, time, weight) + key + row)
                added.append((number, key, time, weight, row, digest))
                new_hashes.append(hashes[i])
                number += 1
            execute = self._database.execute_many
            execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", added)
            execute(
                "INSERT INTO queue VALUES (0, ?, ?, 0, NULL, NULL)",
                [(row[2], row[0]) for row in added],
            )
            self._pending.add_ids(new_hashes, first)
            self._counters.number = number
            self._counters.waiting += number - first
            self._pending.flush_much()
        return refused

    def _known(self, hashes: Sequence[int]) -> set[bytes]:
        """Return those of the ids that are there, and perhaps others."""
        return {row[1] for row in self._select("e.number, e.id", "", hashes)}

    def find(self, ids: Sequence[str]) -> list[Entry | None]:
        """Find entries by id, None for an id that is not there."""
        keys = [encode_id(each) for each in ids]
        with self._database.operation():
            rows = self._select(COLUMNS, STATE, id_hashes(keys))
        found = {row[1]: self._with_mark(row) for row in rows}
        self._seen = {row[0]: (row[2], *row[6:]) for row in found.values()}
        return [self._entry(found[key]) if key in found else None for key in keys]

    def _select(self, columns: str, join: str, hashes: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return columns of the entries with these hashes; the first column is the number."""
        forgotten, select = self._pending.forgotten, self._database.select_in
        by_hash = f"""SELECT {columns} FROM ids JOIN entry e ON e.number = ids.number {join}
            WHERE ids.hash IN ({{}})"""
        by_number = f"SELECT {columns} FROM entry e {join} WHERE e.number IN ({{}})"
        rows = [row for row in select(by_hash, hashes) if row[0] not in forgotten]
        return rows + list(select(by_number, self._pending.numbers(hashes)))

    def _with_mark(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row of an entry with the state that the table may lack."""
        mark = self._pending.marks.get(row[0])
        return row if mark is None else (*row[:6], mark.state, mark.label, mark.weight)

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        """Check a row and make it an entry."""
        number, key, time, weight, data, digest, state, *label = row
        if crc32(PACK(number, time, weight) + key + data) != digest:
            raise CheckpointError(self._database.damage(f"entry {number} has another checksum"))
        learned = map(_known_or_nan, label)
        return Entry(number, decode_id(key), time, weight, data, state, *learned)

    def mark(
        self,
        numbers: Sequence[int],
        state: int,
        labels: Sequence[float],
        weights: Sequence[float] | None = None,
    ) -> None:
        """Set state, label and what the label counts (1 by default) of entries; the last of an
        entry that is named twice counts.

        An entry that waits again has no label.
        """
        done, marks = state != WAITING, self._pending.marks
        learned = zip(labels, weights or [1.0] * len(labels), strict=True)
        new = {n: each if done else (None, None) for n, each in zip(numbers, learned, strict=True)}
        with self._database.operation():
            old = self._states(new)
            assert len(old) == len(new), "an entry that is not there was marked"
            self._journal([(number, *before[1:]) for number, before in old], forgotten=0)
            if state == HELD:
                self._first_held = min([self._first_held, *(before[0] for _, before in old)])
            for number, (time, was, *_) in old:
                stored = marks[number].stored if number in marks else int(was != WAITING)
                marks[number] = Mark(time, stored, state, *new[number])
                self._seen[number] = (time, state, *new[number])
            waited = sum(was == WAITING for _, (_, was, *_) in old)
            self.held += (len(old) if state == HELD else 0) - sum(
                was == HELD for _, (_, was, *_) in old
            )
            self._counters.waiting += (0 if done else len(old)) - waited
            self._pending.flush_much()
            if not done:
                self._counters.first_waiting = min([self._counters.first_waiting, *new])
                self._pending.flush_marks()  # searches of those that wait leave marked ones out

    def _states(self, numbers: Collection[int]) -> list[tuple[int, State]]:
        """Return numbers with their states; those just found are not read again."""
        seen = self._seen
        unseen = [number for number in numbers if number not in seen]
        read = [
            (row[0], (row[2], *row[6:]))
            for row in map(self._with_mark, self._database.select_in(BY_NUMBER, unseen))
        ]
        return [(number, seen[number]) for number in numbers if number in seen] + read

    def _journal(self, old: Iterable[tuple[Any, ...]], forgotten: int) -> None:
        """Record number, state, label and its weight of those entries that the last commit had."""
        rows = [
            (number, state, *map(_known_or_nan, label))
            for number, state, *label in old
            if number < self._start.number
        ]
        if rows:
            blob = np.array(rows, generations.STATES).tobytes()
            values = (self._counters.undo, forgotten, blob)
            self._database.execute("INSERT INTO undo VALUES (?, ?, ?)", values)
            self._counters.undo += 1

    def oldest_waiting(self, before: float, limit: int) -> list[Entry]:
        """Return waiting entries with a time below `before`, by time and number."""
        sql = "SELECT number FROM queue WHERE done = 0 AND time < ? ORDER BY time, number"
        with self._database.operation():
            numbers, skipped = self._unmarked(sql, before, limit)
            if skipped > SKIPPED_ROWS:
                self._pending.flush_marks()
            entries = self._entries(numbers)
        return sorted(entries, key=lambda entry: (entry.time, entry.number))

    def oldest_held(self, before: float, limit: int) -> list[Entry]:
        """Return held entries with a time below `before`, by time and number."""
        if before <= self._first_held:
            return []
        sql = """SELECT number FROM queue WHERE done = 1 AND time >= ? AND time < ? AND state = ?
            ORDER BY time, number LIMIT ?"""
        with self._database.operation():
            self._pending.flush_marks()
            rows = self._database.execute(sql, (self._first_held, before, HELD, limit)).fetchall()
            entries = self._entries([number for (number,) in rows])
        entries.sort(key=lambda entry: (entry.time, entry.number))
        self._first_held = entries[0].time if entries else before if self.held else math.inf
        return entries

    def oldest_by_arrival(self, limit: int) -> list[Entry]:
        """Return the waiting entries that arrived first."""
        sql = """SELECT e.number FROM entry e
            CROSS JOIN queue q ON q.done = 0 AND q.time = e.time AND q.number = e.number
            WHERE e.number >= ? ORDER BY e.number"""
        with self._database.operation():
            numbers, _ = self._unmarked(sql, self._counters.first_waiting, limit)
            entries = self._entries(numbers)
        if limit:
            self._counters.first_waiting = min(numbers, default=self._counters.number)
        return sorted(entries)

    def _unmarked(self, sql: str, first: float, limit: int) -> tuple[list[int], int]:
        """Return the first numbers of a query that are not marked, and how many were."""
        numbers: list[int] = []
        skipped = 0
        cursor = self._database.execute(sql, (first,))
        while len(numbers) < limit and (row := cursor.fetchone()):
            if row[0] in self._pending.marks:
                skipped += 1
            else:
                numbers.append(row[0])
        cursor.close()
        return numbers, skipped

    def _entries(self, numbers: Sequence[int]) -> list[Entry]:
        """Return waiting entries by number."""
        rows = list(self._database.select_in(BY_NUMBER, numbers))
        self._seen = {row[0]: (row[2], *row[6:]) for row in rows}
        return [self._entry(row) for row in rows]

    def forget(self, before: float, limit: int = FORGOTTEN_ROWS) -> int:
        """Remove joined and expired entries with a time below `before`, the oldest first.

        Return how many; as many as `limit` means that there may be more.
        """
        sql = """SELECT q.number, e.id, q.time, q.state, q.label, q.weight FROM queue q
            JOIN entry e ON e.number = q.number
            WHERE q.done = 1 AND q.time < ? ORDER BY q.time, q.number LIMIT ?"""
        with self._database.operation():
            self._pending.flush_found()
            rows = self._database.execute(sql, (before, limit)).fetchall()
            self._journal([(row[0], *row[3:]) for row in rows], forgotten=1)
            self._pending.forget(id_hashes([row[1] for row in rows]), [row[0] for row in rows])
            self._database.execute_many(
                "DELETE FROM queue WHERE done = 1 AND time = ? AND number = ?",
                [(row[2], row[0]) for row in rows],
            )
            recent = [(row[0],) for row in rows if row[0] >= self._start.number]
            self._database.execute_many("DELETE FROM entry WHERE number = ?", recent)
            self._pending.flush_much()
        self._seen = {}
        return len(rows)


def _known_or_nan(value: float | None) -> float:
    return math.nan if value is None else value
