"""What a chaos scenario is: a function over a run, with a seed and a number of rounds."""

import random
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.kafka.broker import Broker

PASSED = "held"


class Run:
    """One execution of a scenario."""

    def __init__(self, seed: int, rounds: int, broker: "SharedBroker") -> None:
        self.seed, self.rounds = seed, rounds
        self.draw = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="kaboost-chaos-"))
        self.events = 0  # that were sent, or cases that were tried
        self.notes: list[str] = []
        self._broker = broker

    @property
    def bootstrap(self) -> str:
        """The address of the broker that scenarios share; it is not to be touched."""
        return self._broker.bootstrap

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.folder, ignore_errors=True)


class SharedBroker:
    """One broker for all scenarios that do not harm it, started when it is needed."""

    def __init__(self, bootstrap: str | None = None) -> None:
        self._own: Broker | None = None
        self._given = bootstrap

    @property
    def bootstrap(self) -> str:
        """Its address."""
        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = Broker()
            self._own.start()
        return self._own.bootstrap

    def close(self) -> None:
        """End it."""
        if self._own is not None:
            self._own.close()


class Scenario(NamedTuple):
    """A function, and how many rounds it takes."""

    name: str
    function: Callable[[Run], None]
    rounds: int
    long: int  # rounds of the long form
    about: str


class Row(NamedTuple):
    """What became of one run."""

    name: str
    seed: int
    rounds: int
    events: int
    result: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"| {self.name} | {self.seed} | {self.rounds:,} | {self.events:,} | {self.result} "
            f"| {self.seconds:.0f} |"
        )


HEAD = "| scenario | seed | rounds | events | result | seconds |\n|---|--:|--:|--:|---|--:|"
SCENARIOS: dict[str, Scenario] = {}


def scenario(rounds: int, long: int) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Register a function as a scenario under its name."""

    def register(function: Callable[[Run], None]) -> Callable[[Run], None]:
        name = function.__name__.replace("_", "-")
        about = (function.__doc__ or "").strip().splitlines()[0]
        SCENARIOS[name] = Scenario(name, function, rounds, long, about)
        return function

    return register


@contextmanager
def running(seed: int, rounds: int, broker: SharedBroker) -> Iterator[Run]:
    """Make a run; its files are gone at the end."""
    run = Run(seed, rounds, broker)
    try:
        yield run
    finally:
        run.close()


def perform(scenario: Scenario, seed: int, rounds: int, broker: SharedBroker) -> Row:
    """Run a scenario; a failure is a row as well, with its traceback printed."""
    begin = time.monotonic()
    with running(seed, rounds, broker) as run:
        try:
            scenario.function(run)
        except BaseException as err:
            traceback.print_exc()
            if isinstance(err, KeyboardInterrupt | SystemExit):
                raise
            words = (str(err).strip() or type(err).__name__).splitlines()[0][:120]
            result = f"FAILED: {type(err).__name__}: {words}".replace("|", "/")
        else:
            result = "; ".join([PASSED, *run.notes])
        events = run.events
    return Row(scenario.name, seed, rounds, events, result, time.monotonic() - begin)
