"""The age of a heartbeat: from where a reader saw it move, whatever the wall clocks say."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.http.follower import ALIVE_SECONDS
from kaboost.service.storage import heartbeat
from kaboost.service.storage.heartbeat import HeartbeatAge
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.service.learning import until
from tests.service.serving import PATIENCE, Program, publish, taught

Start = Callable[..., tuple[Settings, Program]]


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("wall", [-300.0, 0.0, 40.0])
def test_age_counts_from_a_move(tmp_path: Path, wall: float) -> None:
    """The file's time is the wall clock of whoever writes it, and counts for nothing."""
    store, clock = FolderSnapshotStore(tmp_path), Clock(time.monotonic())
    age = HeartbeatAge(store.last_heartbeat, clock)
    ages = []
    for seconds in (0.0, 1.0, 0.5):
        store.heartbeat()
        os.utime(tmp_path / ".learner", (time.time() + wall, time.time() + wall))
        clock.now += seconds
        age.seconds()
        clock.now += 2.0
        ages.append(age.seconds())

    assert [2.0, 2.0, 2.0] == pytest.approx(ages, abs=0.5)
    clock.now += 60.0
    assert 62.0 == pytest.approx(age.seconds(), abs=0.5)


def test_age_of_the_first_heartbeat(tmp_path: Path) -> None:
    """A reader that starts an hour later knows it, on the machine that wrote it."""
    path, clock = tmp_path / ".learner", Clock(5_000.0)
    heartbeat.write(path, clock)
    clock.now += 3_600.0

    assert 3_600.0 == HeartbeatAge(path.read_text, clock).seconds()


@pytest.mark.parametrize("other", ["1 other 0000000005000.000000\n", "", "\n", "a b c"])
def test_age_on_another_machine(other: str) -> None:
    """A heartbeat of another clock, or none at all, has no age until it moves."""
    clock, now = Clock(7.0), [other]
    age = HeartbeatAge(lambda: now[0], clock)
    assert age.seconds() is None
    clock.now += 1.0
    assert age.seconds() is None

    now[0] = "1 other 0000000005001.000000\n"
    assert 0.0 == age.seconds()
    clock.now += 2.5
    assert 2.5 == age.seconds()


def test_no_heartbeat_has_no_age(tmp_path: Path) -> None:
    """Neither before the first one nor after the folder was emptied."""
    store, clock = FolderSnapshotStore(tmp_path), Clock(time.monotonic())
    age = HeartbeatAge(store.last_heartbeat, clock)
    assert age.seconds() is None
    store.heartbeat()
    assert age.seconds() is not None
    (tmp_path / ".learner").unlink()
    assert age.seconds() is None


def test_heartbeats_keep_their_length(tmp_path: Path) -> None:
    """They are written in place: a reader must not see the end of an older one."""
    path, lengths = tmp_path / ".learner", set()
    for now in (0.0, 1.5, 86_400.0 * 365):
        heartbeat.write(path, Clock(now))
        lengths.add(len(path.read_bytes()))

    assert 1 == len(lengths)


@pytest.mark.parametrize("skew", [-300.0, 40.0])
def test_skewed_clocks_change_nothing(serve: Start, skew: float) -> None:
    """An API whose clock is far from the learner's: running while it beats, stale once it ends."""
    wanted, program = serve(api={"stale_after_seconds": 2 * ALIVE_SECONDS})
    store = FolderSnapshotStore(wanted.snapshots.directory)

    def beat() -> None:
        store.heartbeat()
        then = time.time() - skew
        os.utime(wanted.snapshots.directory / ".learner", (then, then))

    def state() -> tuple[str, bool]:
        ready = program.probe(200) or {}
        return ready["learner"]["state"], ready["stale"]

    publish(wanted, taught(wanted))
    beat()
    program.ready()
    for _ in range(20):
        beat()
        until(lambda: state() == ("running", False), PATIENCE)
        time.sleep(0.1)
    until(lambda: state()[1], PATIENCE)
    assert "unknown" == state()[0]
    beat()
    until(lambda: state() == ("running", False), PATIENCE)
