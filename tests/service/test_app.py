"""The running program: processes that come back, drain, count together and leave nothing behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import Exit
from kaboost.service.processes import settings_pipe
from kaboost.service.processes.children import shared_resources
from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.kafka.client import encode
from tests.service.learning import until
from tests.service.serving import (
    PATIENCE,
    ROW,
    Program,
    alive,
    metric,
    publish,
    running,
    settings,
    taught,
)

Send = Callable[..., None]
EVENTS = [encode(ROW | {"age": n}, n % 2) for n in range(500)]
WORKERS = 3


@pytest.fixture
def wanted(tmp_path: Path, topic: str, broker: Any) -> Settings:
    """Settings of a whole service: a fresh topic, two API workers."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    return settings(tmp_path, kafka=kafka, api={"workers": 2})


@pytest.fixture
def serve(wanted: Settings) -> Iterator[Program]:
    """A whole service that is ready."""
    with running("serve", wanted) as program:
        program.ready()
        yield program


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Program]:
    """`kaboost api` with several workers over one snapshot."""
    wanted = settings(tmp_path, api={"workers": WORKERS})
    publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        program.ready()
        until(lambda: len(program.events("snapshot served")) == WORKERS)
        yield program


def family(program: Program) -> list[int]:
    """List the processes that the program started."""
    return [child.pid for child in program.process.children(recursive=True)]


def test_serve_learns_and_answers(serve: Program, topic: str, send: Send) -> None:
    """Events on the topic change the answers; all metrics of learner and API stand on one page."""
    assert serve.predict()["model"]["cold_start"] is True
    send(topic, EVENTS)
    found = serve.answer_after(len(EVENTS))["model"]
    text = serve.client.get("/metrics").text
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]

    assert (False, False) == (found["cold_start"], found["stale"])
    assert len(EVENTS) == sum(metric(text, "kaboost_events_learned_total"))
    assert sum(metric(text, "kaboost_predictions_total")) > 1
    assert len(families) == len(set(families))


def test_killed_learner_comes_back_unnoticed(
    serve: Program, wanted: Settings, topic: str, send: Send
) -> None:
    """Kill -9 of the learner: no request fails meanwhile, and it goes on where it was."""
    half = len(EVENTS) // 2
    send(topic, EVENTS[:half])
    serve.answer_after(half)
    with asking(serve) as statuses:
        serve.child("learner").kill()
        until(lambda: serve.events("process restarting", role="learner"))
        send(topic, EVENTS[half:])
        serve.answer_after(len(EVENTS))
    status = FolderSnapshotStore(wanted.snapshots.directory).read_status()

    assert {200} == set(statuses)
    assert 1 == serve.metric("kaboost_learner_restarts_total")
    assert status
    assert "running" == status.state == serve.ready()["learner"]["state"]


