"""Rows of a tree of classes: codes, and gradients and hessians of the softmax loss."""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import exp_negative
from kaboost.models.kernels.random import uniform
from kaboost.models.reboosted.classes.state import AnyBuild, Singles
from kaboost.models.reboosted.state import Window
from kaboost.models.reboosted.trees.cost import COPY_CODE_NS, COPY_ROW_NS
from kaboost.models.reboosted.trees.rows import code_shift, copy_codes
from kaboost.models.types import DOUBLE

CLASS_ROW_NS = 6.0  # a class of a row: gradient and hessian
DIRECTION_DRAWS = 4  # uniform draws whose sum stands for a normal one


@kernel
def draw_direction(build: AnyBuild) -> None:
    """Draw the direction (C,) along which the tree is grown: nearly normal, of variance 1."""
    scale = math.sqrt(12.0 / DIRECTION_DRAWS)
    for c in range(build.direction.shape[0]):
        total = 0.0
        for _ in range(DIRECTION_DRAWS):
            total += uniform(build.generator)
        build.direction[c] = scale * (total - 0.5 * DIRECTION_DRAWS)


@kernel
def draw_rows(window: Window, prefix: Singles, build: AnyBuild, left_ns: float) -> float:
    """Copy one event from each of n equal stretches of the window, for about so many ns, with the
    gradients at the prefix (R, C); return the ns it took.
    """
    cursor, R = build.cursor[0], prefix.shape[0]
    n, columns, first = int(cursor.rows), int(cursor.columns), int(cursor.drawn)
    row_ns = COPY_ROW_NS + COPY_CODE_NS * columns + CLASS_ROW_NS * prefix.shape[1]
    last = min(n, first + 16 + int(left_ns / row_ns))
    if first == 0:
        draw_direction(build)
    start, m = int(cursor.first) % R, int(cursor.events)
    stretch, shift = m / n, code_shift(build)
    for i in range(first, last):
        place = i if n == m else min(int((i + uniform(build.generator)) * stretch), m - 1)
        s = start + place
        s = s - R if s >= R else s
        w = window.weights[s] / build.scale[0].mean_weight
        build.weights[i] = w
        _class_gradients(prefix[s], int(window.labels[s]), w, build, i)
        copy_codes(window.codes[s], build, shift, build.codes[i * columns : (i + 1) * columns])
    _find_largest(build, first, last)
    cursor.drawn = last
    return float((last - first) * row_ns)


@kernel
def _class_gradients(logits: Singles, label: int, w: float, build: AnyBuild, i: int) -> None:
    """Fill row i's gradients and hessians of all classes, and those along the direction."""
    C, most, total = logits.shape[0], DOUBLE(logits[0]), 0.0
    gradients, hessians = build.class_gradients[i], build.class_hessians[i]
    for c in range(1, C):
        most = max(most, DOUBLE(logits[c]))
    for c in range(C):
        e = exp_negative(DOUBLE(logits[c]) - most)
        gradients[c] = e
        total += e
    along, curvature, share = 0.0, 0.0, 1.0 / total
    for c in range(C):
        p = DOUBLE(gradients[c]) * share
        g = w * (p - (1.0 if c == label else 0.0))
        h = w * p * (1.0 - p)
        gradients[c], hessians[c] = g, h
        along += build.direction[c] * g
        curvature += build.direction[c] * build.direction[c] * h
    build.gradients[i], build.hessians[i] = along, curvature


@kernel
def _find_largest(build: AnyBuild, first: int, last: int) -> None:
    scale = build.scale[0]
    max_g, max_h = scale.max_gradient, scale.max_hessian
    for i in range(first, last):
        max_g = max(max_g, abs(build.gradients[i]))
        max_h = max(max_h, build.hessians[i])
    scale.max_gradient, scale.max_hessian = max_g, max_h
