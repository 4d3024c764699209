"""A schema registry that is away stalls the learner, and everybody can see it."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from kaboost.service.config.settings import Settings
from kaboost.service.learner import stalls
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.kafka.registry import SchemaRegistry
from tests.service.learning import gauge, learned, learning, until

FIELDS = [{"name": "x", "type": "double"}, {"name": "label", "type": "long"}]
SCHEMA = {"type": "record", "name": "Event", "fields": FIELDS}
VALUE = b"\0" * 8 + b"\2"  # x = 0.0, label = 1


def test_a_registry_that_is_away(
    topic: str,
    make_settings: Callable[..., Settings],
    send: Callable[..., None],
    schema_registry: SchemaRegistry,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """State, reason, metric and log, with heartbeats meanwhile; then the records are learned."""
    monkeypatch.setattr(stalls, "AFTER_SECONDS", 0.5)
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        number = client.register_schema(topic, Schema(json.dumps(SCHEMA), "AVRO"))
    registry = {"url": schema_registry.url, "timeout": 2}
    events = {"label": "label", "schema_registry": registry}
    wanted = make_settings(topic, events=events, features={"schema": {"x": "number"}})
    store = FolderSnapshotStore(wanted.snapshots.directory)
    send(topic, [b"\0" + number.to_bytes(4, "big") + VALUE])
    schema_registry.suspend()
    try:
        with learning(wanted) as learner:
            stalled = until(lambda: store.read_condition().stalled)
            assert f"the schema registry {schema_registry.url} gives no schema" in stalled
            until(lambda: (gauge(wanted, "kaboost_learner_stalled_seconds") or 0.0) > 0.5)
            beats = {until(store.last_heartbeat)}
            until(lambda: beats.add(store.last_heartbeat()) or len(beats) > 4)
            assert store.read_condition().stalled
            schema_registry.resume()
            until(lambda: learned(wanted) == 1)
            until(lambda: not store.read_condition().stalled)
            assert 0 == learner.stop()
    finally:
        schema_registry.resume()

    (line,) = [vars(r) for r in caplog.records if r.message == "learning stalled"]
    assert "the schema registry" in line["reason"]
