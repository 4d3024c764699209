"""Values of private fields stand nowhere but in the records: planted ones are looked for."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kaboost.service.cli import app
from kaboost.service.config.settings import Settings, values
from kaboost.service.errors import EventError
from kaboost.service.events import privacy
from kaboost.service.events.privacy import Privacy, make_privacy
from kaboost.service.storage.live import FIGURES, RECORDS, LiveFiles
from tests.kafka.broker import Reachable
from tests.kafka.client import read
from tests.service.learning import learning, until
from tests.service.serving import running, settings

SECRETS = ["jane.doe@example.com", "4929-1234", "987654321.125", "555000111", "Lisbon-17"]
MAIL, CARD, NUMBER, ID, TOWN = SECRETS
LONG = "x" * 40 + MAIL * 9
FIELDS = ["email", "card", "id", "home"]
SCHEMA = {"email": "number", "card": "boolean", "amount": "number", "home.town": "number"}


def event(label: Any = 1, id_: Any = None, **features: Any) -> bytes:
    whole = {"features": {"amount": 1.0, **features}, "label": label}
    return json.dumps(whole if id_ is None else {**whole, "id": id_}).encode()


PLANTED = [
    event(email=MAIL),
    event(email=LONG),
    event(card=CARD),
    event(card=float(NUMBER)),
    event(email={"inner": MAIL}),
    event(**{"home.town": TOWN}),
    event(amount=CARD, card=CARD),
    event(id_=[ID]),  # no id: ignored, with an example in the log
    event(email="1e999", card=int(ID)),
    event(label=MAIL, email=MAIL),
    b'{"features": {"email": "%s", "email": 1, "amount": "a"}, "label": 1}' % MAIL.encode(),
    b'{"features": {"email": "%s"}, "label": ' % MAIL.encode(),
    b'"%s"' % MAIL.encode(),
    b'["%s", %s]' % (CARD.encode(), NUMBER.encode()),
    event(email=1, card=True, **{"home.town": 3}),
]


def test_planted_values_are_found_nowhere(
    broker: Reachable, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """In no header of a dead letter, log line, page, report, file of the status or command."""
    wanted = settings(
        tmp_path,
        kafka={"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic},
        features={"schema": SCHEMA},
        privacy={"fields": FIELDS},
        api={"max_rejected_ratio": 0.5},
        log={"level": "debug"},
    )
    send(topic, PLANTED)
    config = ["--config", str(tmp_path / "kaboost.yaml")]
    with running("serve", wanted) as program:
        until(lambda: (program.probe(503) or {}).get("detail"))
        until(lambda: program.metric("kaboost_events_consumed_total") == len(PLANTED))
        count = int(program.metric("kaboost_events_rejected_total"))
        until(lambda: program.metric("kaboost_dlq_records_total") == count)
        pages = ["/", "/model", "/metrics", "/healthz/ready", "/healthz/live"]
        pages += ["/status", "/model/history", "/model/records"]
        until(lambda: program.client.get("/model/records").json()["dead_letters"])
        shown = {path: program.client.get(path).text for path in pages}
        shown["log"] = (tmp_path / "serve.log").read_text()
        for path in [*tmp_path.rglob("*.json"), *tmp_path.rglob("*.lock")]:
            shown[str(path)] = path.read_text()
        for name in (FIGURES, RECORDS):
            text = (wanted.snapshots.directory / name).read_text(errors="replace")
            assert '"time"' in text or '"dead_letters"' in text
            shown[name] = text
    letters = read(broker.bootstrap, f"{topic}.dlq", count)
    for letter in letters:
        shown[f"letter {letter.offset()}"] = str(letter.headers())
    for command in (["dlq", "list"], ["dlq", "show", f"{topic}[0]@0"], ["doctor"]):
        shown[" ".join(command)] = CliRunner().invoke(app, [*command, *config]).output

    found = {(name, secret) for name, text in shown.items() for secret in SECRETS if secret in text}
    assert set() == found
    assert 13 == count
    assert MAIL.encode() in (letters[0].value() or b"")  # the bytes are kept
    assert 'email: "[hidden]" where a number or null belongs' in str(letters[0].headers())
    assert "[hidden]" in shown["log"]
    revealed = CliRunner().invoke(app, ["dlq", "show", f"{topic}[0]@0", "--reveal", *config])
    assert MAIL in revealed.output


def hide(text: str, record: Any, *fields: str, key: bytes | None = None) -> str:
    return Privacy(fields, key).text(text, lambda: record)


@pytest.mark.parametrize(
    ("text", "record", "expected"),
    [
        ("a: 'secret1' and secret", {"a": "secret1"}, "a: '[hidden]' and [hidden]"),
        ("a: 17 of 170", {"a": 17}, "a: [hidden] of 170"),
        ("a: 17.0", {"a": 17.0}, "a: [hidden]"),
        ("a: ...ecret value...", {"a": "my secret value"}, "a: ...[hidden]..."),
        ('a: "é\\"q"', {"a": 'é"q'}, 'a: "[hidden]"'),
        ("a: true where false", {"a": True}, "a: [hidden] where [hidden]"),
        ("b.a.c: abcdefg", {"b": {"a": [{"c": "abcdefg"}]}}, "b.a.c: [hidden]"),
        ("c: abcdefg", {"c": "abcdefg", "aa": 1}, "c: abcdefg"),
        ("[1, 2] abcdefg", ["abcdefg"], "[1, 2] [hidden]"),
    ],
)
def test_values_are_hidden_in_every_form(text: str, record: Any, expected: str) -> None:
    """Cut, escaped, as a number, within objects; and nothing of other fields."""
    assert expected == hide(text, record, "a")


def test_what_cannot_be_read_is_hidden_as_a_whole() -> None:
    """Unless the words of its code quote nothing."""

    def read() -> object:
        raise EventError("format", "cut off")

    private = Privacy(["a"])
    assert (
        privacy.UNREADABLE == private.error(EventError("format", "as avro: secret"), read).message
    )
    assert "not JSON" == private.error(EventError("json", "not JSON"), read).message
    assert "as avro" == Privacy().error(EventError("format", "as avro"), read).message


def test_hashes_are_equal_for_equal_values() -> None:
    """By the key of the settings, or a random one of the process."""
    one, other = (Privacy(["a"], key) for key in (b"1" * 32, b"2" * 32))

    assert one.shown("a", "x") == one.shown("a", "x") != one.shown("a", "y")
    assert one.shown("a", "x") != other.shown("a", "x")
    assert str(one.shown("a", "x")).startswith("[hash ")
    assert "x" == one.shown("b", "x")


def test_names_stand_for_their_paths(make_settings: Callable[..., Settings]) -> None:
    """Of features that have a path, of the id, and of later labels; the key is a secret."""
    events = {"features": {"mail": "customer.address.mail"}, "id": "/order/number", "label": "paid"}
    wanted = make_settings(
        "t", events=events, features={"schema": {"mail": "number"}},
        privacy={"fields": ["mail", "order.number"], "mode": "hash", "key": "hush"},
    )  # fmt: skip
    private = make_privacy(wanted)
    record = {"customer": {"address": {"mail": "abcdefg"}}, "order": {"number": 1234567}}

    assert "[hash" in private.text("is abcdefg", lambda: record)
    assert "[hash" in private.text("is 1234567", lambda: record)
    assert "[hash" in str(private.shown("id", 7))
    assert 7 == private.shown("label", 7)
    assert "hush" not in str(values(wanted))


MAPPED: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "default envelope": ({}, "features.email", {"features": {"email": MAIL, "x": 1.0}, "label": 1}),
    "path of an object": (
        {"features": "payload", "label": "label"},
        "payload.email",
        {"payload": {"email": MAIL, "x": 1.0}, "label": 1},
    ),
    "path of each": (
        {"features": {"email": "/customer/mail", "x": "x"}, "label": "label"},
        "customer.mail",
        {"customer": {"mail": MAIL}, "x": 1.0, "label": 1},
    ),
    "all below a path": (
        {"features": {"email": "/customer/mail", "x": "x"}, "label": "label"},
        "customer",
        {"customer": {"mail": MAIL}, "x": 1.0, "label": 1},
    ),
    "envelope of Debezium": (
        {"envelope": "debezium", "label": "label"},
        "payload.after.email",
        {"schema": {}, "payload": {"op": "c", "after": {"email": MAIL, "x": 1.0, "label": 1}}},
    ),
}


@pytest.mark.parametrize(("events", "field", "record"), MAPPED.values(), ids=MAPPED)
def test_whole_paths_hide_what_the_page_shows(
    make_settings: Callable[..., Settings],
    topic: str,
    send: Callable[..., None],
    events: dict[str, Any],
    field: str,
    record: dict[str, Any],
) -> None:
    """Neither an event nor the form's values hold a value whose path is private."""
    mode = "hash" if field == "customer" else "drop"
    wanted = make_settings(
        topic, events=events, privacy={"fields": [field], "mode": mode},
        features={"schema": {"email": "category", "x": "number"}},
    )  # fmt: skip
    send(topic, [json.dumps(record).encode()] * 9)
    files = LiveFiles(wanted.snapshots.directory)
    with learning(wanted):
        found = until(lambda: records if (records := files.read(RECORDS)).get("events") else None)

    features = found["events"][0]["features"]
    assert re.fullmatch(r"\[hash \w{12}\]" if mode == "hash" else r"\[hidden\]", features["email"])
    assert 1.0 == features["x"]
    assert 1 == found["events"][0]["label"]
    assert {"x"} == set(found["seen"])
    assert MAIL not in json.dumps(found)


