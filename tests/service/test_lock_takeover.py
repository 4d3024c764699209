"""The lock of a folder: one writer, whatever becomes of its file; and how it is taken over."""

import os
import platform
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.errors import Exit, FolderBusy, NotWritten, Refused
from kaboost.service.storage import files
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.snapshots import FolderSnapshotStore, Status
from tests.kafka.broker import Reachable
from tests.kafka.client import create_topic, encode, limit_record_size
from tests.service.learning import (
    events,
    expect_state,
    learned,
    learning,
    rows,
    saved,
    until,
)
from tests.service.serving import PATIENCE, ROOT, ROW, Program, alive, running
from tests.service.serving import settings as serving_settings

Make = Callable[..., Settings]
Send = Callable[..., None]

HOLDER = """
import sys, time
from pathlib import Path
from kaboost.service.storage.lock import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Any:
    """A process that holds the folder's lock."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_second_writer_refuses(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    """A second writer is refused with the first one's process id and exit code 3."""
    with (
        pytest.raises(Refused, match=f"{tmp_path} is in use by process {holder.pid}") as caught,
        FolderLock(tmp_path),
    ):
        pass

    assert caught.value.exit_code == 3


@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "ended"])
def test_lock_ends_with_its_process(
    tmp_path: Path, holder: subprocess.Popen[str], end: signal.Signals | None
) -> None:
    """However the holder went, the next one gets the folder, and clears what lies about."""
    temporary = tmp_path / "run-0001" / ".state-000000000002.safetensors.tmp"
    temporary.parent.mkdir()
    temporary.touch()
    if end:
        holder.send_signal(end)
    else:
        holder.stdin.close()  # type: ignore[union-attr]
    holder.wait(10)
    with FolderLock(tmp_path):
        recorded = (tmp_path / ".lock").read_text().strip()

    assert recorded == f"process {os.getpid()} on {platform.node()}"
    assert not temporary.exists()
    assert (tmp_path / ".lock").read_text() == ""


def test_lock_without_room(tmp_path: Path) -> None:
    """A lock that a full disk or a folder without rights denies says what helps."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(NotWritten, match=r"File too large.*make room") as caught:
            FolderLock(tmp_path).__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (tmp_path / ".lock").unlink()
    (tmp_path / ".lock").mkdir()

    assert caught.value.exit_code == 1
    with (
        pytest.raises(NotWritten, match=r"\.lock.*Is a directory.*permission"),
        FolderLock(tmp_path),
    ):
        pass


def test_body_of_the_lock_keeps_its_errors(tmp_path: Path) -> None:
    """What goes wrong under the lock is not taken for a trouble with it."""
    with pytest.raises(FileNotFoundError), FolderLock(tmp_path):
        (tmp_path / "gone").read_bytes()


def test_a_removed_lock_file_is_made_again(tmp_path: Path) -> None:
    """Its holder stays the only writer: nobody can lock the folder after the next write."""
    lock = FolderLock(tmp_path)
    with lock:
        (tmp_path / ".lock").unlink()
        lock.confirm()
        with pytest.raises(FolderBusy), FolderLock(tmp_path):
            pass
        holder = FolderLock(tmp_path).holder()

    assert f"process {os.getpid()} on {platform.node()}" == holder
    assert FolderLock(tmp_path).holder() is None


