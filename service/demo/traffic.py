"""Applications that ask for predictions all the time: one connection, fifty requests a second."""

import http.client
import json
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

PAUSE = 0.02  # seconds between two requests
TIMEOUT = 2.0


class Glance(NamedTuple):
    """The traffic at one moment."""

    answered: int
    failed: int
    version: int
    probability: float


class Traffic(threading.Thread):
    """Ask `POST /predict` for the rows in turn and keep count of what came back."""

    def __init__(self, port: int, rows: Sequence[dict[str, float]]) -> None:
        super().__init__(daemon=True)
        self.moments: list[float] = []  # when each good answer came
        self.failures: list[str] = []
        self.versions: list[int] = []  # of the snapshots that answered, each once, in order
        self.learned = 0  # events behind the newest answer
        self._probability = 0.0
        self._port, self._rows = port, rows
        self._over = threading.Event()
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def run(self) -> None:
        while not self._over.wait(PAUSE):
            row = self._rows[len(self.moments) % len(self._rows)]
            try:
                self._ask(json.dumps({"features": row}))
            except (OSError, http.client.HTTPException, ValueError, KeyError) as err:
                self.failures.append(f"{type(err).__name__}: {err}")
                self._line.close()  # the next request opens it again

    def finish(self) -> None:
        """Ask no more."""
        self._over.set()
        self.join(2 * TIMEOUT)

    def glance(self) -> Glance:
        """Say how it goes."""
        version = self.versions[-1] if self.versions else 0
        return Glance(len(self.moments), len(self.failures), version, self._probability)

    def between(self, begin: float, end: float) -> int:
        """Count the good answers of a stretch of time."""
        return sum(begin < moment < end for moment in self.moments)

    def _ask(self, body: str) -> None:
        self._line.request("POST", "/predict", body, {"Content-Type": "application/json"})
        response = self._line.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise ValueError(f"status {response.status}: {answer.get('detail', '')}")
        version = int(answer["model"]["version"])
        if not self.versions or version != self.versions[-1]:
            self.versions.append(version)
        self.learned = int(answer["model"]["events_learned"])
        self._probability = float(answer["probability"])
        self.moments.append(time.monotonic())
