"""What the demo shows besides its checks: why an answer is what it is, and a drift."""

import csv
import json
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from kaboost.service.demo import producer
from kaboost.service.demo.processes import LABELS, DemoProcesses

DRIFT_EVENTS = 4_000
DRIFT_RATE = 500.0  # events a second
DRIFT_SECONDS = 60.0  # until the demo no longer waits for it
REASONS = 3  # features that are named
TIMEOUT_SECONDS = 20.0

Events = Sequence[tuple[producer.Row, str]]


def explanation(port: int, features: producer.Row) -> str:
    """Return the prediction of a row and its largest contributions, in words."""
    answer = _ask(port, "predict", {"features": features, "explain": True})
    why = answer["explanation"]["contributions"]
    largest = sorted(why.items(), key=lambda pair: -abs(pair[1]))[:REASONS]
    reasons = ", ".join(f"{name} {value:+.2f}" for name, value in largest)
    return f"{answer['prediction']}, P(UP) {answer['probability']:.2f}: {reasons}"


def show_drift(console: Console, processes: DemoProcesses, events: Events) -> None:
    """Stream events whose labels are exchanged, and show when the learner notices."""
    before = _ask(processes.port, "status")
    path = processes.folder / "drift.csv"
    write_exchanged(path, events[-DRIFT_EVENTS:])
    console.print("A drift now: UP and DOWN are exchanged. Watch the loss on the page.")
    processes.stream_file(path, DRIFT_RATE, first_id=len(events))
    learned, usual = before["events_learned"], before["progressive"]["model"]["recent_loss"]
    deadline, noticed = time.monotonic() + DRIFT_SECONDS, None
    highest = now = usual
    while time.monotonic() < deadline and not processes.all_sent:
        time.sleep(0.25)
        now = _ask(processes.port, "status")["progressive"]["model"]["recent_loss"]
        highest = max(highest, now)
        if noticed is None and (found := _drifts(processes.port, learned)):
            noticed = found[0]
            console.print(f"        noticed after {noticed - learned} events; trees are rebuilt")
    if noticed is None:
        console.print("        no drift was noticed")
    losses = f"{usual:.3f} before, {highest:.3f} at most, {now:.3f} after {DRIFT_EVENTS:,} events"
    console.print(f"        recent loss {losses}")


def write_exchanged(path: Path, events: Events) -> None:
    """Write events as CSV, each with the other label."""
    other = dict(zip(LABELS, reversed(LABELS), strict=True))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*events[0][0], "class"])
        writer.writerows([*row.values(), other[label]] for row, label in events)


def _drifts(port: int, after: int) -> list[int]:
    """Return the events of the drifts that were noticed later than some event."""
    annotations = _ask(port, "model/history?points=2")["annotations"]
    drifts = [each["event"] for each in annotations if each["kind"] == "drift"]
    return [event for event in drifts if event > after]


def _ask(port: int, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", data, headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        return json.load(response)
