"""The store of waiting features: equal to dictionaries, restored to any commit, killed, damaged."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kaboost.service.errors import CheckpointError, Incompatible, NotWritten, Refused
from kaboost.service.storage import waiting, waiting_database, waiting_pending
from kaboost.service.storage.waiting import (
    EXPIRED,
    FILE,
    JOINED,
    WAITING,
    EarlyLabel,
    Entry,
    NewEntry,
    WaitingStore,
)
from tests.naive.waiting import NaiveStore

ROOT = Path(__file__).parents[2]
MEMORY = 1 << 18  # bytes; less than what the larger tests add
IDS = ["", "a", "b", "c", "ü\0x", "\ud800", "d"]

IDS += ["long" * n for n in (99, 2_000)]

ids = st.integers(0, len(IDS) - 1).map(IDS.__getitem__)  # without the long one in each message
times = st.sampled_from([-1e9, -0.0, 0.0, 1.0, 2.0, 2.5, 86_400.0 * 3, 1.7e9])
labels = st.sampled_from([0.0, -0.0, 1.0, 2.5, -7.0, 1e308])
rows = st.binary(max_size=8) | st.integers(1, 2).map(lambda n: bytes(4_500 * n))  # some over a page
new_entries = st.builds(NewEntry, ids, times, st.sampled_from([0.0, 1.0, 2.5]), rows)
early_labels = st.builds(
    EarlyLabel, ids, times, labels, st.none() | st.floats(0, 9), st.binary(max_size=9)
)
limits = st.integers(0, 4)


class SameAsDictionaries(RuleBasedStateMachine):
    """Whatever is done, and whichever commit is restored, both stores hold the same."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.naive = NaiveStore()
        self.store = WaitingStore(self.directory, MEMORY)
        self.store.begin(0)

    @initialize(most=st.sampled_from([0, 3, 100_000]), skipped=st.sampled_from([0, 10_000]))
    def limit(self, most: int, skipped: int) -> None:
        """Write pending changes at once, sometimes, or at the commit; begin with something."""
        waiting_pending.MOST, waiting.SKIPPED_ROWS = most, skipped
        some = [NewEntry(name, float(i % 3), 1.0, b"x") for i, name in enumerate(IDS)]
        self.add(some)
        self.add_early([EarlyLabel(name, float(i), 1.0, None, b"") for i, name in enumerate(IDS)])
        self.commit(9, 1)

    def teardown(self) -> None:
        """Remove the folder."""
        waiting_pending.MOST, waiting.SKIPPED_ROWS = 100_000, 10_000
        self.store.close()
        shutil.rmtree(self.directory)

    @rule(entries=st.lists(new_entries, max_size=6))
    def add(self, entries: list[NewEntry]) -> None:
        """Add entries."""
        assert self.naive.add(entries) == self.store.add(entries)

    @precondition(lambda self: self.naive.entries)
    @rule(data=st.data(), state=st.sampled_from([WAITING, JOINED, EXPIRED]), look=st.booleans())
    def mark(self, data: st.DataObject, state: int, look: bool) -> None:
        """Mark entries, just found or not, some of them twice."""
        known = sorted(entry.number for entry in self.naive.entries.values())
        numbers = data.draw(st.lists(st.sampled_from(known), max_size=5))
        values = data.draw(st.lists(labels, min_size=len(numbers), max_size=len(numbers)))
        weights = [abs(value) / 3.0 for value in values]
        if look:
            self.store.find([e.id for e in self.naive.entries.values() if e.number in numbers])
        self.naive.mark(numbers, state, values, weights)
        self.store.mark(numbers, state, values, weights)

    @rule(before=times, limit=limits)
    def look(self, before: float, limit: int) -> None:
        """Ask for the oldest."""
        oldest = self.naive.oldest_waiting(before, limit)

        assert oldest == self.store.oldest_waiting(before, limit)
        assert self.naive.oldest_by_arrival(limit) == self.store.oldest_by_arrival(limit)

    @rule(before=times, limit=limits)
    def forget(self, before: float, limit: int) -> None:
        """Forget entries."""
        assert self.naive.forget(before, limit) == self.store.forget(before, limit)

    @rule(added=st.lists(early_labels, max_size=5))
    def add_early(self, added: list[EarlyLabel]) -> None:
        """Add labels."""
        self.naive.labels += added
        self.store.add_early(added)

    @rule(wanted=st.lists(ids, max_size=4))
    def pop_early(self, wanted: list[str]) -> None:
        """Pop labels of ids."""
        assert self.naive.pop_early(wanted) == self.store.pop_early(wanted)

    @rule(before=times, limit=limits)
    def pop_early_before(self, before: float, limit: int) -> None:
        """Pop old labels."""
        popped = self.naive.pop_early_before(before, limit)

        assert popped == self.store.pop_early_before(before, limit)

    @rule(kept=st.integers(0, 9), skipped=st.integers(1, 2))
    def commit(self, kept: int, skipped: int) -> None:
        """Commit, and give up old generations."""
        generation = max(self.naive.generations) + skipped
        self.naive.commit(generation, generation - kept)
        self.store.commit(generation, generation - kept)

    @rule(data=st.data(), reopen=st.booleans())
    def begin(self, data: st.DataObject, reopen: bool) -> None:
        """Restore any generation that is kept, after a restart or not."""
        generations = sorted(self.naive.generations, reverse=True)
        generation = data.draw(st.sampled_from(generations[:3] + generations))
        if reopen:
            self.store.close()
            self.store = WaitingStore(self.directory, MEMORY)
        self.naive.begin(generation)
        self.store.begin(generation)

    @invariant()
    def same(self) -> None:
        """Every id is found as it is there, and the counts agree."""
        expected = [self.naive.entries.get(each) for each in IDS]

        assert expected == self.store.find(IDS)  # with the one nan of `math`
        assert self.store.early == len(self.naive.labels)
        assert self.store.waiting == sum(
            entry.state == WAITING for entry in self.naive.entries.values()
        )


