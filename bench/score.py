"""`kaboost score`: records answered by a CPU second of one process, all its threads.

`python -m bench.score` starts a real broker, publishes a snapshot of the default model (10 mixed
features, 20,000 events learned) every second, and lets one process answer a topic of four
partitions, with the features of the records in the answers and without.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from confluent_kafka import Producer

from bench.service import DISTINCT, PATIENCE, SCHEMA, Service, rows, wait
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from tests.kafka.broker import Broker
from tests.kafka.client import create_topic
from tests.ports import free_port
from tests.service.learning import settings_in
from tests.service.serving import publish

PARTITIONS = 4
WARM = 0.1  # part of the records that is answered before the measurement
LEARNED = 20_000
CONSUMED = "kaboost_score_consumed_total"


def fill(bootstrap: str, records: int) -> str:
    """Write a topic of that many records without labels and return its name."""
    topic, drawn = create_topic(bootstrap, PARTITIONS), rows(DISTINCT)
    client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for k in range(records):
        value = json.dumps({"id": f"id-{k}", "features": drawn[k % DISTINCT]})
        client.produce(topic, value.encode(), partition=k % PARTITIONS)
        if k % 1000 == 0:
            client.poll(0.01)
    client.flush(PATIENCE)
    return topic


def learned() -> Model:
    """Return the default model after some events."""
    model, drawn = Model("binary", None, SCHEMA), rows(LEARNED)
    model.learn_many(drawn, [int(row.get("x0", 0.0) > 0.0) for row in drawn])
    return model


@contextmanager
def publishing(settings: Settings, model: Model) -> Iterator[None]:
    """Publish a snapshot every second, as a learner does."""
    stop = threading.Event()

    def publish_on() -> None:
        while not stop.is_set():
            publish(settings, model)
            stop.wait(1.0)

    thread = threading.Thread(target=publish_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def measure(broker: Broker, topic: str, records: int, model: Model, features: bool) -> None:
    """Answer all records once, and print the rates."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        port = free_port()
        answers = create_topic(broker.bootstrap, PARTITIONS)
        sections = {
            "kafka": {"bootstrap_servers": broker.bootstrap, "group_id": folder.name},
            "features": {"schema": SCHEMA},
            "predictions": {"topic": answers},
            "score": {"topic": topic, "metrics_port": port, "features": features},
            "snapshots": {"every_seconds": 1.0},
        }
        service = Service(folder, broker.bootstrap, topic)
        service.metrics_port = port
        settings = settings_in(folder / "kaboost.yaml", {}, sections)
        with publishing(settings, model), service.running("score") as process:
            wait(lambda: service.told(CONSUMED) >= WARM * records, process)
            first, spent, began = service.told(CONSUMED), cpu(process.pid), time.monotonic()
            wait(lambda: service.told(CONSUMED) >= records, process, 0.1)
            count, spent = records - first, cpu(process.pid) - spent
            memory = psutil.Process(process.pid).memory_info().rss / 2**20
            wall = time.monotonic() - began
        print(
            f"features: {features!s:5}  {count / spent:8,.0f} records per CPU second  "
            f"{1e6 * spent / count:5.1f} us a record  {count / wall:8,.0f} records/s  "
            f"{memory:,.0f} MiB"
        )


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process, its threads included."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Measure with features and without, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    broker, model = Broker(), learned()
    broker.start()
    try:
        topic = fill(broker.bootstrap, given.records)
        for _ in range(given.rounds):
            for features in (True, False):
                measure(broker, topic, given.records, model, features)
    finally:
        broker.close()


if __name__ == "__main__":
    main()
