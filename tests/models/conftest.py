"""What all tests of models share: plain Python that overflows as silently as compiled code."""

from collections.abc import Iterator

import numba
import numpy as np
import pytest


@pytest.fixture(scope="session", autouse=True)
def silent_overflow() -> Iterator[None]:
    """Numpy's scalars warn where compiled hashes wrap round and compiled sums saturate."""
    with np.errstate(over="ignore" if numba.config.DISABLE_JIT else "warn"):
        yield