TestSameAsDictionaries = SameAsDictionaries.TestCase
TestSameAsDictionaries.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def entries(first: int, count: int) -> list[NewEntry]:
    """Make entries whose rows differ."""
    return [
        NewEntry(f"id-{i}", float(i ^ 5), 1.0, b"row %d " % i * 30)
        for i in range(first, first + count)
    ]


def label(i: int) -> EarlyLabel:
    """Make a label."""
    return EarlyLabel(f"id-{i}", float(i), 1.0, None, b"record %d" % i)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WaitingStore]:
    """A store with 100 entries and 10 labels in generation 1."""
    store = WaitingStore(tmp_path, MEMORY)
    store.begin(0)
    store.add(entries(0, 100))
    store.add_early([label(i) for i in range(500, 510)])
    store.commit(1, 0)
    yield store
    store.close()


def content(store: WaitingStore) -> str:
    """Return everything in a store as text; it loses its early labels."""
    found = store.find([f"id-{i}" for i in range(3_000)])
    counts = store.waiting, store.early
    oldest = [entry.number for entry in store.oldest_by_arrival(10_000)]
    return repr((found, counts, oldest, store.pop_early_before(1e18, 10_000)))


CHANGES = {
    "add": lambda store: store.add(entries(90, 30)),
    "mark": lambda store: store.mark([3, 100], JOINED, [1.0, 0.0]),
    "mark again": lambda store: store.mark([1, 2, 3], EXPIRED, [0.0] * 3),
    "wait again": lambda store: store.mark([1], WAITING, [0.0]),
    "forget": lambda store: store.forget(1e9),
    "forget and add": lambda store: (store.forget(1e9), store.add(entries(0, 4))),
    "add_early": lambda store: store.add_early([label(600), label(601)]),
    "pop_early": lambda store: store.pop_early(["id-500", "id-507"]),
    "pop_early_before": lambda store: store.pop_early_before(505.0, 3),
}


@pytest.mark.parametrize("committed", [0, 1, 2])
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_undone(store: WaitingStore, change: str, committed: int) -> None:
    """A change is undone whether it was committed since or not, and others after it."""
    store.mark([1, 2], JOINED, [1.0, 2.0])
    store.commit(2, 1)
    expected = content(store)
    store.begin(2)
    CHANGES[change](store)
    changed = content(store)
    store.begin(2)
    for generation in range(3, 3 + committed):
        CHANGES[change](store)
        store.commit(generation, 2)
    store.mark([50], JOINED, [1.0])
    store.begin(2)

    assert changed != expected == content(store)


