"""`kaboost score`: every record has one answer, also over kills and in several processes."""

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer

from kaboost.service.config.settings import Settings
from kaboost.service.errors import BrokerError, Gap
from kaboost.service.kafka import transactions
from kaboost.service.kafka.group_consumer import SESSION_CONFIG
from tests.kafka.broker import Broker
from tests.kafka.client import (
    PATIENCE,
    Letter,
    create_topic,
    encode,
    limit_record_size,
    produce,
)
from tests.ports import free_port
from tests.service.killed_score import STEPS
from tests.service.learning import gauge, learned, learning, settings_for, until
from tests.service.scoring import (
    answers,
    committed_records,
    delete_before,
    drawn,
    ids,
    on_port,
    record,
    records,
    scoring,
    settings_of_score,
    started,
)
from tests.service.serving import publish, taught

Make = Callable[..., Any]
Send = Callable[..., None]


def dead(settings: Settings) -> list[Letter]:
    """Read the dead letters that are committed."""
    found = committed_records(settings.kafka.bootstrap_servers, settings.score.dlq)
    return [Letter(m.key(), m.value(), m.headers() or []) for m in found]


def metric_of(settings: Settings, name: str, port: int | None = None) -> float | None:
    """Read a metric of a process that answers; None while it has no port yet."""
    try:
        return gauge(on_port(settings, port), name)
    except OSError:
        return None


