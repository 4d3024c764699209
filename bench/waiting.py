"""The store of features that wait for their labels: pairs a second, memory, seconds of a restart.

Fills the store with N entries as large as those of the default model with 20 numbers and two
classes. Then new ones are added while labels of old ones arrive, nearly in order or in random
order: `add`, `find`, `mark` and `forget`, with a commit every 200,000 pairs. A restart opens the
file with a cold file cache; another also undoes 200,000 pairs.

    python -m bench.waiting --entries 10000000
    python -m bench.waiting --peers      # also LMDB and RocksDB, if they are installed
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kaboost.service.storage.waiting import FILE, JOINED, NewEntry, WaitingStore

BATCH = 2_000
COMMIT_EVERY = 200_000
ROW_BYTES = 476  # of `captured_rows.pack`: 20 numbers, 37 more and a head
SPACING = 0.05  # seconds of event time between two events
NOISE = np.random.default_rng(0).bytes(1 << 20)


def identifier(i: int) -> str:
    """Return the id of event i; they are in no order."""
    return f"{i * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF:016x}-{i:09d}"


def row(i: int) -> bytes:
    """Return the features of event i."""
    start = i * 977 % (len(NOISE) - ROW_BYTES)
    return NOISE[start : start + ROW_BYTES]


def entries(first: int, count: int) -> list[NewEntry]:
    """Return consecutive events, out of order by up to a second."""
    return [
        NewEntry(identifier(i), SPACING * (i ^ 13), 1.0, row(i))
        for i in range(first, first + count)
    ]


def mixed(first: int, count: int, among: int) -> list[int]:
    """Return events in random order within each `among` of them; each comes once."""
    return [j // among * among + j * 1_000_003 % among for j in range(first, first + count)]


class SQLite:
    """The store of the service."""

    def __init__(self, directory: Path, max_memory: int) -> None:
        self.store = WaitingStore(directory, max_memory)
        self.store.begin(0)
        self.generation = 0

    def add(self, events: list[NewEntry]) -> None:
        """Add events."""
        self.store.add(events)

    def join(self, ids: list[str]) -> None:
        """Find events and mark them."""
        found = self.store.find(ids)
        numbers = [each.number for each in found if each]
        self.store.mark(numbers, JOINED, [1.0] * len(numbers))

    def commit(self, forget_before: float) -> None:
        """Forget and commit."""
        while self.store.forget(forget_before) == 20_000:
            pass
        self.generation += 1
        self.store.commit(self.generation, self.generation - 2)


class LMDB:
    """Put, get and delete by id in LMDB, without what undoing needs."""

    def __init__(self, directory: Path, max_memory: int) -> None:
        import lmdb

        self.store = lmdb.open(str(directory), map_size=1 << 36, writemap=False)
        self.transaction = self.store.begin(write=True)

    def add(self, events: list[NewEntry]) -> None:
        """Add events."""
        for event in events:
            self.transaction.put(event.id.encode(), event.row, overwrite=False)

    def join(self, ids: list[str]) -> None:
        """Find events and delete them."""
        for each in ids:
            self.transaction.pop(each.encode())

    def commit(self, forget_before: float) -> None:
        """Commit durably."""
        self.transaction.commit()
        self.transaction = self.store.begin(write=True)


class RocksDB:
    """Put, get and delete by id in RocksDB, without what undoing needs."""

    def __init__(self, directory: Path, max_memory: int) -> None:
        import rocksdict

        self.new_batch: Any = lambda: rocksdict.WriteBatch(raw_mode=True)
        options = rocksdict.Options(raw_mode=True)
        options.set_db_write_buffer_size(max_memory)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(max_memory))
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        self.store = rocksdict.Rdict(str(directory), options)

    def add(self, events: list[NewEntry]) -> None:
        """Add events whose id is not there."""
        batch = self.new_batch()
        keys = [event.id.encode() for event in events]
        assert not any(self.store.get(keys))
        for key, event in zip(keys, events, strict=True):
            batch.put(key, event.row)
        self.store.write(batch)

    def join(self, ids: list[str]) -> None:
        """Find events and delete them."""
        keys = [each.encode() for each in ids]
        self.store.get(keys)
        batch = self.new_batch()
        for key in keys:
            batch.delete(key)
        self.store.write(batch)

    def commit(self, forget_before: float) -> None:
        """Make it durable."""
        self.store.flush_wal(True)


class Clock:
    """The time that a contestant takes, without that of making events."""

    def __init__(self) -> None:
        self.wall = self.cpu = self.longest = 0.0

    def measure(self, call: Callable[..., object], *values: object) -> None:
        """Call and add the time."""
        wall, cpu = time.perf_counter(), time.process_time()
        call(*values)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.wall, self.cpu = self.wall + wall, self.cpu + cpu
        self.longest = max(self.longest, wall)

    def print(self, what: str, count: int = 0) -> None:
        """Print a row."""
        rates = f"{count / self.wall:,.0f} | {count / self.cpu:,.0f}" if count else " | "
        times = f"{self.wall:.2f} | {self.cpu:.2f} | {rates} | {self.longest:.2f}"
        print(f"| {what} | {times} | {memory()} |", flush=True)


def fill(contestant: Any, count: int) -> Clock:
    """Add the first events."""
    clock = Clock()
    for first in range(0, count, BATCH):
        clock.measure(contestant.add, entries(first, min(BATCH, count - first)))
        if first % COMMIT_EVERY == 0:
            clock.measure(contestant.commit, -1.0)
    clock.measure(contestant.commit, -1.0)
    return clock


def pair(contestant: Any, events: int, labels: int, count: int, mix: int) -> Clock:
    """Add events from one number on, and join others from another, mixed."""
    clock = Clock()
    for done in range(0, count, BATCH):
        clock.measure(contestant.add, entries(events + done, BATCH))
        clock.measure(contestant.join, [identifier(i) for i in mixed(labels + done, BATCH, mix)])
        if (done + BATCH) % COMMIT_EVERY == 0:
            clock.measure(contestant.commit, SPACING * (labels + done - mix))
    return clock


def memory() -> int:
    """Return the resident set in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1_000_000


