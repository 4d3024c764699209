"""Ports: both are looked at before anything starts, and 0 is any free one."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kaboost.service.errors import ConfigError, Exit
from kaboost.service.processes.ports import learner_metrics_url, reserve_metrics_port
from tests.kafka.client import encode
from tests.service.learning import until
from tests.service.serving import PATIENCE, ROW, Program, metric, running, settings

Send = Callable[..., None]


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize("section", ["api", "metrics"])
def test_serve_refuses_a_taken_port(tmp_path: Path, taken: int, section: str) -> None:
    """Exit code 2, and no process was started."""
    wanted = settings(tmp_path, **{section: {"port": taken}})
    with running("serve", wanted) as program:
        code = program.process.wait(PATIENCE)
        started = program.events("process running")
        text = (tmp_path / "serve.log").read_text()

    assert (Exit.USAGE, []) == (code, started)
    assert f"{section}.port = {taken}: Address already in use; free it or set another" in text


def test_a_reserved_port_refuses_connections_until_the_learner_listens(tmp_path: Path) -> None:
    """A caller of the metrics of a learner that is down need not wait."""
    wanted = settings(tmp_path, metrics={"port": 0})
    with reserve_metrics_port(wanted) as bound:
        port = bound.metrics.port
        with socket.socket() as caller:
            assert 0 != caller.connect_ex(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)) as learner:
            assert port == learner.getsockname()[1]
            with pytest.raises(ConfigError, match=r"metrics\.port"), reserve_metrics_port(bound):
                pass

    assert f"http://127.0.0.1:{port}/metrics" == learner_metrics_url(bound)
    assert 0 == wanted.metrics.port


def test_both_ports_may_be_any(tmp_path: Path) -> None:
    """Two zeros are not the same port."""
    wanted = settings(tmp_path, api={"port": 0}, metrics={"port": 0})

    assert 0 == wanted.api.port == wanted.metrics.port


def test_any_free_port_serves_the_metrics(
    tmp_path: Path, topic: str, broker: Any, send: Send
) -> None:
    """The API's page has the learner's metrics, also after a restart of the learner."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = settings(tmp_path, kafka=kafka, metrics={"port": 0})
    send(topic, [encode(ROW, 1)] * 5)

    def learned(program: Program) -> bool:
        text = program.client.get("/metrics").text
        return [5.0] == list(metric(text, "kaboost_events_learned_total"))

    with running("serve", wanted) as program:
        program.ready()
        until(lambda: learned(program), PATIENCE)
        program.child("learner").kill()
        until(lambda: 1 == program.metric("kaboost_learner_restarts_total"), PATIENCE)
        served = program.events("metrics served")

    assert 2 == len(served)
    assert served[0]["port"] == served[1]["port"] != 0
