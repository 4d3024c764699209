"""Sweeps: arithmetic written for one row of weights, run over all rows with blocks of learners kept
in registers.

Learners lie along the vector lanes (docs/adr/0009). A plain loop, rows outside and learners inside,
loads and stores every running value once a row. A sweep cuts the learners into blocks of a few
vectors and lets the rows pass by each block (docs/adr/0012). Every learner sees the same operations
in the same order as in the plain loop, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kaboost.models.kernels.jit import COMPILED
from kaboost.models.kernels.simd.roles import Plan

if COMPILED:
    from kaboost.models.kernels.simd import lowering


def over_learners(body: Callable[..., Any]) -> Callable[..., None]:
    """Make a kernel of `body`, whose annotations name the role of each parameter (`roles.py`).

    Where there are tables the body runs once a row, else once. Numbers that lie along the learners
    are dense, and no argument overlaps one that is replaced. The body has no branches: it takes
    `where`, `sqrt`, abs, comparisons and arithmetic.

    Examples
    --------
    >>> from kaboost.models.kernels.simd import Column, Row, Sum
    >>> @over_learners
    ... def dot(total: Sum, w: Row, x: Column) -> Sum:
    ...     return total + w * x
    >>> h = np.empty(2)
    >>> dot(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0]), h)
    >>> h.tolist()
    [13.0, 24.0]
    """
    plan = Plan.of(body)

    def swept(*given: Any) -> None:
        run_plain(plan, given)

    if COMPILED:
        lowering.register(plan, swept)
    return swept


def run_plain(plan: Plan, given: Sequence[Any]) -> None:
    """Sweep NumPy rows: what runs without the JIT, and the meaning of what is compiled."""
    tables = plan.pick(given, "Row", "NewRow")
    shared = {role: plan.pick(given, role) for role in ("Lane", "NewLane", "Number")}
    total = np.zeros(given[-1].shape[0]) if plan.sums else None
    with np.errstate(all="ignore"):  # as compiled
        for j in range(tables[0].shape[0] if tables else 1):
            numbers = {role: at(plan.pick(given, role), j) for role in ("Column", "Dense")}
            if 0.0 in numbers["Column"]:
                continue
            rows = {role: [t[j] for t in plan.pick(given, role)] for role in ("Row", "NewRow")}
            made = plan.apply({**shared, **numbers, **rows, "Sum": [total]})
            if plan.sums:
                total = made
            else:
                for old, new in plan.pairs(rows["NewRow"] or shared["NewLane"], made):
                    old[:] = new
    if plan.sums:
        given[-1][:] = total


def at(vectors: Sequence[Any], j: int) -> list[Any]:
    """Return number j of every vector, 1 beyond its end."""
    return [vector[j] if j < len(vector) else 1.0 for vector in vectors]
