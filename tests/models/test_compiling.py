"""While a kernel compiles, garbage is looked for seldom; before and after, as the program wants."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import overload

from kaboost.models.kernels.gc_pause import SELDOM


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave this process's collector as it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def listening(seen: list[int]) -> Callable[[Any], Any]:
    """Make a function that compiles in two levels, and tells the threshold it was compiled at."""

    def told(x: Any) -> Any:
        raise NotImplementedError

    def look(x: Any) -> Any:
        seen.append(gc.get_threshold()[0])
        return (lambda x: x) if isinstance(x, types.Integer) else None

    overload(told, strict=False)(look)
    inner = njit(lambda x: told(x) + 1)

    def outer(x: Any) -> Any:
        return inner(x) + told(x)

    return njit(outer)


@pytest.mark.parametrize(
    ("own", "meanwhile"), [(700, SELDOM), (0, 0), (SELDOM + 1, SELDOM + 1), (1, SELDOM)]
)
def test_seldom_in_a_compile_alone(own: int, meanwhile: int) -> None:
    """The threshold of the program is back at the end; one that is off or higher is let be."""
    gc.set_threshold(own, 7, 9)
    seen: list[int] = []

    assert 5 == listening(seen)(2)

    assert {meanwhile} == set(seen)
    assert (own, 7, 9) == gc.get_threshold()


def test_failed_compile_puts_it_back() -> None:
    """It counts as ended."""
    gc.set_threshold(700)
    seen: list[int] = []

    with pytest.raises(TypingError):
        listening(seen)("text")

    assert SELDOM == seen[0]
    assert 700 == gc.get_threshold()[0]


def test_threshold_set_meanwhile_stays() -> None:
    """Another thread's word counts more than what was found at the start."""
    gc.set_threshold(700)

    class Setting(list[int]):
        def append(self, _: int) -> None:
            gc.set_threshold(1234)

    listening(Setting())(2)

    assert 1234 == gc.get_threshold()[0]
