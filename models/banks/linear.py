"""Linear weak learners: N (m, d) matrices, learned by plain SGD or by the scale-free normalised
adaptive step.

The weights are w (m, rows, N) with a row per feature and one more for the bias: learners lie along
the vector lanes, so sums over features stay strictly left to right and still fill whole vectors
(docs/adr/0009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from models.numeric import add, fill, residual, shift
from models.types import Mat, Mat3, Param, Part, Vec
from models.verbs import kernel, learning_only, predict, update


class Sgd(NamedTuple):
    """Linear learners moved by w -= lr * weight * e * x (specification, 7.1)."""

    w: Mat3  # (m, rows, N)
    lr: float
    cyclic: bool  # learner i sees only feature i mod d, and the bias


class Nag(NamedTuple):
    """Linear learners moved by the normalised adaptive step, blind to the scale of each feature
    (specification, 7.1).
    """

    w: Mat3  # (m, rows, N), in the scale s of its row
    s: Vec  # (rows,) largest |x_j| learned so far
    S: Mat3  # (m, rows, N) sum of squared gradients
    t: Vec  # (N,) events each learner took
    n: Vec  # (N,) sum of (x_j / s_j)^2 over them
    lr: float
    cyclic: bool


@learning_only.register
def _(bank: Nag) -> tuple[str, ...]:
    return ("S", "t", "n")


@kernel
def adapt_row(row: Vec, square: Vec, slope: Vec, rate: Vec, xj: float, scale: float) -> None:
    """Move one row of weights by rate * g / (scale sqrt(sum g^2)) with g = slope * xj, lane by
    lane.
    """
    for i in range(row.shape[0]):
        g = slope[i] * xj
        square[i] += g * g
        size = scale * math.sqrt(square[i])
        row[i] -= rate[i] * g / (size if size > 0.0 else 1.0)  # size is 0 only where g is


@predict.register
def _(bank: Sgd, x: Vec, h: Mat, room: Mat) -> None:
    m, rows, _ = bank.w.shape
    d = x.shape[0]
    for c in range(m):
        fill(h[c], 0.0)
        if bank.cyclic:
            for j in range(d):
                add(h[c, j::d], bank.w[c, j, j::d], x[j])
        else:
            for j in range(d):
                if x[j] != 0.0:  # one-hot features cost what they hold
                    add(h[c], bank.w[c, j], x[j])
        if rows > d:
            add(h[c], bank.w[c, d], 1.0)


@update.register
def _(bank: Sgd, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, room: Mat) -> None:
    m, rows, N = bank.w.shape
    d = x.shape[0]
    residual(h, target, weight, mode)
    for c in range(m):
        for i in range(N):
            target[c, i] *= bank.lr
        if bank.cyclic:
            for j in range(d):
                shift(bank.w[c, j, j::d], target[c, j::d], x[j])
        else:
            for j in range(d):
                if x[j] != 0.0:
                    shift(bank.w[c, j], target[c], x[j])
        if rows > d:
            shift(bank.w[c, d], target[c], 1.0)


@predict.register
def _(bank: Nag, x: Vec, h: Mat, room: Mat) -> None:
    m, rows, _ = bank.w.shape
    d = x.shape[0]
    for c in range(m):
        fill(h[c], 0.0)
        for j in range(d):
            if x[j] == 0.0:
                continue
            size = abs(x[j])
            # A feature larger than ever: predict as in its new scale; `update` moves the weights
            # there.
            xj = x[j] if size <= bank.s[j] else bank.s[j] * (1.0 if x[j] > 0.0 else -1.0)
            if bank.cyclic:
                add(h[c, j::d], bank.w[c, j, j::d], xj)
            else:
                add(h[c], bank.w[c, j], xj)
        if rows > d:
            add(h[c], bank.w[c, d], 1.0)


@update.register
def _(bank: Nag, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, room: Mat) -> None:
    m, rows, _ = bank.w.shape
    d = x.shape[0]
    residual(h, target, weight, mode)
    rescale(bank, x)
    rates(bank, x, weight)
    for c in range(m):
        for j in range(d):
            if x[j] == 0.0:
                continue
            if bank.cyclic:
                w, S = bank.w[c, j, j::d], bank.S[c, j, j::d]
                adapt_row(w, S, target[c, j::d], weight[j::d], x[j], bank.s[j])
            else:
                adapt_row(bank.w[c, j], bank.S[c, j], target[c], weight, x[j], bank.s[j])
        if rows > d:
            adapt_row(bank.w[c, d], bank.S[c, d], target[c], weight, 1.0, 1.0)


@kernel
def rescale(bank: Nag, x: Vec) -> None:
    """Carry the weights of every feature that is larger than ever before over to its new scale."""
    m, rows, N = bank.w.shape
    for j in range(rows):
        size = abs(x[j]) if j < x.shape[0] else 1.0
        if size > bank.s[j]:
            shrink = bank.s[j] / size
            for c in range(m):
                for i in range(N):
                    bank.w[c, j, i] *= shrink
            bank.s[j] = size


@kernel
def rates(bank: Nag, x: Vec, weight: Vec) -> None:
    """Count the event in t and n of every learner of positive weight; overwrite weight (N,) with lr
    sqrt(t/n).
    """
    rows, N = bank.w.shape[1], weight.shape[0]
    d = x.shape[0]
    shared = 1.0 if rows > d else 0.0  # the bias: x = s = 1
    if not bank.cyclic:
        for j in range(d):
            if x[j] != 0.0:
                shared += (x[j] / bank.s[j]) * (x[j] / bank.s[j])
    for i in range(N):
        if weight[i] > 0.0:
            norm = shared
            if bank.cyclic and x[i % d] != 0.0:
                norm += (x[i % d] / bank.s[i % d]) * (x[i % d] / bank.s[i % d])
            bank.t[i] += 1.0
            bank.n[i] += norm
            weight[i] = bank.lr * math.sqrt(bank.t[i] / bank.n[i]) if bank.n[i] > 0.0 else 0.0


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Sgd | Nag:
    N, cyclic, lr = params["n"], params["features"] == "cyclic", params["lr"]
    rows = d + (1 if params["bias"] else 0)
    w = np.zeros((m, rows, N))
    if params["step"] == "sgd":
        return Sgd(w, lr, cyclic)
    return Nag(w, np.zeros(rows), np.zeros((m, rows, N)), np.zeros(N), np.zeros(N), lr, cyclic)


LINEAR_BANK = Part(
    "linear",
    "N linear learners",
    "specification, 7.1; nag: Ross, Mineiro, Langford 2013",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("step", "nag", "how weights move", choices=("nag", "sgd")),
        Param("lr", None, "learning rate; .5 for nag, .05 for sgd", 1e-12, 1e6),
        Param("bias", True, "a constant feature 1"),
        Param(
            "features",
            "all",
            "all, or cyclic: learner i sees feature i mod d",
            choices=("all", "cyclic"),
        ),
    ),
    _make,
)
