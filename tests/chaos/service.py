"""The service of a scenario, with what must hold of it, checked from outside."""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from confluent_kafka import Consumer, TopicPartition

from kaboost.models.model import Model
from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.chaos.scenario import Run
from tests.chaos.traffic import Asker, Feeder, Stream
from tests.kafka.client import create_topic, read
from tests.service.learning import SCHEMA, committed, until
from tests.service.serving import PATIENCE, ROOT, Program, alive, settings
from tests.specs import LINEAR

HOOKS = ROOT / "tests" / "chaos" / "hooks"
PACE = 300.0  # records a second
ROW = {"x": 0.3, "y": -0.2, "colour": "red", "flag": True}


class Service:
    """`kaboost serve` on one partition, traffic through it, and the reference in this process."""

    def __init__(
        self,
        run: Run,
        *,
        bootstrap: str | None = None,
        direct: str | None = None,  # for the records of the test, where a proxy is between
        env: Mapping[str, str] | None = None,
        pace: float = PACE,
        folder: Path | None = None,
        topic: str | None = None,
        stream: Stream | None = None,
        **sections: Mapping[str, Any],
    ) -> None:
        self.run = run
        self.bootstrap = bootstrap or run.bootstrap
        self.direct = direct or self.bootstrap
        self.topic = topic or create_topic(self.direct)
        self.folder = folder or run.folder
        self.disk = run.folder / "disk"
        self.disk.mkdir(exist_ok=True)
        self.env = hook_environment(**(env or {}))
        self._pace = pace
        kafka = {"bootstrap_servers": self.bootstrap, "topic": self.topic, "group_id": self.topic}
        base: dict[str, dict[str, Any]] = {
            "kafka": kafka | {"broker_timeout": 300.0, "dlq_timeout": 5.0},
            "features": {"schema": SCHEMA},
            "events": {"duplicates": {"window": 500}},
            "snapshots": {"every_events": 100, "every_seconds": 0.2},
            "checkpoints": {"every_events": 150, "every_seconds": 0.3, "keep": 3},
            "api": {"drain_seconds": 0.5},
        }
        whole = {name: {**base.get(name, {}), **sections.get(name, {})} for name in base}
        whole |= {name: dict(given) for name, given in sections.items() if name not in base}
        self.settings = settings(self.folder, **whole)
        self.stream = stream or Stream(run.seed)
        self.program: Program
        self.feeder: Feeder | None = None
        self.asker: Asker | None = None
        self.broken_allowed = False

    def start(self, command: str = "serve") -> Program:
        """Start the service again after its supervisor has gone, or for the first time."""
        self.program = Program(command, self.settings, env=self.env)
        return self.program

    @contextmanager
    def under_load(self, *, ask: bool = True, check: bool = True) -> Iterator[None]:
        """Serve under a stream of records and predictions; check everything at the end."""
        self.start()
        try:
            self.program.ready()
            self.feeder = Feeder(self.direct, self.topic, self.stream, self._pace)
            until(lambda: self.checkpoint > 0)
            if ask:
                self.asker = Asker(self.settings.api.port, ROW)
            yield
            if check:
                self.finish()
        except BaseException:
            self._show_log()
            raise
        finally:
            self._end_load()
            self.program.close()

    def finish(self) -> None:
        """Let everything be learned, stop in order, and check the invariants."""
        assert self.feeder is not None
        total = self.feeder.stop()
        self.feeder = None
        self.run.events += total
        if self.program.process.poll() is not None:  # stopped under load: the next learns the rest
            self.start()
        until(lambda: self.checkpoint == total, 2 * PATIENCE)
        if self.asker is not None:
            self.asker.stop()
        code = self.program.end(signal.SIGTERM)
        assert code == 0, f"exit code {code}"
        self.check_predictions()
        self.check_state()
        self.check_dead_letters()

    def check_predictions(self) -> None:
        """Every request was answered with 200; connections broke only where a server was killed."""
        asker, self.asker = self.asker, None
        if asker is None:
            return
        assert not asker.failed, f"{len(asker.failed)} failed requests: {asker.failed[:3]}"
        assert self.broken_allowed or not asker.broken, f"{asker.broken} broken connections"
        assert asker.answered > 0
        self.run.notes.append(f"{asker.answered:,} predictions")
        if asker.broken:
            self.run.notes.append(f"{asker.broken} sent again")

    def check_state(self) -> None:
        """Records = learned + dead letters + duplicates; the state is the reference's, bit for bit;
        offsets and group offsets are the end of the topic.
        """
        checkpoint, damaged = FolderCheckpointStore(self.settings.checkpoints.directory).restore()
        assert checkpoint is not None
        assert damaged == 0, f"{damaged} damaged checkpoints"
        stream, header = self.stream, checkpoint.header
        learned, duplicates = header["events_learned"], stream.count("duplicate")
        total, dead = self.end_of_topic(), len(stream.dead)
        assert total == len(stream.sent), "the topic has other records than those that were sent"
        found = f"learned {learned} + dead {dead} + duplicates {duplicates} of {total}"
        assert learned + dead + duplicates == total, found
        assert checkpoint.state.offsets == {0: total}, checkpoint.state.offsets
        at = committed(self.settings)
        assert at == total, f"the group's offset is {at} of {total}"
        expect_reference(checkpoint.state.model, stream)

    def check_dead_letters(self) -> None:
        """Each record that is no event is in the dead-letter topic, with its bytes."""
        found: dict[int, bytes | None] = {}
        for letter in read_all(self.direct, f"{self.topic}.dlq"):
            headers = dict(letter.headers() or [])
            found[int(headers["__connect.errors.offset"])] = letter.value()
        missing = sorted(set(self.stream.dead) - set(found))
        assert not missing, f"{len(missing)} records without a dead letter: {missing[:5]}"
        assert found == self.stream.dead, "dead letters of good records, or with other bytes"

    def check_order(self) -> None:
        """The group's offset is never ahead of the newest durable checkpoint."""
        at = committed(self.settings)
        assert at <= self.checkpoint, f"group at {at}, the checkpoint at {self.checkpoint}"

    @property
    def checkpoint(self) -> int:
        """The next offset of the newest checkpoint."""
        store = FolderCheckpointStore(self.settings.checkpoints.directory)
        return int(store.newest_header().get("offsets", {}).get("0", 0))

    def progress(self, records: int = 1) -> None:
        """Wait until the newest checkpoint is farther by some records."""
        before = self.checkpoint
        until(lambda: self.checkpoint >= before + records)

    def pid(self, role: str) -> int:
        """Return the process that has a role now: `learner`, `api-0`, or the supervisor's."""
        if role == "supervisor":
            return int(self.program.process.pid)
        return int(self.program.events("process running", role=role)[-1]["pid"])

    def kill(self, role: str) -> None:
        """Kill a process with -9, and wait until it is gone."""
        pid = self.pid(role)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))

    def kill_all(self) -> None:
        """Kill all processes at once, as a power cut would."""
        self._kill(self.program)
        self.program.client.close()

    def _kill(self, program: Program) -> None:
        top = psutil.Process(program.process.pid)
        everyone = [top, *top.children(recursive=True)]
        for process in everyone:
            process.suspend()
        for process in everyone:
            process.kill()
        program.process.wait(PATIENCE)
        psutil.wait_procs(everyone, PATIENCE)

    def end_of_topic(self) -> int:
        """Return the topic's high watermark."""
        client = Consumer(
            {"bootstrap.servers": self.direct, "group.id": "chaos-end", "log_level": 0}
        )
        _, high = client.get_watermark_offsets(TopicPartition(self.topic, 0), 20)
        client.close()
        return int(high)

    def _end_load(self) -> None:
        for part in (self.feeder, self.asker):
            if part is not None:
                part._stop.set()

    def _show_log(self) -> None:
        for path in sorted(self.folder.glob("*.log")):
            print(f"--- {path.name}\n" + "\n".join(path.read_text().splitlines()[-25:]))


