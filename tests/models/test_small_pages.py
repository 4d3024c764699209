"""Zeros in small pages behave like those of NumPy."""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path

import numpy as np
import pytest

from kaboost.models.kernels.memory import LARGE, zeros


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float64])
@pytest.mark.parametrize("size", [10, LARGE + 4096])
def test_is_as_numpy_zeros(kind, size):
    """Zeros of the shape and type, C-contiguous and writable; calls share no memory."""
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
    """No huge page backs written memory, and a fork writes to its private copy."""
    made = zeros((8 * LARGE,), np.uint8)
    made[:] = 1
    child = os.fork()
    if child == 0:
        made[:] = 9
        os._exit(0)
    os.waitpid(child, 0)

    assert made.max() == 1
    middle = made.__array_interface__["data"][0] + made.nbytes // 2
    areas = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    bounds = [[int(address, 16) for address in area.split(" ", 1)[0].split("-")] for area in areas]
    mine = next(a for a, (begin, end) in zip(areas, bounds, strict=True) if begin <= middle < end)
    known = Path("/sys/kernel/mm/transparent_hugepage").exists()

    assert re.search(r"AnonHugePages: +0 kB", mine)
    assert bool(re.search(r"VmFlags:.* nh\b", mine)) is known


def test_a_system_without_huge_pages_has_zeros_too(monkeypatch):
    """A system that rejects the advice still gives zeros."""

    class Plain(mmap.mmap):
        def madvise(self, *_):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Plain)

    assert zeros((2 * LARGE,), np.uint8).sum() == 0
