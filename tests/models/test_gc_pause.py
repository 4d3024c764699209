"""Garbage is collected rarely while a kernel compiles, and as before afterwards."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import overload

from kaboost.models.kernels.gc_pause import GC_THRESHOLD


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Restore the threshold of this process."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def listening(seen: list[int]) -> Callable[[Any], Any]:
    """Make a function that compiles in two levels and records the thresholds meanwhile."""

    def identity(x: Any) -> Any:
        raise NotImplementedError

    def resolve(x: Any) -> Any:
        seen.append(gc.get_threshold()[0])
        return (lambda x: x) if isinstance(x, types.Integer) else None

    overload(identity, strict=False)(resolve)
    inner = njit(lambda x: identity(x) + 1)

    def outer(x: Any) -> Any:
        return inner(x) + identity(x)

    return njit(outer)


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [(700, GC_THRESHOLD), (0, 0), (GC_THRESHOLD + 1, GC_THRESHOLD + 1), (1, GC_THRESHOLD)],
)
def test_threshold_is_raised_only_while_compiling(before: int, meanwhile: int) -> None:
    """The threshold is restored at the end; one that is off or higher stays."""
    gc.set_threshold(before, 7, 9)
    seen: list[int] = []

    assert 5 == listening(seen)(2)

    assert {meanwhile} == set(seen)
    assert (before, 7, 9) == gc.get_threshold()


def test_failed_compile_restores_the_threshold() -> None:
    """A failed compilation counts as ended."""
    gc.set_threshold(700)
    seen: list[int] = []

    with pytest.raises(TypingError):
        listening(seen)("text")

    assert GC_THRESHOLD == seen[0]
    assert 700 == gc.get_threshold()[0]


def test_threshold_set_meanwhile_stays() -> None:
    """A threshold that another thread sets stays."""
    gc.set_threshold(700)

    class Setting(list[int]):
        def append(self, _: int) -> None:
            gc.set_threshold(1234)

    listening(Setting())(2)

    assert 1234 == gc.get_threshold()[0]
