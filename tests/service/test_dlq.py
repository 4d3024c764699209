"""`kaboost dlq`: dead letters are counted, shown and replayed, and each event is learned once."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from kaboost.service import dlq
from kaboost.service.cli import app
from kaboost.service.config.settings import Settings
from kaboost.service.errors import BrokerError, ConfigError
from kaboost.service.kafka.letters import REPLAYED_FROM, Origin, read_letter
from kaboost.service.storage import replayed
from kaboost.service.storage.replayed import ReplayedOrigins
from tests.kafka.broker import Reachable
from tests.kafka.client import PATIENCE, Letter, encode, read
from tests.service.learning import (
    Rows,
    events,
    expect_state,
    gauge,
    learn_all,
    learned,
    learning,
    rows,
    saved,
    until,
)

Make = Callable[..., Settings]
Send = Callable[..., None]
ALL = dlq.LetterFilter()


def unknown(stream: Rows) -> list[bytes]:
    """Write events with a feature that the schema does not know."""
    return [encode({**features, "z": 1}, label) for features, label in stream]


def kaboost(settings: Path, *arguments: str) -> Any:
    """Run a command of `kaboost dlq` with --json, and return what it prints."""
    result = CliRunner().invoke(app, ["dlq", *arguments, "--config", str(settings), "--json"])
    assert 0 == result.exit_code, result.output
    return json.loads(result.output)


def replay(settings: Settings, letters: Iterator[Any] | None = None) -> dlq.Replayed:
    return dlq.replay(settings, letters or dlq.read_letters(settings.kafka), ALL)


def end(settings: Settings, topic: str) -> int:
    """Return where a topic of one partition ends."""
    client = Consumer({"bootstrap.servers": settings.kafka.bootstrap_servers, "group.id": "test"})
    with closing(client):
        high: int = client.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE)[1]
        return high


def test_replayed_events_are_learned_once(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Replayed twice, again after a restart, and once more in one batch: each teaches once."""
    stream = rows(90)
    send(topic, events(stream[:60]))
    send(topic, unknown(stream[60:]), key=b"k", headers=[("a", b"1")], timestamp=1_763_632_800_000)
    learn_all(make_settings(topic), 60)
    tolerant = make_settings(topic, features={"unknown": "ignore"})

    with learning(tolerant) as running:
        first = replay(tolerant)
        until(lambda: learned(tolerant) == 90)
        replay(tolerant)
        until(lambda: saved(tolerant) == {0: 150})
        assert 30.0 == gauge(tolerant, "kaboost_duplicates_total")
        assert 0 == running.stop()
    replay(tolerant)
    replay(tolerant)
    with learning(tolerant) as running:
        until(lambda: saved(tolerant) == {0: 210})
        assert 60.0 == gauge(tolerant, "kaboost_duplicates_total")
        assert 0 == running.stop()

    expect_state(tolerant, stream)
    assert dlq.Replayed(30, by_code={"feature_unknown": 30}) == first
    record = read(broker.bootstrap, topic, 91)[90]
    assert (unknown(stream)[60], b"k") == (record.value(), record.key())
    assert [("a", b"1"), (REPLAYED_FROM, f"{topic}[0]@60".encode())] == record.headers()
    assert 1_763_632_800_000 == record.timestamp()[1]


def test_an_interrupted_replay_is_run_again(
    topic: str, make_settings: Make, send: Send, tmp_path: Path
) -> None:
    """Killed in the middle: the rest comes with the next one, and what had come is not repeated."""
    stream = rows(3_000)
    send(topic, unknown(stream))
    send(topic, events(rows(1, 2)))
    learn_all(make_settings(topic), 1)
    tolerant = make_settings(topic, features={"unknown": "ignore"})
    command = [sys.executable, "-m", "kaboost.service.cli", "dlq", "replay", "--config"]
    process = subprocess.Popen([*command, str(tmp_path / "kaboost.json")])
    until(lambda: end(tolerant, topic) > 3_001)
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    replay(tolerant)
    count = end(tolerant, topic)
    with learning(tolerant) as running:
        until(lambda: saved(tolerant) == {0: count})
        assert 0 == running.stop()

    assert 3_001 == learned(tolerant)
    expect_state(tolerant, rows(1, 2) + stream)


def test_what_is_rejected_again_may_be_replayed_again(
    topic: str, make_settings: Make, send: Send, dead_letters: Callable[..., list[Letter]]
) -> None:
    """The second dead letter carries the first origin; once repaired, one of both teaches."""
    stream = rows(3)
    send(topic, events(stream[:1]) + unknown(stream[1:]))
    strict = make_settings(topic)
    with learning(strict) as running:
        until(lambda: saved(strict) == {0: 3})
        replay(strict)
        until(lambda: saved(strict) == {0: 5})
        assert 0 == running.stop()
    letters = [one for one in dlq.read_letters(strict.kafka) if one]
    tolerant = make_settings(topic, features={"unknown": "ignore"})
    done = replay(tolerant)
    learn_all(tolerant, 3)

    assert 4 == len(dead_letters(topic, 4))
    assert [(topic, 0, k) for k in (1, 2, 3, 4)] == [one.origin for one in letters]
    assert [(topic, 0, k) for k in (1, 2, 1, 2)] == [one.first_origin for one in letters]
    assert (2, 2) == (done.replayed, done.repeated)
    expect_state(tolerant, stream)


