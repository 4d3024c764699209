"""Walks down regrown trees: of one event down all trees, and of many or the window down one tree.

Every walk takes exactly D steps, because a leaf is its own child: no branch can be mispredicted.
All walkers take a step before any takes the next, so that they wait for memory together; down one
tree eight events go side by side, which is as many as a processor's registers hold.
"""

from __future__ import annotations

from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import UINT, Ints, Vec

FLOCK = 256  # events that walk together
BLOCK, SIDE_BY_SIDE = 32, 8  # events that walk down every tree of a bank before the next; at once
LOW = UINT(0xFFFF)
FEATURE = UINT(11)  # bits of a node under its feature's, less those of BLOCK


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
def walk_together(nodes: Ints, D: int, columns: Any, events: Any, leaf: Any) -> None:
    """Take D > 0 steps down one tree (M,) with the keys of some events of a block; fill leaf (B,)
    with the numbers of their leaves, and of others of the same eight.

    Parameters
    ----------
    columns : (2^i B,) int32 keys, those of one feature for all B = 32 events together. A leaf is
        said to cut some feature, beyond the last if need be: which one it is does not matter.
    events : first and last of them, of the block's.
    """
    first, last = events
    mask = UINT(columns.shape[0] - BLOCK)
    for b in range(first - first % SIDE_BY_SIDE, last, SIDE_BY_SIDE):
        x, root = columns[b:], UINT(0)
        c, d, e, f, g, h, i, j = root, root, root, root, root, root, root, root
        for _ in range(D):
            c, d = _step(nodes, x, mask, c, UINT(0)), _step(nodes, x, mask, d, UINT(1))
            e, f = _step(nodes, x, mask, e, UINT(2)), _step(nodes, x, mask, f, UINT(3))
            g, h = _step(nodes, x, mask, g, UINT(4)), _step(nodes, x, mask, h, UINT(5))
            i, j = _step(nodes, x, mask, i, UINT(6)), _step(nodes, x, mask, j, UINT(7))
        for lane, at in enumerate((c, d, e, f, g, h, i, j)):
            leaf[b + lane] = (nodes[at] >> 16) & 0xFFFF


@kernel
def _step(nodes: Ints, x: Any, mask: Any, at: Any, lane: Any) -> Any:
    """Return the child of the node `at` that one of the walkers side by side goes to."""
    node = nodes[at]
    bits = UINT(node)
    return (bits & LOW) + UINT(x[((bits >> FEATURE) & mask) + lane] > (node >> 32))


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
    n = codes.shape[0]
    whole = n - n % SIDE_BY_SIDE
    for b in range(0, whole, SIDE_BY_SIDE):
        root = UINT(0)
        c, d, e, f, g, h, i, j = root, root, root, root, root, root, root, root
        for _ in range(D):
            c, d = _down(cuts, codes[b], c), _down(cuts, codes[b + 1], d)
            e, f = _down(cuts, codes[b + 2], e), _down(cuts, codes[b + 3], f)
            g, h = _down(cuts, codes[b + 4], g), _down(cuts, codes[b + 5], h)
            i, j = _down(cuts, codes[b + 6], i), _down(cuts, codes[b + 7], j)
        for lane, at in enumerate((c, d, e, f, g, h, i, j)):
            places[b + lane] = at
    for b in range(whole, n):
        at = UINT(0)
        for _ in range(D):
            at = _down(cuts, codes[b], at)
        places[b] = at


@kernel
def _down(cuts: Ints, codes: Any, at: Any) -> Any:
    """Return the child of the node `at` that an event of codes (d,) goes to."""
    node = UINT(cuts[at])
    code = (UINT(codes[(node >> UINT(16)) & LOW]) + ((node >> UINT(32)) & UINT(1))) & UINT(63)
    return (node & LOW) + UINT(code > (node >> UINT(40)))
