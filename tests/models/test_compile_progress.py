"""Compilation is reported as steps done and seconds left."""

from typing import Any

import numba
import pytest

from kaboost.models.kernels.compile_progress import (
    LEARNING,
    CompileProgress,
    Expected,
    observe_compilation,
)
from kaboost.models.kernels.jit import COMPILED


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def compiled(steps: int, seconds: float, clock: Clock, expected: Expected) -> CompileProgress:
    """Compile some functions, each within the outermost one, in these seconds altogether."""
    progress = CompileProgress(expected, clock)
    progress.on_start(None)
    for _ in range(steps):
        progress.on_start(None)
        clock.now += seconds / steps
        progress.on_end(None)
    return progress


def test_nothing_is_described_before_anything_compiles() -> None:
    """A start with all kernels cached is silent."""
    assert CompileProgress(Expected(10, 20.0), Clock()).describe() == ""


@pytest.mark.parametrize(
    ("steps", "seconds", "described"),
    [
        (0, 0.0, "step 1 of 100, about 50 seconds"),
        (5, 5.0, "step 6 of 100, about 45 seconds"),  # too early: the expected time still counts
        (50, 34.0, "step 51 of 100, about 46 seconds"),  # 34 / (.5 * .85) = 80 s in all
        (99, 85.0, "step 100 of 100, about 16 seconds"),
        (150, 85.0, "step 151 of 151, about 16 seconds"),
    ],
)
def test_the_time_left_follows_this_machine(steps: int, seconds: float, described: str) -> None:
    """After a tenth of the steps their own speed counts; the last step takes longer than others."""
    progress = compiled(steps, seconds, Clock(), Expected(100, 50.0))

    assert f"compiling, {described}" == progress.describe()


def test_the_time_left_never_grows_while_a_step_goes_on() -> None:
    """The last step is long: the estimate falls, down to one second."""
    clock = Clock()
    progress = compiled(99, 85.0, clock, Expected(100, 50.0))
    texts = []
    for _ in range(4):
        clock.now += 10.0
        texts.append(progress.describe().rpartition("about ")[2])

    assert texts == ["6 seconds", "1 second", "1 second", "1 second"]


@pytest.mark.parametrize("spec", [{"bank": {"kind": "linear"}}, {"river": "tree.HoeffdingTree"}])
def test_every_model_is_expected_to_compile(spec: dict[str, Any]) -> None:
    """Banks without figures of their own, and River models, have common ones."""
    with observe_compilation(LEARNING, spec, Clock()) as progress:
        pass
    progress.on_start(None)

    assert f"of {LEARNING[''].steps}," in progress.describe()
    assert 0 == progress.done


def test_what_compiles_meanwhile_is_counted() -> None:
    """A function and the one that it calls; nothing is observed afterwards."""
    inner = numba.njit(lambda x: x + 1.0)
    outer = numba.njit(lambda x: inner(x) * 2.0)
    with observe_compilation(LEARNING, {}, Clock()) as progress:
        outer(1.0)
        outer(2.0)
    numba.njit(lambda x: x)(1.0)

    assert (2 if COMPILED else 0) == progress.done
    assert bool(progress.describe()) == COMPILED
