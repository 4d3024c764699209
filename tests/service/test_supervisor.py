"""The supervisor: brings back what died, leaves down what must stay down, drains in order."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kaboost.service.errors import Exit
from kaboost.service.processes import supervisor
from kaboost.service.processes.supervisor import (
    FINAL_EXIT_CODES,
    MAX_DELAY_SECONDS,
    Report,
    Role,
    backoff,
    supervise,
)
from tests.service.learning import until
from tests.service.serving import alive

SLEEP = "import time; time.sleep(60)"
# As a process under the supervisor should: it leaves when its standard input is closed.
LIFELINE = "import os; os.read(0, 1)"


class Supervised:
    """A supervisor in a thread, and what it told."""

    def __init__(self, *roles: Role) -> None:
        self.reports: list[Report] = []
        self.code: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(roles,))
        self._thread.start()

    def states(self) -> list[str]:
        """Say what was told, in order."""
        return [report.state for report in self.reports]

    def pids(self) -> list[int]:
        """List the processes that were started."""
        return [report.pid for report in self.reports if report.state == "running"]

    def stop(self) -> int | None:
        """Drain; give the exit code."""
        self._stop.set()
        self._thread.join(30)
        return self.code

    def _run(self, roles: tuple[Role, ...]) -> None:
        self.code = supervise(roles, self._stop, self.reports.append)


@pytest.fixture
def supervised() -> Iterator[Callable[..., Supervised]]:
    """Supervise roles: `supervised(role, ...)`; all are stopped at the end."""
    started: list[Supervised] = []

    def start(*roles: Role) -> Supervised:
        started.append(Supervised(*roles))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def start(supervised: Callable[..., Supervised]) -> Callable[..., Supervised]:
    """Supervise scripts: `start("script", ...)`."""

    def start(*scripts: str, final: frozenset[int] = frozenset()) -> Supervised:
        return supervised(*(role(script, final) for script in scripts))

    return start


def role(script: str, final: frozenset[int] = frozenset()) -> Role:
    """Make a role that runs a script with the number of its restarts as an argument."""
    return Role(
        "test", lambda n: [sys.executable, "-c", script, str(n)], dict(os.environ), (), final
    )


def test_killed_process_comes_back(start: Callable[..., Supervised]) -> None:
    """A process killed by a signal is restarted, with the number of its restarts."""
    watched = start(SLEEP)
    for deaths in (1, 2):
        until(lambda deaths=deaths: len(watched.pids()) == deaths)
        os.kill(watched.pids()[-1], signal.SIGKILL)
    until(lambda: len(watched.pids()) == 3)

    assert ["running", "restarting"] * 2 + ["running"] == watched.states()
    assert "killed by SIGKILL: restarts in 0.2 s" == watched.reports[1].reason
    assert -signal.SIGKILL == watched.reports[1].exit_code
    assert "2" == psutil.Process(watched.pids()[-1]).cmdline()[-1]


@pytest.mark.parametrize("code", [0, 1, 4, 130])
def test_ended_process_comes_back(start: Callable[..., Supervised], code: int) -> None:
    """Every end but those that need a person is followed by a new start."""
    watched = start(f"raise SystemExit({code})", final=FINAL_EXIT_CODES)
    until(lambda: len(watched.pids()) >= 2)

    assert "restarting" == watched.reports[1].state
    assert code == watched.reports[1].exit_code


@pytest.mark.parametrize("code", [2, 3, 5])
def test_refusal_stays_down(start: Callable[..., Supervised], code: int) -> None:
    """What refused to run is not asked again, and its neighbour runs on."""
    watched = start(f"raise SystemExit({code})", SLEEP, final=FINAL_EXIT_CODES)
    until(lambda: "stopped" in watched.states())
    time.sleep(3 * supervisor.FIRST_DELAY_SECONDS)

    assert ["running", "running", "stopped"] == watched.states()
    assert code == watched.reports[-1].exit_code
    assert alive(watched.pids()[1])


def test_backoff_doubles_to_a_limit() -> None:
    """Deaths in a row make the next start wait longer, but never for ever."""
    waits = [backoff(deaths) for deaths in range(1, 100)]

    assert [0.2, 0.4, 0.8] == waits[:3]
    assert MAX_DELAY_SECONDS == waits[10] == waits[-1]


def test_starts_wait_for_their_backoff(start: Callable[..., Supervised]) -> None:
    """A process that dies at once is not started over and over."""
    begin = time.monotonic()
    watched = start("raise SystemExit(1)")
    until(lambda: len(watched.pids()) == 4)

    assert time.monotonic() - begin >= 0.2 + 0.4 + 0.8


def test_long_life_forgives(
    start: Callable[..., Supervised], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that lived for a while starts from the first delay again."""
    monkeypatch.setattr(supervisor, "HEALTHY_SECONDS", 0.0)
    watched = start("raise SystemExit(1)")
    until(lambda: len(watched.pids()) == 4)

    assert {"ended with exit code 1: restarts in 0.2 s"} == {
        report.reason for report in watched.reports if report.state == "restarting"
    }


