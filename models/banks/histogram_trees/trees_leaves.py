"""Leaves of regression trees: their statistics and their values (specification, 7.5)."""

from __future__ import annotations

import math

from kaboost.models.banks.histogram_trees.trees_state import (
    ENERGY,
    EVENT,
    LEAF,
    OUTPUTS,
    WEIGHT,
    WEIGHT_SQUARES,
    Trees,
)
from kaboost.models.kernels.jit import kernel
from kaboost.models.types import LINEAR, Mat, Vec


@kernel
def event_statistics(target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    """Fill the event rows of the scratch with w, w^2, w |r|^2 and w r of every learner; r is the
    target, or the negative slope.
    """
    m, N = target.shape
    for i in range(N):
        w = weight[i]
        bank_scratch[EVENT + WEIGHT, i] = w
        bank_scratch[EVENT + WEIGHT_SQUARES, i] = w * w
        bank_scratch[EVENT + ENERGY, i] = 0.0
        for c in range(m):
            r = -target[c, i] if mode == LINEAR else target[c, i]
            bank_scratch[EVENT + ENERGY, i] += w * r * r
            bank_scratch[EVENT + OUTPUTS + c, i] = w * r


@kernel
def learn_leaves(bank: Trees, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    """Add the event to the leaf of every learner of positive weight."""
    m, rho = bank.v.shape[2], bank.params.rho
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            q = int(bank_scratch[LEAF, i])
            bank.n[i, q] = rho * bank.n[i, q] + bank_scratch[EVENT + WEIGHT, i]
            bank.q[i, q] = rho * bank.q[i, q] + bank_scratch[EVENT + ENERGY, i]
            for c in range(m):
                bank.S[i, q, c] = rho * bank.S[i, q, c] + bank_scratch[EVENT + OUTPUTS + c, i]
            update_value(bank, i, q, mode)


@kernel
def update_value(bank: Trees, i: int, q: int, mode: int) -> None:
    """Fill v at leaf q of tree i: S / (n + lam), S shrunk by l1; in the linear mode D S / sqrt(q),
    no longer than D.
    """
    v, S, params = bank.v[i, q], bank.S[i, q], bank.params
    if mode == LINEAR:
        scale = params.bound / math.sqrt(bank.q[i, q] + 1e-12)
        size = 0.0
        for c in range(v.shape[0]):
            v[c] = scale * S[c]
            size += v[c] * v[c]
        if size > params.bound * params.bound:
            shrink = params.bound / math.sqrt(size)
            for c in range(v.shape[0]):
                v[c] *= shrink
        return
    for c in range(v.shape[0]):
        s = S[c]
        kept = abs(s) - params.l1 if abs(s) > params.l1 else 0.0
        v[c] = (kept if s > 0.0 else -kept) / (bank.n[i, q] + params.lam)
