"""A real schema registry for the tests: Apicurio, one Java process, its schemas in memory.

Its archive is fetched once into the user's cache directory. `python -m tests.kafka.registry`
fetches it ahead of time, starts the registry and prints how long it took.
"""

import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.kafka.broker import REAPER, BrokerUnavailable
from tests.ports import free_port

VERSION = "2.6.13.Final"  # 3.x needs Java 21
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
JAR = f"apicurio-registry-app-{VERSION}-runner.jar"
READY_WITHIN = 120.0  # seconds; 3 on an idle machine
REMEDY = (
    "the tests of formats need a real schema registry: install a JDK 17 and Maven "
    "(Debian, Ubuntu: apt-get install openjdk-17-jdk-headless maven; "
    "macOS: brew install openjdk@17 maven)"
)


class SchemaRegistry:
    """One registry that can be stopped, started again and suspended."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kaboost-registry-"))
        self._port = free_port()
        self._java: subprocess.Popen[bytes] | None = None
        self._reaper: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start the process, without schemas, and wait until it answers."""
        if shutil.which("java") is None:
            raise BrokerUnavailable(REMEDY)
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dquarkus.http.port={self._port}", "-Dquarkus.http.host=127.0.0.1"]
        with (self._folder / "registry.log").open("ab") as output:
            self._java = subprocess.Popen(
                [*command, "-jar", str(app() / JAR)],
                stdout=output,
                stderr=output,
                cwd=self._folder,
                start_new_session=True,
            )
        self._reaper = subprocess.Popen(
            ["sh", "-c", REAPER, "reaper", str(self._java.pid), str(self._folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._await_ready()

    def stop(self) -> None:
        """End the process; its schemas are gone."""
        if self._java is None or self._reaper is None:
            return
        self._reaper.kill()
        self._reaper.communicate()
        self._java.kill()
        self._java.wait(timeout=30)
        self._java = self._reaper = None

    def suspend(self) -> None:
        """Stop answering, with open connections."""
        assert self._java is not None
        self._java.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Answer again."""
        assert self._java is not None
        self._java.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not self._answers():
            assert self._java is not None
            if self._java.poll() is not None or time.monotonic() > deadline:
                log = (self._folder / "registry.log").read_text(errors="replace")
                raise BrokerUnavailable(f"the registry did not start: {log[-2000:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def app() -> Path:
    """Return the registry's folder in the user's cache; the first time Maven fetches it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kaboost"
    folder = cache / f"apicurio-{VERSION}"
    if not folder.exists():
        if shutil.which("mvn") is None:
            raise BrokerUnavailable(REMEDY)
        cache.mkdir(parents=True, exist_ok=True)
        # Another name first: a download cut short is not taken for a whole one.
        with tempfile.TemporaryDirectory(dir=cache, prefix=".apicurio-") as scratch:
            _download(Path(scratch))
            if not folder.exists():
                (Path(scratch) / "app").rename(folder)
    return folder


def _download(scratch: Path) -> None:
    goal = ["dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={scratch}"]
    done = subprocess.run(["mvn", "-q", "-B", *goal], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerUnavailable(f"Maven could not fetch the registry: {done.stdout[-2000:]}")
    with tarfile.open(next(scratch.glob("*.tar.gz"))) as archive:
        archive.extractall(scratch / "app", filter="data")


if __name__ == "__main__":
    began = time.monotonic()
    registry = SchemaRegistry()
    try:
        registry.start()
        print(f"{registry.url} is ready after {time.monotonic() - began:.1f} s")
    finally:
        registry.close()
