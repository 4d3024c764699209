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

WAITING, JOINED, EXPIRED = 0, 1, 2
FILE = "waiting.sqlite"
FORGOTTEN_ROWS = 20_000  # at most in one call
ENTRY = "e.number, e.id, e.time, e.weight, e.row, e.checksum"
PACK = struct.Struct("<qdd").pack
State = tuple[float, int, float | None]  # time, state, label

__all__ = ["EXPIRED", "JOINED", "WAITING", "EarlyLabel", "Entry", "NewEntry", "WaitingStore"]


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
    state: int  # WAITING, JOINED or EXPIRED
    label: float  # nan while it waits


class WaitingStore(EarlyLabels):
    """Features by id, on disk, with at most `max_memory` bytes of them in memory."""

    def __init__(self, directory: Path, max_memory: int) -> None:
        super().__init__(Database(directory / FILE, max_memory))
        self._seen: dict[int, State] = {}  # the entries that were found last, by number

    def begin(self, generation: int) -> None:
        """Be exactly as at `commit(generation)`; generation 0 is empty and removes what is there.

        Raises CheckpointError if the file is missing, damaged, or does not reach back.
        """
        if generation == 0:
            self._counters = generations.start_empty(self._database)
        else:
            self._counters = generations.restore(self._database, generation)
        self._committed(generation)
        self._seen = {}

    def commit(self, generation: int, keep_from: int) -> None:
        """Make everything durable as `generation`; those before `keep_from` are given up.

        After NotWritten because of too little space nothing has changed: try it again.
        """
        assert generation > self._generation, "generations grow"
        with self._database.operation():
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
            known = self._known(keys, hashes)
            first = number = self._counters.number
            refused: list[int] = []
            added: list[tuple[Any, ...]] = []
            index: list[tuple[int, int]] = []
            for i, (key, entry) in enumerate(zip(keys, entries, strict=True)):
                if key in known:
                    refused.append(i)
                    continue
                known.add(key)
                _, time, weight, row = entry
                time, weight = time + 0.0, weight + 0.0  # SQLite knows no negative zero
                digest = crc32(row, crc32(key, crc32(PACK(number, time, weight))))
                added.append((number, key, time, weight, row, digest))
                index.append((hashes[i], number))
                number += 1
            self._insert(added, index)
            self._counters.number = number
            self._counters.waiting += number - first
        return refused

    def _known(self, keys: Sequence[bytes], hashes: Sequence[int]) -> set[bytes]:
        """Return those of the ids that are there, and perhaps others."""
        sql = """SELECT e.id FROM ids JOIN entry e ON e.number = ids.number
            WHERE ids.hash IN ({})"""
        return {key for (key,) in self._database.select_in(sql, hashes)}

    def _insert(self, added: list[tuple[Any, ...]], index: list[tuple[int, int]]) -> None:
        """Write new entries into every table, in the order of the key of each."""
        execute = self._database.execute_many
        execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", added)
        execute("INSERT INTO ids VALUES (?, ?)", sorted(index))
        execute("INSERT INTO queue VALUES (0, ?, ?, 0, NULL)", [(row[2], row[0]) for row in added])

    def find(self, ids: Sequence[str]) -> list[Entry | None]:
        """Find entries by id, None for an id that is not there."""
        keys = [encode_id(each) for each in ids]
        sql = f"""SELECT {ENTRY}, coalesce(q.state, 0), q.label FROM ids
            JOIN entry e ON e.number = ids.number
            LEFT JOIN queue q ON q.done = 1 AND q.time = e.time AND q.number = e.number
            WHERE ids.hash IN ({{}})"""
        with self._database.operation():
            rows = list(self._database.select_in(sql, id_hashes(keys)))
        self._seen = {row[0]: (row[2], row[6], row[7]) for row in rows}
        found = {row[1]: row for row in rows}
        return [self._entry(found[key]) if key in found else None for key in keys]

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        """Check a row and make it an entry."""
        number, key, time, weight, data, digest, state, label = row
        if crc32(data, crc32(key, crc32(PACK(number, time, weight)))) != digest:
            raise CheckpointError(self._database.damage(f"entry {number} has another checksum"))
        text, label = decode_id(key), math.nan if label is None else label
        return Entry(number, text, time, weight, data, state, label)

    def mark(self, numbers: Sequence[int], state: int, labels: Sequence[float]) -> None:
        """Set state and label of entries; the last of an entry that is named twice counts.

        An entry that waits again has no label.
        """
        done = int(state != WAITING)
        new = {n: label if done else None for n, label in zip(numbers, labels, strict=True)}
        with self._database.operation():
            old = self._states(new)
            self._journal([(number, was, label) for number, (_, was, label) in old], forgotten=0)
            execute = self._database.execute_many
            removed = execute(
                "DELETE FROM queue WHERE done = ? AND time = ? AND number = ?",
                [(int(was != WAITING), time, number) for number, (time, was, _) in old],
            )
            assert removed == len(new) or not new, "an entry that is not there was marked"
            execute(
                "INSERT INTO queue VALUES (?, ?, ?, ?, ?)",
                [(done, time, number, state, new[number]) for number, (time, _, _) in old],
            )
        self._seen.update((number, (time, state, new[number])) for number, (time, _, _) in old)
        waited = sum(was == WAITING for _, (_, was, _) in old)
        self._counters.waiting += (0 if done else len(old)) - waited
        if not done:
            self._counters.first_waiting = min([self._counters.first_waiting, *new])

    def _states(self, numbers: Collection[int]) -> list[tuple[int, State]]:
        """Return numbers with time, state and label; those just found are not read again."""
        seen = self._seen
        sql = """SELECT e.number, e.time, coalesce(q.state, 0), q.label FROM entry e
            LEFT JOIN queue q ON q.done = 1 AND q.time = e.time AND q.number = e.number
            WHERE e.number IN ({})"""
        unseen = [number for number in numbers if number not in seen]
        read = [(number, tuple(row)) for number, *row in self._database.select_in(sql, unseen)]
        return [(number, seen[number]) for number in numbers if number in seen] + read

    def _journal(self, old: Iterable[tuple[int, int, float | None]], forgotten: int) -> None:
        """Record number, state and label of those entries that the last commit had."""
        rows = [
            (number, state, math.nan if label is None else label)
            for number, state, label in old
            if number < self._start.number
        ]
        if rows:
            blob = np.array(rows, generations.STATES).tobytes()
            values = (self._counters.undo, forgotten, blob)
            self._database.execute("INSERT INTO undo VALUES (?, ?, ?)", values)
            self._counters.undo += 1

    def oldest_waiting(self, before: float, limit: int) -> list[Entry]:
        """Return waiting entries with a time below `before`, by time and number."""
        sql = f"""SELECT {ENTRY}, q.state, q.label FROM queue q
            JOIN entry e ON e.number = q.number
            WHERE q.done = 0 AND q.time < ? ORDER BY q.time, q.number LIMIT ?"""
        with self._database.operation():
            rows = self._database.execute(sql, (before, limit)).fetchall()
        return [self._entry(row) for row in rows]

    def oldest_by_arrival(self, limit: int) -> list[Entry]:
        """Return the waiting entries that arrived first."""
        sql = f"""SELECT {ENTRY}, q.state, q.label FROM entry e
            CROSS JOIN queue q ON q.done = 0 AND q.time = e.time AND q.number = e.number
            WHERE e.number >= ? ORDER BY e.number LIMIT ?"""
        with self._database.operation():
            rows = self._database.execute(sql, (self._counters.first_waiting, limit)).fetchall()
        if limit:
            first = rows[0][0] if rows else self._counters.number
            self._counters.first_waiting = first
        return [self._entry(row) for row in rows]

    def forget(self, before: float, limit: int = FORGOTTEN_ROWS) -> int:
        """Remove joined and expired entries with a time below `before`, the oldest first.

        Return how many; as many as `limit` means that there may be more.
        """
        sql = """SELECT q.number, e.id, q.time, q.state, q.label FROM queue q
            JOIN entry e ON e.number = q.number
            WHERE q.done = 1 AND q.time < ? ORDER BY q.time, q.number LIMIT ?"""
        with self._database.operation():
            rows = self._database.execute(sql, (before, limit)).fetchall()
            self._journal([(row[0], row[3], row[4]) for row in rows], forgotten=1)
            generations.forget(self._database, [row[:3] for row in rows])
            recent = [(row[0],) for row in rows if row[0] >= self._start.number]
            self._database.execute_many("DELETE FROM entry WHERE number = ?", recent)
        self._seen = {}
        return len(rows)
