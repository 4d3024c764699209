"""The follower: a version that another worker serves is read in a thread, once for all requests."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.http.follower import Follower
from kaboost.service.http.newest_version import WorkerVersions, version_slots
from kaboost.service.http.routes import current
from tests.service.serving import publish, settings, taught


@pytest.fixture
def wanted(tmp_path: Path) -> Settings:
    """Settings of a service with one published snapshot."""
    wanted = settings(tmp_path)
    publish(wanted, taught(wanted))
    return wanted


@pytest.fixture
def workers() -> Iterator[tuple[WorkerVersions, WorkerVersions]]:
    """The versions of two workers, in shared memory."""
    with version_slots(2) as descriptor:
        yield WorkerVersions(descriptor, 0), WorkerVersions(descriptor, 1)


class Recorder(Follower):
    """A follower that records the threads in which it reads files."""

    def __init__(self, settings: Settings, versions: WorkerVersions) -> None:
        super().__init__(settings, versions)
        self.threads: list[threading.Thread] = []

    def refresh(self):  # type: ignore[no-untyped-def] # as in Follower
        """Record the thread, then read."""
        self.threads.append(threading.current_thread())
        return super().refresh()


def test_requests_never_read_on_the_loop(
    wanted: Settings, workers: tuple[WorkerVersions, WorkerVersions]
) -> None:
    """Requests that find a newer version announced wait for one read in another thread."""
    ours, other = workers
    follower = Recorder(wanted, ours)
    other.announce(1)

    async def requests() -> list[int]:
        served = await asyncio.gather(*(current(follower) for _ in range(5)))
        return [one.snapshot.version for one in served]

    assert [1] * 5 == asyncio.run(requests())
    assert 1 == len(follower.threads)
    assert threading.main_thread() not in follower.threads


def test_unreadable_version_is_tried_once(
    wanted: Settings, workers: tuple[WorkerVersions, WorkerVersions]
) -> None:
    """A version that this worker cannot find does not make every request read again."""
    ours, other = workers
    follower = Recorder(wanted, ours)
    other.announce(7)

    async def requests() -> list[int]:
        return [(await current(follower)).snapshot.version for _ in range(3)]

    assert [1] * 3 == asyncio.run(requests())
    assert 1 == len(follower.threads)


def test_requests_wait_for_the_first_look_into_the_folder(wanted: Settings) -> None:
    """Trap: a service that was started again refused those that came before it."""
    follower = Follower(wanted)

    async def request() -> int:
        following = asyncio.create_task(follower.follow())
        served = await current(follower)
        following.cancel()
        return served.snapshot.version

    assert 1 == asyncio.run(request())
