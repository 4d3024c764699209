"""A replay of a topic on a real broker: what it learns is what the live service learned."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaboost.service.config.settings import Settings, load
from kaboost.service.errors import BrokerError, ConfigError
from kaboost.service.lab.topic_source import TopicAddress
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.state import State
from tests.kafka.broker import Reachable
from tests.kafka.client import encode
from tests.ports import free_port
from tests.service.learning import events, learn_all, learning, rows, saved, until
from tests.service.replays import replayed, write_csv
from tests.service.replays import rows as orders

Make = Callable[..., Settings]
Send = Callable[..., None]
DEFAULT: dict[str, Any] = {"model": {"rule": {"kind": "sgb"}}}


def state_in(folder: Path | str) -> State:
    """Read the newest checkpoint."""
    checkpoint, _ = FolderCheckpointStore(Path(folder)).restore()
    assert checkpoint is not None
    return checkpoint.state


def expect_equal(one: State, other: State) -> None:
    """Compare all arrays and offsets bit for bit."""
    ours, theirs = one.to_arrays(), other.to_arrays()
    assert one.offsets == other.offsets
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_replay_is_what_the_service_learned(
    topic: str, make_settings: Make, send: Send, tmp_path: Path
) -> None:
    """Replay and service have the same bytes of model and validation on one partition, and go on
    as one.
    """
    live = make_settings(topic, features={"schema": {"x": "number", "*": "auto"}}, **DEFAULT)
    stream = events(rows(700))
    bad = [b"no json", encode({"x": "far"}, 1), encode({"x": 1.0}, "maybe")]
    send(topic, [*stream[:150], *bad, *stream[150:500]])
    learn_all(live, 500)
    folder = tmp_path / "lab"
    config = tmp_path / "kaboost.json"
    result = replayed(f"kafka://{topic}", None, config=config, overrides={}, save=folder)

    assert (503, 500) == (result.figures["records"], result.events)
    assert {"json": 1, "feature_type": 1, "label": 1} == result.figures["rejected"]
    expect_equal(state_in(live.checkpoints.folder), state_in(folder / "checkpoints"))
    send(topic, stream[500:])
    learn_all(live, 700)
    moved = {
        "checkpoints.directory": str(folder / "checkpoints"),
        "snapshots.directory": str(folder / "snapshots"),
        "metrics.port": free_port(),
    }
    learn_all(load(config, moved), 700)
    expect_equal(state_in(live.checkpoints.folder), state_in(folder / "checkpoints"))


def test_records_of_an_unknown_topic_are_inferred(
    make_topic: Callable[..., str], send: Send, broker: Reachable
) -> None:
    """Without a configuration the first records suggest one; several partitions are read."""
    topic = make_topic(partitions=2)
    found = orders(300)
    for partition in (0, 1):
        values = [json.dumps(row).encode() for row in found[partition::2]]
        send(topic, values, partition)
    address = f"kafka://{broker.bootstrap}/{topic}"
    result = replayed(address, "fraud")

    assert 300 == result.events
    assert any("2 partitions" in note for note in result.figures["notes"])
    with pytest.raises(ConfigError, match="no event was learned"):
        replayed(f"{address}?from=2126-11-01T00:00:00Z", "fraud")


def test_rows_of_a_file_continue_as_a_service(
    topic: str, send: Send, broker: Reachable, tmp_path: Path
) -> None:
    """A model of a file goes on with a topic, from where `kafka.start_from` says."""
    found = orders(260)
    path = write_csv(tmp_path / "orders.csv", found[:200])
    folder = tmp_path / "lab"
    overrides = {
        "kafka.topic": topic,
        "kafka.bootstrap_servers": broker.bootstrap,
        "kafka.group_id": topic,
    }
    result = replayed(path, overrides=overrides, save=folder)
    send(topic, [json.dumps(row).encode() for row in found[200:]])
    settings = load(folder / "kaboost.yaml", {"metrics.port": free_port()})
    learn_all(settings, 260)
    state = state_in(folder / "checkpoints")

    assert 200 == result.events
    assert ({0: 60}, 260) == (state.offsets, state.events_learned)


def test_the_end_of_a_topic_is_looked_for_once(
    topic: str, send: Send, broker: Reachable, tmp_path: Path
) -> None:
    """A model of a file starts at the latest record; a checkpoint says so before any event."""
    folder, found = tmp_path / "lab", orders(60)
    overrides = {
        "kafka.topic": topic,
        "kafka.bootstrap_servers": broker.bootstrap,
        "kafka.group_id": topic,
        "kafka.start_from": "latest",
    }
    replayed(write_csv(tmp_path / "orders.csv", found), overrides=overrides, save=folder)
    send(topic, [json.dumps(row).encode() for row in found])
    settings = load(folder / "kaboost.yaml", {"metrics.port": free_port()})
    with learning(settings) as running:
        until(lambda: not running.alive or saved(settings) == {0: 60})
        assert 0 == running.stop()


def test_addresses() -> None:
    """The topic may stand alone or after its broker; another key is refused."""
    assert ("a", None, "b:9092") == TopicAddress.parse("kafka://b:9092/a")
    assert {"kafka.topic": "a", "kafka.start_from": "latest"} == TopicAddress.parse(
        "kafka://a?from=latest"
    ).flags()
    with pytest.raises(ConfigError, match=r"since: is not known; write kafka://TOPIC\?from="):
        TopicAddress.parse("kafka://a?since=x")
    with pytest.raises(ConfigError, match="names no topic"):
        TopicAddress.parse("kafka://")


def test_no_broker(tmp_path: Path) -> None:
    """Without a broker the replay ends with its address."""
    overrides: dict[str, object] = {"kafka.broker_timeout": "1"}
    port = free_port()
    with pytest.raises(BrokerError, match=rf"no broker at 127\.0\.0\.1:{port}"):
        replayed(f"kafka://127.0.0.1:{port}/a", "y", overrides=overrides)