class asking:
    """Ask for predictions all the time, and keep every status."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._done = threading.Event()
        self._statuses: list[int] = []
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> list[int]:
        self._thread.start()
        return self._statuses

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(PATIENCE)

    def _ask(self) -> None:
        while not self._done.wait(0.01):
            answer = self._program.client.post("/predict", json={"features": ROW})
            self._statuses.append(answer.status_code)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, Exit.DONE), (signal.SIGINT, Exit.INTERRUPTED)]
)
def test_end_is_clean(
    serve: Program, wanted: Settings, topic: str, send: Send, number: int, code: Exit
) -> None:
    """Told to stop, the learner writes a last checkpoint, every process ends, nothing is left."""
    send(topic, EVENTS)
    serve.answer_after(len(EVENTS))
    children = family(serve)
    ended = serve.end(number)
    last, _ = FolderCheckpointStore(wanted.checkpoints.directory).restore()
    status = FolderSnapshotStore(wanted.snapshots.directory).read_status()

    assert code == ended
    assert len(children) == 3
    assert not any(map(alive, children))
    assert last
    assert {0: len(EVENTS)} == last.state.offsets
    assert status
    assert ("stopped", 0) == (status.state, status.exit_code)


def test_nothing_outlives_a_killed_supervisor(serve: Program, wanted: Settings) -> None:
    """Kill -9 of `kaboost serve`: its processes drain and end, and a new one can start at once."""
    children = family(serve)
    serve.process.kill()
    serve.process.wait(PATIENCE)
    until(lambda: not any(map(alive, children)))

    with running("serve", wanted) as again:
        assert again.ready()["stale"] is False


def test_refused_learner_leaves_the_api_answering(tmp_path: Path) -> None:
    """A learner that must not run stays down; answers are stale, and readiness says why."""
    wanted = settings(tmp_path, checkpoints={"lock_timeout": 0.1})
    version = publish(wanted, taught(wanted))
    with FolderLock(wanted.checkpoints.directory), running("serve", wanted) as program:
        program.ready()
        until(lambda: program.predict()["model"]["stale"] is True)
        learner = program.ready()["learner"]
        time.sleep(1.0)

        assert version == program.predict()["model"]["version"]
        assert ("stopped", Exit.REFUSED) == (learner["state"], learner["exit_code"])
        assert f"in use by process {os.getpid()}" in learner["reason"]
        assert 1 == len(program.events("process running", role="learner"))
        assert Exit.DONE == program.end(signal.SIGTERM)


def detail(program: Program) -> str:
    """Return what readiness says of a service that is not ready."""
    found: str = program.probe(503)["detail"]  # type: ignore[index]
    return found


def test_learner_without_a_broker_is_tried_again(tmp_path: Path) -> None:
    """Exit 4 is no end: the learner is started again and again, and readiness tells of it."""
    kafka = {"bootstrap_servers": "127.0.0.1:1", "broker_timeout": 0.5, "topic_timeout": 0.5}
    wanted = settings(tmp_path, kafka=kafka)
    with running("serve", wanted) as program:
        until(lambda: len(program.events("process running", role="learner")) >= 2)
        (line, *_) = program.events("process restarting", role="learner")

        assert "ended with exit code 4" in line["reason"]
        until(lambda: "the learner is" in program.probe(503)["detail"])  # type: ignore[index]
        # While it waits for its next start, its own last word is told and not its code alone.
        until(lambda: "127.0.0.1:1" in program.probe(503)["detail"])  # type: ignore[index]
        # And while it tries again, why the one before it gave up.
        until(lambda: "the learner is running: restarted after:" in detail(program))
        assert "127.0.0.1:1" in detail(program) or "restarting" in detail(program)


def test_dead_worker_is_replaced(serve: Program) -> None:
    """An API worker that dies is started again; its neighbour answers, its counts are not lost."""
    until(lambda: len(serve.events("snapshot served")) == 2)
    serve.predict()
    before = serve.metric("kaboost_predictions_total")
    serve.child("api-0").kill()
    until(lambda: len(serve.events("process running", role="api-0")) == 2)
    until(lambda: len(serve.events("snapshot served")) >= 3)
    serve.reconnect()

    assert serve.predict()
    assert before + 1 == serve.metric("kaboost_predictions_total")


def test_workers_count_together(several: Program) -> None:
    """Whichever of several workers is scraped, it tells what all of them have done."""
    each = 20
    for number in range(WORKERS):
        with only(several, number):
            for _ in range(each):
                several.predict()
    # What follows an answer, its count, may come a moment after it.
    until(lambda: several.metric("kaboost_predict_duration_seconds_count") == each * WORKERS)
    route = {"http_route": "/predict", "http_response_status_code": "200"}
    for number in range(WORKERS):
        with only(several, number):
            text = several.client.get("/metrics").text
            durations = metric(text, "http_server_request_duration_seconds_count", **route)

            assert [each * WORKERS] == list(metric(text, "kaboost_predictions_total"))
            assert [each * WORKERS] == list(metric(text, "kaboost_predict_duration_seconds_count"))
            assert [each * WORKERS] == list(durations)


@contextmanager
def only(program: Program, number: int) -> Iterator[None]:
    """Let one worker alone answer: the others are frozen meanwhile."""
    others = [program.child(f"api-{k}") for k in range(WORKERS) if k != number]
    for worker in others:
        worker.suspend()
    program.reconnect()
    yield
    for worker in others:
        worker.resume()


def test_request_in_flight_is_finished(several: Program) -> None:
    """A request whose body is still on its way when SIGTERM comes gets its answer."""
    body = json.dumps({"features": ROW}).encode()
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n".encode()
    children = family(several)
    with socket.create_connection(("127.0.0.1", several.port), PATIENCE) as line:
        line.sendall(head + body[:5])
        time.sleep(0.3)
        several.process.terminate()
        time.sleep(0.5)
        line.sendall(body[5:])
        answer = line.makefile("rb").read()

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"prediction"' in answer
    assert Exit.DONE == several.process.wait(PATIENCE)
    assert not any(map(alive, children))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, Exit.DONE), (signal.SIGINT, Exit.INTERRUPTED)]
)
def test_single_api_ends_by_signal(tmp_path: Path, number: int, code: Exit) -> None:
    """`kaboost api` supervises one worker as well as many; both drain, and the code says how."""
    wanted = settings(tmp_path)
    publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        program.ready()
        (worker,) = family(program)

        assert code == program.end(number)
        assert not alive(worker)


def test_snapshot_cut_short_under_its_worker(tmp_path: Path) -> None:
    """A mapped file that somebody truncates kills the only worker; it comes back and answers."""
    wanted = settings(tmp_path)
    for _ in range(2):
        publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        assert 2 == program.ready()["version"]
        os.truncate(files.numbered(wanted.snapshots.directory, "snapshot", 2), 0)
        with pytest.raises(httpx.TransportError):
            program.predict()
        program.reconnect()
        program.ready()

        assert 1 == program.predict()["model"]["version"]
        (line,) = program.events("process restarting", role="api-0")
        assert line["reason"].startswith("killed by SIGBUS")


def test_versions_only_grow_whichever_worker_answers(tmp_path: Path) -> None:
    """One caller of two workers never sees a version step back, however quickly they come."""
    wanted = settings(tmp_path, api={"workers": 2})
    model = taught(wanted)
    publish(wanted, model)
    told = []
    with running("api", wanted) as program:
        program.ready()
        until(lambda: len(program.events("snapshot served")) == 2)
        with publishing(wanted, model):
            for _ in range(300):
                program.reconnect()
                told.append(program.predict()["model"]["version"])

    assert told == sorted(told)
    assert told[-1] - told[0] > 20


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_that_comes_back_has_an_answer_at_once(tmp_path: Path, workers: int) -> None:
    """A restarted worker serves the newest snapshot immediately, never 503 after a prediction."""
    wanted = settings(tmp_path, api={"workers": workers})
    publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        program.ready()
        until(lambda: len(program.events("snapshot served")) == workers)
        program.child("api-0").kill()
        until(lambda: program.events("process restarting", role="api-0"))
        while len(program.events("snapshot served")) == workers:
            program.reconnect()
            assert 1 == program.predict()["model"]["version"]


@contextmanager
def publishing(wanted: Settings, model: Model) -> Iterator[None]:
    """Publish a snapshot every 20 ms."""
    done = threading.Event()

    def publish_on() -> None:
        while not done.wait(0.02):
            publish(wanted, model)

    thread = threading.Thread(target=publish_on)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(PATIENCE)


def test_taken_port_is_refused_at_once(tmp_path: Path) -> None:
    """A port that cannot be had ends the start with exit 2 and names the setting."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        wanted = settings(tmp_path, api={"port": other.getsockname()[1]})
        with running("serve", wanted) as program:
            assert Exit.USAGE == program.process.wait(PATIENCE)
            assert "api.port" in program.events("stopped")[0]["reason"]


