"""The end under load: not ready first, every request is served, then connections are refused."""

import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from kaboost.service.errors import Exit
from kaboost.service.processes import draining_server
from kaboost.service.processes.api_server import create_api, create_server
from kaboost.service.processes.draining_server import Draining
from tests.service.learning import until
from tests.service.serving import PATIENCE, ROW, Program, publish, running, settings, taught

CLIENTS = 3  # of each kind


class Load:
    """Clients that ask until a connection is refused, and what became of each request."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.results: Counter[str] = Counter()
        self.probes: list[int] = []
        asking = [self._ask_over_one, self._ask_anew] * CLIENTS
        self._threads = [
            threading.Thread(target=self._run, args=(ask,)) for ask in [*asking, self._probe]
        ]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait until every client was refused."""
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads)

    def _run(self, ask: Callable[[], None]) -> None:
        try:
            while True:
                ask()
        except httpx.ConnectError as err:
            self.results["refused" if "refused" in str(err) else f"failed: {err!r}"] += 1
        except Exception as err:
            self.results[f"failed: {err!r}"] += 1

    def _ask_over_one(self) -> None:
        with self._program.connect(self._program.port) as client:
            while True:
                self._predict(client)

    def _ask_anew(self) -> None:
        with self._program.connect(self._program.port) as client:
            self._predict(client)

    def _predict(self, client: httpx.Client) -> None:
        answer = client.post("/predict", json={"features": ROW})
        self.results[str(answer.status_code)] += 1

    def _probe(self) -> None:
        with self._program.connect(self._program.port) as client:
            self.probes.append(client.get("/healthz/ready").status_code)


@pytest.mark.parametrize("workers", [1, 2])
def test_no_request_is_lost_at_the_end(
    tmp_path: Path, topic: str, broker: Any, workers: int
) -> None:
    """SIGTERM under load, and a learner that does not end: no request hangs or fails, and then
    connections are refused though the learner is still there.
    """
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    api = {"workers": workers, "drain_seconds": 3.0}  # longer than a busy client rests
    with running("serve", settings(tmp_path, kafka=kafka, api=api)) as program:
        program.ready()
        until(lambda: len(program.events("snapshot served")) == workers)
        learner = program.child("learner")
        load = Load(program)
        until(lambda: load.results["200"] > 100 and load.probes)
        learner.suspend()
        program.process.send_signal(signal.SIGTERM)
        load.wait()
        assert program.process.is_running()
        learner.resume()

        assert Exit.DONE == program.process.wait(PATIENCE)
    probes, served = load.probes, load.results.pop("200")
    assert served > 100
    assert {"refused": 2 * CLIENTS + 1} == load.results
    assert {200, 503} == set(probes)
    assert sorted(probes) == probes


def test_a_signal_before_the_server_has_handlers_ends_it(tmp_path: Path) -> None:
    """Trap: one that came between two handlers was lost, and the worker killed after 30 seconds."""
    wanted, draining = settings(tmp_path), Draining()
    server = create_server(wanted, create_api(wanted), draining)
    server.is_asked_to_end = lambda: True
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.run(sockets=[listener])

    assert draining()


def test_waiting_connections_are_accepted_before_the_end() -> None:
    """What the kernel has taken and nobody accepted would be reset by closing the socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clients = [socket.create_connection(listener.getsockname()) for _ in range(5)]
        accepted = draining_server._accept_all(listener)
    for client, connection in zip(clients, accepted, strict=True):
        connection.sendall(b"x")
        assert b"x" == client.recv(1)
        client.close()
        connection.close()


def test_a_single_api_drains_too(tmp_path: Path) -> None:
    """`kaboost api` holds the same."""
    wanted = settings(tmp_path, api={"drain_seconds": 0.5})
    publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        program.ready()
        load = Load(program)
        until(lambda: load.results["200"] > 100)
        program.process.send_signal(signal.SIGTERM)
        load.wait()
        assert Exit.DONE == program.process.wait(PATIENCE)

    assert {"200", "refused"} == set(load.results)
