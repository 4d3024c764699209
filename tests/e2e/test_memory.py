"""The learner's memory stays flat over a million events, and under 300 MB."""

from __future__ import annotations

import json

import httpx
import psutil
import pytest
import yaml
from confluent_kafka import Producer

from tests.e2e import proof

EVENTS = 1_000_000
LIMIT_MB = 300
GROWTH_MB = 16


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def wait_for(port: int, events: int) -> None:
    """Wait until the learner itself counts so many learned events."""

    client = httpx.Client(timeout=5, trust_env=False)

    def reached() -> bool:
        try:
            lines = client.get(f"http://127.0.0.1:{port}/metrics").text.splitlines()
        except httpx.ConnectError:
            return False  # it is still starting
        counts = [line for line in lines if line.startswith("kaboost_events_learned_total ")]
        return bool(counts) and float(counts[0].split()[1]) >= events

    with client:
        proof.wait_until(reached, within=180, every=0.05)


@pytest.mark.timeout(600)
def test_memory_is_flat(broker, tmp_path):
    """From the first 200,000 events to the millionth nothing grows, files and all."""
    run = proof.Run(tmp_path, broker.bootstrap, "memory.events.v1")
    settings = run.settings()
    settings["snapshots"].update(keep=5, every_seconds=1.0, every_events=100_000)
    settings["checkpoints"].update(keep=2, every_seconds=2.0, every_events=200_000)
    settings["events"] = {"duplicates": {"window": 0}}  # the same events come again and again
    run.config.write_text(yaml.safe_dump(settings, sort_keys=False))
    proof.create_topic(broker.bootstrap, run.topic)
    learner = run.start("learner")
    try:
        client = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
        seen = []
        for first in range(0, EVENTS, 50_000):
            for k in range(first, first + 50_000):
                client.produce(run.topic, run.good[k % len(run.good)], partition=0)
                if k % 1000 == 0:
                    client.poll(0)
            client.flush(60)
            wait_for(run.metrics_port, first + 50_000)
            seen.append(resident(learner.pid))
    finally:
        code = proof.stop(learner)
    print(json.dumps({"resident_mb": [round(mb) for mb in seen]}))

    assert code == 0
    assert max(seen) < LIMIT_MB
    assert max(seen[-4:]) - max(seen[2:5]) < GROWTH_MB
