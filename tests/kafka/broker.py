"""A real Apache Kafka broker for the tests: KRaft, one Java process, from Maven's jars.

The jars are fetched once into the user's cache directory. `python -m tests.kafka.broker` fetches
them ahead of time, starts the broker and prints how long it took.
"""

import base64
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.ports import free_port

VERSION = "4.3.1"  # the same as in pom.xml
POM = Path(__file__).with_name("pom.xml")
READY_WITHIN = 60.0  # seconds; 1.6 on an idle machine
REMEDY = (
    "the service tests need a real Kafka broker: install a JDK 17 and Maven "
    "(Debian, Ubuntu: apt-get install openjdk-17-jdk-headless maven; "
    "macOS: brew install openjdk@17 maven), "
    "or set KABOOST_TEST_BOOTSTRAP to the address of a broker of your own"
)

FIRST = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
"""
SECOND = """
process.roles=broker
node.id=2
listeners=PLAINTEXT://127.0.0.1:{port}
"""
PROPERTIES = """
controller.quorum.voters=1@127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# Without these two a broker killed with -9 waits 9-11 s for its own old session to end.
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=200
# Retention and compaction happen while a test waits.
log.retention.check.interval.ms=2000
log.cleaner.backoff.ms=200
"""

# Killed with -9, the tests close this pipe: the broker dies with them and its folder goes.
REAPER = 'cat >/dev/null; kill -9 "$1" 2>/dev/null; rm -rf "$2"'


class Reachable(Protocol):
    """A broker that tests can reach, started here or elsewhere."""

    @property
    def bootstrap(self) -> str: ...


class Given(NamedTuple):
    """The broker of `KABOOST_TEST_BOOTSTRAP`."""

    bootstrap: str


class BrokerUnavailable(Exception):
    """Say why no broker can be started here, and what to do."""


class Broker:
    """One broker that can be started, stopped, killed and started again with its data."""

    def __init__(self, first: "Broker | None" = None, proxy: int | None = None) -> None:
        """Prepare a broker: alone, or the second one of a cluster whose controller is `first`.

        With `proxy` it also listens on `proxied_port` for clients that come through that port.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="kaboost-kafka-"))
        self._port = free_port()
        self._controller = first._controller if first else free_port()
        self._cluster = first._cluster if first else _new_cluster()
        self._properties = self._folder / "server.properties"
        text = ((SECOND if first else FIRST) + PROPERTIES).format(
            port=self._port, controller=self._controller, logs=self._folder / "logs"
        )
        if proxy is not None:
            self.proxied_port = free_port()
            for name, port in (("listeners", self.proxied_port), ("advertised.listeners", proxy)):
                text = text.replace(f"\n{name}=", f"\n{name}=PROXIED://127.0.0.1:{port},")
            protocols = "\nlistener.security.protocol.map="
            text = text.replace(protocols, f"{protocols}PROXIED:PLAINTEXT,")
        self._properties.write_text(text)
        self._java: subprocess.Popen[bytes] | None = None
        self._reaper: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process of the running broker."""
        assert self._java is not None, "the broker is not running"
        return self._java.pid

    def start(self) -> None:
        """Start the process and wait until it answers clients."""
        if not (self._folder / "logs").exists():
            self._format()
        with (self._folder / "broker.log").open("ab") as output:
            self._java = subprocess.Popen(
                _java("kafka.Kafka", str(self._properties)),
                stdout=output,
                stderr=output,
                start_new_session=True,  # an interrupt of the tests is not one of the broker
            )
        self._reaper = subprocess.Popen(
            ["sh", "-c", REAPER, "reaper", str(self._java.pid), str(self._folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._await_ready()

    def stop(self) -> None:
        """Stop in order (SIGTERM); the data stays for another start."""
        self._end(kill=False)

    def kill(self) -> None:
        """End the process as a power cut would (SIGKILL); the data stays for another start."""
        self._end(kill=True)

    def back_up(self) -> None:
        """Copy the data of the stopped broker."""
        shutil.copytree(self._folder / "logs", self._folder / "backup")

    def restore(self) -> None:
        """Replace the data of the stopped broker by the copy."""
        shutil.rmtree(self._folder / "logs")
        shutil.copytree(self._folder / "backup", self._folder / "logs")

    def close(self) -> None:
        """Stop for good and remove the data."""
        self._end(kill=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _format(self) -> None:
        self._format_with()

    def _format_with(self, *more: str) -> None:
        tool = ["kafka.tools.StorageTool", "format", "-t", self._cluster]
        command = _java(*tool, "-c", str(self._properties), *more)
        subprocess.run(command, check=True, capture_output=True)

    def _await_ready(self) -> None:
        client = AdminClient(
            {
                "bootstrap.servers": self.bootstrap,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,  # until it is ready every answer is a refusal
            }
        )
        deadline = time.monotonic() + READY_WITHIN
        while not _answers(client):
            assert self._java is not None
            if self._java.poll() is not None or time.monotonic() > deadline:
                raise BrokerUnavailable(f"Kafka did not start: {self._log_tail()}")

    def _log_tail(self) -> str:
        return (self._folder / "broker.log").read_text(errors="replace")[-2000:]

    def _end(self, *, kill: bool) -> None:
        if self._java is None or self._reaper is None:
            return
        self._reaper.kill()  # first: it must not kill a stranger who got the process id
        self._reaper.communicate()
        if kill:
            self._java.kill()
        else:
            self._java.terminate()
        self._java.wait(timeout=30)
        self._java = self._reaper = None


def _new_cluster() -> str:
    # A zero bit first: the storage tool takes an id that starts with "-" for an option.
    token = bytes([secrets.randbelow(128)]) + secrets.token_bytes(15)
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def jars() -> Path:
    """Return the folder of Kafka's jars in the user's cache; the first time Maven fetches them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kaboost"
    folder = cache / f"kafka-{VERSION}"
    if not folder.exists():
        if shutil.which("mvn") is None:
            raise BrokerUnavailable(REMEDY)
        cache.mkdir(parents=True, exist_ok=True)
        # Another name first: a download cut short is not taken for a whole one.
        with tempfile.TemporaryDirectory(dir=cache, prefix=".kafka-") as scratch:
            _download(Path(scratch) / "jars")
            if not folder.exists():
                (Path(scratch) / "jars").rename(folder)
    return folder


def _download(folder: Path) -> None:
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(POM), *goal], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BrokerUnavailable(f"Maven could not fetch Kafka: {done.stdout[-2000:]}")


def _java(*arguments: str) -> list[str]:
    if shutil.which("java") is None:
        raise BrokerUnavailable(REMEDY)
    memory = ["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", *memory, logging, "-cp", f"{jars()}/*", *arguments]


def _answers(client: AdminClient) -> bool:
    try:
        return bool(client.list_topics(timeout=0.5).brokers)
    except KafkaException:
        return False


if __name__ == "__main__":
    began = time.monotonic()
    broker = Broker()
    try:
        broker.start()
        print(f"{broker.bootstrap} is ready after {time.monotonic() - began:.1f} s")
    finally:
        broker.close()