def test_folders_where_the_user_stands_do_no_harm(tmp_path: Path) -> None:
    """A project that has packages named as ours is not imported by the processes we start."""
    for name in ("models", "service"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')")
    wanted = settings(tmp_path, api={"workers": 2})
    publish(wanted, taught(wanted))
    with running("api", wanted, cwd=tmp_path) as program:
        program.ready()

        assert program.predict()


def test_handed_settings_are_the_same(tmp_path: Path) -> None:
    """A child gets every setting as its parent has it, secrets included."""
    extra = {"sasl.password": "secret", "fetch.wait.max.ms": 10}
    wanted = settings(tmp_path, kafka={"extra": extra}, model={"seed": 7})
    with settings_pipe.send_settings(wanted) as descriptor:
        got = settings_pipe.receive_settings(descriptor)
        again = settings_pipe.receive_settings(descriptor)

    assert wanted.kafka.client() == got.kafka.client()
    assert "secret" == got.kafka.client()["sasl.password"]
    assert wanted.model_dump(exclude={"kafka"}) == got.model_dump(exclude={"kafka"})
    assert got == again


@pytest.mark.parametrize("events", [{}, {"format": "json"}, {"label": "label"}])
def test_children_know_whether_records_are_mapped(tmp_path: Path, events: dict[str, str]) -> None:
    """A default that was not set is not set in the child; secrets of the registry arrive."""
    registry = {"url": "http://127.0.0.1:8081", "basic.auth.user.info": "me:secret"}
    wanted = settings(tmp_path, events=events | {"schema_registry": registry})
    with settings_pipe.send_settings(wanted) as descriptor:
        got = settings_pipe.receive_settings(descriptor)

    assert ("label" in events) is wanted.events.is_mapped is got.events.is_mapped
    assert wanted.events == got.events


@pytest.mark.parametrize("page", [False, True])
def test_only_processes_with_the_page_get_the_admin_key(tmp_path: Path, *, page: bool) -> None:
    """The learner never does."""
    key = "a-key-of-more-than-sixteen-characters"
    wanted = settings(tmp_path, admin={"key": key, "page": page})
    keys = {}
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        shared_resources(wanted) as factory,
    ):
        roles = [factory.learner(False), factory.live(False, listener), *factory.workers(listener)]
        for role in roles:
            command = list(role.command(0))
            descriptor = int(command[command.index("--settings") + 1])
            others = {listener.fileno(), descriptor}
            texts = [os.pread(each, 100_000, 0) for each in {*role.pass_fds, *others} - others]
            assert descriptor in role.pass_fds
            assert not any(key.encode() in text for text in texts)
            admin = settings_pipe.receive_settings(descriptor).admin
            keys[command[4]] = bool(admin.key and key == admin.key.get_secret_value())

    assert {"learner": False, "live": page, "api": page} == keys


def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    """A child whose lifeline is closed before it is up ends nevertheless."""
    wanted = settings(tmp_path)
    with settings_pipe.send_settings(wanted) as descriptor:
        command = [
            sys.executable,
            "-m",
            "kaboost.service.processes.child",
            "learner",
            "--settings",
            str(descriptor),
        ]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[descriptor])

        assert child.wait(PATIENCE) in (Exit.DONE, -signal.SIGTERM)
