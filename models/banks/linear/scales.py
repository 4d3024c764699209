"""Scales of features, for the normalised steps `nag` and `ng`: s (rows,), the largest |x_j| that
was learned (Ross, Mineiro, Langford, Normalized Online Learning, 2013; specification, 7.1).
"""

from __future__ import annotations

from kaboost.models.banks.linear.bank import Linear
from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import add, fill
from kaboost.models.types import Mat, Mat3, Vec


@kernel
def rescale_weights(s: Vec, w: Mat3, x: Vec, squared: bool) -> None:
    """Move the weights of every feature that is larger than ever before to its new scale: by the
    ratio of the scales, or by its square.
    """
    m, rows, N = w.shape
    for j in range(rows):
        size = abs(x[j]) if j < x.shape[0] else 1.0
        if size > s[j]:
            shrink = s[j] / size
            shrink *= shrink if squared else 1.0
            for c in range(m):
                for i in range(N):
                    w[c, j, i] *= shrink
            s[j] = size


@kernel
def dot_scaled(w: Mat, s: Vec, x: Vec, first: int, squared: bool, h: Vec) -> None:
    """Fill h (N,) with one output of learners that see one feature and the bias. A feature larger
    than ever counts as it will after `rescale_weights`.
    """
    d = x.shape[0]
    fill(h, 0.0)
    for i in range(h.shape[0]):
        j = (first + i) % d
        xj = x[j]
        if abs(xj) > s[j]:
            xj = s[j] / xj * s[j] if squared else (s[j] if xj > 0.0 else -s[j])
        h[i] += w[j, i] * xj
    if w.shape[0] > d:
        add(h, w[d], 1.0)


@kernel
def normalise_rates(bank: Linear, x: Vec, weight: Vec) -> None:
    """Count the event in t and n of every learner of positive weight; overwrite weight (N,) with
    t / n, where n sums the squared norms of scaled features.
    """
    step, N, d = bank.step, weight.shape[0], x.shape[0]
    shared = 1.0 if bank.w.shape[1] > d else 0.0  # the bias: x = s = 1
    if not bank.cyclic:
        for j in range(d):
            if x[j] != 0.0:
                shared += (x[j] / step.s[j]) * (x[j] / step.s[j])
    for i in range(N):
        if weight[i] > 0.0:
            norm = shared
            j = (bank.first + i) % d
            if bank.cyclic and x[j] != 0.0:
                norm += (x[j] / step.s[j]) * (x[j] / step.s[j])
            step.t[i] += 1.0
            step.n[i] += norm
            weight[i] = step.t[i] / step.n[i] if step.n[i] > 0.0 else 0.0
