"""Feeds a real service for the tests of the rules: events, some of them poison, and requests."""

import itertools
import threading
import time

import httpx
from confluent_kafka import Producer

from kaboost.service.demo import producer

TICK = 0.05  # seconds between two bursts
POISON = b"this is no event"


class Feed:
    """Elec2 round and round in a thread of its own, at a pace that can be changed."""

    def __init__(self, bootstrap: str, topic: str, api: str) -> None:
        self.pace = 200.0  # events a second
        self.poisoned = 0.005  # share of poison, below what the alert is about
        self._topic, self._api = topic, api
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
                for _ in range(self._count("events", due)):
                    features, label = next(self._rows)
                    self._sent += 1
                    self._send(producer.event(self._sent, features, label))
                for _ in range(self._count("poison", due * self.poisoned)):
                    self._send(POISON)
                client.post("/predict", json={"features": next(self._rows)[0]})

    def _count(self, kind: str, due: float) -> int:
        """Say how many are to be sent now; what is less than one is owed to the next time."""
        self._owed[kind] += due
        whole = int(self._owed[kind])
        self._owed[kind] -= whole
        return whole

    def _send(self, value: bytes) -> None:
        self._producer.produce(self._topic, value, partition=0)
        self._producer.poll(0)
