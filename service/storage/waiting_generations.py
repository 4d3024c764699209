"""Generations of a waiting store: what a commit records, and how a later one is undone.

| table | contents |
|---|---|
| entry | features; a forgotten one stays until no generation that has it can be restored |
| ids | from the hash of an id to its entry; a forgotten entry is not in it |
| queue | every entry that is not forgotten, by `done` (0 waiting, 1 joined or expired) and time |
| undo | the states before a change (`STATES`), of entries that the last commit had |
| early | labels without features; a popped one stays as long as a forgotten entry does |
| generation | the counters at each commit |

Numbers only grow, so what was added after a commit needs no record to be removed again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np

from kaboost.service.errors import CheckpointError, Incompatible
from kaboost.service.storage.waiting_database import Database, id_hashes

FORMAT = 3
STEP = 10_000  # rows in memory at a time
PRUNED_CHANGES = 200  # at most in one commit; a change is a call of `mark` or `forget`
STATES = np.dtype([("number", "<i8"), ("state", "i1"), ("label", "<f8"), ("weight", "<f8")])
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS entry (number INTEGER PRIMARY KEY, id BLOB NOT NULL, time REAL NOT NULL,
    weight REAL, row BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ids (hash INTEGER, number INTEGER, PRIMARY KEY (hash, number))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue (done INTEGER, time REAL, number INTEGER, state INTEGER NOT NULL,
    label REAL, weight REAL, PRIMARY KEY (done, time, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS undo (sequence INTEGER PRIMARY KEY, forgotten INTEGER NOT NULL,
    states BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS early (number INTEGER PRIMARY KEY, hash INTEGER NOT NULL,
    id BLOB NOT NULL, time REAL NOT NULL, label REAL, weight REAL, record BLOB NOT NULL,
    checksum INTEGER NOT NULL, popped INTEGER);
CREATE INDEX IF NOT EXISTS early_hash ON early (hash) WHERE popped IS NULL;
CREATE INDEX IF NOT EXISTS early_time ON early (time) WHERE popped IS NULL;
CREATE INDEX IF NOT EXISTS early_popped ON early (popped) WHERE popped IS NOT NULL;
CREATE TABLE IF NOT EXISTS generation (generation INTEGER PRIMARY KEY, number INTEGER,
    undo INTEGER, early_number INTEGER, first_waiting INTEGER, waiting INTEGER, early INTEGER);
PRAGMA user_version = {FORMAT};
"""


@dataclass
class Counters:
    """What a generation is restored from; the first three are the next free numbers."""

    number: int = 1
    undo: int = 1
    early_number: int = 1
    first_waiting: int = 1  # no entry with a lower number waits
    waiting: int = 0
    early: int = 0


COLUMNS = ", ".join(field.name for field in fields(Counters))


def start_empty(database: Database) -> Counters:
    """Begin without anything, whatever was there."""
    database.remove()
    database.open(SCHEMA)
    counters = Counters()
    record(database, 0, counters)
    return counters


def restore(database: Database, generation: int) -> Counters:
    """Undo what came after a commit, in the transaction that the next commit makes durable.

    1. States return to those before the first change since.
    2. What was added since is removed.
    3. The newer generations are removed.
    """
    if not database.path.exists():
        raise CheckpointError(
            f"{database.path} is missing, but the checkpoint needs its generation {generation}: "
            "restore it together with the checkpoints from a backup, or start again with "
            "--cold-start"
        )
    database.open()
    with database.operation():
        _check_format(database)
        counters = _read(database, generation)
        _undo_changes(database, counters)
        for rows in _steps(
            database, "SELECT number, id, time FROM entry WHERE number >= ?", counters.number
        ):
            _remove(database, rows)
        database.execute("DELETE FROM early WHERE number >= ?", (counters.early_number,))
        database.execute("UPDATE early SET popped = NULL WHERE popped >= ?", (generation,))
        database.execute("DELETE FROM undo WHERE sequence >= ?", (counters.undo,))
        database.execute("DELETE FROM generation WHERE generation > ?", (generation,))
    return counters


def _check_format(database: Database) -> None:
    """Refuse an empty file, and one of another version."""
    found = database.execute("PRAGMA user_version").fetchone()[0]
    if found == 0:
        raise CheckpointError(database.damage("it is empty"))
    if found != FORMAT:
        raise Incompatible(
            f"{database.path} has format {found}, this Kaboost reads {FORMAT}: use the other "
            "one, or start again with --cold-start"
        )


