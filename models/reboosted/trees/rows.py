"""Rows of a tree: codes of the chosen columns, gradients and hessians of events of the window."""

from __future__ import annotations

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import uniform
from kaboost.models.reboosted.state import CODES, NUMBERS, Codes, TreeBuild, Window
from kaboost.models.reboosted.trees.cost import COPY_CODE_NS, COPY_ROW_NS
from kaboost.models.types import INT, Loss, Vec
from kaboost.models.verbs import newton_curvature, value_gradient_hessian


@kernel
def draw_rows(
    window: Window, prefix: Vec, build: TreeBuild, loss: Loss, link: int, left_ns: float
) -> float:
    """Copy one event from each of n equal stretches of the window, for about so many ns: the codes
    of the chosen columns, with gradient and hessian of the loss at the prefix (R,). Return the ns
    it took.
    """
    cursor, R = build.cursor[0], prefix.shape[0]
    n, columns, first = int(cursor.rows), int(cursor.columns), int(cursor.drawn)
    row_ns = COPY_ROW_NS + COPY_CODE_NS * columns
    last = min(n, first + 16 + int(left_ns / row_ns))
    start, m = int(cursor.first) % R, int(cursor.events)
    stretch, shift = m / n, code_shift(build)
    for i in range(first, last):
        place = i if n == m else min(int((i + uniform(build.generator)) * stretch), m - 1)
        s = start + place
        s = s - R if s >= R else s
        build.gradients[i], build.hessians[i] = prefix[s], window.labels[s]
        build.weights[i] = window.weights[s] / build.scale[0].mean_weight
        copy_codes(window.codes[s], build, shift, build.codes[i * columns : (i + 1) * columns])
    _gradients_hessians(loss, link, build, first, last)
    cursor.drawn = last
    return float((last - first) * row_ns)


@kernel
def _gradients_hessians(loss: Loss, link: int, build: TreeBuild, first: int, last: int) -> None:
    """Put gradient and hessian in the place of prefix and label, and update the largest of each.

    Where scores are numbers, both are relative to the hessian of a typical residual: the smallest
    hessian of a leaf and the L2 penalty are numbers of events, whatever the unit of labels.
    """
    scale = build.scale[0]
    unit = float(scale.residual)
    share = 1.0 / newton_curvature(loss, 0.0, unit, unit) if link == NUMBERS else 1.0
    gradients, hessians = build.gradients[first:last], build.hessians[first:last]
    for i in range(last - first):
        f, y, w = float(gradients[i]), float(hessians[i]), build.weights[first + i]
        _, g, _ = value_gradient_hessian(loss, f, y)
        gradients[i] = w * g * share
        hessians[i] = w * newton_curvature(loss, f, y, unit) * share
    max_g, max_h = scale.max_gradient, scale.max_hessian
    for i in range(last - first):
        max_g = max(max_g, abs(gradients[i]))
        max_h = max(max_h, hessians[i])
    scale.max_gradient, scale.max_hessian = max_g, max_h


@kernel
def code_shift(build: TreeBuild) -> int:
    """Return by how many bits the codes of all chosen columns are shifted, 0 or 1; -1 where columns
    differ or have fewer bins than codes.
    """
    bins, columns, halved = int(build.cursor[0].bins), int(build.cursor[0].columns), 0
    for j in range(columns):
        halved += build.half_bins[j]
    if int(build.first_bins[columns]) != columns * bins:
        return -1
    if halved == columns and 2 * bins == CODES:
        return 1
    return 0 if bins == CODES else -1


@kernel
def copy_codes(codes: Codes, build: TreeBuild, shift: int, row: Codes) -> None:
    """Fill a row with an event's codes (d,) in the chosen columns, in as many bins as these have;
    `shift` is that of `code_shift`.
    """
    columns, halved, starts = build.columns, build.half_bins, build.first_bins
    if shift == 0:
        for j in range(row.shape[0]):
            row[j] = codes[columns[j]]
    elif shift == 1:
        for j in range(row.shape[0]):
            row[j] = codes[columns[j]] >> 1
    else:
        for j in range(row.shape[0]):
            # as int64: numba promotes signed and unsigned integers together to floats
            code = INT(codes[columns[j]]) >> halved[j]
            row[j] = min(code, INT(starts[j + 1] - starts[j]) - 1)
