"""Loops over learners: arithmetic written for one row of weights runs over all rows, with blocks of
learners kept in registers.

Learners lie along the vector lanes (docs/adr/0009). A plain loop, rows outside and learners inside,
loads and stores every running value once a row. Here the learners are cut into blocks of a few
vectors, and each block runs over all rows (docs/adr/0012). Every learner sees the same operations
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

    The body runs once for each row of the tables, once without a table. Vectors over learners are
    contiguous, and no argument overlaps one that is replaced. The body has no branches: it may use
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

    def loop(*arguments: Any) -> None:
        run_plain(plan, arguments)

    if COMPILED:
        lowering.register(plan, loop)
    return loop


def run_plain(plan: Plan, arguments: Sequence[Any]) -> None:
    """Run the body over NumPy rows: used without the JIT, and the definition of compiled loops."""
    tables = plan.pick(arguments, "Row", "NewRow")
    shared = {role: plan.pick(arguments, role) for role in ("Lane", "NewLane", "Number")}
    total = np.zeros(arguments[-1].shape[0]) if plan.sums else None
    with np.errstate(all="ignore"):  # as compiled
        for j in range(tables[0].shape[0] if tables else 1):
            numbers = {role: at(plan.pick(arguments, role), j) for role in ("Column", "Dense")}
            if 0.0 in numbers["Column"]:
                continue
            rows = {role: [t[j] for t in plan.pick(arguments, role)] for role in ("Row", "NewRow")}
            made = plan.apply({**shared, **numbers, **rows, "Sum": [total]})
            if plan.sums:
                total = made
            else:
                for old, new in plan.pairs(rows["NewRow"] or shared["NewLane"], made):
                    old[:] = new
    if plan.sums:
        arguments[-1][:] = total


def at(vectors: Sequence[Any], j: int) -> list[Any]:
    """Return number j of every vector, 1 beyond its end."""
    return [vector[j] if j < len(vector) else 1.0 for vector in vectors]
