"""Wall clocks that jump, in learner, API worker and supervisor together."""

from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service
from tests.service.learning import until

PROGRESS = 200  # records that are learned while nothing is wrong
HOUR, DAY = 3600.0, 86_400.0
JUMPS = (HOUR, -HOUR, -400 * DAY, DAY, 20 * 365 * DAY, 0.0, -30.0)


@scenario(rounds=7, long=100)
def clock_jumps(run: Run) -> None:
    """The wall clock jumps by 30 seconds to 20 years, forwards and back."""
    clock = run.folder / "clock"
    clock.write_text("0")
    service = Service(run, env={"CHAOS_CLOCK": str(clock)})
    with service.under_load():
        for k in range(run.rounds):
            temporary = clock.with_suffix(".new")
            temporary.write_text(str(JUMPS[k % len(JUMPS)]))
            temporary.replace(clock)
            service.progress(PROGRESS)
            if k % 3 == 2:
                service.kill("learner")
                service.progress()
            # Neither stale nor without a learner, whatever the clocks say.
            until(lambda: _is_well(service))


def _is_well(service: Service) -> bool:
    ready = service.program.probe(200) or {}
    return not ready.get("stale", True) and ready["learner"]["state"] == "running"
