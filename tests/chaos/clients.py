"""Clients behind a balancer: they ask until the service is not ready."""

import threading
import time
from collections import Counter

import httpx

from tests.chaos.service import ROW

CLIENTS = 4
PROBE_SECONDS = 0.5  # between two looks at readiness, less than the time of draining


class Clients:
    """Threads that ask, and one that asks for readiness as a balancer does."""

    def __init__(self, port: int) -> None:
        self.results: Counter[str] = Counter()
        self._url = f"http://127.0.0.1:{port}"
        self._over = threading.Event()
        asking = [threading.Thread(target=self._ask, args=(k % 2 == 0,)) for k in range(CLIENTS)]
        self._threads = [*asking, threading.Thread(target=self._probe)]
        for thread in self._threads:
            thread.start()

    def wait(self) -> Counter[str]:
        """Wait until the service was not ready; return how many requests ended how."""
        for thread in self._threads:
            thread.join(60)
        return self.results

    def _ask(self, keep: bool) -> None:
        client = httpx.Client(base_url=self._url, timeout=30, trust_env=False)
        while not self._over.is_set():
            try:
                answer = client.post("/predict", json={"features": ROW})
                self.results[str(answer.status_code)] += 1
            except httpx.TransportError as err:
                self.results[repr(err)[:80]] += 1
            if not keep and self.results["200"] % 20 == 0:
                client.close()
                client = httpx.Client(base_url=self._url, timeout=30, trust_env=False)
        client.close()

    def _probe(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30, trust_env=False) as client:
            while True:
                try:
                    if client.get("/healthz/ready").status_code != 200:
                        break
                except httpx.TransportError:
                    break
                time.sleep(PROBE_SECONDS)
        self._over.set()
