"""Start the built image with minimal rights, on a real broker, and test that it works.

Called by build.sh with the image's configuration and its mounted root.
"""

import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kaboost.service.demo import producer  # noqa: E402 (the checkout is found first)
from tests.kafka.broker import Broker, BrokerUnavailable  # noqa: E402
from tests.kafka.client import create_topic, produce  # noqa: E402
from tests.ports import free_port  # noqa: E402

CONFIG = ROOT / "deploy" / "compose" / "kaboost.yaml"
TOPIC = "kaboost.events.v1"
EVENTS = 2000
LIMIT = 450_000_000  # bytes without the base
SCHEMAS = {"avro": '{"type": "record", "name": "R", "fields": []}', "json_schema": "{}"}
PATIENCE = 180.0  # seconds; tests may run beside it


class Image(NamedTuple):
    """The configuration of the image."""

    user: str
    env: dict[str, str]
    command: list[str]
    health: list[str]

    @classmethod
    def read(cls, path: Path) -> "Image":
        """Read what `buildah inspect` wrote."""
        config = json.loads(path.read_text())["Docker"]["config"]
        kind, *health = config["Healthcheck"]["Test"]
        require("CMD" == kind, f"a health check without a shell, not {kind}")
        env = dict(entry.split("=", 1) for entry in config["Env"])
        return cls(config["User"], env, [*config["Entrypoint"], *config["Cmd"]], health)