@pytest.mark.parametrize("kills", [5, 20])
def test_one_answer_over_kills(
    make_settings: Make, make_topic: Make, send: Send, kills: int
) -> None:
    """kill -9 before and after each step of a transaction."""
    wanted = settings_of_score(make_settings, make_topic, 2, score={"batch_records": 10})
    publish(wanted, taught(wanted))
    draw, count = random.Random(kills), kills * 60
    source = wanted.score.topic
    for first in range(0, count, 30):
        send(source, [b"{", *records(30, first)], partition=first // 30 % 2)
    steps = [f"{STEPS[k % len(STEPS)]}={draw.randint(1, 3)}" for k in range(kills)]
    with started(wanted, "tests.service.killed_score", *steps) as process:
        until(lambda: len(set(ids(wanted))) == count, kills * PATIENCE)
        process.terminate()
        assert 0 == process.wait(PATIENCE)

    assert sorted(map(str, range(count))) == ids(wanted)
    letters = dead(wanted)
    assert count // 30 == len(letters) == len({letter.origin for letter in letters})
    assert {"json"} == {letter.code for letter in letters}


def test_two_processes_share_the_partitions(
    make_settings: Make, make_topic: Make, send: Send
) -> None:
    """The second joins while the first answers; when one is killed the other goes on alone."""
    wanted = settings_of_score(make_settings, make_topic, 4, score={"batch_records": 20})
    publish(wanted, taught(wanted))
    ports = [free_port(), free_port()]
    flags = [("--set", f"score.metrics_port={port}") for port in ports]
    sent = 0

    def send_more() -> None:
        nonlocal sent
        for partition in range(4):
            send(wanted.score.topic, records(25, sent), partition=partition)
            sent += 25

    def shares() -> list[float | None]:
        return [metric_of(wanted, "kaboost_score_partitions", port) for port in ports]

    send_more()
    with started(wanted, "", *flags[0]) as first, started(wanted, "", *flags[1]):
        until(lambda: len(ids(wanted)) == sent)
        send_more()
        until(lambda: shares() == [2.0, 2.0])
        send_more()
        until(lambda: len(ids(wanted)) >= sent)
        first.kill()
        send_more()
        until(lambda: len(ids(wanted)) >= sent)

    assert sorted(map(str, range(sent))) == ids(wanted)


def test_a_frozen_process_writes_nothing_late(
    make_settings: Make, make_topic: Make, send: Send
) -> None:
    """It is stopped within a transaction until others have its partitions and its records."""
    wanted = settings_of_score(make_settings, make_topic, 2, score={"batch_records": 10})
    publish(wanted, taught(wanted))
    for partition in range(2):
        send(wanted.score.topic, records(40, 40 * partition), partition=partition)
    port = free_port()
    module, step = "tests.service.killed_score", "send_offsets_to_transaction=3"
    with started(wanted, module, step, KILL_SIGNAL="SIGSTOP") as parent:
        frozen = until(lambda: stopped_child(parent.pid))
        with started(wanted, "", "--set", f"score.metrics_port={port}"):
            until(lambda: metric_of(wanted, "kaboost_score_partitions", port) == 2.0)
            until(lambda: len(set(ids(wanted))) == 80)
            frozen.resume()
            send(wanted.score.topic, records(20, 80))
            until(lambda: metric_of(wanted, "kaboost_score_partitions") == 1.0)
            send(wanted.score.topic, records(20, 100), partition=1)
            until(lambda: len(set(ids(wanted))) == 120)
            assert 1.0 == metric_of(wanted, "kaboost_score_aborted_total")
        with suppress(psutil.NoSuchProcess):
            frozen.kill()

    assert sorted(map(str, range(120))) == ids(wanted)


def stopped_child(pid: int) -> psutil.Process | None:
    """Return the child of a process once it is stopped."""
    children = psutil.Process(pid).children()
    return next((each for each in children if each.status() == psutil.STATUS_STOPPED), None)


def test_a_broker_that_is_killed_costs_nothing(
    own_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are answered once, by the same process, when it is back; its client may hang then."""
    monkeypatch.setattr(transactions, "REQUEST_SECONDS", 2.0)
    bootstrap = own_broker.bootstrap
    make_topic = partial(create_topic, bootstrap)
    make = partial(settings_for, bootstrap, tmp_path)
    wanted = settings_of_score(make, make_topic, score={"batch_records": 5})
    publish(wanted, taught(wanted))
    source = wanted.score.topic or ""
    produce(bootstrap, source, records(300))
    with scoring(wanted) as end:
        until(lambda: len(ids(wanted)) > 20)
        own_broker.kill()
        own_broker.start()
        produce(bootstrap, source, records(100, 300))
        until(lambda: len(set(ids(wanted))) == 400)
        assert 0 == end()

    assert sorted(map(str, range(400))) == ids(wanted)


def test_a_member_that_is_fenced_joins_again(
    make_settings: Make, make_topic: Make, send: Send
) -> None:
    """As after a lost answer to its request to join: the broker has its name for another client."""
    wanted = settings_of_score(make_settings, make_topic, score={"instance": "one"})
    publish(wanted, taught(wanted))
    send(wanted.score.topic, records(50))
    client = {
        **SESSION_CONFIG,
        "bootstrap.servers": wanted.kafka.bootstrap_servers,
        "group.id": wanted.score.group(wanted.kafka.group_id),
        "group.instance.id": "one",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    with scoring(wanted) as end:
        until(lambda: len(ids(wanted)) == 50)
        other = Consumer(client)
        other.subscribe([wanted.score.topic])
        until(lambda: other.poll(0.1) is None and other.memberid())
        other.close()
        send(wanted.score.topic, records(50, 50))
        until(lambda: len(set(ids(wanted))) == 100)
        assert 0 == end()

    assert sorted(map(str, range(100))) == ids(wanted)


def test_bad_records_are_dead_letters(make_settings: Make, make_topic: Make, send: Send) -> None:
    """Each once, with its code, its place and a remedy; the records around them are answered."""
    wanted = settings_of_score(make_settings, make_topic)
    publish(wanted, taught(wanted))
    bad = [b"{", record("a", {"x": "high"}), record(None, {"x": 1.0}), record("b", {"z": 1.0})]
    bad += [None, record("c", {"x": 1.0}, label=1)]
    send(wanted.score.topic, [*records(2), *bad])
    with scoring(wanted) as end:
        until(lambda: len(ids(wanted)) == 3)
        assert gauge(on_port(wanted), "kaboost_score_consumed_total") == 8.0
        assert 0 == end()
    letters = dead(wanted)

    assert ["0", "1", "c"] == ids(wanted)  # a label is not read
    codes = ["json", "feature_type", "schema", "feature_unknown", "null_value"]
    assert codes == [letter.code for letter in letters]
    assert [2, 3, 4, 5, 6] == [letter.origin[2] for letter in letters]
    assert bad[:5] == [letter.value for letter in letters]
    remedies = [letter.texts["__connect.errors.exception.message"] for letter in letters]
    assert "send one" in remedies[2]


def test_it_waits_for_the_first_snapshot(make_settings: Make, make_topic: Make, send: Send) -> None:
    """It says so, and answers with a model that has learned nothing, as POST /predict does."""
    wanted = settings_of_score(make_settings, make_topic, score={"features": False})
    send(wanted.score.topic, records(3))
    with scoring(wanted) as end:
        until(lambda: metric_of(wanted, "kaboost_score_waiting") == 1.0)
        assert [] == ids(wanted)
        version = publish(wanted, taught(wanted, events=0))
        until(lambda: len(ids(wanted)) == 3)
        assert 0.0 == metric_of(wanted, "kaboost_score_waiting")
        assert 0 == end()

    for answer in answers(wanted):
        assert {"probability": 0.5, "version": version} == {
            key: answer[key] for key in ("probability", "version")
        }
        assert "features" not in answer


def test_a_learner_joins_labels_to_answers(
    make_settings: Make, make_topic: Make, send: Send
) -> None:
    """The topic of answers is that of the learner's features."""
    answered, labels = make_topic(), make_topic()
    wanted = settings_of_score(
        make_settings,
        make_topic,
        kafka={"topic": answered},
        predictions={"topic": answered},
        labels={"topic": labels},
    )
    send(wanted.score.topic, records(40))
    with learning(wanted), scoring(wanted) as end:
        until(lambda: len(ids(wanted)) == 40)
        rows = enumerate(drawn(40))
        send(labels, [encode({}, label, id=str(k)) for k, (_, label) in rows])
        until(lambda: learned(wanted) == 40)
        assert 0 == end()


def test_deleted_records_are_a_gap(make_settings: Make, make_topic: Make, send: Send) -> None:
    """What was deleted before it had an answer is not passed over in silence."""
    wanted = settings_of_score(make_settings, make_topic)
    publish(wanted, taught(wanted))
    send(wanted.score.topic, records(5))
    with scoring(wanted) as end:
        until(lambda: len(ids(wanted)) == 5)
        assert 0 == end()
    send(wanted.score.topic, records(5, 5))
    delete_before(wanted, 8)
    with scoring(wanted) as end:
        until(lambda: end.ended)
        refused = end()

    assert isinstance(refused, Gap)
    assert "3 records were deleted" in str(refused)


def test_answers_too_large_for_the_topic(
    make_settings: Make, make_topic: Make, send: Send, broker: Any
) -> None:
    """It ends with the remedy, and nothing of the batch is committed."""
    wanted = settings_of_score(make_settings, make_topic)
    publish(wanted, taught(wanted))
    limit_record_size(broker.bootstrap, wanted.predictions.topic or "", 200)
    send(wanted.score.topic, records(1))
    with scoring(wanted) as end:
        until(lambda: end.ended)
        refused = end()

    assert isinstance(refused, BrokerError)
    assert "max.message.bytes" in str(refused)
    assert [] == ids(wanted)