def test_values_of_an_earlier_learner_stay_until_there_are_others(
    topic: str, make_settings: Callable[..., Settings]
) -> None:
    """The form of the page is filled after a replay and a restart; what is private now is not."""
    wanted = make_settings(
        topic, privacy={"fields": ["email"]}, features={"schema": {"email": "text", "x": "number"}}
    )  # fmt: skip
    files = LiveFiles(wanted.snapshots.directory)
    seen = {name: {"last": value} for name, value in {"email": MAIL, "x": 1.5, "gone": 2}.items()}
    files.write(RECORDS, {"seen": seen})
    with learning(wanted):
        found = until(lambda: records if "shown" in (records := files.read(RECORDS)) else None)

    assert {"x": {"last": 1.5}} == found["seen"]


def test_paths_of_roles_are_whole(make_settings: Callable[..., Settings]) -> None:
    """A path above the id hides it; private features do not hide the label."""
    events = {"features": "payload", "id": "order.number", "label": "label"}
    above = make_privacy(make_settings("t", events=events, privacy={"fields": ["order"]}))
    features = make_privacy(make_settings("t", privacy={"fields": ["features"]}))

    assert "[hidden]" == above.shown("id", 7)
    assert [True, False, False] == [
        features.hides_feature("label"), features.hides("label"), features.hides("id")
    ]  # fmt: skip