def test_a_removed_lock_file_allows_no_second_writer(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    """Who has locked the new file is the writer; what the other one writes gets no name."""
    (tmp_path / ".lock").unlink()
    other = FolderLock(tmp_path)
    with other:
        (tmp_path / ".lock").unlink()
        with FolderLock(tmp_path), pytest.raises(FolderBusy, match=str(os.getpid())):
            files.write(tmp_path / "state.safetensors", {}, {}, other.confirm)

    assert [tmp_path / ".lock"] == list(tmp_path.iterdir())
    assert holder.poll() is None


def test_a_learner_whose_folder_was_taken_ends(topic: str, make_settings: Make, send: Send) -> None:
    """Exit 3, and nothing is written any more: its next checkpoint would hide the other's."""
    settings = make_settings(topic)
    with learning(settings) as learner:
        send(topic, events(rows(50)))
        until(lambda: saved(settings) == {0: 50})
        (settings.checkpoints.directory / ".lock").unlink()
        with FolderLock(settings.checkpoints.directory):
            send(topic, events(rows(50)))
            with pytest.raises(FolderBusy, match="checkpoints is in use by process"):
                learner.wait()

    assert {0: 50} == saved(settings)


def test_a_second_learner_waits_and_takes_over(topic: str, make_settings: Make, send: Send) -> None:
    """It reports whom it waits for, and goes on from the last checkpoint of the first."""
    settings, stream = make_settings(topic), rows(200)
    reports: list[tuple[str, str]] = []
    send(topic, events(stream[:100]))
    with learning(settings) as first:
        until(lambda: learned(settings) == 100)
        report = {"report": lambda *report: reports.append(report)}
        with learning(settings, **report) as second:
            until(lambda: reports)
            send(topic, events(stream[100:150]))
            until(lambda: learned(settings) == 150)
            assert first.alive
            assert 0 == first.stop()
            send(topic, events(stream[150:]))
            until(lambda: learned(settings) == 200)
            assert 0 == second.stop()

    assert {"waiting", "running"} == {state for state, _ in reports}
    assert f"in use by process {os.getpid()}" in reports[0][1]
    assert ("running", "") == reports[-1]
    expect_state(settings, stream)


def test_waiting_has_a_limit_and_can_be_stopped(topic: str, make_settings: Make) -> None:
    """`checkpoints.lock_timeout`, then exit 3; SIGTERM ends it as any learner."""
    settings = make_settings(topic, checkpoints={"lock_timeout": 0.3})
    with FolderLock(settings.checkpoints.directory):
        with learning(settings) as running, pytest.raises(Refused, match="is in use by") as err:
            running.wait()
        with learning(make_settings(topic)) as running:
            assert running.alive
            assert 0 == running.stop()

    assert Exit.REFUSED == err.value.exit_code


@pytest.mark.timeout(240)
def test_a_killed_supervisor_is_succeeded_at_once(
    tmp_path: Path, topic: str, broker: Reachable, send: Send
) -> None:
    """A dead letter that cannot be written keeps the old learner in the folder and at its port for
    seconds; the new service waits for it, names it, and learns on.
    """
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = serving_settings(tmp_path, kafka=kafka | {"dlq_timeout": 6.0})
    dead_letters = create_topic(broker.bootstrap, 1, {"max.message.bytes": "150"}, f"{topic}.dlq")
    with running("serve", wanted) as killed:
        send(topic, [encode(ROW, k % 2) for k in range(20)])
        until(lambda: learned(wanted) == 20)
        until(lambda: saved(wanted) == {0: 20})
        send(topic, [b"no event"])
        until(lambda: killed.events("dead letters cannot be written, they are tried again"))
        before = killed.child("learner").pid
        killed.process.kill()
        killed.process.wait(PATIENCE)
        with running("serve", wanted) as program:
            waits = until(lambda: waiting(program))
            limit_record_size(broker.bootstrap, dead_letters, 1_000_000)
            send(topic, [encode(ROW, k % 2) for k in range(20)])
            until(lambda: learned(wanted) == 40)
            learner = until(lambda: is_running(program))

    assert not alive(before)
    assert before != learner["pid"]
    assert f"process {before}" in waits[0]["reason"]
    status = FolderSnapshotStore(wanted.snapshots.directory).read_status()
    assert status is not None
    assert learner["pid"] == status.pid


def test_readiness_names_the_learner_that_is_waited_for(
    tmp_path: Path, topic: str, broker: Reachable, send: Send, holder: subprocess.Popen[str]
) -> None:
    """Until it ends: then learning begins, without a restart."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = serving_settings(tmp_path, kafka=kafka, checkpoints={"directory": str(tmp_path)})
    send(topic, [encode(ROW, k % 2) for k in range(20)])
    with running("serve", wanted) as program:
        until(lambda: waiting(program))
        pid = program.child("learner").pid
        words = f"the learner is waiting: {tmp_path} is in use by process {holder.pid}"
        until(lambda: words in (program.probe(503) or {}).get("detail", ""))
        status = FolderSnapshotStore(wanted.snapshots.directory).read_status()
        psutil.Process(holder.pid).kill()
        until(lambda: learned(wanted) == 20)
        learner = until(lambda: is_running(program))

    assert status is not None
    assert ("waiting", pid) == (status.state, status.pid)
    assert (pid, "") == (learner["pid"], learner["reason"])


def test_a_service_that_runs_is_not_waited_for(
    tmp_path: Path, topic: str, broker: Reachable
) -> None:
    """Trap: the second one waited for 35 seconds because the first one was ending."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = serving_settings(tmp_path, kafka=kafka)
    with running("serve", wanted) as first:
        first.ready()
        pid = first.child("learner").pid
        (tmp_path / "second").mkdir()
        with running("serve", wanted, tmp_path / "second") as second:
            code = second.process.wait(PATIENCE)
            (line,) = second.events("waiting for a port")
        until(lambda: first.probe(200))  # its idle connection may be closed

    assert Exit.USAGE == code
    assert f"process {pid} on" in line["reason"]
    assert line["reason"].endswith("is running")


def waiting(program: Program) -> list[dict[str, Any]]:
    """Return the log lines of a service that waits for another learner, or for its port."""
    return program.events("waiting for a port") + program.events("waiting for another learner")


def is_running(program: Program) -> dict[str, Any] | None:
    """Return what readiness says of a learner that runs."""
    learner: dict[str, Any] = (program.probe(200) or {}).get("learner", {})
    return learner if learner.get("state") == "running" else None


def test_a_learner_that_ends_leaves_the_status_of_another(
    tmp_path: Path, topic: str, broker: Reachable
) -> None:
    """The one that waits for it, or works by now, is not reported as stopped."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = serving_settings(tmp_path, kafka=kafka)
    store = FolderSnapshotStore(wanted.snapshots.directory)
    with running("learner", wanted) as program:
        until(lambda: learned(wanted) == 0)
        own = store.read_status()
        store.write_status("waiting", None, "for the other", pid=1)
        assert Exit.DONE == program.end(signal.SIGTERM)

    assert own is not None
    assert ("running", program.process.pid) == (own.state, own.pid)
    assert Status("waiting", None, "for the other", 1) == store.read_status()


def test_a_learner_that_waits_shows_that_it_lives(tmp_path: Path) -> None:
    """To its supervisor, which writes the other states itself: these are no sign."""
    store = FolderSnapshotStore(tmp_path)
    before = store.signs_of_life()
    store.write_status("running")
    assert before == store.signs_of_life() == (None, None)

    store.write_status("waiting")
    waits = store.signs_of_life()
    os.utime(tmp_path / ".status.json", (1, 1))
    assert waits != store.signs_of_life() != before
    store.heartbeat()
    store.write_status("running")
    assert (store.last_heartbeat(), None) == store.signs_of_life()
