"""Two learners at once: on one folder, on one group, on two folders."""

import signal
from pathlib import Path

from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service, pause
from tests.chaos.traffic import Feeder, Stream
from tests.service.learning import until
from tests.service.serving import PATIENCE, Program, alive


@scenario(rounds=2, long=40)
def two_learners_one_folder(run: Run) -> None:
    """A second learner waits for the folder; it takes over when the first one is killed."""
    service = Service(run)
    with service.under_load():
        for _ in range(run.rounds):
            other = Program("learner", service.settings, env=service.env)
            try:
                until(lambda other=other: other.events("waiting for another learner"))
                service.progress(100)  # of the first
                assert not other.events("learner ready"), "two learners write to one folder"
                service.check_order()
                service.kill("learner")
                # Either of the two goes on: the second one, or the first one that is started again.
                service.progress(100)
                running = _writers(service, other)
                assert len(running) == 1, f"{len(running)} processes write to the folder"
            finally:
                other.end(signal.SIGTERM)
                other.close()
            _remove_log(service.folder / "learner.log")
            service.progress(100)


def _writers(service: Service, other: Program) -> list[int]:
    """Return the processes that are named by the lock and alive."""
    words = (service.settings.checkpoints.directory / ".lock").read_text().split()
    pids = {service.pid("learner"), other.process.pid}
    named = {int(word) for word in words if word.isdigit()}
    return [pid for pid in named & pids if alive(pid)]


def _remove_log(path: Path) -> None:
    path.unlink(missing_ok=True)


def _side_by_side(run: Run, *, same_group: bool) -> None:
    """Two learners with a folder each learn all records, each as the reference does."""
    stream = Stream(run.seed)
    folders = [run.folder / "first", run.folder / "second"]
    for folder in folders:
        folder.mkdir()
    first = Service(run, folder=folders[0], stream=stream)
    group = {} if same_group else {"group_id": f"{first.topic}-second"}
    kafka = {"topic": first.topic, "bootstrap_servers": run.bootstrap, "group_id": first.topic}
    second = Service(run, folder=folders[1], topic=first.topic, stream=stream, kafka=kafka | group)
    pair = (first, second)
    try:
        for each in pair:
            each.start("learner")
        feeder = Feeder(first.direct, first.topic, stream, 300.0)
        for _ in range(run.rounds):
            pause(run, 0.5, 1.5)
            victim = run.draw.choice(pair)
            victim.program.process.kill()
            victim.program.process.wait()
            victim.program.client.close()
            victim.start("learner")
            before = victim.checkpoint
            until(lambda victim=victim, before=before: victim.checkpoint > before)
        total = feeder.stop()
        run.events += total
        for each in pair:
            until(lambda each=each: each.checkpoint == total, PATIENCE)
            assert each.program.end(signal.SIGTERM) == 0
        for each in pair:
            each.check_state()
            each.check_dead_letters()
    finally:
        for each in pair:
            each.program.close()


@scenario(rounds=3, long=60)
def two_learners_one_group(run: Run) -> None:
    """Two learners with one group id and a folder each: each learns everything."""
    _side_by_side(run, same_group=True)


@scenario(rounds=3, long=60)
def two_learners_two_folders(run: Run) -> None:
    """Two learners with a group and a folder each, on one topic and one dead-letter topic."""
    _side_by_side(run, same_group=False)
