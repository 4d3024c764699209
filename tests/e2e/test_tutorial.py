"""The tutorial as a newcomer does it: every block of docs/tutorial.md, in its order."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tests.service.learning import until
from tests.test_docs_blocks import Block, blocks

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
START_SECONDS = 240  # with what is not compiled yet
# Not every machine has curl: the same request by Python.
CURL = f"""#!{sys.executable}
import sys, urllib.request
url, data = sys.argv[2], sys.argv[sys.argv.index("-d") + 1]
kind = {{"Content-Type": "application/json"}}
with urllib.request.urlopen(urllib.request.Request(url, data.encode(), kind)) as answer:
    print(answer.read().decode())
"""


class Terminal:
    """Runs blocks in one folder; the variables are those that the tutorial exports."""

    def __init__(self, folder: Path) -> None:
        """Make a folder with a curl, and take free ports."""
        self.folder = folder
        self.port = str(free_port())
        self.processes: list[subprocess.Popen[str]] = []
        (folder / "bin").mkdir()
        (folder / "bin" / "curl").write_text(CURL)
        (folder / "bin" / "curl").chmod(0o755)
        path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        ports = {"KABOOST_API__PORT": self.port, "KABOOST_METRICS__PORT": str(free_port())}
        self.environment = {**os.environ, **ports, "PATH": path}

    def run(self, block: Block) -> str:
        """Run the shell block, and return what it prints."""
        text = block.text.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")
        done = subprocess.run(
            ["sh", "-eu", "-c", text],
            cwd=self.folder, env=self.environment, capture_output=True, text=True,
        )  # fmt: skip
        assert 0 == done.returncode, f"{block.at}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, block: Block) -> subprocess.Popen[str]:
        """Run the block in a terminal of its own."""
        with (self.folder / "serve.log").open("a") as log:
            process = subprocess.Popen(
                ["sh", "-c", f"exec {block.text.strip()}"], cwd=self.folder, env=self.environment,
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def status(self) -> dict[str, Any]:
        """Return what the service reports of itself; nothing while it starts."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status") as answer:
                reported: dict[str, Any] = json.load(answer)
        except OSError:
            return {}
        return reported

    def late(self) -> dict[str, int]:
        """Return what waits and was joined; nothing while the learner starts."""
        return self.status().get("late_labels") or {}


@contextmanager
def terminal(folder: Path) -> Iterator[Terminal]:
    """Open a terminal; what was started there ends."""
    opened = Terminal(folder)
    try:
        yield opened
    finally:
        for process in reversed(opened.processes):
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def learned(shell: Terminal) -> int:
    """Return how many payments have got a label, or waited in vain."""
    late = shell.late()
    return int(late.get("joined", 0) + late.get("expired", 0))


def test_every_step_does_what_it_says(tmp_path: Path) -> None:
    """Payments wait for chargebacks, answers are as good as promised, a kill changes nothing."""
    page = [block for block in blocks(PAGE) if block.language in ("sh", "python")]
    program = next(block.text for block in page if block.language == "python")
    steps = iter([block for block in page if block.language == "sh"])
    (tmp_path / "shop.py").write_text(program)

    with terminal(tmp_path) as shell:
        broker = shell.start(next(steps))
        assert broker.stdout is not None
        exported = dict(re.findall(r"export (\w+)=(\S+)", next(steps).text))
        shell.environment |= exported | {"BROKER": broker.stdout.readline().strip()}
        shell.run(next(steps))  # the shop
        assert "ok" == shell.run(next(steps)).split()[-1]  # init
        shell.start(next(steps))
        until(lambda: learned(shell) > 15_500, START_SECONDS)
        until(lambda: shell.status().get("lag_records") == 0)
        assert "amount:" in shell.run(next(steps))  # of the dead letter
        # Of all events: the last thousand may have expired at once, with one label for all.
        losses = {name: of["loss"] for name, of in shell.status()["progressive"].items()}
        risky, harmless = map(json.loads, shell.run(next(steps)).splitlines())
        before = until(shell.late)
        assert '"offset"' in shell.run(next(steps))  # a chargeback
        until(lambda: shell.late().get("joined") == before["joined"] + 1)
        assert 0.03 < json.loads(shell.run(next(steps)))["probability"] < 0.7  # killed
        after = until(shell.late)
        letters = shell.run(next(steps))
        assert next(steps, None) is None

    assert losses["model"] < min(losses["prior"], losses["last_label"])
    assert 15_500 < before["joined"] + before["expired"] < 16_500
    assert 0.03 < risky["probability"] < 0.6
    assert harmless["probability"] < risky["probability"] / 2
    parts = risky["explanation"]["contributions"]
    assert min(parts["new_customer"], parts["amount"]) > 0.3
    assert before["joined"] + 1 == after["joined"]
    assert before["waiting"] - 200 < after["waiting"] < before["waiting"]
    assert ["feature_type", "1"] == letters.splitlines()[1].split()[:2]
