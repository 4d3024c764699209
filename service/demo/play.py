"""The play itself, scene by scene; what was seen goes to the checker."""

import json
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Producer

from kaboost.service.demo import gauges, letters, producer
from kaboost.service.demo.claims import Crash, Facts, Poison
from kaboost.service.demo.screen import Screen, View
from kaboost.service.demo.stage import PARTITION, TOPIC, Stage, kill
from kaboost.service.demo.traffic import Traffic
from kaboost.service.errors import KaboostError
from kaboost.service.storage.checkpoints import Checkpoint, FolderCheckpointStore

WHOLE = 82.0  # seconds; the checks and the end need the rest of ninety
START = 35.0  # of them for the start; what a first compile takes beyond is added, up to LONGEST
LONGEST = 300.0
STREAM = (15.0, 32.0)  # seconds the stream takes: fewer when the start was slow
TICK = 0.15
Events = Sequence[tuple[producer.Row, str]]


class Play:
    """One performance: every scene waits for what it needs to see, until the time is up."""

    def __init__(self, stage: Stage, screen: Screen, events: Events) -> None:
        self._stage, self._screen, self._events = stage, screen, events
        self._begin = time.monotonic()
        self._deadline = self._begin + LONGEST
        self._compiled = 0.0  # seconds of the start beyond START
        self._gauges: gauges.Gauges | None = None
        self._traffic = Traffic(stage.port, [features for features, _ in events])

    def perform(self, meddle: Callable[[Path], None]) -> tuple[Facts, Checkpoint]:
        """Play every scene; `meddle` is let loose on the checkpoints of the dead learner.

        1. Start broker, learner and API; ask for predictions as soon as it is ready, and go on
           as soon as the learner reads, which takes longer where it compiles.
        2. Stream the events; in the middle, SIGKILL the learner; wait for the next one.
        3. Send an event that cannot be learned; find it among the dead letters.
        4. Wait for the checkpoint that stands behind the last event.
        """
        self._start()
        crash = self._crash(meddle)
        poison = self._poison()
        final = self._finish()
        return Facts(
            events=len(self._events),
            poison=poison,
            crash=crash,
            answered=len(self._traffic.moments),
            failures=self._traffic.failures,
            versions=self._traffic.versions,
            compiled=self._compiled,
        ), final

    def _start(self) -> None:
        self._screen.say("1 of 5  starting learner and API (the first start compiles)")
        self._stage.open()
        self._watch(self._ready, "the API to be ready")
        self._traffic.start()
        self._watch(self._reading, "the learner to read")
        spent = time.monotonic() - self._begin
        self._compiled = max(0.0, spent - START)
        self._deadline = self._begin + WHOLE + self._compiled
        seconds = min(max(WHOLE - 30 - spent, STREAM[0]), STREAM[1])
        self._stage.feed(len(self._events) / seconds)

    def _crash(self, meddle: Callable[[Path], None]) -> Crash:
        self._screen.say("2 of 5  learning from the stream, serving predictions")
        self._watch(self._worth_killing, "the middle of the stream")
        victim = self._stage.learner()
        assert victim is not None
        self._screen.say(f"3 of 5  SIGKILL to the learner, process {victim}")
        moment, learned = time.monotonic(), self._traffic.learned
        kill(victim)
        durable = self._position()
        meddle(self._stage.settings.checkpoints.directory)
        self._watch(lambda: self._gauges is not None and self._gauges.restarts > 0, "a new learner")
        crash = Crash(
            killed=victim,
            restarted=self._stage.learner() or 0,
            learned=max(learned, durable),  # what answers said it knew is a moment old
            durable=durable,
            answered=self._traffic.between(moment, time.monotonic()),
        )
        self._screen.say(f"        {crash.answered} predictions were answered without a learner")
        return crash

    def _poison(self) -> Poison:
        self._screen.say("4 of 5  the learner is back; a poison event goes into the stream")
        value = poisonous(self._events[0][0])
        offset = send(self._stage.settings.kafka.bootstrap_servers, value)
        found: list[letters.DeadLetter] = []

        def written() -> bool:
            found[:] = letters.read(self._stage.settings.kafka, offset)
            return any(letter.offset == offset for letter in found)

        self._watch(written, "the dead letter of the poison event")
        self._screen.say(f"        dead letter: {found[-1].code}, {found[-1].reason}")
        return Poison(value, offset, found)

    def _finish(self) -> Checkpoint:
        self._screen.say("5 of 5  the rest of the stream, then the last checkpoint")
        end = len(self._events) + 1  # the poison event has an offset too
        self._watch(lambda: self._stage.fed and self._position() == end, "the last checkpoint")
        self._traffic.finish()
        final = self._newest()
        assert final is not None
        return final

    def _watch(self, until: Callable[[], bool], what: str) -> None:
        """Show what goes on until it has happened."""
        while not until():
            if time.monotonic() > self._deadline:
                spent = time.monotonic() - self._begin
                raise KaboostError(
                    f"waited for {what} until {spent:.0f} s were over; is the machine busy? Run it "
                    "again: what has compiled is kept"
                )
            if broken := self._stage.broken():
                raise KaboostError(f"waited for {what}, but {broken}")
            self._gauges = gauges.read(self._stage.port)
            self._screen.show(View(self._gauges, len(self._events), self._traffic.glance()))
            time.sleep(TICK)

    def _ready(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self._stage.port}/healthz/ready"
            with urllib.request.urlopen(url, timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _reading(self) -> bool:
        return self._gauges is not None and self._gauges.lag is not None

    def _worth_killing(self) -> bool:
        """In the middle, with something learned that no checkpoint holds yet."""
        learned = self._traffic.learned
        return learned > len(self._events) // 2 and learned > self._position()

    def _newest(self) -> Checkpoint | None:
        found, _ = FolderCheckpointStore(self._stage.settings.checkpoints.directory).restore()
        return found

    def _position(self) -> int:
        found = self._newest()
        return found.state.offsets.get(PARTITION, 0) if found else 0


def poisonous(features: producer.Row) -> bytes:
    """Write an event that cannot be learned: a word where a number belongs."""
    event = {"id": "poison", "features": {**features, "nswprice": "a lot"}, "label": "UP"}
    return json.dumps(event).encode()


def send(servers: str, value: bytes) -> int:
    """Send one event; returns its offset."""
    offsets: list[int] = []
    sender = Producer({"bootstrap.servers": servers})
    sender.produce(
        TOPIC,
        value,
        partition=PARTITION,
        on_delivery=lambda _, message: offsets.append(message.offset() or 0),
    )
    sender.flush(10)
    return offsets[0]
