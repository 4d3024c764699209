"""The demo as a newcomer runs it: it ends well by itself, and notices when it should not."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT = 90.0


def demo(*flags: str, folder: Path) -> subprocess.Popen[str]:
    """Start the demo with a temporary folder of its own, and Ctrl-C as a terminal has it: who runs
    the tests in the background may have handed down that it is ignored.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "kaboost.service.cli", "demo", *flags],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def left(folder: Path) -> list[str]:
    """List what still runs or lies in the folder; a child inherits where temporary files go."""
    running = []
    for each in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):  # it may end, or be a zombie, between two looks
            if belongs(each, folder):
                running.append(" ".join(each.cmdline()))
    return running + [path.name for path in folder.iterdir()]


def belongs(process: psutil.Process, folder: Path) -> bool:
    """Say whether a process descends from a demo of this folder."""
    try:
        return process.environ().get("TMPDIR") == str(folder)
    except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def test_demo_holds_every_claim(tmp_path: Path) -> None:
    """It ends with 0 in time, every claim held, with the figures of the README; nothing stays."""
    begin = time.monotonic()
    with demo(folder=tmp_path) as running:
        told, _ = running.communicate(timeout=LIMIT + 30)

    assert 0 == running.returncode, told
    assert time.monotonic() - begin < LIMIT
    assert 7 == len(re.findall(r"│ held ", told)), told
    assert "NOT HELD" not in told
    *_, last = told.splitlines()
    assert last.startswith("progressive log-loss 0.")
    assert f"\n\n    {last}\n\n" in (ROOT / "README.md").read_text()
    assert told.index("curl -s http://127.0.0.1:") < told.index("1 of 5")
    assert [] == left(tmp_path)


def test_sabotage_is_found(tmp_path: Path) -> None:
    """A learner that restarts from a wrong position is found out, by the state and the count."""
    with demo("--sabotage", folder=tmp_path) as running:
        told, _ = running.communicate(timeout=LIMIT + 30)

    assert 1 == running.returncode, told
    missed = re.findall(r"NOT HELD *│ ([^│]*?) *│", told)
    assert [
        "every event was learned exactly once",
        "the state equals an uninterrupted run, bit for bit",
    ] == missed
    assert [] == left(tmp_path)


@pytest.mark.parametrize(("way", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_demo_leaves_nothing_running(tmp_path: Path, way: signal.Signals, code: int) -> None:
    """However the demo ends, all its processes end with it."""
    with demo(folder=tmp_path) as running:
        assert running.stdout is not None
        while "2 of 5" not in (line := running.stdout.readline()):
            assert line, "the demo ended early"
        started = len(left(tmp_path))
        running.send_signal(way)
        output = running.stdout.read()

    deadline = time.monotonic() + 40
    while any("service" in each for each in left(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.2)

    assert code == running.returncode, output
    assert started >= 6  # demo, broker, serve, learner, API, producer
    assert [] == [each for each in left(tmp_path) if "service" in each]
