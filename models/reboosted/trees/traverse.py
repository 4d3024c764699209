"""Walks down regrown trees: of one event down all trees, and of many or the window down one tree.

Every walk takes exactly D steps, because a leaf is its own child: no branch can be mispredicted.
All walkers take a step before any takes the next, so that they wait for memory together; down one
tree eight events go side by side, which is as many as a processor's registers hold.
"""

from __future__ import annotations

from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.types import UINT, Ints, Vec

PREFIX_BLOCK = 256  # events that walk together
BLOCK, PARALLEL = 32, 8  # events that walk down every tree of a bank before the next; at once
CHILD_MASK = UINT(0xFFFF)
FEATURE_SHIFT = UINT(11)  # bits of a node under its feature's, less those of BLOCK


@kernel
def traverse(nodes: Any, D: int, x: Any, leaf: Any) -> None:
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
def traverse_block(nodes: Ints, D: int, columns: Any, events: Any, leaf: Any) -> None:
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
    for b in range(first - first % PARALLEL, last, PARALLEL):
        x, root = columns[b:], UINT(0)
        c, d, e, f, g, h, i, j = root, root, root, root, root, root, root, root
        for _ in range(D):
            c, d = _key_child(nodes, x, mask, c, UINT(0)), _key_child(nodes, x, mask, d, UINT(1))
            e, f = _key_child(nodes, x, mask, e, UINT(2)), _key_child(nodes, x, mask, f, UINT(3))
            g, h = _key_child(nodes, x, mask, g, UINT(4)), _key_child(nodes, x, mask, h, UINT(5))
            i, j = _key_child(nodes, x, mask, i, UINT(6)), _key_child(nodes, x, mask, j, UINT(7))
        for lane, at in enumerate((c, d, e, f, g, h, i, j)):
            leaf[b + lane] = (nodes[at] >> 16) & 0xFFFF


@kernel
def _key_child(nodes: Ints, x: Any, mask: Any, at: Any, lane: Any) -> Any:
    """Return the child of the node `at` that one of the walkers side by side goes to."""
    node = nodes[at]
    bits = UINT(node)
    return (bits & CHILD_MASK) + UINT(x[((bits >> FEATURE_SHIFT) & mask) + lane] > (node >> 32))


@kernel
def add_to_prefix(build: Any, D: int, codes: Any, prefix: Vec) -> None:
    """Add to prefix (B,) what the tree of nodes build.code_nodes (M,) says of codes (B, d).

    Code form of a node: the largest code that goes left in bits 40 on, 1 in bit 32 where missing
    goes left, then feature and left child. Adding that 1 turns the code of missing, 63, into 0.
    """
    values = build.node_values
    for first in range(0, prefix.shape[0], PREFIX_BLOCK):
        last = min(first + PREFIX_BLOCK, prefix.shape[0])
        _traverse_codes(build.code_nodes, D, codes[first:last], build.positions)
        for i in range(first, last):
            prefix[i] += values[build.positions[i - first] & 0xFFFF]


@kernel
def _traverse_codes(cuts: Ints, D: int, codes: Any, places: Any) -> None:
    n = codes.shape[0]
    whole = n - n % PARALLEL
    for b in range(0, whole, PARALLEL):
        root = UINT(0)
        c, d, e, f, g, h, i, j = root, root, root, root, root, root, root, root
        for _ in range(D):
            c, d = _code_child(cuts, codes[b], c), _code_child(cuts, codes[b + 1], d)
            e, f = _code_child(cuts, codes[b + 2], e), _code_child(cuts, codes[b + 3], f)
            g, h = _code_child(cuts, codes[b + 4], g), _code_child(cuts, codes[b + 5], h)
            i, j = _code_child(cuts, codes[b + 6], i), _code_child(cuts, codes[b + 7], j)
        for lane, at in enumerate((c, d, e, f, g, h, i, j)):
            places[b + lane] = at
    for b in range(whole, n):
        at = UINT(0)
        for _ in range(D):
            at = _code_child(cuts, codes[b], at)
        places[b] = at


@kernel
def _code_child(cuts: Ints, codes: Any, at: Any) -> Any:
    """Return the child of the node `at` that an event of codes (d,) goes to."""
    node = UINT(cuts[at])
    code = (UINT(codes[(node >> UINT(16)) & CHILD_MASK]) + ((node >> UINT(32)) & UINT(1))) & UINT(
        63
    )
    return (node & CHILD_MASK) + UINT(code > (node >> UINT(40)))
