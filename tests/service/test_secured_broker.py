"""Kafka over SASL SCRAM and over certificates of both sides, on a real broker with a real CA."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from typer.testing import CliRunner

from kaboost.service.cli import app
from kaboost.service.errors import BrokerError
from tests.kafka.broker import BrokerUnavailable
from tests.kafka.client import create_topic, encode, produce, read_letters
from tests.kafka.secured import PASSWORD, SCRAM, USER, SecuredBroker, write_certificate
from tests.ports import free_port
from tests.service import serving
from tests.service.learning import learn_all, learned, learning, settings_for, until

GOOD = encode({"x": 1.0, "y": 2.0, "colour": "red", "flag": True}, 1)
BAD = encode({"x": "one"}, 1)
WRONG = "another-password"


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    """The authority that broker and clients trust."""
    return trustme.CA()


@pytest.fixture(scope="module")
def secured(ca: trustme.CA) -> Iterator[SecuredBroker]:
    """One broker for all tests of this file."""
    broker = SecuredBroker(ca)
    try:
        broker.start()
    except BrokerUnavailable as err:
        pytest.fail(str(err), pytrace=False)
    try:
        yield broker
    finally:
        broker.close()


def scram(broker: SecuredBroker, password: str = PASSWORD) -> dict[str, Any]:
    """Make the keys of `kafka.extra`, as docs/security.md has them."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": SCRAM,
        "sasl.username": USER,
        "sasl.password": password,
        "ssl.ca.location": str(broker.roots),
    }


def mutual(broker: SecuredBroker, certificate: Path) -> dict[str, Any]:
    """Make the keys of `kafka.extra` for a client's certificate."""
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(broker.roots),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(certificate),
    }


def test_a_service_works_over_scram(
    secured: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every client of it: it reads, commits, writes dead letters and what comes by HTTP."""
    monkeypatch.setenv("KABOOST_KAFKA__EXTRA__SASL_PASSWORD", PASSWORD)
    topic = create_topic(secured.bootstrap)
    extra = scram(secured)
    del extra["sasl.password"]
    kafka = {"bootstrap_servers": secured.scram, "topic": topic, "group_id": topic, "extra": extra}
    wanted = serving.settings(tmp_path, kafka=kafka)
    event = {"features": serving.ROW, "label": 1}
    produce(secured.bootstrap, topic, [json.dumps(event).encode(), BAD])
    with serving.running("serve", wanted) as program:
        program.ready()
        until(lambda: program.events_learned() == 1)
        answer = program.client.post("/events", json=event)
        until(lambda: program.events_learned() == 2)
        log = program._log.read_text()
    doctor = CliRunner().invoke(app, ["doctor", "--config", str(tmp_path / "kaboost.yaml")])

    assert 202 == answer.status_code, answer.text
    (letter,) = read_letters(secured.bootstrap, topic, 1)
    assert (topic, 0, 1) == letter.origin
    assert PASSWORD not in log + doctor.output
    assert "green" in doctor.output


def test_a_wrong_password_is_named(secured: SecuredBroker, tmp_path: Path) -> None:
    """Exit code 4 with the broker's reason, and without the password."""
    extra = scram(secured, WRONG)
    wanted = settings_for(
        secured.scram, tmp_path, "any", kafka={"extra": extra, "broker_timeout": 3.0}
    )
    with learning(wanted) as running, pytest.raises(BrokerError) as err:
        running.wait()

    assert "authentication" in str(err.value).lower()
    assert WRONG not in str(err.value)
    assert 4 == err.value.exit_code


def test_a_certificate_is_enough(secured: SecuredBroker, ca: trustme.CA, tmp_path: Path) -> None:
    """Of the broker's CA; dead letters are written over it as well."""
    topic = create_topic(secured.bootstrap)
    write_certificate(tmp_path / "client.pem", ca.issue_cert("kaboost"))
    extra = mutual(secured, tmp_path / "client.pem")
    wanted = settings_for(secured.mutual, tmp_path, topic, kafka={"extra": extra})
    produce(secured.bootstrap, topic, [GOOD] * 5 + [BAD])
    learn_all(wanted, 5)

    assert 5 == learned(wanted)
    assert 1 == len(read_letters(secured.bootstrap, topic, 1))


@pytest.mark.parametrize("case", ["a stranger's certificate", "a stranger's broker"])
def test_strangers_are_refused(
    secured: SecuredBroker, ca: trustme.CA, tmp_path: Path, case: str
) -> None:
    """On both sides: the broker refuses the client, the client refuses the broker."""
    stranger = trustme.CA()
    issuer = stranger if case == "a stranger's certificate" else ca
    write_certificate(tmp_path / "client.pem", issuer.issue_cert("kaboost"))
    extra = mutual(secured, tmp_path / "client.pem")
    if case == "a stranger's broker":
        stranger.cert_pem.write_to_path(tmp_path / "roots.pem")
        extra["ssl.ca.location"] = str(tmp_path / "roots.pem")
    wanted = settings_for(
        secured.mutual,
        tmp_path,
        "any",
        kafka={"extra": extra, "broker_timeout": 3.0},
        metrics={"port": free_port()},
    )
    with learning(wanted) as running, pytest.raises(BrokerError) as err:
        running.wait()

    assert "ssl" in str(err.value).lower()
