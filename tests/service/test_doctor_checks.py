"""`kaboost doctor` on labels that come later, ids, times and stored state; keys that are wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kaboost.models.features.labels import labels
from kaboost.service.config.settings import Settings, load
from kaboost.service.events.decoders import make_decoder
from kaboost.service.onboarding.decoding import try_events
from kaboost.service.onboarding.state_checks import check_state
from kaboost.service.onboarding.topic_sample import RawRecord
from tests.kafka.broker import Reachable
from tests.service.test_onboarding import details, doctor, folder, run, statuses, write
from tests.service.test_onboarding_guesses import chargebacks, payments

__all__ = ["folder"]  # a fixture
Send = Callable[..., None]


@pytest.fixture
def late(
    make_topic: Callable[..., str], broker: Reachable, send: Send, folder: Path
) -> Callable[..., None]:
    """Write the configuration of two topics: payments, and labels of some of them."""

    def make(label: Callable[[int], Any], first: int = 0, **events: Any) -> None:
        features, labels = make_topic(), make_topic()
        send(features, [json.dumps(one).encode() for one in payments(50)])
        late = chargebacks(payments(50, first), label)
        send(labels, [json.dumps(one).encode() for one in late])
        paths = {"topic": labels, "id": "payment.payment_id", "label": "fraud"}
        write(
            folder,
            kafka={"bootstrap_servers": broker.bootstrap, "topic": features},
            events={"id": "payment_id", "timestamp": "created_at", **events},
            labels=paths,
        )

    return make


def test_labels_of_one_class_need_the_other(
    late: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Dropped features would leave one class; learned as the other they leave two."""
    late(lambda k: int(k > 0))

    _, report = doctor(capsys)
    assert "yellow" == statuses(report)["labels"]
    (check,) = (one for one in report["checks"] if one["name"] == "labels")
    assert "1: 49, 0: 1, and features without a label" in check["detail"]
    assert check["remedy"].startswith("set labels.expired: {label: 0}, if no label means 0")

    code, report = doctor(capsys, "--set=labels.expired={label: 0}")
    assert (0, "green") == (code, statuses(report)["labels"])
    assert "green" == statuses(report)["labels.id"]


def test_labels_without_features_and_times_that_are_none_are_yellow(
    late: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Ids that name other things, and a path to something else than a time."""
    late(lambda k: k % 2, 1_000, timestamp="device.os")

    _, report = doctor(capsys)

    found = {name: statuses(report)[name] for name in ("labels", "labels.id", "events.timestamp")}
    assert {"labels": "green", "labels.id": "yellow", "events.timestamp": "yellow"} == found
    assert "0 of 50 label ids are among the ids of 50 features" == details(report)["labels.id"]
    assert "50 are no time and are ignored" in details(report)["events.timestamp"]


def test_the_id_is_found_on_topics_of_several_partitions(
    make_topic: Callable[..., str], broker: Reachable, send: Send, folder: Path
) -> None:
    """Few of the labels that are read belong to the features that are read, and they suffice."""
    features, labels = make_topic(partitions=3), make_topic(partitions=3)
    stream = payments(3_000)
    late = chargebacks(stream[::10], lambda k: True)
    for number in range(3):
        mine = [one for one in stream if int(one["payment_id"][4:]) // 10 % 3 == number]
        send(features, [json.dumps(one).encode() for one in mine], number)
        send(labels, [json.dumps(one).encode() for one in late[number::3]], number)

    place = ["--bootstrap", broker.bootstrap, "--topic", features, "--labels-topic", labels]
    assert 0 == run("init", *place, "--yes", "--records", "300")

    settings = load(folder / "kaboost.yaml")
    assert ("payment_id", "created_at") == (settings.events.id, settings.events.timestamp)
    section = settings.labels
    assert ("payment.payment_id", "fraud", "at") == (section.id, section.label, section.timestamp)
    assert ("binary", {"label": 0}) == (settings.task.kind, section.expired)


def test_offsets_without_a_checkpoint_are_red(
    topic: str, broker: Reachable, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`serve` would refuse to begin."""
    write(folder, kafka={"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic})
    settings = load(folder / "kaboost.yaml")
    assert ["green"] == [check.status for check in check_state(settings)]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()

    code, report = doctor(capsys)

    assert (1, "red") == (code, statuses(report)["checkpoint"])
    assert f"group {topic} has committed offsets" in details(report)["checkpoint"]


def test_a_wrong_key_of_the_client_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback of the library."""
    assert 2 == run("init", "--topic", "t", "--client", "foo=bar", "--yes")
    message = capsys.readouterr().err
    assert message.startswith('kaboost: --client: No such configuration property: "foo"')
    write(folder, kafka={"extra": {"foo": "bar"}})
    code, report = doctor(capsys)
    assert (1, {"configuration": "red"}) == (code, statuses(report))


@pytest.mark.parametrize(
    ("output", "message"),
    [("not-there/k.yaml", "there is no folder"), (".", "is a folder")],
)
def test_a_file_that_cannot_be_written_is_refused_first(
    output: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the broker is asked for anything."""
    assert 2 == run("init", "--bootstrap", "127.0.0.1:9", "--topic", "t", "--output", output)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("record", [{}, {"payment_id": None, "x": 1}, {"payment_id": 1.5, "x": 1}])
def test_records_without_an_id_are_faults_where_labels_come_later(record: dict[str, Any]) -> None:
    """As the learner would, and they add no feature."""
    settings = Settings(
        task={"kind": "binary"}, features={}, events={"id": "payment_id"}, labels={"topic": "l"}
    )
    good = b'{"payment_id": "a", "y": 1}'

    values = [json.dumps(record).encode(), good]
    trial = try_events(settings, [RawRecord(value, ()) for value in values])

    assert (1, ["schema"]) == (trial.events, [fault.code for fault in trial.faults])
    assert trial.faults[0].example.startswith("payment_id: ")
    decoder = make_decoder({"*": "auto"}, labels("binary"), settings)
    assert {"y": "number"} == decoder.decode(values).new_features
    quick = make_decoder({"x": "number", "y": "number"}, labels("binary"), settings)
    assert [0] == [index for index, _ in quick.decode(values).faults]
