"""The mock cluster as a program: it stays for those who try it out, and goes with the demo."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kaboost.service.demo.mock_broker import WITH_PARENT

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 20


@contextmanager
def hosted(*arguments: str, stdin: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the program; gives it with the address that it prints."""
    command = [sys.executable, "-m", "kaboost.service.demo.mock_broker", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stays_until_a_signal(number: signal.Signals) -> None:
    """Whatever standard input is, it accepts connections until it is told to end."""
    with hosted(stdin=subprocess.DEVNULL) as (process, address):
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), PATIENCE).close()
        process.send_signal(number)

        assert 0 == process.wait(PATIENCE)


def test_tied_it_ends_with_its_input() -> None:
    """Whoever started it may be gone without a word: no broker is left behind."""
    with hosted(WITH_PARENT, stdin=subprocess.PIPE) as (process, address):
        assert process.stdin
        assert address
        process.stdin.close()

        assert 0 == process.wait(PATIENCE)
