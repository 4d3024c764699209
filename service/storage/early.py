"""Labels that came before their features, in the database of those."""

import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from zlib import crc32

from kaboost.service.errors import CheckpointError
from kaboost.service.storage.waiting_database import Database, decode_id, encode_id, id_hashes
from kaboost.service.storage.waiting_generations import Counters

EARLY = "number, id, time, label, weight, record, checksum"
PACK = struct.Struct("<qddd").pack


class EarlyLabel(NamedTuple):
    """A label that waits for its features."""

    id: str
    time: float  # seconds since 1970
    label: float
    weight: float | None
    record: bytes  # the Kafka record, for the dead letter


class EarlyLabels:
    """The part of the store with labels; they leave it once, by `pop_early` or by their time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counters = Counters()
        self._start = Counters()  # those of the last commit
        self._generation = 0  # the last commit

    def _committed(self, generation: int) -> None:
        self._generation = generation
        self._start = replace(self._counters)

    @property
    def early(self) -> int:
        """How many labels wait."""
        return self._counters.early

    def add_early(self, labels: Sequence[EarlyLabel]) -> None:
        """Add labels."""
        first = self._counters.early_number
        keys = [encode_id(label.id) for label in labels]
        hashes = id_hashes(keys)
        rows = []
        for number, (key, label) in enumerate(zip(keys, labels, strict=True), first):
            _, *values, record = label
            digest = _checksum(number, key, values, record)
            rows.append((number, hashes[number - first], key, *values, record, digest, None))
        with self._database.operation():
            self._database.execute_many(
                "INSERT INTO early VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )
            self._counters.early_number += len(rows)
            self._counters.early += len(rows)

    def pop_early(self, ids: Sequence[str]) -> dict[str, list[EarlyLabel]]:
        """Remove and return the labels of those ids that have some, in order of arrival."""
        if not self._counters.early:
            return {}
        wanted = {encode_id(each) for each in ids}
        hashes = list(set(id_hashes(list(wanted))))
        sql = f"SELECT {EARLY} FROM early WHERE popped IS NULL AND hash IN ({{}})"
        with self._database.operation():
            rows = [row for row in self._database.select_in(sql, hashes) if row[1] in wanted]
            self._pop(rows)
        popped: dict[str, list[EarlyLabel]] = {}
        for row in sorted(rows):
            label = self._label(row)
            popped.setdefault(label.id, []).append(label)
        return popped

    def pop_early_before(self, before: float, limit: int) -> list[EarlyLabel]:
        """Remove and return labels with a time below `before`, by time and order of arrival."""
        sql = f"""SELECT {EARLY} FROM early WHERE popped IS NULL AND time < ?
            ORDER BY time, number LIMIT ?"""
        with self._database.operation():
            rows = self._database.execute(sql, (before, limit)).fetchall()
            self._pop(rows)
        return [self._label(row) for row in rows]

    def _pop(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Remove labels; the generations that have them can be restored."""
        start = self._start.early_number
        self._database.execute_many(
            "DELETE FROM early WHERE number = ?", [(row[0],) for row in rows if row[0] >= start]
        )
        self._database.execute_many(
            "UPDATE early SET popped = ? WHERE number = ?",
            [(self._generation, row[0]) for row in rows if row[0] < start],
        )
        self._counters.early -= len(rows)

    def _label(self, row: tuple[Any, ...]) -> EarlyLabel:
        """Check a row and make it a label."""
        number, key, time, label, weight, record, digest = row
        if _checksum(number, key, (time, label, weight), record) != digest:
            raise CheckpointError(self._database.damage(f"label {number} has another checksum"))
        return EarlyLabel(decode_id(key), time, label, weight, record)


def _checksum(number: int, key: bytes, values: Sequence[float | None], record: bytes) -> int:
    """Return the checksum of a label."""
    # SQLite knows no negative zero.
    numbers = (math.nan if value is None else value + 0.0 for value in values)
    return crc32(record, crc32(key, crc32(PACK(number, *numbers))))
