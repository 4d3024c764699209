"""A client that requests predictions all the time: one connection, up to 50 requests a second."""

import http.client
import json
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

PAUSE_SECONDS = 0.02  # between two requests
TIMEOUT_SECONDS = 2.0


class TrafficStatus(NamedTuple):
    """The requests so far and the newest prediction."""

    answered: int
    failed: int
    version: int
    probability: float


class Traffic(threading.Thread):
    """Send the rows to `POST /predict` in turn and record the responses."""

    def __init__(self, port: int, rows: Sequence[dict[str, float]]) -> None:
        super().__init__(daemon=True)
        self.times: list[float] = []  # of the successful responses
        self.failures: list[str] = []
        self.versions: list[int] = []  # of the snapshots that served, each once, in order
        self.learned = 0  # events in the snapshot of the newest response
        self._probability = 0.0
        self._port, self._rows = port, rows
        self._finished = threading.Event()
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)

    def run(self) -> None:
        while not self._finished.wait(PAUSE_SECONDS):
            row = self._rows[len(self.times) % len(self._rows)]
            try:
                self._request(json.dumps({"features": row}))
            except (OSError, http.client.HTTPException, ValueError, KeyError) as err:
                self.failures.append(f"{type(err).__name__}: {err}")
                self._connection.close()  # the next request reopens it

    def finish(self) -> None:
        """Stop sending requests."""
        self._finished.set()
        self.join(2 * TIMEOUT_SECONDS)

    def status(self) -> TrafficStatus:
        """Summarise the requests so far."""
        version = self.versions[-1] if self.versions else 0
        return TrafficStatus(len(self.times), len(self.failures), version, self._probability)

    def between(self, begin: float, end: float) -> int:
        """Count the successful responses between two times."""
        return sum(begin < time_ < end for time_ in self.times)

    def _request(self, body: str) -> None:
        self._connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise ValueError(f"status {response.status}: {answer.get('detail', '')}")
        version = int(answer["model"]["version"])
        if not self.versions or version != self.versions[-1]:
            self.versions.append(version)
        self.learned = int(answer["model"]["events_learned"])
        self._probability = float(answer["probability"])
        self.times.append(time.monotonic())
