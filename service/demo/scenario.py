"""The demo's scenario, step by step; it returns what was observed for the checks."""

import json
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Producer

from kaboost.service.demo import dead_letters, producer
from kaboost.service.demo.checks import Crash, Observations, Poison
from kaboost.service.demo.dead_letters import DeadLetter
from kaboost.service.demo.display import Display, View
from kaboost.service.demo.processes import PARTITION, TOPIC, DemoProcesses, kill
from kaboost.service.demo.scrape import Scrape, scrape
from kaboost.service.demo.story import explanation
from kaboost.service.demo.traffic import Traffic
from kaboost.service.errors import KaboostError
from kaboost.service.storage.checkpoints import Checkpoint, FolderCheckpointStore

RUN_SECONDS = 82.0  # the checks and the shutdown need the rest of 90 s
START_SECONDS = 35.0  # of RUN_SECONDS; a first compilation may exceed it, up to MAX_START_SECONDS
MAX_START_SECONDS = 300.0
STREAM_SECONDS = (15.0, 32.0)  # shortest and longest; shorter when the start was slow
POLL_SECONDS = 0.15
Events = Sequence[tuple[producer.Row, str]]


class Scenario:
    """One run: every step waits until it observes what it needs, or the time is up."""

    def __init__(self, processes: DemoProcesses, display: Display, events: Events) -> None:
        self._processes, self._display, self._events = processes, display, events
        self._begin = time.monotonic()
        self._deadline = self._begin + MAX_START_SECONDS
        self._compiled = 0.0  # seconds of the start beyond START_SECONDS
        self._metrics: Scrape | None = None
        self._traffic = Traffic(processes.port, [features for features, _ in events])

    def run(self, tamper: Callable[[Path], None]) -> tuple[Observations, Checkpoint]:
        """Run every step; `tamper` may alter the checkpoints while the learner is down.

        1. Start broker, learner and API; request predictions once the API is ready, and wait
           until the learner reads, which takes longer when it has to compile.
        2. Stream the events; in the middle, SIGKILL the learner; wait for the next one.
        3. Send an event that cannot be learned; wait for its dead letter.
        4. Wait for the checkpoint after the last event.
        """
        self._start()
        crash = self._crash(tamper)
        poison = self._poison()
        final = self._finish()
        return Observations(
            events=len(self._events),
            poison=poison,
            crash=crash,
            answered=len(self._traffic.times),
            failures=self._traffic.failures,
            versions=self._traffic.versions,
            compiled=self._compiled,
        ), final

    def _start(self) -> None:
        self._display.print_step("1 of 5  starting learner and API (the first start compiles)")
        self._processes.open()
        self._wait_until(self._is_ready, "the API to be ready")
        self._traffic.start()
        self._wait_until(self._is_reading, "the learner to read")
        spent = time.monotonic() - self._begin
        self._compiled = max(0.0, spent - START_SECONDS)
        self._deadline = self._begin + RUN_SECONDS + self._compiled
        seconds = min(max(RUN_SECONDS - 30 - spent, STREAM_SECONDS[0]), STREAM_SECONDS[1])
        self._processes.start_producer(len(self._events) / seconds)

    def _crash(self, tamper: Callable[[Path], None]) -> Crash:
        self._display.print_step("2 of 5  learning from the stream, serving predictions")
        self._wait_until(self._has_unsaved_events, "the middle of the stream")
        pid = self._processes.learner_pid()
        assert pid is not None
        self._display.print_step(f"3 of 5  SIGKILL to the learner, process {pid}")
        killed_at, learned = time.monotonic(), self._traffic.learned
        kill(pid)
        durable = self._durable_offset()
        tamper(self._processes.settings.checkpoints.folder)
        self._wait_until(
            lambda: self._metrics is not None and self._metrics.restarts > 0, "a new learner"
        )
        crash = Crash(
            killed=pid,
            restarted=self._processes.learner_pid() or 0,
            learned=max(learned, durable),  # the count in the predictions is a moment old
            durable=durable,
            answered=self._traffic.between(killed_at, time.monotonic()),
        )
        self._display.print_step(
            f"        {crash.answered} predictions were answered without a learner"
        )
        return crash

    def _poison(self) -> Poison:
        self._display.print_step("4 of 5  the learner is back; a poison event goes into the stream")
        value = poison_event(self._events[0][0])
        offset = send_event(self._processes.settings.kafka.bootstrap_servers, value)
        letters: list[DeadLetter] = []

        def written() -> bool:
            letters[:] = dead_letters.read(self._processes.settings.kafka, offset)
            return any(letter.offset == offset for letter in letters)

        self._wait_until(written, "the dead letter of the poison event")
        self._display.print_step(f"        dead letter: {letters[-1].code}, {letters[-1].reason}")
        return Poison(value, offset, letters)

    def _finish(self) -> Checkpoint:
        self._display.print_step("5 of 5  the rest of the stream, then the last checkpoint")
        end = len(self._events) + 1  # the poison event has an offset too
        self._wait_until(
            lambda: self._processes.all_sent and self._durable_offset() == end,
            "the last checkpoint",
        )
        self._traffic.finish()
        why = explanation(self._processes.port, self._events[-1][0])
        self._display.print_step(f"        the last event, explained: {why}")
        final = self._newest()
        assert final is not None
        return final

    def _wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Update the display until the condition holds."""
        while not holds():
            if time.monotonic() > self._deadline:
                spent = time.monotonic() - self._begin
                raise KaboostError(
                    f"waited for {what} until {spent:.0f} s were over; is the machine busy? Run it "
                    "again: compiled kernels are cached"
                )
            if failure := self._processes.failure():
                raise KaboostError(f"waited for {what}, but {failure}")
            self._metrics = scrape(self._processes.port)
            self._display.show(View(self._metrics, len(self._events), self._traffic.status()))
            time.sleep(POLL_SECONDS)

    def _is_ready(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self._processes.port}/healthz/ready"
            with urllib.request.urlopen(url, timeout=1) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def _is_reading(self) -> bool:
        return self._metrics is not None and self._metrics.lag is not None

    def _has_unsaved_events(self) -> bool:
        """Past the middle, with events learned that no checkpoint holds yet."""
        learned = self._traffic.learned
        return learned > len(self._events) // 2 and learned > self._durable_offset()

    def _newest(self) -> Checkpoint | None:
        checkpoint, _ = FolderCheckpointStore(self._processes.settings.checkpoints.folder).restore()
        return checkpoint

    def _durable_offset(self) -> int:
        checkpoint = self._newest()
        return checkpoint.state.offsets.get(PARTITION, 0) if checkpoint else 0


def poison_event(features: producer.Row) -> bytes:
    """Encode an event that cannot be learned: text where a number is required."""
    event = {"id": "poison", "features": {**features, "nswprice": "a lot"}, "label": "UP"}
    return json.dumps(event).encode()


def send_event(servers: str, value: bytes) -> int:
    """Send one event and return its offset."""
    offsets: list[int] = []
    client = Producer({"bootstrap.servers": servers})
    client.produce(
        TOPIC,
        value,
        partition=PARTITION,
        on_delivery=lambda _, message: offsets.append(message.offset() or 0),
    )
    client.flush(10)
    return offsets[0]
