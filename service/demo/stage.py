"""The demo's processes: embedded broker, `kaboost serve` and producer, in a folder of their own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from kaboost.service.config.settings import Settings, load
from kaboost.service.config.sources import PREFIX
from kaboost.service.demo import mock_broker as mockbroker
from kaboost.service.demo import producer
from kaboost.service.processes.roles import environment

TOPIC = "kaboost.demo.v1"
PARTITION = 0  # a mock topic has four; the order of one is what "bit for bit" is promised for
LABELS = ["DOWN", "UP"]
DRAIN = 20.0


class Stage:
    """Everything the demo starts; `close` ends it all and removes the folder."""

    def __init__(self) -> None:
        for name in [each for each in os.environ if each.startswith(PREFIX)]:
            del os.environ[name]  # the demo is the same for everyone
        self.folder = Path(tempfile.mkdtemp(prefix="kaboost-demo-"))
        self.port = free_port(8000)
        self._metrics_port = free_port(9464)
        self._ends = ExitStack()
        self._ends.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.settings: Settings
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def open(self) -> None:
        """Start the broker and, on it, learner and API."""
        broker = self._ends.enter_context(mockbroker.running(environment()))
        path = self.folder / "kaboost.yaml"
        path.write_text(json.dumps(self._configuration(broker), indent=2))
        self.settings = load(path)
        Producer({"bootstrap.servers": broker}).list_topics(TOPIC, timeout=10)  # makes the topic
        self._launch("serve", "kaboost.service.cli", "serve", "--config", str(path))

    def feed(self, rate: float) -> None:
        """Let the producer stream Elec2 at so many events a second."""
        servers = self.settings.kafka.bootstrap_servers
        where = ("--bootstrap-servers", servers, "--topic", TOPIC, "--partition", str(PARTITION))
        self._launch("producer", "kaboost.service.demo.producer", *where, "--rate", str(rate))

    @property
    def fed(self) -> bool:
        """Whether the producer has written every event."""
        return self._processes["producer"].poll() == 0

    def broken(self) -> str | None:
        """Say which process ended that should not have; None while all is well."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        if codes.get("serve") is not None:
            return f"`kaboost serve` ended with exit code {codes['serve']}"
        if codes.get("producer"):
            return f"the producer ended with exit code {codes['producer']}"
        return None

    def close(self) -> None:
        """End every process, the broker last."""
        self._ends.close()

    def complaint(self, lines: int = 15) -> str:
        """The last lines of what the processes logged."""
        logs = [path.read_text().splitlines() for path in sorted(self.folder.glob("*.log"))]
        return "\n".join(line for log in logs for line in log[-lines:])

    def learner(self) -> int | None:
        """The learner's process id, from the lock it holds; None when nobody holds it."""
        try:
            return int((self.settings.checkpoints.directory / ".lock").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _configuration(self, broker: str) -> dict[str, object]:
        return {
            "name": "elec2",
            "kafka": {
                "bootstrap_servers": broker,
                "topic": TOPIC,
                "create_dlq": False,
                "extra": {"fetch.wait.max.ms": 10},
            },
            "task": {"kind": "binary", "labels": LABELS},
            "features": {"schema": producer.schema()},
            "snapshots": {"directory": str(self.folder / "snapshots"), "every_seconds": 0.25},
            "checkpoints": {"directory": str(self.folder / "checkpoints"), "every_seconds": 1.5},
            "api": {"port": self.port},
            "metrics": {"port": self._metrics_port},
            "log": {"format": "text"},
        }

    def _launch(self, name: str, module: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kaboost.service.demo.tied", module, *arguments],
                stdin=subprocess.PIPE,  # the lifeline: closed when the demo is gone
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,  # Ctrl-C ends the demo, which then ends them in order
            )
        self._processes[name] = process
        self._ends.callback(end, process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and see that it does."""
    process.terminate()
    try:
        process.wait(DRAIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        process.stdin.close()


def kill(pid: int) -> None:
    """End a process as a power cut would."""
    os.kill(pid, signal.SIGKILL)


def free_port(wanted: int) -> int:
    """Give the port asked for, or any free one where it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")
