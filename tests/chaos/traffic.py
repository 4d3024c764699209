"""Traffic of a chaos scenario: events of a known outcome, and predictions without a pause."""

import json
import random
import threading
import time
from typing import Any, NamedTuple

import httpx
from confluent_kafka import Producer

from tests.e2e.malformed import malformed
from tests.service.learning import rows

DUPLICATES, MALFORMED = 0.03, 0.03  # shares of the records
BACK = 50  # events, that a repeated one lies back at most
MALFORMED_EVENTS = [value for _, value in malformed(600)]


class Sent(NamedTuple):
    """One record and what must become of it."""

    value: bytes | None
    outcome: str  # learned, duplicate, dead
    row: tuple[dict[str, Any], int] | None = None


class Stream:
    """Records in order, the same for the same seed; each is sent once."""

    def __init__(self, seed: int, plain: bool = False) -> None:
        self._draw = random.Random(seed)
        self._seed = seed
        self._plain = plain
        self._rows = iter(rows(0))
        self._recent: list[bytes] = []
        self.sent: list[Sent] = []

    def next(self) -> Sent:
        """Make the next record."""
        chance = 1.0 if self._plain else self._draw.random()
        if chance < DUPLICATES and self._recent:
            made = Sent(self._draw.choice(self._recent[-BACK:]), "duplicate")
        elif chance < DUPLICATES + MALFORMED:
            made = Sent(self._draw.choice(MALFORMED_EVENTS), "dead")
        else:
            made = self._event()
        self.sent.append(made)
        return made

    def _event(self) -> Sent:
        row = next(self._rows, None)
        if row is None:
            self._rows = iter(rows(1000, seed=self._draw.randrange(2**31)))
            row = next(self._rows)
        event = {"id": f"{self._seed}-{len(self.sent)}", "features": row[0], "label": row[1]}
        value = json.dumps(event).encode()
        self._recent.append(value)
        del self._recent[:-BACK]
        return Sent(value, "learned", row)

    def count(self, outcome: str) -> int:
        """Count the records of one outcome."""
        return sum(sent.outcome == outcome for sent in self.sent)

    @property
    def learned(self) -> list[tuple[dict[str, Any], int]]:
        """The events to learn, in order."""
        return [sent.row for sent in self.sent if sent.row is not None]

    @property
    def dead(self) -> dict[int, bytes | None]:
        """The values of dead letters by the offsets of their records."""
        return {k: sent.value for k, sent in enumerate(self.sent) if sent.outcome == "dead"}


class Feeder:
    """A thread that writes a stream at a pace; no record is lost, repeated or reordered."""

    def __init__(self, bootstrap: str, topic: str, stream: Stream, pace: float) -> None:
        self.stream = stream
        self._topic, self._pace = topic, pace
        self._errors: list[str] = []
        self._client = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "log_level": 0,
                "message.timeout.ms": 300_000,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> int:
        """Write what is on its way; return how many records were sent."""
        self._stop.set()
        self._thread.join()
        assert not self._client.flush(120), "the broker did not take the records"
        assert not self._errors, self._errors[:3]
        return len(self.stream.sent)

    def _run(self) -> None:
        begin, first = time.monotonic(), len(self.stream.sent)
        while not self._stop.is_set():
            due = first + self._pace * (time.monotonic() - begin)
            while len(self.stream.sent) < due and not self._stop.is_set():
                value = self.stream.next().value
                self._client.produce(
                    self._topic, value, partition=0, on_delivery=self._note_delivery
                )
            self._client.poll(0.005)

    def _note_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._errors.append(str(error))


class Asker:
    """A thread that asks for predictions; it counts answers, failures and broken connections."""

    def __init__(self, port: int, row: dict[str, Any], every: float = 0.01) -> None:
        self.answered = 0
        self.broken = 0  # connections that ended without an answer; the request is sent again
        self.failed: list[str] = []
        self.longest = 0.0  # seconds until an answer, with the attempts before it
        self._url, self._row, self._every = f"http://127.0.0.1:{port}", row, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Finish the last request."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        client = httpx.Client(base_url=self._url, timeout=60, trust_env=False)
        while not self._stop.is_set():
            begin = time.monotonic()
            while True:
                try:
                    answer = client.post("/predict", json={"features": self._row})
                except httpx.TransportError as err:
                    self.broken += 1
                    client.close()
                    client = httpx.Client(base_url=self._url, timeout=60, trust_env=False)
                    if time.monotonic() - begin > 60 or self._stop.is_set():
                        self.failed.append(repr(err))
                        break
                    time.sleep(0.02)
                else:
                    break
            if answer.status_code != 200:
                self.failed.append(f"{answer.status_code}: {answer.text[:200]}")
            self.answered += 1
            self.longest = max(self.longest, time.monotonic() - begin)
            self._stop.wait(self._every)
        client.close()
