"""A service that cannot learn shows it: readiness, page, model, responses, log and metrics."""

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.storage.snapshots import Condition, FolderSnapshotStore
from tests.kafka.broker import Broker, Reachable
from tests.kafka.client import create_topic, encode, produce
from tests.service.learning import gauge, learning, until
from tests.service.serving import PATIENCE, ROW, Program, publish, running, settings, taught

Start = Callable[..., tuple[Settings, Program]]
Send = Callable[..., None]
PROBLEM = "1,000 of the last 1,000 records were rejected, most of them with code label"
FAILING = Condition(1_000, 1.0, PROBLEM)


def condition(wanted: Settings) -> Condition:
    """Read what the learner reports of itself."""
    return FolderSnapshotStore(wanted.snapshots.directory).read_condition()


def report(wanted: Settings, condition: Condition) -> None:
    """Report a condition as the learner does."""
    store = FolderSnapshotStore(wanted.snapshots.directory)
    store.write_condition(condition)
    store.heartbeat()


def test_nothing_learned_is_not_ready(serve: Start) -> None:
    """The reason is there from the first moment, and the status once it is of 1,000 records."""
    wanted, program = serve()
    publish(wanted, taught(wanted, events=0))
    assert "" == program.ready()["reason"]

    report(wanted, FAILING._replace(records=999))
    found = until(lambda: (program.probe(200) or {}).get("reason"), PATIENCE)
    assert PROBLEM == found

    report(wanted, FAILING)
    refused = until(lambda: program.probe(503), PATIENCE)
    answer = program.predict()
    assert f"nothing can be learned: {PROBLEM}" == refused["detail"]
    assert (0, True, True) == (
        answer["prediction"],
        answer["model"]["cold_start"],
        answer["model"]["stale"],
    )

    report(wanted, FAILING._replace(events_rejected_ratio=0.98, problem=""))
    assert "" == until(lambda: program.probe(200), PATIENCE)["reason"]


def test_a_model_that_has_learned_stays_ready(serve: Start) -> None:
    """It is served, as stale, with the reason; `GET /model` has it, too."""
    wanted, program = serve()
    publish(wanted, taught(wanted))
    program.ready()
    report(wanted, FAILING)
    ready = until(lambda: found if (found := program.probe(200)) and found["reason"] else None)
    learner = program.client.get("/model").json()["learner"]

    assert (PROBLEM, True) == (ready["reason"], ready["stale"])
    assert (PROBLEM, 1.0) == (learner["problem"], learner["rejected_ratio"])
    assert learner["problem"] == ready["learner"]["problem"]


def test_the_limit_is_a_setting(serve: Start) -> None:
    """`api.max_rejected_ratio` of the process that serves."""
    wanted, program = serve(api={"max_rejected_ratio": 0.5})
    publish(wanted, taught(wanted, events=0))
    program.ready()
    report(wanted, Condition(1_000, 0.5, "half of them"))

    assert "half of them" in until(lambda: program.probe(503), PATIENCE)["detail"]


def test_compiling_is_shown_while_the_learner_lives(serve: Start) -> None:
    """Step, steps and seconds; the service is ready, and not stale."""
    wanted, program = serve()
    publish(wanted, taught(wanted, events=0))
    program.ready()
    report(wanted, Condition(compiling="compiling, step 2 of 9, about 7 seconds"))
    ready = until(lambda: found if (found := program.probe(200)) and found["reason"] else None)

    assert "the learner is compiling, step 2 of 9, about 7 seconds" == ready["reason"]
    assert not ready["stale"]
    assert (
        ""
        == until(lambda: found if (found := program.probe(200)) and not found["reason"] else None)[
            "learner"
        ]["compiling"]
    )  # without a heartbeat for three seconds


