"""Feeds a real service for the tests of the rules: features and then their labels, poison, and
requests.
"""

import itertools
import json
import threading
import time
from typing import Any

import httpx
from confluent_kafka import Producer

from kaboost.service.demo import producer

TICK = 0.05  # seconds between two bursts
POISON = b"this is no event"
CORRECTED_EVERY = 50  # labels: one of so many comes again, and is another


class Feed:
    """Elec2 round and round in a thread of its own, at a pace that can be changed."""

    def __init__(self, bootstrap: str, topic: str, labels: str, api: str) -> None:
        self.pace = 200.0  # events a second
        self.poisoned = 0.005  # share of poison, below what the alert is about
        self._topic, self._labels, self._api = topic, labels, api
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        self._rows = itertools.cycle(list(producer.rows()))
        self._owed = {"events": 0.0, "poison": 0.0}
        self._sent = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Stop, when what was sent has arrived."""
        self._done.set()
        self._thread.join(30)
        self._producer.flush(30)

    def _run(self) -> None:
        last = time.monotonic()
        with httpx.Client(base_url=self._api, trust_env=False) as client:
            while not self._done.wait(TICK):
                now = time.monotonic()
                due = (now - last) * self.pace
                last = now
                known = []
                for _ in range(self._count("events", due)):
                    features, label = next(self._rows)
                    self._sent += 1
                    known.append((self._sent, label))
                    self._send(self._topic, {"id": self._sent, "features": features})
                for number, label in known:
                    if number % CORRECTED_EVERY == 0:
                        other = {"UP": "DOWN", "DOWN": "UP"}[label]
                        self._send(self._labels, {"id": number, "label": other})
                    self._send(self._labels, {"id": number, "label": label})
                for _ in range(self._count("poison", due * self.poisoned)):
                    self._send(self._topic, POISON)
                client.post("/predict", json={"features": next(self._rows)[0]})

    def _count(self, kind: str, due: float) -> int:
        """Say how many are to be sent now; what is less than one is owed to the next time."""
        self._owed[kind] += due
        whole = int(self._owed[kind])
        self._owed[kind] -= whole
        return whole

    def _send(self, topic: str, value: dict[str, Any] | bytes) -> None:
        encoded = value if isinstance(value, bytes) else json.dumps(value).encode()
        self._producer.produce(topic, encoded, partition=0)
        self._producer.poll(0)
