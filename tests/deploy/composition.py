"""docker-compose.yml, read; and its services as processes outside of containers."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.deploy import dockerfile
from tests.kafka.broker import POM, REMEDY, VERSION, BrokerUnavailable, jars
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
OURS = "kaboost:latest"
TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-broker-api-versions.sh": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}
REMEDIES = {
    "java": REMEDY,
    "mvn": REMEDY,
    "prometheus": "the tests of docker-compose.yml start a real Prometheus: install it "
    "(Debian, Ubuntu: apt-get install prometheus; macOS: brew install prometheus)",
}
QUICK = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
# Killed with -9, the tests take every process of a service with them.
REAPER = 'cat >/dev/null; kill -s KILL -- "-$1" 2>/dev/null'
WGET = "import sys, urllib.request as r; r.urlopen(sys.argv[-1], timeout=3).read()"
PATIENCE = 90.0


class Mount(NamedTuple):
    """One entry of a service's `volumes`, in the short form."""

    source: str
    target: str
    mode: str

    @property
    def is_file(self) -> bool:
        """Whether it comes from the checkout, and is not a volume with a name."""
        return self.source.startswith("./")


class Service:
    """One service as the file has it; what it leaves out is the image's."""

    def __init__(self, name: str, raw: Mapping[str, Any]) -> None:
        self.name, self.raw = name, raw
        self.image: str = raw["image"]
        self.own: dict[str, str] = raw.get("environment", {})
        self.conditions = {k: v["condition"] for k, v in raw.get("depends_on", {}).items()}
        self.mounts = [Mount(*(*each.split(":"), "rw")[:3]) for each in raw.get("volumes", [])]
        self.ports = [tuple(each.rsplit(":", 2)) for each in raw.get("ports", [])]
        self.is_once = raw.get("restart") == "no"

    @property
    def is_ours(self) -> bool:
        """Whether it runs our image."""
        return self.image == OURS

    @property
    def environment(self) -> dict[str, str]:
        """All its variables."""
        return (dockerfile.environment() if self.is_ours else {}) | self.own

    @property
    def argv(self) -> list[str]:
        """The command line; an entrypoint of its own drops the image's command."""
        if "entrypoint" in self.raw:
            return [*self.raw["entrypoint"], *self.raw.get("command", [])]
        if not self.is_ours:
            return list(self.raw.get("command", []))
        words = self.raw.get("command", dockerfile.command("CMD"))
        return [*dockerfile.command("ENTRYPOINT"), *words]

    @property
    def health(self) -> list[str]:
        """The command of its health check; empty where there is none."""
        given = self.raw.get("healthcheck")
        if given is None:
            return dockerfile.command("HEALTHCHECK") if self.is_ours else []
        kind, *words = given.get("test", ["NONE"])
        return {"CMD": words, "CMD-SHELL": ["sh", "-c", *words], "NONE": []}[kind]


def services() -> dict[str, Service]:
    """All services by name."""
    raw = yaml.safe_load(FILE.read_text())["services"]
    return {name: Service(name, each) for name, each in raw.items()}


class Outside:
    """What a container sees, and what stands for it here: addresses, ports, folders, programs."""

    def __init__(self, folder: Path, files: Mapping[str, Path]) -> None:
        missing = [each for each in REMEDIES if shutil.which(each) is None]
        if missing:
            raise BrokerUnavailable(REMEDIES[missing[0]])
        self.folder = folder
        self._files = files  # by source: what lies there in place of a file of the checkout
        self.services = services()
        self.ports = {port: free_port() for port in (29093, 19092, 9092, 8000, 9464, 9090)}
        self._names = re.compile(rf"\b({'|'.join(self.services)}):(?=\d)")
        self._write_programs()

    def addresses(self, text: str) -> str:
        """Put this machine and free ports where services and their ports stand."""
        text = self._names.sub("127.0.0.1:", text)
        return re.sub(r"(?<=:)\d+\b", lambda m: str(self.ports.get(int(m[0]), m[0])), text)

    def translate(self, service: Service, text: str) -> str:
        """Spell a word of a command line or environment for this machine."""
        places = [mount.target for mount in service.mounts] + ["/opt/kafka/bin"]
        inside = re.compile(rf"(?<![\w/])({'|'.join(map(re.escape, places))})(?!\w)")
        return inside.sub(lambda m: f"{self.root(service)}{m[1]}", self.addresses(text))

    def root(self, service: Service) -> Path:
        """The folder that stands for a service's root."""
        return self.folder / service.name

    def environment(self, service: Service) -> dict[str, str]:
        """Its variables, and where programs are found."""
        own = {name: self.translate(service, text) for name, text in service.environment.items()}
        if service.is_ours:  # the image's ports stand in no text
            own["KABOOST_API__PORT"] = str(self.ports[8000])
            own["KABOOST_METRICS__PORT"] = str(self.ports[9464])
            own.pop("NUMBA_CACHE_DIR")
        path = [str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        kept = {name: text for name, text in os.environ.items() if not name.startswith("KABOOST_")}
        return kept | own | {"PATH": os.pathsep.join(path), "PYTHONPATH": str(ROOT)}

    def lay(self, service: Service) -> None:
        """Lay out its mounts: folders, and files in which only addresses change."""
        for mount in service.mounts:
            target = Path(f"{self.root(service)}{mount.target}")
            source = self._files.get(mount.source, ROOT / mount.source)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not mount.is_file:
                target.mkdir(exist_ok=True)
            elif source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)
            for path in [target, *target.rglob("*")] if mount.is_file else []:
                if path.suffix in (".yml", ".yaml"):
                    path.write_text(self.addresses(path.read_text()))

    def _write_programs(self) -> None:
        """Stand in for what the images of others bring along."""
        classes = shlex.quote(f"{kafka_tools()}:{jars()}/*")
        for name, main in TOOLS.items():
            java = f"java ${{KAFKA_HEAP_OPTS:-}} {' '.join(QUICK)} -cp {classes} {main}"
            for service in ("kafka", "topics"):
                _program(self.folder / service / "opt/kafka/bin" / name, f'exec {java} "$@"')
        _program(self.folder / "bin" / "wget", f"exec {sys.executable} -c '{WGET}' \"$@\"")


