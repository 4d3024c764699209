"""Walks down regrown trees: of one event down all trees, and of the window down one tree.

Every walk takes exactly D steps, because a leaf is its own child: no branch can be mispredicted.
All walkers take a step before any takes the next, so that they wait for memory together.
"""

from __future__ import annotations

from typing import Any

from models.types import Ints, Vec
from models.verbs import kernel

FLOCK = 256  # events that walk together


@kernel
def walk(nodes: Any, D: int, x: Any, leaf: Any) -> None:
    """Take D > 0 steps down every tree (N, M) for keys x (2d,) or more; fill leaf (N,) with the
    numbers of the leaves, in its low 16 bits.
    """
    N = nodes.shape[0]
    for i in range(N):
        node = nodes[i, 0]
        leaf[i] = (node & 0xFFFF) + (x[(node >> 16) & 0xFFFF] > (node >> 32))
    for _ in range(D - 1):
        for i in range(N):
            node = nodes[i, leaf[i] & 0xFFFF]
            leaf[i] = (node & 0xFFFF) + (x[(node >> 16) & 0xFFFF] > (node >> 32))
    for i in range(N):
        leaf[i] = (nodes[i, leaf[i] & 0xFFFF] >> 16) & 0xFFFF


@kernel
def raise_prefix(work: Any, D: int, codes: Any, prefix: Vec) -> None:
    """Add to prefix (B,) what the tree of nodes work.cuts (M,) says of codes (B, d).

    Code form of a node: the largest code that goes left in bits 40 on, 1 in bit 32 where missing
    goes left, then feature and left child. Adding that 1 turns the code of missing, 63, into 0.
    """
    values = work.values
    for first in range(0, prefix.shape[0], FLOCK):
        last = min(first + FLOCK, prefix.shape[0])
        _descend(work.cuts, D, codes[first:last], work.places)
        for i in range(first, last):
            prefix[i] += values[work.places[i - first] & 0xFFFF]


@kernel
def _descend(cuts: Ints, D: int, codes: Any, places: Any) -> None:
    for i in range(codes.shape[0]):
        places[i] = 0
    for _ in range(D):
        for i in range(codes.shape[0]):
            node = cuts[places[i] & 0xFFFF]
            code = (int(codes[i, (node >> 16) & 0xFFFF]) + ((node >> 32) & 1)) & 63
            places[i] = (node & 0xFFFF) + (code > (node >> 40))
