"""Traversal of trees: of one event through all trees, and of many events through one tree.

Every traversal takes exactly D steps, because a leaf is its own child: no branch can be
mispredicted. All take a step before any takes the next, so that they wait for memory together;
through one tree eight events go in parallel, as many as the registers of a processor hold.
"""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import PREFIX_BLOCK
from kaboost.models.reboosted.state import Codes, Keys, Places, TreeBuild
from kaboost.models.types import UINT, Ints, Vec

BLOCK = 32  # events that traverse a tree of the bank before any traverses the next
PARALLEL = 8  # of them in registers
CHILD_MASK = UINT(0xFFFF)
FEATURE_SHIFT = UINT(11)  # bits of a node below its feature, less those of BLOCK


@kernel
def traverse(nodes: Ints, D: int, x: Keys, leaf: Places) -> None:
    """Take D > 0 steps down every tree (N, M) for the keys x (2d,) of an event; fill leaf (N,) with
    the numbers of the leaves, in its low 16 bits.
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
def traverse_block(nodes: Ints, D: int, columns: Keys, first: int, last: int, leaf: Places) -> None:
    """Take D > 0 steps down one tree (M,) with the keys of events [first, last) of a block; fill
    leaf (B,) with the numbers of their leaves, and of others of the same eight.

    Parameters
    ----------
    columns : (2^i B,) keys, those of one feature for all B = 32 events together. The number of a
        leaf stands in the place of a feature, and may lie beyond the last: any key does.
    """
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
def _key_child(nodes: Ints, x: Keys, mask: UINT, at: UINT, lane: UINT) -> UINT:
    """Return the child of the node `at` that one of the parallel events goes to; all uint64."""
    node = nodes[at]
    bits = UINT(node)
    return (bits & CHILD_MASK) + UINT(x[((bits >> FEATURE_SHIFT) & mask) + lane] > (node >> 32))


@kernel
def add_to_prefix(build: TreeBuild, D: int, codes: Codes, prefix: Vec) -> None:
    """Add the values of the tree of build.code_nodes (M,) for codes (B, d) to prefix (B,)."""
    for first in range(0, prefix.shape[0], PREFIX_BLOCK):
        last = min(first + PREFIX_BLOCK, prefix.shape[0])
        traverse_codes(build.code_nodes, D, codes[first:last], build.positions)
        for i in range(first, last):
            prefix[i] += build.node_values[build.positions[i - first] & 0xFFFF]


@kernel
def traverse_codes(nodes: Ints, D: int, codes: Codes, positions: Places) -> None:
    """Fill positions (B,) with the nodes of the leaves that codes (B, d) reach in one tree."""
    n = codes.shape[0]
    whole = n - n % PARALLEL
    for b in range(0, whole, PARALLEL):
        root = UINT(0)
        c, d, e, f, g, h, i, j = root, root, root, root, root, root, root, root
        for _ in range(D):
            c, d = _code_child(nodes, codes[b], c), _code_child(nodes, codes[b + 1], d)
            e, f = _code_child(nodes, codes[b + 2], e), _code_child(nodes, codes[b + 3], f)
            g, h = _code_child(nodes, codes[b + 4], g), _code_child(nodes, codes[b + 5], h)
            i, j = _code_child(nodes, codes[b + 6], i), _code_child(nodes, codes[b + 7], j)
        for lane, at in enumerate((c, d, e, f, g, h, i, j)):
            positions[b + lane] = at
    for b in range(whole, n):
        at = UINT(0)
        for _ in range(D):
            at = _code_child(nodes, codes[b], at)
        positions[b] = at


@kernel
def _code_child(nodes: Ints, codes: Codes, at: UINT) -> UINT:
    """Return the child of the node `at` that an event of codes (d,) goes to; both uint64."""
    node = UINT(nodes[at])
    code = UINT(codes[(node >> UINT(16)) & CHILD_MASK]) + ((node >> UINT(32)) & UINT(1))
    code &= UINT(63)
    return (node & CHILD_MASK) + UINT(code > (node >> UINT(40)))