class Started:
    """One service, running as its command line says."""

    def __init__(self, outside: Outside, service: Service) -> None:
        self.service, self.outside = service, outside
        self.root = outside.root(service)
        outside.lay(service)
        self.environment = outside.environment(service)
        self.argv = self._argv()
        with (outside.folder / f"{service.name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                self.argv, env=self.environment, cwd=self.root, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        reaper = ["sh", "-c", REAPER, "reaper", str(self.process.pid)]
        self._reaper = subprocess.Popen(reaper, stdin=subprocess.PIPE, start_new_session=True)

    def log(self) -> str:
        """What it said."""
        return (self.outside.folder / f"{self.service.name}.log").read_text()[-3000:]

    def done(self) -> int:
        """Wait for its end."""
        return self.process.wait(PATIENCE)

    def healthy(self) -> bool:
        """Run its health check once."""
        inside = [
            word.replace("/opt/kaboost/image", f"{ROOT}/deploy/image")
            for word in self.service.health
        ]
        words = [self.outside.translate(self.service, word) for word in inside]
        done = subprocess.run(
            words, env=self.environment, cwd=self.root, capture_output=True, check=False
        )
        return not done.returncode

    def wait_healthy(self) -> None:
        """Wait until its health check passes, as those that depend on it do."""
        deadline = time.monotonic() + PATIENCE
        while not self.healthy():
            assert self.process.poll() is None, f"{self.service.name} ended: {self.log()}"
            assert time.monotonic() < deadline, f"{self.service.name} is unhealthy: {self.log()}"
            time.sleep(0.2)

    def stop(self) -> int:
        """Ask it to end, as `docker compose down` does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """End all of it, however it is."""
        if self._reaper.poll() is None:
            self._reaper.communicate()
        self.process.wait(PATIENCE)

    def _argv(self) -> list[str]:
        argv = [self.outside.translate(self.service, word) for word in self.service.argv]
        if self.service.image.startswith("apache/kafka:") and not argv:
            return self._kafka()
        if self.service.image.startswith("prom/prometheus:"):
            return ["prometheus", *argv]
        if argv[:2] == dockerfile.command("ENTRYPOINT"):
            return [sys.executable, "-P", "-m", "kaboost.service.cli", *argv[2:]]
        return argv

    def _kafka(self) -> list[str]:
        """Do what the official image does: its own class makes the properties and the folder."""
        folders = []
        for name in ("default", "mounted", "final"):
            folder = self.root / "configs" / name
            folder.mkdir(parents=True)
            folders += [f"--{name}-configs-dir", str(folder)]
        java = ["java", "-Xmx512m", *QUICK, "-cp", f"{jars()}/*"]
        setup = [*java, "kafka.docker.KafkaDockerWrapper", "setup", *folders]
        done = subprocess.run(setup, env=self.environment, capture_output=True, text=True)
        assert not done.returncode, done.stdout[-3000:] + done.stderr[-3000:]
        return [*java, "kafka.Kafka", str(self.root / "configs" / "final" / "server.properties")]


def order(found: Mapping[str, Service]) -> Iterator[Service]:
    """Give the services so that each comes after what it depends on."""
    given: list[str] = []
    while len(given) < len(found):
        ready = [n for n, s in found.items() if n not in given and set(s.conditions) <= {*given}]
        assert ready, f"these wait for one another: {set(found) - {*given}}"
        for name in ready:
            yield found[name]
        given += ready


def kafka_tools() -> Path:
    """Fetch the jar of Kafka's command-line tools once, into the user's cache."""
    name = f"kafka-tools-{VERSION}.jar"
    path = jars().parent / name
    if not path.exists():
        scratch = jars().parent / f".{name}.{os.getpid()}"
        goal = ["dependency:copy", f"-Dartifact=org.apache.kafka:kafka-tools:{VERSION}"]
        fetch = ["mvn", "-q", "-B", "-f", str(POM), *goal, f"-DoutputDirectory={scratch}"]
        subprocess.run(fetch, check=True, capture_output=True)
        (scratch / name).rename(path)
        scratch.rmdir()
    return path


def _program(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
