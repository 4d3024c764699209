"""Labels that come later in `kaboost demo --keep`: a second service, whose features wait."""

import json
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Producer
from rich.console import Console

from kaboost.service.demo import producer
from kaboost.service.demo.processes import (
    LATE_LABELS_TOPIC,
    LATE_TOPIC,
    PARTITION,
    DemoProcesses,
)

EVENTS, WAITING = 1_000, 200  # sent, and of these without a label at first
START_SECONDS = 180.0  # of the service, with what it compiles
JOIN_SECONDS = 30.0
TIMEOUT_SECONDS = 20.0

Events = Sequence[tuple[producer.Row, str]]


def show_late_label(console: Console, processes: DemoProcesses, events: Events) -> bool:
    """Send features, most labels after them, and one label last; say whether each was joined.

    1. Start a service of its own, whose labels come on a topic of their own.
    2. Send the features of all events, then the labels of all but the last ones.
    3. Send the label of one that waits, and wait until it is learned.
    """
    port = processes.open_late()
    address = f"http://127.0.0.1:{port}"
    console.print(f"A late label now, on a second service: {address}. Its labels have a topic.")
    if not _wait(lambda: _late(port) is not None, START_SECONDS):
        console.print("        the second service did not start in time; see its log")
        return False
    client = Producer({"bootstrap.servers": processes.settings.kafka.bootstrap_servers})
    sent = list(enumerate(events[:EVENTS]))
    for number, (features, _) in sent:
        _send(client, LATE_TOPIC, {"id": str(number), "features": features})
    _wait(lambda: _count(port, "waiting") == EVENTS, JOIN_SECONDS)
    console.print(f"        {_count(port, 'waiting'):,} features wait on disk, predicted at once")
    for number, (_, label) in sent[:-WAITING]:
        _send(client, LATE_LABELS_TOPIC, {"id": str(number), "label": label})
    _wait(lambda: _count(port, "joined") == EVENTS - WAITING, JOIN_SECONDS)
    console.print(f"        {_count(port, 'joined'):,} labels came and were learned with them")
    number, (_, label) = sent[-1]
    _send(client, LATE_LABELS_TOPIC, {"id": str(number), "label": label})
    joined = _wait(lambda: _count(port, "joined") == EVENTS - WAITING + 1, JOIN_SECONDS)
    what = "learned as it was predicted" if joined else "not learned in time"
    rest = _count(port, "waiting")
    console.print(f"        the label of event {number}, {label}: {what}; {rest} wait on")
    return joined


def _send(client: Producer, topic: str, value: dict[str, Any]) -> None:
    client.produce(topic, json.dumps(value).encode(), partition=PARTITION)
    client.flush(10)


def _late(port: int) -> dict[str, int] | None:
    """Return the counts of the second service; None while its learner starts."""
    url = f"http://127.0.0.1:{port}/status"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            status: dict[str, Any] = json.load(response)
    except OSError:
        return None
    # A learner that still compiles has counts as well, all 0, but reads nothing.
    return status["late_labels"] if status["lag_records"] is not None else None


def _count(port: int, name: str) -> int:
    return (_late(port) or {}).get(name, 0)


def _wait(holds: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return held
