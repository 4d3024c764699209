"""Reboosted trees as a booster: K structures, stacked and calibrated online; a Booster to whoever
learns, predicts or saves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from models.aggregate import Stack, learn_filters, stack
from models.banks.reboosted import setup
from models.banks.reboosted_bins import IDLE as BINNED
from models.banks.reboosted_bins import keys, rebin
from models.banks.reboosted_regrow import regrow, watch
from models.banks.reboosted_state import Reboosted, Work, bank, fitting, works
from models.banks.reboosted_widen import widened
from models.booster import (
    features,
    learn_many,
    link_many,
    losses,
    predictions,
    prefixes_many,
    score_many,
    widen,
)
from models.calibrate import Calibration, calibrate, calibration
from models.progressive import Progress, progress
from models.reboosted_event import (
    LABEL_MOST,
    LOG_ODDS,
    NUMBERS,
    Desk,
    Scale,
    answer,
    assess_scores,
    desk,
    insert,
    learn_scale,
    learn_stack,
    learn_trees,
    lost_of,
    observe_structures,
    out,
    scale,
    schedule,
    score,
    tame,
    unit_of,
)
from models.types import WEIGHT_LIMIT, Ints, Mat, Mat3, ModelError, Vec, floats
from models.verbs import encode_labels, inlined, kernel, value


class ReboostedTrees(NamedTuple):
    """The bank, what aggregates its scores, the loss they lower, and what was seen."""

    bank: Reboosted
    works: tuple[Work, ...]  # (K,) trees that are being grown
    stack: Stack
    calibration: Calibration
    scale: Scale
    loss: Any
    progress: Progress  # (K, N+1) prefixes and (K, N) edges; N is the longest structure's
    shape: Ints  # (2,) d and 1
    calibrated: Ints  # () 1 where log-odds go through the calibration

    @property
    def outputs(self) -> int:
        """The number of outputs: 1."""
        return 1

    @property
    def rule(self) -> None:
        """None: every structure is plain SGB over its trees, which are refit as a whole."""
        return None

    @property
    def learners(self) -> int:
        """The number of trees of the longest structure."""
        return int(self.progress.edge_total.shape[1])


def reboosted_trees(full: Mapping[str, Any], loss: Any, d: int) -> ReboostedTrees:
    """Return reboosted trees that have seen nothing, from a filled-in specification."""
    sizes = setup(full)
    made = bank(sizes, d, full["seed"])
    K, N = len(made.trees), max(one.nodes.shape[0] for one in made.trees)
    flat = progress(N)
    wide = {
        name: np.zeros((K, *getattr(flat, name).shape))
        for name in Progress._fields
        if getattr(flat, name).ndim == 1
    }
    for sums in (wide["prefix_loss_sum"], wide["recent_prefix_loss"]):
        for k, one in enumerate(made.trees):
            sums[k, one.nodes.shape[0] + 1 :] = np.nan  # no such prefix
    return ReboostedTrees(
        bank=made,
        works=works(sizes, made.plan, d),
        stack=stack(K * len(sizes.rates)),
        calibration=calibration(),
        scale=scale(),
        loss=loss,
        progress=flat._replace(**wide),
        shape=np.array([d, 1], np.int64),
        calibrated=np.array(int(full["bank"]["calibrate"])),
    )


def rows_of(booster: ReboostedTrees, X: ArrayLike) -> Any:
    """Return X (B, d) as keys; nan is missing, infinities count as the largest numbers."""
    rows = floats("X", X)
    d = int(booster.shape[0])
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ModelError(f"X: has shape {rows.shape}; give (events, {d}) numbers")
    return keys(rows)


@features.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Mat:
    rows = floats("X", X)
    rows_of(booster, rows[:0] if rows.ndim == 2 else rows)
    return rows


@learn_many.register
def _(booster: ReboostedTrees, X: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Mat:
    if not booster.progress.events.flags.writeable:
        raise ModelError("booster: its arrays are read-only (a snapshot); load a checkpoint")
    rows = rows_of(booster, X)
    Y = np.clip(encode_labels(booster.loss, floats("y", y), 1), -LABEL_MOST, LABEL_MOST)
    W = np.ones(len(rows)) if w is None else floats("w", w)
    if len(Y) != len(rows) or W.shape != (len(rows),):
        raise ModelError(
            f"y, w: {len(Y)} labels and {W.shape} weights for {len(rows)} events; give one of each"
        )
    if not (W >= 0.0).all() or not (math.inf > W).all():
        raise ModelError("w: an importance is negative or not finite; give numbers >= 0")
    scores = np.empty((len(rows), 1))
    _learn(booster, (rows, Y, np.minimum(W, WEIGHT_LIMIT)), _desk(booster), scores)
    return scores


@widen.register
def _(booster: ReboostedTrees, full: Mapping[str, Any], d: int) -> ReboostedTrees:
    sizes = setup(full)
    fitting(sizes, d)  # refuses before anything moves
    _finish(booster)
    made, beside = widened(booster.bank, sizes, d)
    shape = np.array([d, 1], np.int64)
    return booster._replace(bank=made, works=beside, shape=shape)


@score_many.register
def _(booster: ReboostedTrees, X: Mat) -> Mat:
    scores = np.empty((len(X), 1))
    served = (booster.bank.plan, booster.bank.trees, booster.bank.y0, booster.bank.lags)
    _score(
        Served(*served), (booster.stack, booster.calibration, booster.scale),
        rows_of(booster, X), _desk(booster),
        (scores, bool(booster.calibrated)),
    )  # fmt: skip
    return scores


@prefixes_many.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Mat3:
    rows, a = rows_of(booster, X), _desk(booster)
    K, N = len(booster.bank.trees), booster.learners
    sums = np.empty((len(rows), N + 1, K))
    served = (booster.bank.plan, booster.bank.trees, booster.bank.y0, booster.bank.lags)
    _prefixes(Served(*served), rows, a, sums)
    return sums


@predictions.register
def _(booster: ReboostedTrees, scores: Mat) -> Mat:
    linked = np.empty_like(scores)
    link_many(booster.loss, scores, linked)
    return linked


@losses.register
def _(booster: ReboostedTrees, scores: Mat, y: ArrayLike) -> Vec:
    found = np.empty(len(scores))
    _losses(booster.loss, scores, encode_labels(booster.loss, floats("y", y), 1), found)
    return found


def _desk(booster: ReboostedTrees) -> Desk:
    return desk(booster.bank, booster.stack, int(booster.shape[0]))


class Served(NamedTuple):
    """What a prediction needs of the bank."""

    plan: Any
    trees: Any
    y0: Vec
    lags: Vec


@kernel
def _learn(b: Any, events: Any, a: Any, scores: Mat) -> None:
    rows, Y, weights = events
    kind = int(b.bank.plan.link[()])
    for k in range(rows.shape[0]):
        y, w = float(Y[k, 0]), float(weights[k])
        score(b.bank, rows[k], a)
        mixed = answer(kind, b.stack, b.scale, a)
        scores[k, 0] = out(kind, b.calibration, mixed, b.calibrated[()] > 0)
        if w > 0.0:
            _observe(b, y, w, scores[k], Y[k])
            observe_structures(b.bank, b.loss, y, w, b.progress, a)
            if kind == NUMBERS:
                y = tame(b.scale, y, int(b.bank.pace.time[()]))
            _teach(b, kind, y, w, mixed, a)
            schedule(b.bank, b.works, b.loss, unit_of(b.scale), float(b.scale.mean[()]), a)


@inlined
def _observe(b: Any, y: float, w: float, s: Vec, label: Vec) -> None:
    seen = b.progress
    lost = w * min(value(b.loss, s, label), 1e12)
    seen.events[()] += 1
    seen.weight_sum[()] += w
    seen.loss_sum[()] += lost
    seen.recent_weight[()] = 0.999 * seen.recent_weight[()] + w
    seen.recent_loss[()] = 0.999 * seen.recent_loss[()] + lost


@inlined
def _teach(b: Any, kind: int, y: float, w: float, mixed: float, a: Any) -> None:
    """Steps 4 and 5: the stack, the calibration, what is typical, the leaves, the window."""
    t = int(b.bank.pace.time[()])
    assess_scores(b.loss, y, b.scale, kind, a)
    noise = 1.0 if kind != NUMBERS else max(float(b.scale.noise[()]), 1e-12)
    unit = unit_of(b.scale)
    watch(b.bank.pace, lost_of(b.loss, mixed, y, b.scale, kind), t)
    learn_filters(b.stack, b.loss, y, (min(w, 1e6), noise, unit), a)
    learn_trees(b.bank.plan, b.bank.pace, b.bank.trees, w, float(b.scale.curve[()]), a)
    learn_stack(b.stack, w, a)
    if kind == LOG_ODDS:
        calibrate(b.calibration, mixed, 0.5 + 0.5 * y, w)
    learn_scale(b.scale, b.loss, y, kind, t, float(a.z[0]))
    insert(b.bank, y, w, a)


@kernel
def _finish(b: Any) -> None:
    """Bring to an end what is being grown and re-coded."""
    bins, t = b.bank.bins, int(b.bank.pace.time[()])
    for k in range(b.bank.y0.shape[0]):
        while b.bank.pace.busy[k] > 0:
            regrow(b.bank, b.works[k], k, b.loss, t, unit_of(b.scale))
    while bins.at[0] != BINNED:
        rebin(bins, b.bank.window.codes, t, True)


@kernel
def _score(bank: Any, head: Any, rows: Any, a: Any, goal: Any) -> None:
    stack, map_, scale = head
    scores, calibrated = goal
    kind = int(bank.plan.link[()])
    for k in range(rows.shape[0]):
        score(bank, rows[k], a)
        scores[k, 0] = out(kind, map_, answer(kind, stack, scale, a), calibrated)


@kernel
def _prefixes(bank: Any, rows: Any, a: Any, sums: Mat3) -> None:
    N = sums.shape[1] - 1
    for r in range(rows.shape[0]):
        score(bank, rows[r], a)
        for k in range(a.sizes.shape[0]):
            for i in range(N + 1):
                sums[r, i, k] = a.F[k, min(i, a.sizes[k])]


@kernel
def _losses(loss: Any, scores: Mat, Y: Mat, found: Vec) -> None:
    for k in range(scores.shape[0]):
        found[k] = value(loss, scores[k], Y[k])
