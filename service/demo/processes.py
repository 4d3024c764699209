"""The demo's processes: mock broker, `kaboost serve` and producer, in one temporary folder."""

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
from kaboost.service.demo import mock_broker, producer
from kaboost.service.processes.children import child_environment
from kaboost.service.storage.lock import last_pid

TOPIC = "kaboost.demo.v1"
LATE_TOPIC, LATE_LABELS_TOPIC = "kaboost.demo.late.v1", "kaboost.demo.late.labels.v1"
PARTITION = 0  # a mock topic has four; results are bit-identical for one partition
LABELS = ["DOWN", "UP"]
DRAIN_SECONDS = 20.0
RUNNER = "kaboost.service.demo.run_with_parent"


class DemoProcesses:
    """Start the demo's processes; `close` ends them all and removes the folder."""

    def __init__(self) -> None:
        for name in [key for key in os.environ if key.startswith(PREFIX)]:
            del os.environ[name]  # the user's own settings do not apply to the demo
        self.folder = Path(tempfile.mkdtemp(prefix="kaboost-demo-"))
        self._path = self.folder / "kaboost.yaml"
        self.port = free_port(8000)
        self._metrics_port = free_port(9464)
        self._exit_stack = ExitStack()
        self._exit_stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.settings: Settings
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def open(self) -> None:
        """Start the broker, then learner and API."""
        self.open_broker()
        self._launch("serve", "kaboost.service.cli", "serve", "--config", str(self._path))

    def open_broker(self) -> None:
        """Start the broker, and write the configuration with its address."""
        broker = self._exit_stack.enter_context(mock_broker.running(child_environment()))
        self._path.write_text(json.dumps(self._configuration(broker), indent=2))
        self.settings = load(self._path)
        Producer({"bootstrap.servers": broker}).list_topics(TOPIC, timeout=10)  # creates the topic

    def start_producer(self, rate: float) -> None:
        """Stream Elec2 at `rate` events a second."""
        servers = self.settings.kafka.bootstrap_servers
        target = ("--bootstrap-servers", servers, "--topic", TOPIC, "--partition", str(PARTITION))
        self._launch("producer", "kaboost.service.demo.producer", *target, "--rate", str(rate))

    def stream_file(self, path: Path, rate: float, first_id: int) -> None:
        """Stream a file of the same columns; ids that were learned would be duplicates."""
        servers = self.settings.kafka.bootstrap_servers
        target = ("--bootstrap-servers", servers, "--topic", TOPIC, "--partition", str(PARTITION))
        more = ("--rate", str(rate), "--file", str(path), "--first-id", str(first_id))
        self._launch("producer", "kaboost.service.demo.producer", *target, *more)

    def open_late(self) -> int:
        """Start a second service, whose labels come on a topic of their own; return its port."""
        servers = self.settings.kafka.bootstrap_servers
        for topic in (LATE_TOPIC, LATE_LABELS_TOPIC):
            Producer({"bootstrap.servers": servers}).list_topics(topic, timeout=10)
        port, folder = free_port(8001), self.folder / "late"
        folder.mkdir()
        whole = {
            **self._configuration(servers),
            "name": "elec2-late",
            "kafka": {**self._kafka(servers), "topic": LATE_TOPIC, "group_id": "kaboost-late"},
            "labels": {"topic": LATE_LABELS_TOPIC, "directory": str(folder / "labels")},
            "snapshots": {"directory": str(folder / "snapshots"), "every_seconds": 0.25},
            "checkpoints": {"directory": str(folder / "checkpoints"), "every_seconds": 1.5},
            "api": {"port": port},
            "metrics": {"port": free_port(9465)},
        }
        path = folder / "kaboost.yaml"
        path.write_text(json.dumps(whole, indent=2))
        self._launch("late", "kaboost.service.cli", "serve", "--config", str(path))
        return port

    @property
    def all_sent(self) -> bool:
        """Whether the producer has written every event."""
        return self._processes["producer"].poll() == 0

    def failure(self) -> str | None:
        """Name the process that ended unexpectedly; None while all run."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        if codes.get("serve") is not None:
            return f"`kaboost serve` ended with exit code {codes['serve']}"
        if codes.get("producer"):
            return f"the producer ended with exit code {codes['producer']}"
        return None

    def close(self) -> None:
        """End every process, the broker last, and remove the folder."""
        self._exit_stack.close()

    def last_log_lines(self, lines: int = 15) -> str:
        """Return the last lines that every process logged."""
        logs = [path.read_text().splitlines() for path in sorted(self.folder.glob("*.log"))]
        return "\n".join(line for log in logs for line in log[-lines:])

    def learner_pid(self) -> int | None:
        """Read the learner's process id from its lock file; None without one."""
        return last_pid(self.settings.checkpoints.folder)

    def _configuration(self, broker: str) -> dict[str, object]:
        return {
            "name": "elec2",
            "kafka": {**self._kafka(broker), "topic": TOPIC},
            "task": {"kind": "binary", "labels": LABELS},
            "features": {"schema": producer.schema()},
            "snapshots": {"directory": str(self.folder / "snapshots"), "every_seconds": 0.25},
            "checkpoints": {"directory": str(self.folder / "checkpoints"), "every_seconds": 1.5},
            "api": {"port": self.port},
            "metrics": {"port": self._metrics_port},
            "log": {"format": "text"},
        }

    def _kafka(self, broker: str) -> dict[str, object]:
        return {
            "bootstrap_servers": broker,
            "create_dlq": False,
            "extra": {"fetch.wait.max.ms": 10},
        }

    def _launch(self, name: str, module: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", RUNNER, module, *arguments],
                stdin=subprocess.PIPE,  # closes when the demo ends: the child then ends too
                stdout=log,
                stderr=log,
                env=child_environment(),
                start_new_session=True,  # Ctrl-C reaches the demo alone, which then ends it
            )
        self._processes[name] = process
        self._exit_stack.callback(end, process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process; kill it if it has not ended after the time to drain."""
    process.terminate()
    try:
        process.wait(DRAIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        process.stdin.close()


def kill(pid: int) -> None:
    """Kill a process without giving it time to clean up."""
    os.kill(pid, signal.SIGKILL)


def free_port(wanted: int) -> int:
    """Return the wanted port, or any free one if it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")