def drop_cached(path: Path) -> None:
    """Remove a file from the cache of the operating system."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def restarts(contestant: SQLite, asked: argparse.Namespace, directory: Path) -> None:
    """Measure `begin`, alone and with pairs to undo."""
    newest, first = contestant.generation, 2 * asked.pairs
    for what, undone in (("restart, cold file cache", 0), ("restart, 200,000 pairs to undo", 1)):
        if undone:
            pair(contestant, asked.entries + first, first, COMMIT_EVERY, COMMIT_EVERY)
        contestant.store.close()
        drop_cached(directory / FILE)
        contestant.store = WaitingStore(directory, asked.max_memory * 2**20)
        clock = Clock()
        clock.measure(contestant.store.begin, newest)
        clock.measure(contestant.join, [identifier(i) for i in range(first, first + BATCH)])
        clock.print(what)
        contestant.store.begin(newest)


def run(kind: Any, asked: argparse.Namespace) -> None:
    """Measure one contestant in a folder of its own."""
    directory = Path(tempfile.mkdtemp(dir=asked.directory))
    among = asked.entries
    print(
        f"\n| {kind.__name__}, {among:,} entries | s | CPU s | per s | per CPU s "
        "| longest call, s | RSS, MB |\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    try:
        contestant = kind(directory, asked.max_memory * 2**20)
        fill(contestant, among).print("fill", among)
        for what, first, mix in (
            ("nearly in order", 0, COMMIT_EVERY),
            ("in random order", 1, among),
        ):
            first *= asked.pairs
            clock = pair(contestant, among + first, first, asked.pairs, mix)
            clock.print(f"pairs, labels {what}", asked.pairs)
        if kind is SQLite:
            restarts(contestant, asked, directory)
        size = sum(path.stat().st_size for path in directory.iterdir())
        print(f"\n{size / 1e6:,.0f} MB on the disk")
    finally:
        shutil.rmtree(directory)


def main() -> None:
    """Print a table for every contestant."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=400_000)
    parser.add_argument("--max-memory", type=int, default=64, help="MiB")
    parser.add_argument("--directory", type=Path, default=None, help="a folder on a real disk")
    parser.add_argument("--peers", nargs="*", choices=["SQLite", "LMDB", "RocksDB"], default=None)
    asked = parser.parse_args()
    gc.set_threshold(100_000)  # as the learner's process
    kinds = {kind.__name__: kind for kind in (SQLite, LMDB, RocksDB)}
    for name in ["SQLite"] if asked.peers is None else asked.peers or kinds:
        run(kinds[name], asked)


if __name__ == "__main__":
    main()
