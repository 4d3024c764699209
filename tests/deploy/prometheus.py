"""A real Prometheus on our own rules, in which a minute lasts two seconds."""

import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from tests.kafka.broker import REAPER
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
CONFIGURATION = FOLDER / "prometheus.yml"
RULES = sorted(FOLDER.glob("*.rules.yml"))
TARGET = "kaboost:8000"  # as the configuration names it
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MINUTE = 2  # seconds that a minute lasts here
JOINT = "and on (job, instance)"  # between the conditions of an alert
REMEDY = (
    "the tests of the rules start a real Prometheus: install it (Debian, Ubuntu: apt-get install "
    "prometheus; macOS: brew install prometheus) so that prometheus and promtool are on PATH"
)


class Rule(NamedTuple):
    """A recording rule or an alert, as the file has it."""

    name: str
    expression: str
    whole: dict[str, Any]


def rules(kind: str) -> list[Rule]:
    """List the rules of a kind: `record` or `alert`."""
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    found = [rule for group in groups for rule in group["rules"] if kind in rule]
    return [Rule(rule[kind], rule["expr"], rule) for rule in found]


def quantities(alert: Rule) -> list[str]:
    """Take an alert's conditions apart and leave out their comparisons."""
    conditions = [part.strip() for part in alert.expression.split(JOINT)]
    found = [re.fullmatch(r"(.+) (?:<|<=|>|>=) [\d.]+(?: \* 60)?", each) for each in conditions]
    assert all(found), f"{alert.name}: not of the form that the head of its file describes"
    return [each[1] for each in found if each]


def shorten(text: str) -> str:
    """Let a minute last two seconds.

    Every duration becomes a thirtieth: `for: 10m` is 20 s, `[5m]` 10 s, a scrape every 15 s one
    every 500 ms; and 60, which stands only in limits of seconds, becomes 2. Nothing else changes.
    """

    def thirtieth(found: re.Match[str]) -> str:
        return f"{int(found[1]) * SECONDS[found[2]] * 1000 * MINUTE // 60}ms"

    return re.sub(r"\b60\b", str(MINUTE), re.sub(r"\b(\d+)([smhd])\b", thirtieth, text))


def promtool(*arguments: str | Path) -> str:
    """Run promtool; what it prints if it is content."""
    done = subprocess.run([_find("promtool"), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wait(holds: Callable[[], Any], within: float) -> Any:
    """Wait until something holds, without keeping the machine busy; give what it gave last."""
    deadline = time.monotonic() + within
    while not (got := holds()) and time.monotonic() < deadline:
        time.sleep(0.25)
    return got


class Prometheus:
    """One process over the shortened configuration, with its data in a folder of the test."""

    def __init__(self, folder: Path, target: str) -> None:
        folder.mkdir()
        for path in (CONFIGURATION, *RULES):
            (folder / path.name).write_text(shorten(path.read_text().replace(TARGET, target)))
        port = free_port()
        command = [
            _find("prometheus"),
            f"--config.file={folder / CONFIGURATION.name}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        self._log = folder / "prometheus.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        # Killed with -9, the tests take it with them.
        reaper = ["sh", "-c", REAPER, "reaper", str(self._process.pid), str(folder / "data")]
        self._reaper = subprocess.Popen(reaper, stdin=subprocess.PIPE, start_new_session=True)
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False)

    def ready(self) -> bool:
        """Say whether it answers questions."""
        assert self._process.poll() is None, self._log.read_text()
        try:
            return self._client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, expression: str) -> dict[str, float]:
        """Evaluate an expression, made faster as the rules are: each series with its value."""
        query = {"query": shorten(expression)}
        answer = self._client.get("/api/v1/query", params=query).json()
        assert answer["status"] == "success", f"{expression}: {answer}"
        found = answer["data"]["result"]
        return {str(sorted(each["metric"].items())): float(each["value"][1]) for each in found}

    def finite(self, expression: str) -> bool:
        """Say whether an expression gives data, and only finite data."""
        values = self.ask(expression).values()
        return bool(values) and all(map(math.isfinite, values))

    def firing(self) -> set[str]:
        """Name the alerts that fire."""
        alerts = self._client.get("/api/v1/alerts").json()["data"]["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def broken(self) -> list[str]:
        """Name the rules whose evaluation failed."""
        groups = self._client.get("/api/v1/rules").json()["data"]["groups"]
        return [
            rule["name"] for group in groups for rule in group["rules"] if rule["health"] != "ok"
        ]

    def close(self) -> None:
        """End it."""
        self._client.close()
        self._reaper.kill()  # first: it must not kill a stranger who got the process id
        self._reaper.communicate()
        self._process.terminate()
        self._process.wait(30)


def _find(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.fail(REMEDY, pytrace=False)
    return found
