"""Memory and open files over many events, and all faults at random."""

import os
import signal
import time
from collections.abc import Sequence
from itertools import combinations
from statistics import median

import psutil

from tests.chaos.hooks import disk
from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service, pause
from tests.chaos.traffic import Stream
from tests.kafka.client import produce
from tests.service.learning import until
from tests.specs import LINEAR

EVENTS_A_ROUND = 100_000
WARM_UP = 3  # rounds
PROGRESS = 200
MAX_SLOPE_MB = 1.0  # per million events, after the warm-up, of the learner's resident memory


@scenario(rounds=10, long=100)
def memory_and_handles(run: Run) -> None:
    """100,000 events a round: memory and open files of the processes stay as they were."""
    service = Service(
        run,
        snapshots={"every_events": 20_000, "every_seconds": 1.0},
        checkpoints={"every_events": 50_000, "every_seconds": 5.0},
        model=LINEAR,
        events={"duplicates": {"window": 500}},
    )
    memory: list[float] = []
    handles: list[int] = []
    with service.under_load(check=False):
        assert service.feeder is not None
        service.feeder.stop()
        values = _values(run.seed)
        processes = [psutil.Process(service.pid(role)) for role in ("learner", "api-0")]
        sent = len(service.stream.sent)
        for _ in range(WARM_UP + run.rounds):
            produce(service.direct, service.topic, values)
            sent += len(values)
            until(lambda sent=sent: service.checkpoint == sent, 600.0)
            memory.append(processes[0].memory_info().rss / 1e6)
            handles.append(sum(each.num_fds() for each in processes))
            run.events += len(values)
    after = memory[WARM_UP:]
    millions = [k * EVENTS_A_ROUND / 1e6 for k in range(len(after))]
    slope = median_slope(millions, after)
    run.notes.append(f"{after[0]:.0f} to {after[-1]:.0f} MB, {slope:+.2f} MB per million events")
    run.notes.append(f"open files {handles[WARM_UP]} to {handles[-1]}")
    # Over less than three million events one page cache of the allocator is more than the limit.
    allowed = max(MAX_SLOPE_MB, 3.0 * MAX_SLOPE_MB / max(millions[-1], 1e-9))
    assert slope < allowed, f"memory grows by {slope:.2f} MB per million events: {memory}"
    assert max(handles[WARM_UP:]) <= handles[WARM_UP] + 3, f"open files: {handles}"


def median_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the median of the slopes between all pairs (Theil and Sen): memory is read at any
    moment, and buffers that come and go, or one step of the allocator, are no trend.
    """
    pairs = combinations(zip(x, y, strict=True), 2)
    return median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs)


def _values(seed: int) -> list[bytes]:
    stream = Stream(seed + 1, plain=True)
    made = [stream.next().value or b"" for _ in range(EVENTS_A_ROUND)]
    return [value.replace(b'"id"', b'"trace"') for value in made]  # no duplicates


@scenario(rounds=12, long=2_000)
def everything_at_random(run: Run) -> None:
    """kill -9 and SIGSTOP of any process, and EIO, in random order and with random pauses."""
    service = Service(run, api={"workers": 2}, env={"CHAOS_DISK": str(run.folder / "disk")})
    service.broken_allowed = True
    with service.under_load():
        for _ in range(run.rounds):
            pause(run, 0.0, 1.5)
            _harm(run, service)
            if run.draw.random() < 0.5:
                service.progress()


def _harm(run: Run, service: Service) -> None:
    what = run.draw.choice(["kill", "kill", "freeze", "disk", "restart"])
    role = run.draw.choice(["learner", "learner", "api-0", "api-1"])
    if what == "kill":
        service.kill(role)
        service.check_order()
        time.sleep(1.0)
    elif what == "freeze":
        pid = service.pid(role)
        os.kill(pid, signal.SIGSTOP)
        pause(run, 0.1, 3.0)
        os.kill(pid, signal.SIGCONT)
    elif what == "disk":
        disk.set_faults(service.disk, write=0.5, sync=0.3, replace=0.3, slow=0.1)
        pause(run, 0.5, 3.0)
        disk.set_faults(service.disk)
    else:
        service.program.process.kill()
        service.program.process.wait()
        service.program.client.close()
        service.start()
        service.program.ready()