@pytest.mark.parametrize("path", ["/health", "/healthz"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_short_probes_redirect(api: Program, path: str, method: str) -> None:
    """To the readiness probe, for callers who guess."""
    answer = api.client.request(method, path)

    assert (307, "/healthz/ready") == (answer.status_code, answer.headers["location"])
    assert b"" == answer.content
    followed = httpx.request(method, f"{api.client.base_url}{path}", follow_redirects=True)
    assert 200 == followed.status_code


def test_the_status_names_a_stall_once(serve: Start) -> None:
    """Trap: the learner's reason is part of that of readiness."""
    wanted, program = serve()
    publish(wanted, taught(wanted))
    program.ready()
    report(wanted, Condition(stalled="no answer for 7 s"))

    def stalled() -> Any:
        FolderSnapshotStore(wanted.snapshots.directory).heartbeat()
        found = program.client.get("/status").json()
        return found if found["state"] == "stalled" else None

    found = until(stalled, PATIENCE)

    on = "predictions are answered from snapshot 1 as before, with what was learned from 60 events"
    assert ("bad", f"no answer for 7 s; {on}") == (found["level"], found["reason"])


def test_an_unreadable_condition_is_none(tmp_path: Path) -> None:
    """Half a file, and the file of another version."""
    store = FolderSnapshotStore(tmp_path)
    for text in ("", "{", '{"unknown": 1}', "[]"):
        (tmp_path / ".condition.json").write_text(text)
        assert Condition() == store.read_condition()


def test_wrong_labels_are_reported_by_the_learner(
    topic: str, make_settings: Callable[..., Settings], send: Send
) -> None:
    """All records of the topic have a label that the task does not know."""
    wanted = make_settings(topic)
    send(topic, [encode({"x": 1.0}, "maybe")] * 1_200)
    with learning(wanted) as learner:
        found = until(lambda: now if (now := condition(wanted)).problem else None)
        until(lambda: gauge(wanted, "kaboost_events_consumed_total") == 1_200)
        until(lambda: condition(wanted).records == 1_000)
        ratio = gauge(wanted, "kaboost_rejected_ratio")
        send(topic, [encode({"x": 1.0}, 1)] * 1_000)
        until(lambda: not condition(wanted).problem)
        learner.stop()

    assert 1.0 == ratio == found.rejected_ratio
    assert (
        "most of them with code label, such as: label: 'maybe' is not one of 0, 1" in found.problem
    )
    assert condition(wanted).rejected_ratio < 0.99


def test_serve_shows_what_it_cannot_learn(
    tmp_path: Path, topic: str, broker: Any, send: Send
) -> None:
    """Flat records: not ready, with the reason, all the way from Kafka to the probe and the log."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = settings(tmp_path, kafka=kafka, log={"progress_seconds": 0.5})
    send(topic, [b'{"amount": 12.5, "fraud": false}'] * 1_500)

    def refused() -> str | None:
        detail: str = (program.probe(503) or {}).get("detail", "")
        return detail if detail.startswith("nothing can be learned") else None

    with running("serve", wanted) as program:
        detail = until(refused, PATIENCE)
        (line, *_) = until(lambda: program.events("nearly all records are rejected"))
        progress = until(lambda: program.events("progress", rejected=0))

    assert "the record has the keys amount, fraud: set events.features" in detail
    assert ("schema", "error") == (line["code"], line["level"])
    assert "the record has the keys amount, fraud" in line["reason"]
    assert 0 == progress[-1]["events_learned"]


def learner(program: Program) -> dict[str, Any]:
    """Return what readiness says of the learner."""
    return dict((program.probe(200) or {})["learner"])


@pytest.mark.timeout(240)
def test_a_frozen_broker_is_named(own_broker: Broker, tmp_path: Path) -> None:
    """A broker that is connected and answers nothing: state, reason, staleness, lag and log say so
    within seconds; when it goes on, so does learning.
    """
    topic = create_topic(own_broker.bootstrap)
    kafka = {"bootstrap_servers": own_broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = settings(tmp_path, kafka=kafka)
    events = [encode(ROW, k % 2) for k in range(20)]
    with running("serve", wanted) as program:
        produce(own_broker.bootstrap, topic, events)
        until(lambda: program.events_learned() == 20)
        assert "running" == learner(program)["state"]
        os.kill(own_broker.pid, signal.SIGSTOP)
        try:
            until(lambda: learner(program)["state"] == "stalled")
            ready = program.probe(200) or {}
            lag = program.metric("kaboost_consumer_lag_records")
        finally:
            os.kill(own_broker.pid, signal.SIGCONT)
        assert own_broker.bootstrap in ready["learner"]["reason"]
        assert (True, True) == (ready["stale"], own_broker.bootstrap in ready["reason"])
        assert math.isnan(lag)
        produce(own_broker.bootstrap, topic, events)
        until(lambda: program.events_learned() == 40)
        until(lambda: learner(program)["state"] == "running")
        assert False is program.predict()["model"]["stale"]
        assert program.events("learning stalled")
        assert program.events("learning goes on")


@pytest.mark.timeout(240)
def test_hanging_processes_are_started_again(
    topic: str, send: Send, broker: Reachable, tmp_path: Path
) -> None:
    """Stopped by SIGSTOP, learner and API worker give no sign of life: the log has it, and the
    supervisor kills them and starts others.
    """
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    with running("serve", settings(tmp_path, kafka=kafka)) as program:
        send(topic, [encode(ROW, k % 2) for k in range(20)])
        until(lambda: program.events_learned() == 20)
        children = {role: program.child(role) for role in ("learner", "api-0")}
        for child in children.values():
            child.suspend()
        send(topic, [encode(ROW, k % 2) for k in range(20)])
        for role in children:
            until(lambda: len(program.events("process running", role=role)) == 2)  # noqa: B023
            assert program.events("process gives no sign of life", role=role)
            assert program.events("process hangs: it is killed and started again", role=role)
        program.reconnect()
        until(lambda: program.events_learned() == 40)

        assert program.predict()
