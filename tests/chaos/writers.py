"""Two learners at once: on one folder, on one group, on two folders."""

import signal
from pathlib import Path

from kaboost.service.errors import Exit
from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service, pause
from tests.chaos.traffic import Feeder, Stream
from tests.service.learning import committed, until
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


@scenario(rounds=2, long=40)
def two_learners_one_group(run: Run) -> None:
    """A learner with the group of another and an empty folder is refused; the first learns on."""
    service = Service(run)
    with service.under_load():
        until(lambda: committed(service.settings) > 0)
        for k in range(run.rounds):
            folder = run.folder / f"other-{k}"
            folder.mkdir()
            other = _with_own_folder(run, folder, service, service.topic)
            other.start("learner")
            try:
                code = other.program.process.wait(PATIENCE)
            finally:
                other.program.close()
            assert code == Exit.REFUSED, f"exit code {code}"
            service.check_order()
            service.progress(100)


def _with_own_folder(run: Run, folder: Path, first: Service, group: str) -> Service:
    kafka = {"topic": first.topic, "bootstrap_servers": run.bootstrap, "group_id": group}
    return Service(run, folder=folder, topic=first.topic, stream=first.stream, kafka=kafka)


@scenario(rounds=3, long=60)
def two_learners_two_folders(run: Run) -> None:
    """Two learners with a group and a folder each, on one topic: each learns everything."""
    stream = Stream(run.seed)
    folders = [run.folder / "first", run.folder / "second"]
    for folder in folders:
        folder.mkdir()
    first = Service(run, folder=folders[0], stream=stream)
    second = _with_own_folder(run, folders[1], first, f"{first.topic}-second")
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
