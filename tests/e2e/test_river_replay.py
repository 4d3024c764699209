"""A River model as a whole service: it answers while it learns, and a replay brings it back."""

import re
import signal
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.demo import producer
from tests.kafka.client import Letter, encode
from tests.service.learning import committed, until
from tests.service.serving import Program, metric, running, settings

EVENTS, FIRST = 4_000, 1_000
ROWS = list(islice(producer.rows(), EVENTS))
ASKED = [features for features, _ in ROWS[::400]]
FAULTY = [b"no event", encode({"date": 1.0}, "SIDEWAYS")]

Send = Callable[..., None]


@pytest.fixture
def wanted(tmp_path: Path, topic: str, broker: Any) -> Settings:
    """Settings of a random forest over the electricity prices."""
    return settings(
        tmp_path,
        kafka={"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic},
        task={"kind": "binary", "labels": ["DOWN", "UP"]},
        features={"schema": producer.schema()},
        model={"river": "forest.ARFClassifier", "params": {"n_models": 3}},
    )


@pytest.fixture
def serve(wanted: Settings) -> Iterator[Program]:
    """A whole service."""
    with running("serve", wanted) as program:
        yield program


def answers(program: Program) -> list[float]:
    """Ask for the probabilities of some rows."""
    served = program.client.post("/predict", json={"instances": ASKED}).json()
    return [each["probability"] for each in served["predictions"]]


def learned(program: Program) -> int:
    """Ask how many events the model has learned."""
    return int(program.predict(ASKED[0])["model"]["events_learned"])


def refused(program: Program) -> str | None:
    """Give why a prediction is refused while the topic is being replayed."""
    answer = program.client.post("/predict", json={"features": {}})
    detail = str(answer.json()["detail"]) if answer.status_code == 503 else ""
    return detail if "replayed" in detail else None


def test_replay_brings_back_what_a_kill_took(
    serve: Program,
    wanted: Settings,
    topic: str,
    send: Send,
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """It answers while it learns; killed, it is not ready until it has read the topic again, then
    says the same as before, with a higher version, and writes no dead letter twice.
    """
    values = [encode(features, label) for features, label in ROWS]
    cold = serve.ready()["version"]
    send(topic, [*FAULTY, *values[:FIRST]])
    until(lambda: learned(serve) == FIRST)
    early = answers(serve)
    send(topic, values[FIRST:])
    seen = until(lambda: [n for n in [learned(serve)] if n > FIRST])[0]
    until(lambda: learned(serve) == EVENTS)
    before, version = answers(serve), serve.predict(ASKED[0])["model"]["version"]
    until(lambda: committed(wanted) == len(FAULTY) + EVENTS)  # the note is written by then
    serve.child("learner").send_signal(signal.SIGKILL)
    until(lambda: serve.probe(503))
    why = until(lambda: refused(serve))
    again = serve.ready()
    after, described = answers(serve), serve.client.get("/model").json()
    text = serve.client.get("/metrics").text

    assert FIRST < seen <= EVENTS
    assert early != before
    assert re.search(r"replayed \d+ of 4002 records \(\d+\.\d %\)", why)
    assert before == after
    assert max(before) - min(before) > 0.1
    assert cold < version < again["version"]
    assert (
        EVENTS == described["events_learned"] == sum(metric(text, "kaboost_events_learned_total"))
    )
    assert {"json": 1.0, "label": 1.0} == {
        code: sum(metric(text, "kaboost_events_rejected_total", reason=code))
        for code in ("json", "label")
    }
    assert 2 == len(dead_letters(topic, 3, 3.0))
    assert 0 == serve.end(signal.SIGTERM)
