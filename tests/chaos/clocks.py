"""Wall clocks that jump, in learner, API worker and supervisor together: libfaketime."""

from pathlib import Path

from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service
from tests.service.learning import until

LIBRARY = "faketime/libfaketimeMT.so.1"
PROGRESS = 200  # records that are learned while nothing is wrong
JUMPS = ("+1h", "-1h", "-400d", "+1d", "+20y", "+0", "-30s")


def library() -> Path:
    """Return libfaketime, or say how to get it."""
    for folder in Path("/usr/lib").glob("*"):
        if (folder / LIBRARY).exists():
            return folder / LIBRARY
    raise RuntimeError("clock jumps need libfaketime (Debian, Ubuntu: apt-get install libfaketime)")


@scenario(rounds=5, long=100)
def clock_jumps(run: Run) -> None:
    """The wall clock jumps by 30 seconds to 20 years, forwards and back."""
    clock = run.folder / "clock"
    clock.write_text("+0\n")
    env = {
        "LD_PRELOAD": str(library()),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    service = Service(run, env=env)
    with service.under_load():
        for k in range(run.rounds):
            jump = JUMPS[k % len(JUMPS)]
            temporary = clock.with_suffix(".new")
            temporary.write_text(f"{jump}\n")
            temporary.replace(clock)
            service.progress(PROGRESS)
            if k % 4 == 2:
                service.kill("learner")
                service.progress()
            # Neither stale nor without a learner, whatever the clocks say.
            until(lambda: _is_well(service))


def _is_well(service: Service) -> bool:
    ready = service.program.probe(200) or {}
    return not ready.get("stale", True) and ready["learner"]["state"] == "running"