def test_drain_lets_processes_finish(start: Callable[..., Supervised], tmp_path: Path) -> None:
    """Told to stop, every process gets SIGTERM and the time to finish."""
    script = (
        "import pathlib, signal, time\n"
        f"done = pathlib.Path({str(tmp_path)!r})\n"
        "def finish(*_):\n"
        "    time.sleep(0.3)\n"
        "    (done / 'finished').touch()\n"
        "    raise SystemExit(0)\n"
        "signal.signal(signal.SIGTERM, finish)\n"
        "(done / 'started').touch()\n"
        "time.sleep(60)\n"
    )
    watched = start(script)
    until((tmp_path / "started").exists)

    assert Exit.DONE == watched.stop()
    assert (tmp_path / "finished").exists()


def test_drain_that_fails_is_told(start: Callable[..., Supervised], tmp_path: Path) -> None:
    """A process that ends badly when told to stop makes the exit code say so."""
    ready = tmp_path / "ready"
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        f"open({str(ready)!r}, 'w')\n"
        "time.sleep(60)\n"
    )
    watched = start(script)
    until(ready.exists)

    assert Exit.NOT_HELD == watched.stop()


def test_drain_ends_what_will_not(
    start: Callable[..., Supervised], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ignores SIGTERM is killed after the grace, and the exit code says so."""
    monkeypatch.setattr(supervisor, "DRAIN_SECONDS", 0.3)
    deaf = tmp_path / "deaf"
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    watched = start(f"{ignore}; open({str(deaf)!r}, 'w'); {SLEEP}")
    until(deaf.exists)

    assert Exit.NOT_HELD == watched.stop()
    assert not alive(watched.pids()[0])


@pytest.mark.parametrize(
    ("script", "begins"),
    [(SLEEP, False), ("open({sign!r}, 'w').write('1'); " + SLEEP, True)],
    ids=["before", "after"],
)
def test_a_process_that_hangs_is_replaced(
    supervised: Callable[..., Supervised],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    script: str,
    begins: bool,
) -> None:
    """Before its first sign of life or after it: the log has it soon, then it is killed."""
    sign = tmp_path / "sign"
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(supervisor, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(supervisor, "HANG_SECONDS" if begins else "START_SECONDS", 1.0)
    hanging = role(script.format(sign=str(sign)))._replace(sign=lambda: sign.exists())
    watched = supervised(hanging)
    until(lambda: len(watched.pids()) >= 2)

    assert "killed by SIGKILL" in watched.reports[1].reason
    assert ["process gives no sign of life", "process hangs: it is killed and started again"] == [
        record.message for record in caplog.records[:2]
    ]


def test_nothing_outlives_the_supervisor(tmp_path: Path) -> None:
    """Kill -9 of the supervisor closes the lifeline, by which its processes end."""
    script = (
        "import sys, threading\n"
        "from kaboost.service.processes.supervisor import supervise\n"
        "from tests.service.test_supervisor import LIFELINE, role\n"
        "tell = lambda report: print(report.pid, flush=True)\n"
        "supervise([role(LIFELINE), role(LIFELINE)], threading.Event(), tell)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    children = [int(parent.stdout.readline()) for _ in range(2)]
    time.sleep(0.5)
    assert all(map(alive, children))
    parent.kill()
    parent.wait()
    parent.stdout.close()

    until(lambda: not any(map(alive, children)))


def test_interrupt_of_the_terminal_reaches_the_supervisor_alone(
    start: Callable[..., Supervised],
) -> None:
    """Children have a session of their own, so that Ctrl-C cannot end them out of order."""
    watched = start(SLEEP)
    until(watched.pids)

    assert os.getsid(0) != os.getsid(watched.pids()[0])
