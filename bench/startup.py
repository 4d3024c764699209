"""Time from start to ready, with and without warm caches; cost of snapshots and checkpoints.

`python -m bench.startup` starts a real broker and, repeatedly, `kaboost serve`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from bench.service import Service, fill
from tests.kafka.broker import Broker

WRITES = {
    "publishing snapshots": "kaboost_snapshot_publish_duration_seconds",
    "writing checkpoints": "kaboost_checkpoint_duration_seconds",
}


def first_start(bootstrap: str, topic: str, env: Mapping[str, str] | None = None) -> float:
    """Start with empty folders; return the seconds until predictions are served."""
    with tempfile.TemporaryDirectory() as folder:
        return start(Service(Path(folder), bootstrap, topic), env)


def cold_start(bootstrap: str, topic: str) -> float:
    """The same with no kernel compiled."""
    with tempfile.TemporaryDirectory() as cache:
        return first_start(bootstrap, topic, {"NUMBA_CACHE_DIR": cache})


def restart(bootstrap: str, topic: str) -> float:
    """Start from the checkpoint of an earlier run."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), bootstrap, topic)
        start(service)
        return start(service)


def start(service: Service, env: Mapping[str, str] | None = None) -> float:
    """Run the service until it is ready, and stop it."""
    begun = time.perf_counter()
    with service.running("serve", env=env) as process:
        service.ready(process)
        return time.perf_counter() - begun


def shares(bootstrap: str, events: int) -> Iterator[tuple[str, float, float, float]]:
    """Learn a backlog; for each kind of writing its times, its seconds, its share of them all."""
    topic = fill(bootstrap, events)
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), bootstrap, topic)
        with service.running("learner") as learner:
            service.learned(learner, 1)
            begun = time.perf_counter()
            before = {name: service.told(f"{name}_sum") for name in WRITES.values()}
            service.learned(learner, events)
            spent = time.perf_counter() - begun
            for what, name in WRITES.items():
                seconds = service.told(f"{name}_sum") - before[name]
                yield what, service.told(f"{name}_count"), seconds, seconds / spent


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=1_000_000, help="of the backlog")
    asked = parser.parse_args()
    broker = Broker()
    broker.start()
    try:
        topic = fill(broker.bootstrap, 1000)
        first_start(broker.bootstrap, topic)  # fills the cache
        print("| start to ready | median, s | slowest, s | promised |\n|---|---|---|---|")
        for what, measure, rounds, promise in (
            ("first start, warm caches", first_start, asked.rounds, "at most 3"),
            ("restart from a checkpoint, warm caches", restart, asked.rounds, "at most 3"),
            ("first start, no kernel compiled", cold_start, 2, "at most 20"),
        ):
            times = [measure(broker.bootstrap, topic) for _ in range(rounds)]
            print(f"| {what} | {median(times):.2f} | {max(times):.2f} | {promise} |", flush=True)
        print(f"\n| in a backlog of {asked.events:,} events | times | seconds | share |")
        print("|---|---|---|---|")
        for what, count, seconds, share in shares(broker.bootstrap, asked.events):
            print(f"| {what} | {count:.0f} | {seconds:.2f} | {share:.1%} |")
    finally:
        broker.close()


if __name__ == "__main__":
    main()
