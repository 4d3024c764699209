"""Observe the compilation of kernels: which step of how many it is at, and how long it will take;
or refuse it.

A step is one function. Kernels from the cache are loaded, not compiled, and are no steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from kaboost.models.kernels.jit import COMPILED

LISTENER: Any = object
if COMPILED:
    from numba.core import event

    LISTENER = event.Listener  # Any, because numba is not typed

MIN_SHARE = 0.1  # of the steps, before which their time is not measured but expected
LAST_SHARE = 0.15  # of the time is taken by the last large step, which optimises all of them


class Expected(NamedTuple):
    """What compilation takes with an empty cache, counted and measured on two cores."""

    steps: int
    seconds: float


TREES = "reboosted_trees"
LEARNING = {TREES: Expected(252, 40.0), "": Expected(65, 8.0)}  # by bank; "" for all others
SERVING = {TREES: Expected(37, 8.0), "": Expected(22, 4.0)}


class NotCompiled(BaseException):
    """A kernel is not in the cache. No boundary may take it for a fault of what was computed."""


class CompileProgress(LISTENER):  # type: ignore[misc]
    """Count the functions that this process compiles, nested ones too.

    Parameters
    ----------
    expected
        What to expect; more steps than that make the number of steps grow.
    clock
        Returns the time in seconds.
    """

    def __init__(self, expected: Expected, clock: Callable[[], float]) -> None:
        self.done = 0
        self._expected, self._clock = expected, clock
        self._began: float | None = None
        self._ended = 0.0  # the last step that is done

    def on_start(self, _: Any) -> None:
        """Note that a function begins to compile."""
        if self._began is None:
            self._began = self._clock()

    def on_end(self, _: Any) -> None:
        """Note that it is compiled."""
        self.done += 1
        self._ended = self._clock()

    def describe(self) -> str:
        """Describe step, steps and seconds left; empty before anything compiles.

        Examples
        --------
        >>> progress = CompileProgress(Expected(10, 20.0), lambda: 0.0)
        >>> progress.describe()
        ''
        >>> progress.on_start(None)
        >>> progress.describe()
        'compiling, step 1 of 10, about 20 seconds'
        """
        began, done = self._began, self.done
        if began is None:
            return ""
        steps = max(self._expected.steps, done + 1)
        total = self._expected.seconds
        if done >= MIN_SHARE * steps:  # from here on by the speed of this machine
            total = (self._ended - began) * steps / done / (1.0 - LAST_SHARE)
        left = max(1, round(total - (self._clock() - began)))
        return f"compiling, step {done + 1} of {steps}, about {left} second{'s' * (left > 1)}"


@contextmanager
def observe_compilation(
    by_bank: Mapping[str, Expected], spec: Mapping[str, Any], clock: Callable[[], float]
) -> Iterator[CompileProgress]:
    """Observe what this process compiles meanwhile, in any thread, for a model of `spec`."""
    bank = spec["bank"]["kind"] if "bank" in spec else ""
    progress = CompileProgress(by_bank.get(bank, by_bank[""]), clock)
    if not COMPILED:
        yield progress
        return
    event.register("numba:compile", progress)
    try:
        yield progress
    finally:
        event.unregister("numba:compile", progress)


@contextmanager
def without_compilation() -> Iterator[None]:
    """Raise NotCompiled at the first kernel that is not in the cache, instead of compiling it."""
    refusal = _Refusal()
    if COMPILED:
        event.register("numba:compile", refusal)
    try:
        yield
    finally:
        if COMPILED:
            event.unregister("numba:compile", refusal)


class _Refusal(LISTENER):  # type: ignore[misc]
    """Refuses to compile."""

    def on_start(self, _: Any) -> None:
        """Refuse a function."""
        raise NotCompiled

    def on_end(self, _: Any) -> None:
        """Do nothing: nothing is compiled."""