def hook_environment(**more: str) -> dict[str, str]:
    """Return variables that bring the faults of the hooks into a process."""
    wanted = {"CHAOS_QUICK": "1", **more}
    mutation = os.environ.get("CHAOS_MUTATION")
    if mutation:
        wanted["CHAOS_MUTATION"] = mutation
    return {"PYTHONPATH": os.pathsep.join([str(HOOKS), str(ROOT)]), **wanted}


def expect_reference(model: Model, stream: Stream) -> None:
    """Compare a model with the same events learned without any fault, bit for bit."""
    twin = Model("binary", LINEAR, SCHEMA)
    rows = stream.learned
    twin.learn_many([features for features, _ in rows], [label for _, label in rows])
    ours, theirs = model.to_arrays(), twin.to_arrays()
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def read_all(bootstrap: str, topic: str) -> list[Any]:
    """Read all records of a topic of one partition; none where there is no topic."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "chaos-all", "log_level": 0})
    known = client.list_topics(timeout=20).topics
    low = high = 0
    if topic in known:
        low, high = client.get_watermark_offsets(TopicPartition(topic, 0), 20)
    client.close()
    return read(bootstrap, topic, high - low, 20.0) if high > low else []


def newest_state(folder: Path, prefix: str) -> Path:
    """Return the newest numbered file of a folder."""
    return files.newest(folder, prefix)[0]


def pause(run: Run, low: float, high: float) -> None:
    """Wait for a random time."""
    time.sleep(run.draw.uniform(low, high))
