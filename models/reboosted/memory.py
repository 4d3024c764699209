"""Memory of the default model's state: its bytes, and the longest window that fits."""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import (
    BLOCK_EVENTS,
    EVENTS_AHEAD_DIVISOR,
    HISTOGRAM_BYTES,
    HISTOGRAM_MEMORY_DIVISOR,
    MAX_EVENTS_AHEAD,
    RECENT_EVENTS,
    SAMPLE_ROWS,
    Sizes,
    Structure,
)
from kaboost.models.reboosted.imputation import state_bytes as imputation_bytes
from kaboost.models.reboosted.linear import state_bytes as linear_bytes
from kaboost.models.reboosted.state import CLASS_LANES, CODES, LABEL_MEANS, LANES, MAX_FEATURES
from kaboost.models.types import ModelError


def affordable_window(sizes: Sizes, d0: int) -> int:
    """Return the events of the longest window whose whole state stays under the memory bound, which
    classes share.

    Raises
    ------
    ModelError
        There are too many features, or the shortest window does not fit.
    """
    if d0 > MAX_FEATURES:
        raise ModelError(
            f"features: reboosted_trees takes at most {MAX_FEATURES} columns, not {d0}; hash them, "
            "or take bank linear"
        )
    for R in range(sizes.events, 0, -BLOCK_EVENTS):
        if state_bytes(sizes, d0, R) <= sizes.model_memory:
            return R
    each = "" if sizes.columns else "each of "
    whose = f" for {each}{sizes.classes} classes" if sizes.classes > 1 else ""
    raise ModelError(
        f"bank.max_memory: {sizes.memory / 1e6:g} MB hold no window of {BLOCK_EVENTS} events of "
        f"{d0} features{whose}; give {_enough(sizes, d0)} or more, fewer features, or bank linear"
    )


def _enough(sizes: Sizes, d0: int) -> int:
    """Return the megabytes that hold the shortest window: with more, histograms are larger."""
    R = min(BLOCK_EVENTS, sizes.events)
    models = 1 if sizes.columns else sizes.classes
    while (needed := models * state_bytes(sizes, d0, R)) > sizes.memory:
        sizes = sizes._replace(memory=(needed // 1_000_000 + 1) * 1_000_000)
    return sizes.memory // 1_000_000


def state_bytes(sizes: Sizes, d0: int, R: int) -> int:
    """Return the bytes of the state over a window of R events of d0 features."""
    d, K, C = d0 + LABEL_MEANS, len(sizes.structures), sizes.classes if sizes.columns else 0
    score, row = (4 * C, 4 * (CLASS_LANES * C + 1)) if C else (8, 4 * LANES)
    window, sample = R * (d + 16 + score * K), min(SAMPLE_ROWS, R) * (4 * d + 8)
    total = (
        linear_bytes(d0) * max(C, 1)
        + imputation_bytes(d0)
        + window
        + sample
        + d * (64 * 9 + 144 + 8 * K + 4 * RECENT_EVENTS)
    )
    for one in sizes.structures:
        M, r = 2 * one.leaves - 1, max_rows(one, R)
        total += one.trees * (M * 8 + one.leaves * row) + M * (120 + 4 * C)
        total += r * (d + 40 + 8 * C) + histogram_count(sizes, one, d) * d * CODES * 8 + d * 32
    return total


def max_rows(one: Structure, R: int) -> int:
    """Return the most rows that a tree can see in a window of R events."""
    m = min(one.window or R, R)
    return min(max(one.least_rows, int(one.part * m)), m)


def histogram_count(sizes: Sizes, one: Structure, d: int) -> int:
    """Return the histograms over d columns that a tree may have at once."""
    most = min(HISTOGRAM_BYTES, sizes.model_memory // HISTOGRAM_MEMORY_DIVISOR)
    return max(2, min(one.leaves, most // (d * CODES * 8)))


@kernel
def events_ahead(R: int) -> int:
    """Return how many events may come into a window of R while a tree is grown from older ones."""
    return min(MAX_EVENTS_AHEAD, R // EVENTS_AHEAD_DIVISOR)