def test_the_commands_list_show_and_filter(
    topic: str, make_settings: Make, send: Send, tmp_path: Path
) -> None:
    """By reason with the newest of each; one in full; a dry run writes nothing."""
    send(topic, [b"{", *unknown(rows(2)), *events(rows(1))], key=b"\xff", headers=[("h", b"v")])
    settings = make_settings(topic)
    learn_all(settings, 1)
    send(settings.kafka.dlq, [b"not ours"])
    path = tmp_path / "kaboost.json"
    counts = {row["code"]: row["letters"] for row in kaboost(path, "list")}
    shown = {row["key"]: row["value"] for row in kaboost(path, "show", f"{topic}[0]@1")}
    dry = kaboost(path, "replay", "--filter", "reason=feature_unknown", "--dry-run")
    one = kaboost(path, "replay", "--filter", f"from={topic}[0]@2")
    late = kaboost(path, "list", "--filter", "since=2100-01-01T00:00:00Z")
    table = CliRunner().invoke(app, ["dlq", "list", "--config", str(path)]).output

    assert {"feature_unknown": 2, "json": 1, "foreign": 1} == counts
    assert ["feature_unknown", f"{topic}[0]@1"] == [shown["code"], shown["from"]]
    assert shown["remedy"].startswith("z: not in features.schema")
    assert unknown(rows(1))[0].decode() == shown["record"]
    assert [json.dumps("\xff"), "v"] == [shown["record key"], shown["header h"]]
    assert "kaboost" == shown["__connect.errors.connector.name"]
    assert (2, 1, 1) == (dry["replayed"], dry["filtered"], dry["foreign"])
    assert {"feature_unknown": 1} == one["by_code"]
    assert 5 == end(settings, topic)
    assert [] == [row for row in late if row["code"] != "foreign"]
    assert f"{topic}[0]@0" in table


@pytest.mark.parametrize("text", ["reason", "reason=", "since=x", "until=2026-01-01", "colour=1"])
def test_a_filter_that_is_none_is_refused(text: str) -> None:
    """With the ones that are there, or what a time looks like."""
    with pytest.raises(ConfigError, match=f"--filter {text}"):
        dlq.LetterFilter.parse([text])


def test_what_cannot_be_is_named(topic: str, make_settings: Make, tmp_path: Path) -> None:
    """No topic of dead letters, no such letter, no place."""
    settings = make_settings(topic, kafka={"dlq_topic": "nowhere", "create_dlq": False})
    with pytest.raises(BrokerError, match="topic nowhere cannot be read"):
        list(dlq.read_letters(settings.kafka))
    path = str(tmp_path / "kaboost.json")
    for place in ("x", f"{topic}@1"):
        result = CliRunner().invoke(app, ["dlq", "show", place, "--config", path])
        assert "write topic[partition]@offset" in str(result.exception)


def test_nothing_is_written_to_a_topic_that_is_not_read(
    topic: str, make_topic: Callable[..., str], make_settings: Make, send: Send
) -> None:
    """A forged dead letter names any topic; its record stays where it is."""
    other = make_topic()
    send(topic, [b"{", *events(rows(1))])
    settings = make_settings(topic)
    learn_all(settings, 1)
    (letter,) = (one for one in dlq.read_letters(settings.kafka) if one)
    forged = letter._replace(origin=Origin(other, 0, 3))
    done = replay(settings, iter([forged]))

    assert (0, 1) == (done.replayed, done.foreign)
    assert 0 == end(settings, other)


def test_a_record_may_bring_headers_of_the_same_names(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """Those of another system's dead letter stay with the record."""
    theirs = [("__connect.errors.topic", b"elsewhere"), ("kaboost.error.code", b"x")]
    send(topic, [b"{", *events(rows(1))], headers=theirs)
    learn_all(make_settings(topic), 1)
    (record,) = read(broker.bootstrap, f"{topic}.dlq", 1)
    letter = read_letter(record)

    assert letter is not None
    assert theirs == letter.headers
    assert ("json", (topic, 0, 0)) == (letter.code, letter.origin)


OFFSETS = st.integers(0, 30)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1), OFFSETS), max_size=60))
def test_origins_are_a_set(steps: list[tuple[bool, int, int]]) -> None:
    """As Python's own, in as few ranges as possible, also after it was stored."""
    origins, twin = ReplayedOrigins(), set()
    for adds, partition, offset in steps:
        place = ("t", partition, offset)
        (origins.add if adds else origins.discard)(place)
        (twin.add if adds else twin.discard)(place)
    again = ReplayedOrigins.from_arrays(origins.to_arrays())
    everything = [("t", partition, offset) for partition in (0, 1) for offset in range(-1, 33)]

    assert twin == {p for p in everything if p in origins} == {p for p in everything if p in again}
    starts = sum((p, k - 1) not in {t[1:] for t in twin} for _, p, k in twin)
    assert starts == origins.ranges == again.ranges


def test_origins_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the lowest of the longest partition are forgotten."""
    monkeypatch.setattr(replayed, "MAX_RANGES", 10)
    origins = ReplayedOrigins()
    for offset in range(0, 40, 2):
        origins.add(("t", 0, offset))
    origins.add(("t", 1, 0))

    assert 10 == origins.ranges
    assert [*range(22, 40, 2)] == [k for k in range(40) if ("t", 0, k) in origins]
    assert ("t", 1, 0) in origins
    assert [] == list(islice((k for k in range(22) if ("t", 0, k) in origins), 1))
