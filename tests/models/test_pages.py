"""Memory in small pages is as good as any."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from models.pages import LARGE, zeros


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float64])
@pytest.mark.parametrize("size", [10, LARGE + 4096])
def test_is_as_numpy_zeros(kind, size):
    """Zeros of the shape and type, in order, to be written to; each call's are its own."""
    shape = (2, size // np.dtype(kind).itemsize)
    one, other = zeros(shape, kind), zeros(shape, kind)
    one[1, -1] = 7

    assert one.shape == shape
    assert one.dtype == kind
    assert one.flags.c_contiguous
    assert one.flags.aligned
    assert one.sum() == 7
    assert other.sum() == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12 of forks
def test_pages_are_small():
    """No huge page backs what is written, and a fork writes to its own."""
    made = zeros((8 * LARGE,), np.uint8)
    made[:] = 1
    child = os.fork()
    if child == 0:
        made[:] = 9
        os._exit(0)
    os.waitpid(child, 0)

    assert made.max() == 1
    middle = made.__array_interface__["data"][0] + made.nbytes // 2
    maps = Path("/proc/self/smaps").read_text().split("VmFlags")
    mine = next(
        part for part in maps
        for begin, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) ", part, re.MULTILINE)
        if int(begin, 16) <= middle < int(end, 16)
    )  # fmt: skip
    assert re.search(r"AnonHugePages: +0 kB", mine)