def _read(database: Database, generation: int) -> Counters:
    """Read the counters of a generation, or say which can be restored."""
    row = database.execute(
        f"SELECT {COLUMNS} FROM generation WHERE generation = ?", (generation,)
    ).fetchone()
    if row is None:
        kept = database.execute("SELECT min(generation), max(generation) FROM generation")
        oldest, newest = kept.fetchone()
        raise CheckpointError(
            f"{database.path} cannot be restored to generation {generation} of the checkpoint: it "
            f"has {oldest} to {newest}; restore both from one backup, or start again with "
            "--cold-start"
        )
    return Counters(*row)


def _undo_changes(database: Database, counters: Counters) -> None:
    """Go backwards through the changes; the earliest of an entry is applied last."""
    last = database.execute("SELECT max(sequence) FROM undo").fetchone()[0] or 0
    for sequence in range(last, counters.undo - 1, -1):
        states = np.frombuffer(_undo_blob(database, sequence), STATES)
        states = states[states["number"] < counters.number]
        old = dict(zip(states["number"].tolist(), states.tolist(), strict=True))
        sql = "SELECT number, time, id FROM entry WHERE number IN ({})"
        rows = [(*row, old[row[0]]) for row in database.select_in(sql, old)]
        _leave_queue(database, [(time, number) for number, time, _, _ in rows])
        database.execute_many(
            "INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?)",
            [(int(was[1] > 0), time, number, *was[1:]) for number, time, _, was in rows],
        )
        database.execute_many(
            "INSERT OR IGNORE INTO ids VALUES (?, ?)",
            sorted(zip(id_hashes([row[2] for row in rows]), (row[0] for row in rows), strict=True)),
        )


def _undo_blob(database: Database, sequence: int) -> bytes:
    sql = "SELECT states FROM undo WHERE sequence = ?"
    blob: bytes = database.execute(sql, (sequence,)).fetchone()[0]
    return blob


def _steps(database: Database, sql: str, first: int) -> Iterator[list[Any]]:
    """Yield the rows of entries from a number on, some at a time; the caller may remove them."""
    while rows := database.execute(f"{sql} ORDER BY number LIMIT {STEP}", (first,)).fetchall():
        yield rows
        first = rows[-1][0] + 1


def _remove(database: Database, rows: Sequence[tuple[int, bytes, float]]) -> None:
    """Remove entries (number, id, time) from every table."""
    index = sorted(zip(id_hashes([row[1] for row in rows]), (row[0] for row in rows), strict=True))
    database.execute_many("DELETE FROM ids WHERE hash = ? AND number = ?", index)
    _leave_queue(database, [(time, number) for number, _, time in rows])
    database.execute_many("DELETE FROM entry WHERE number = ?", [(row[0],) for row in rows])


def _leave_queue(database: Database, keys: Sequence[tuple[float, int]]) -> None:
    """Remove entries by time and number, whether they wait or not."""
    for done in (0, 1):  # `done IN (0, 1)` takes thirty times as long
        sql = f"DELETE FROM queue WHERE done = {done} AND time = ? AND number = ?"
        database.execute_many(sql, keys)


def record(database: Database, generation: int, counters: Counters) -> None:
    """Record the counters under a generation, and make everything so far durable."""
    database.execute(
        f"INSERT INTO generation (generation, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (generation, *astuple(counters)),
    )
    database.commit()


def prune(database: Database, keep_from: int) -> None:
    """Remove what only generations before `keep_from` need; a part of it, if it is much."""
    database.execute("DELETE FROM generation WHERE generation < ?", (keep_from,))
    needed = database.execute("SELECT min(undo) FROM generation").fetchone()[0]
    sql = (
        "SELECT sequence, forgotten, states FROM undo WHERE sequence < ? ORDER BY sequence LIMIT ?"
    )
    for sequence, forgotten, states in database.execute(sql, (needed, PRUNED_CHANGES)).fetchall():
        if forgotten:
            numbers = np.frombuffer(states, STATES)["number"].tolist()
            delete = "DELETE FROM entry WHERE number = ?"
            database.execute_many(delete, [(number,) for number in numbers])
        database.execute("DELETE FROM undo WHERE sequence = ?", (sequence,))
    database.execute("DELETE FROM early WHERE popped < ?", (keep_from,))