WORK = """
import os, signal, sys
from pathlib import Path
from tests.service.test_waiting import *
store = WaitingStore(Path(sys.argv[1]), MEMORY)
def work(generation):
    for part in range(4):
        first = generation * 400 + part * 100
        store.add(entries(first, 100))
        found = [entry for entry in store.find([f"id-{i}" for i in range(0, first, 3)]) if entry]
        store.mark([entry.number for entry in found], JOINED, [float(generation)] * len(found))
        store.forget(first / 2.0)
        store.add_early([label(i) for i in range(first, first + 100)])
        store.pop_early([f"id-{i}" for i in range(first - 150, first, 2)])
"""
FIRST = """
store.begin(0)
for generation in (1, 2, 3):
    work(generation)
    store.commit(generation, generation - 2)
"""
DEADLY = """
import sqlite3
def die(sql):
    global steps
    steps -= sys.argv[2] in sql
    if not steps:
        os.kill(os.getpid(), signal.SIGKILL)
steps = int(sys.argv[3])
store._database._connection.set_trace_callback(die)
work(4)
store.commit(4, 2)
"""


def work(script: str, *arguments: object) -> int:
    """Run a script in a process of its own; return its exit code."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, str]]:
    """A folder with generations 1 to 3, and the contents of 3 and of 4 without a crash."""
    folder = tmp_path_factory.mktemp("whole")
    assert work(WORK + FIRST, folder) == 0
    contents = {}
    for generation in (3, 4):
        copy = tmp_path_factory.mktemp("copy")
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        if generation == 4:
            assert work(WORK + "store.begin(3)\nwork(4)\nstore.commit(4, 2)", copy) == 0
        store = WaitingStore(copy, MEMORY)
        store.begin(generation)
        contents[generation] = content(store)
        store.close()
    return folder, contents


@pytest.mark.parametrize(
    ("statement", "steps"),
    [
        ("INSERT INTO entry", 1),
        ("INSERT INTO entry", 390),
        ("DELETE FROM ids", 30),
        ("UPDATE early", 20),
        ("DELETE FROM entry", 10),
        ("INSERT INTO generation", 1),
        ("COMMIT", 1),
        ("BEGIN", 1),
    ],
)
def test_kill_at_any_step(
    expected: tuple[Path, dict[int, str]], tmp_path: Path, statement: str, steps: int
) -> None:
    """A killed process leaves its last commit; the same work again leads to the same content."""
    folder, contents = expected
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    died = work(WORK + "store.begin(3)" + DEADLY, tmp_path, statement, steps)
    again = WaitingStore(tmp_path, MEMORY)
    again.begin(3)
    found = content(again)
    again.close()  # the popped labels are uncommitted
    ended = work(WORK + "store.begin(3)\nwork(4)\nstore.commit(4, 2)", tmp_path)
    again.begin(4)

    assert (died, ended) == (-signal.SIGKILL, 0)
    assert contents[3] == found
    assert contents[4] == content(again)
    again.close()


def test_generations_that_are_kept(store: WaitingStore) -> None:
    """A generation before `keep_from` is refused with those that there are."""
    for generation in range(2, 7):
        store.mark([generation], JOINED, [1.0])
        store.forget(1e9)
        store.commit(generation, 4)
    for generation in (3, 7):
        with pytest.raises(CheckpointError, match=rf"generation {generation} .* 4 to 6; .*--cold"):
            store.begin(generation)
    store.begin(4)

    oldest = [entry.number for entry in store.oldest_by_arrival(3)]
    assert [1, 5, 6] == oldest
    stored = store._database.execute("SELECT count(*) FROM entry").fetchone()
    assert stored == (97,), "a forgotten entry stays on the disk"


def test_missing_file(store: WaitingStore, tmp_path: Path) -> None:
    """A store that is gone is not started empty."""
    store.close()
    (tmp_path / FILE).unlink()

    with pytest.raises(CheckpointError, match=r"is missing.* generation 1.*--cold-start"):
        store.begin(1)
    assert not (tmp_path / FILE).exists()
    store.begin(0)
    assert store.waiting == 0


def read(store: WaitingStore) -> str:
    """Begin at generation 1 and read everything."""
    store.begin(1)
    store.oldest_waiting(1e18, 1_000)
    return content(store)


@pytest.mark.parametrize("length", [0, 50, 5_000, 40_000])
def test_cut_file(store: WaitingStore, tmp_path: Path, length: int) -> None:
    """A file that was cut is refused."""
    store.close()
    os.truncate(tmp_path / FILE, length)

    with pytest.raises(CheckpointError, match=r"is damaged.*--cold-start"):
        read(store)


@pytest.mark.parametrize("where", [0, 100, 4_096, b"row 77 ", b"id-42", b"record 503"])
def test_damaged_file(store: WaitingStore, tmp_path: Path, where: int | bytes) -> None:
    """Damage is found when it is read: in the header, in a page, in one row."""
    store.close()
    data = bytearray((tmp_path / FILE).read_bytes())
    place = where if isinstance(where, int) else data.index(where)
    data[place : place + 16] = bytes(0xFF - byte for byte in data[place : place + 16])
    (tmp_path / FILE).write_bytes(data)

    with pytest.raises(CheckpointError, match=r"is damaged.*--cold-start"):
        read(store)


def test_another_format(store: WaitingStore, tmp_path: Path) -> None:
    """A file of a later version is refused."""
    store.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()

    with pytest.raises(Incompatible, match=r"has format 9.*--cold-start"):
        store.begin(1)


def test_two_processes(store: WaitingStore, tmp_path: Path) -> None:
    """A second process is refused."""
    script = WORK + "store.begin(1)"
    with pytest.raises(Refused, match=r"is in use by another process.*labels.directory"):
        WaitingStore(tmp_path, MEMORY).begin(1)

    assert work(script, tmp_path) == 1


def test_little_space(store: WaitingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that could fill the disk changes nothing, and succeeds later."""
    calls = [
        lambda: store.add(entries(100, 5)),
        lambda: store.mark([1], JOINED, [1.0]),
        lambda: store.forget(1e9),
        lambda: store.add_early([label(600)]),
        lambda: store.pop_early(["id-500"]),
        lambda: store.commit(2, 0),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(waiting_database, "free_bytes", lambda directory: 1_000)
        for call in calls:
            with pytest.raises(NotWritten, match=r"1,000 bytes free .* make room; nothing"):
                call()

    assert (100, 10) == (store.waiting, store.early)
    for call in calls:
        call()
    assert (104, 10) == (store.waiting, store.early)


def test_failed_write(store: WaitingStore) -> None:
    """After a write that failed, only the last commit counts, and `begin` returns to it."""

    def overfill() -> None:
        for part in range(40):
            store.add(entries(100 + 100 * part, 100))
        store.commit(2, 1)

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(NotWritten, match=r"cannot be written .*make room"):
            overfill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(NotWritten, match=r"lost what was not committed: restart"):
        store.find(["id-1"])
    store.begin(1)

    assert (100, 10) == (store.waiting, store.early)
    assert store.add(entries(90, 20)) == list(range(10))


def test_memory_does_not_grow_with_what_waits(store: WaitingStore) -> None:
    """The page cache has its limit, and what is beyond it is on the disk before the commit."""
    before = store.size
    for part in range(30):
        store.add(entries(100 + 100 * part, 100))

    assert store.size > before + 10 * 2**16
    assert store.waiting == 3_100
    nothing = pytest.approx(float("nan"), nan_ok=True)
    assert store.find(["id-3050"])[0] == Entry(
        3_051, *entries(3_050, 1)[0], WAITING, nothing, nothing
    )


def test_same_hash(store: WaitingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids with one hash are different ids."""
    name = "kaboost.service.storage.waiting.id_hashes"
    hashes = lambda keys: [7] * len(keys)  # noqa: E731
    monkeypatch.setattr(name, hashes)
    monkeypatch.setattr("kaboost.service.storage.waiting_generations.id_hashes", hashes)
    store.add(entries(200, 3))
    found = store.find(["id-200", "id-201", "id-203"])

    assert [entry and entry.row for entry in found] == [
        entries(200, 1)[0].row,
        entries(201, 1)[0].row,
        None,
    ]
    assert store.add(entries(202, 2)) == [0]
