"""Toxiproxy in front of a broker: latency, half-open connections, resets.

It is built once with Go into the user's cache directory: `python -m tests.kafka.toxiproxy`.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.ports import free_port

VERSION = "2.5.0"
MODULE = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"
REMEDY = "the network faults need Toxiproxy: install Go (Debian, Ubuntu: apt-get install golang-go)"
READY_WITHIN = 20.0  # seconds; 0.1 on an idle machine


class Toxiproxy:
    """One proxy from a port of this machine to another."""

    def __init__(self, upstream: int, port: int) -> None:
        self._api = free_port()
        self._process = subprocess.Popen(
            [str(binary()), "-host", "127.0.0.1", "-port", str(self._api)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._await_ready()
        proxy = {"listen": f"127.0.0.1:{port}", "upstream": f"127.0.0.1:{upstream}"}
        self._request("POST", "/proxies", {"name": "broker", **proxy, "enabled": True})

    def add(self, kind: str, stream: str = "downstream", **attributes: int) -> None:
        """Add a fault: `latency`, `timeout`, `reset_peer`, `bandwidth`, `limit_data`, ..."""
        toxic = {"name": f"{kind}-{stream}", "type": kind, "stream": stream, "toxicity": 1.0}
        self._request("POST", "/proxies/broker/toxics", toxic | {"attributes": attributes})

    def cut(self) -> None:
        """Refuse connections and close those that are open."""
        self._request("POST", "/proxies/broker", {"enabled": False})

    def heal(self) -> None:
        """Remove all faults."""
        self._request("POST", "/reset", {})

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _request(self, method: str, path: str, body: Any = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self._api}{path}"
        with urllib.request.urlopen(
            urllib.request.Request(url, data, headers, method=method), timeout=10
        ) as answer:
            answer.read()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while True:
            try:
                return self._request("GET", "/version")
            except (urllib.error.URLError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def binary() -> Path:
    """Return the program in the user's cache; the first time Go builds it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kaboost"
    folder = cache / f"toxiproxy-{VERSION}"
    if not folder.exists():
        if shutil.which("go") is None:
            raise RuntimeError(REMEDY)
        cache.mkdir(parents=True, exist_ok=True)
        # Another name first: a build cut short is not taken for a whole one.
        with tempfile.TemporaryDirectory(dir=cache, prefix=".toxiproxy-") as scratch:
            env = os.environ | {"GOBIN": f"{scratch}/bin"}
            subprocess.run(["go", "install", MODULE], env=env, check=True, capture_output=True)
            if not folder.exists():
                (Path(scratch) / "bin").rename(folder)
    return folder / "server"


if __name__ == "__main__":
    print(binary())