class Container(NamedTuple):
    """The image, started."""

    image: Image
    env: dict[str, str]
    process: psutil.Process  # kaboost itself, first of its own processes
    shell: subprocess.Popen[bytes]  # unshare, which ends as kaboost ends
    log: Path

    def healthy(self) -> bool:
        """Run the image's own health check inside."""
        return self.runs(self.image.health)

    def runs(self, inside: Sequence[str]) -> bool:
        """Run a command inside; return whether it succeeds."""
        user, group = self.image.user.split(":")
        enter = ["nsenter", "--target", str(self.process.pid), "--mount", "--pid", "--root"]
        enter += ["--setuid", user, "--setgid", group]
        command = [*enter, *with_env(self.env), *inside]
        return not subprocess.run(command, capture_output=True, check=False).returncode

    def get(self, path: str, port: str = "KABOOST_API__PORT", body: Any = None) -> tuple[int, str]:
        """Send a request from outside."""
        connection = http.client.HTTPConnection("127.0.0.1", int(self.env[port]), timeout=10)
        text = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"} if text else {}
        connection.request("GET" if text is None else "POST", path, text, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()

    def end(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.terminate()
        return self.shell.wait(PATIENCE)


def with_env(env: Mapping[str, str]) -> list[str]:
    """Return a command prefix that sets exactly this environment."""
    return ["env", "-i", *(f"{name}={value}" for name, value in env.items())]


@contextmanager
def started(image: Image, root: Path, bootstrap: str) -> Iterator[Container]:
    """Run the image's command with a new data folder; end and remove everything afterwards."""
    user, group = image.user.split(":")
    # Numba logs what it loads from its cache; the ports are free ones of this host.
    env = image.env | {
        "KABOOST_KAFKA__BOOTSTRAP_SERVERS": bootstrap,
        "KABOOST_API__PORT": str(free_port()),
        "KABOOST_METRICS__PORT": str(free_port()),
        "NUMBA_DEBUG_CACHE": "1",
    }
    with tempfile.TemporaryDirectory(prefix="kaboost-image-") as scratch:
        data, config, log = (Path(scratch) / name for name in ("data", "config", "log"))
        data.mkdir()
        os.chown(data, int(user), int(group))
        config.mkdir()
        shutil.copy(CONFIG, config / "kaboost.yaml")
        Path(scratch).chmod(0o755)
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        command += ["sh", str(Path(__file__).with_name("confine.sh"))]
        command += [str(root), str(data), str(config), user, group, *with_env(env), *image.command]
        with log.open("wb") as out:
            shell = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            process = until(lambda: next(iter(psutil.Process(shell.pid).children()), None))
            yield Container(image, env, process, shell, log)
        except Failed:
            print(log.read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            shell.kill()  # --kill-child takes the rest along
            shell.wait()


class Failed(Exception):
    """A promise did not hold."""


def require(holds: object, promise: str) -> None:
    """Fail if a promise does not hold."""
    if not holds:
        raise Failed(promise)


def until(found: Callable[[], Any]) -> Any:
    """Wait until a value is found and return it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        got = found()
        if got:
            return got
        time.sleep(0.05)
    raise Failed(f"not within {PATIENCE:.0f} s")


def confined(container: Container) -> str:
    """It runs as a plain user without capabilities and can write to two folders only."""
    mounts = (Path("/proc") / str(container.process.pid) / "mountinfo").read_text().splitlines()
    writable = {m.split()[4] for m in mounts if "rw" in m.split()[5].split(",")}
    devices = {m for m in writable if m.startswith("/dev/")}  # null and the like
    require({"/data", "/tmp", "/proc"} == writable - devices, f"writable: {sorted(writable)}")
    text = (Path("/proc") / str(container.process.pid) / "status").read_text()
    status = dict(line.split(":\t", 1) for line in text.splitlines())
    ids = [set(status[name].split()) for name in ("Uid", "Gid")]
    require([{"10001"}, {"10001"}] == ids, f"user and group 10001, not {ids}")
    caps = {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")}
    require({0} == caps and status["NoNewPrivs"] == "1", "no capabilities, and none to be gained")
    return "user 10001, no capabilities, root read-only; writable: /data /tmp"


def is_ready(container: Container) -> bool:
    """Request the readiness endpoint."""
    require(container.shell.poll() is None, f"it ended with {container.shell.poll()}")
    try:
        return container.get("/healthz/ready")[0] == 200
    except OSError:
        return False


def ready(container: Container, began: float) -> str:
    """It becomes ready, and its health check passes."""
    until(lambda: is_ready(container))
    took = time.monotonic() - began
    require(container.healthy(), "the image's health check passes")
    return f"ready in {took:.1f} s, health check passes"


def learns(container: Container, bootstrap: str) -> str:
    """It learns events from the topic and predicts."""
    rows = list(islice(producer.rows(), EVENTS))
    produce(bootstrap, TOPIC, [producer.event(number, *row) for number, row in enumerate(rows)])

    def predicted() -> Any:
        status, text = container.get("/predict", body={"features": rows[0][0]})
        require(status == 200, f"POST /predict returns 200, not {status}: {text}")
        response = json.loads(text)
        return response["model"]["events_learned"] == EVENTS and response

    response = until(predicted)
    shares = response["probabilities"]
    require({"DOWN", "UP"} == set(shares) and abs(sum(shares.values()) - 1) < 1e-9, f"{shares}")
    label, share = response["prediction"], response["probability"]
    return f"{EVENTS} events learned, POST /predict: {label}, P(UP) = {share:.3f}"


def measures(container: Container) -> str:
    """Both metrics ports report the events."""
    whole, learner = (
        container.get("/metrics", port)[1].splitlines()
        for port in ("KABOOST_API__PORT", "KABOOST_METRICS__PORT")
    )
    learned = f"kaboost_events_learned_total {float(EVENTS)}"
    require(learned in whole and learned in learner, f"/metrics of both ports say {learned}")
    require(any(line.startswith("kaboost_predictions_total ") for line in whole), "predictions")
    return f"metrics: {len(whole)} lines on /metrics, {len(learner)} on the learner's port"


READ = """
import sys
from pathlib import Path
import google.protobuf, google.type, msgspec.msgpack
from kaboost.service.config.records import Events
from kaboost.service.events.formats import make_reader
name, schema = sys.argv[1:]
Path("/tmp", name).write_text(schema)
make_reader(Events(format=name, schema_file=f"/tmp/{name}"), "topic", 9)
make_reader(Events(schema_registry={"url": "http://127.0.0.1:9"}), "topic", 9)
"""


def reads(container: Container) -> str:
    """Every format of docs/formats.md can be read: its packages are there."""
    for name, schema in SCHEMAS.items():
        promise = f"format {name}, Protobuf, MessagePack and a registry can be read"
        require(container.runs(["python3", "-c", READ, name, schema]), promise)
    return "formats: Avro, JSON Schema, Protobuf, MessagePack; a schema registry"


def carried(container: Container) -> str:
    """Every kernel is loaded from the image: none is compiled at the start."""
    lines = [line for line in container.log.read_text().splitlines() if "[cache] data" in line]
    saved = [line for line in lines if "[cache] data saved" in line]
    require([] == saved, f"no kernel is compiled at the start, but {len(saved)}: {saved[:3]}")
    require(lines, "kernels are loaded from the cache")
    return f"kernels: {len(lines)} loaded from the image's cache, none compiled"


def ends(container: Container) -> str:
    """SIGTERM ends it with exit code 0."""
    began = time.monotonic()
    code = container.end()
    require(code == 0, f"exit code 0 after SIGTERM, not {code}")
    return f"SIGTERM: exit code 0 after {time.monotonic() - began:.1f} s"


def adds(root: Path, base: Path) -> str:
    """It adds only its folders to the base: nothing of the build remains."""
    expected = {"data", "etc/kaboost", "opt/kaboost"}
    added = {path for path in paths(root) - paths(base) if not path.startswith("opt/kaboost/")}
    others = added - expected - {"etc/hosts"}  # the mount point of the tool
    require(not others, f"only {sorted(expected)} are added, not {sorted(others)}")
    return "adds to its base: " + " ".join(f"/{path}" for path in sorted(expected))


def paths(root: Path) -> set[str]:
    """List all files and folders of an image."""
    return {
        os.path.relpath(os.path.join(folder, name), root)
        for folder, folders, files in os.walk(root)
        for name in (*folders, *files)
    }


def size(folder: Path) -> int:
    """Add up the bytes of a folder's files."""
    done = subprocess.run(["du", "-sb", str(folder)], capture_output=True, check=True, text=True)
    return int(done.stdout.split()[0])


def prove(args: argparse.Namespace, bootstrap: str) -> Iterator[str]:
    """Yield one line for each promise, in the order of a container's life."""
    image = Image.read(args.image)
    create_topic(bootstrap, name=TOPIC)
    began = time.monotonic()
    with started(image, args.root, bootstrap) as container:
        yield ready(container, began)
        yield confined(container)
        yield learns(container, bootstrap)
        yield measures(container)
        yield reads(container)
        yield ends(container)
        yield carried(container)
    yield adds(args.root, args.base)
    bare, whole = size(args.base), size(args.root)
    require(whole - bare < LIMIT, f"under {LIMIT / 1e6:.0f} MB, not {(whole - bare) / 1e6:.0f}")
    yield f"size: {(whole - bare) / 1e6:.0f} MB without the base ({bare / 1e6:.0f} MB)"


def main() -> int:
    """Test the image; 1 if a promise did not hold."""
    parser = argparse.ArgumentParser(prog="proof.py", description=__doc__)
    parser.add_argument("--image", type=Path, required=True, help="what buildah inspect wrote")
    parser.add_argument("--root", type=Path, required=True, help="the image's root, mounted")
    parser.add_argument("--base", type=Path, required=True, help="the base image's root, mounted")
    broker = Broker()
    try:
        broker.start()
        for line in prove(parser.parse_args(), broker.bootstrap):
            print("  ok ", line, flush=True)
    except (Failed, BrokerUnavailable) as err:
        print(f"kaboost: the image fails its test: {err}", file=sys.stderr)
        return 1
    finally:
        broker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
