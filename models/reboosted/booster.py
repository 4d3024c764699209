"""Reboosted trees as a booster: K structures, stacked and calibrated online; a Booster to whoever
learns, predicts or saves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kaboost.models.booster import (
    add_features,
    features,
    learn_many,
    link_many,
    losses,
    mark_categorical,
    predictions,
    prefixes_many,
    quiesce,
    score_many,
)
from kaboost.models.evaluation.progress import Progress, progress
from kaboost.models.features.label_outliers import FIRST_LABELS, cut_first
from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.add_features import widened
from kaboost.models.reboosted.background import (
    ALONE,
    FOREVER,
    HELPED,
    LENT_PIECE,
    MANY,
    NEVER,
    Helper,
    next_due,
    processors,
)
from kaboost.models.reboosted.calibration import Calibration, calibrate, calibration
from kaboost.models.reboosted.config import setup
from kaboost.models.reboosted.drift import watch
from kaboost.models.reboosted.label_guard import offset, tame
from kaboost.models.reboosted.learn import (
    LABEL_MOST,
    SEEN_EVERY,
    Forest,
    Scale,
    answer,
    assess_scores,
    count_columns,
    forest_of,
    grow_trees,
    insert,
    keep,
    labels_of,
    lay_row,
    learn_lags,
    learn_lines,
    learn_scale,
    learn_stack,
    learn_trees,
    lost_of,
    noise_of,
    observe_structures,
    out,
    scale,
    schedule,
    score,
    score_leaves,
    score_lines,
    sharpness,
    unit_of,
)
from kaboost.models.reboosted.linear import LinearFilters, linear_filters
from kaboost.models.reboosted.linear import widened as widened_filters
from kaboost.models.reboosted.lookahead import look_again, look_ahead
from kaboost.models.reboosted.scratch import LINES, Desk, desk, reading, room_for
from kaboost.models.reboosted.stacking import Stack, learn_filters, stack, unsettle
from kaboost.models.reboosted.state import (
    LOG_ODDS,
    NUMBERS,
    Reboosted,
    Work,
    bank,
    fitting,
    forget,
    works,
)
from kaboost.models.reboosted.trees.binning import IDLE as BINNED
from kaboost.models.reboosted.trees.binning import keys, rebin
from kaboost.models.reboosted.trees.commit import hand_over
from kaboost.models.reboosted.trees.rebuild import APART, GROWN, PIECE, REST, STEP, WAITING, regrow
from kaboost.models.types import WEIGHT_LIMIT, Ints, Mat, Mat3, ModelError, Vec, as_float64
from kaboost.models.verbs import encode_labels, newton_curvature, value, value_gradient_hessian

TRUST = (0.1, 0.1, 0.2)  # weight at the start of the linear learners' scores, and the last label's


class ReboostedTrees(NamedTuple):
    """The bank, what aggregates its scores, the loss they lower, and what was seen."""

    bank: Reboosted
    works: tuple[Work, ...]  # (K,) trees that are being grown
    linear: LinearFilters
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
        linear=linear_filters(d),
        stack=_stack(K * len(sizes.rates)),
        calibration=calibration(),
        scale=scale(),
        loss=loss,
        progress=flat._replace(**wide),
        shape=np.array([d, 1], np.int64),
        calibrated=np.array(int(full["bank"]["calibrate"])),
    )


def _stack(n: int) -> Stack:
    """Return the stacking of n scores of trees and those of LINES."""
    made = stack(n + LINES)
    made.weights[:, :n] = (1.0 - sum(TRUST)) / n
    made.weights[:, n : n + LINES] = TRUST
    return made


def rows_of(booster: ReboostedTrees, X: ArrayLike) -> Any:
    """Return X (B, d) as keys; nan is missing, infinities count as the largest numbers."""
    rows = as_float64("X", X)
    d = int(booster.shape[0])
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ModelError(f"X: has shape {rows.shape}; give (events, {d}) numbers")
    return keys(rows)


@features.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Mat:
    rows = as_float64("X", X)
    rows_of(booster, rows[:0] if rows.ndim == 2 else rows)
    return rows


@learn_many.register
def _(booster: ReboostedTrees, X: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Mat:
    if not booster.progress.events.flags.writeable:
        raise ModelError("booster: its arrays are read-only (a snapshot); load a checkpoint")
    rows = rows_of(booster, X)
    Y = np.clip(encode_labels(booster.loss, as_float64("y", y), 1), -LABEL_MOST, LABEL_MOST)
    W = np.ones(len(rows)) if w is None else as_float64("w", w)
    if len(Y) != len(rows) or W.shape != (len(rows),):
        raise ModelError(
            f"y, w: {len(Y)} labels and {W.shape} weights for {len(rows)} events; give one of each"
        )
    if not (W >= 0.0).all() or not (math.inf > W).all():
        raise ModelError("w: an importance is negative or not finite; give numbers >= 0")
    scores, events = np.empty((len(rows), 1)), (rows, Y, np.minimum(W, WEIGHT_LIMIT))
    early = _early(booster, W)
    if early:
        _teach(booster, tuple(each[:early] for each in events), scores[:early])
        _look_back(booster)
    _teach(booster, tuple(each[early:] for each in events), scores[early:])
    return scores


def _teach(booster: ReboostedTrees, events: Any, scores: Mat) -> None:
    """Learn the events: keys, labels and weights. Where there are many, another thread grows the
    trees that take long meanwhile, if there is a second processor; nothing depends on it.
    """
    n, done = len(scores), np.zeros((), np.int64)
    a = _desk(booster, n)
    try:
        if n >= MANY and processors() >= 2:
            with Helper(booster.bank.pace, partial(_grow, booster, a)) as helper:
                while done < n and helper.exchange():
                    _learn(booster, events, a, scores, (HELPED, done))
    finally:  # a batch is learned to its end: who interrupts it could not tell how far it came
        if done < n or n == 0:  # nothing to learn is how a service has it compiled beforehand
            _learn(booster, events, a, scores, (ALONE, done))


def _grow(booster: ReboostedTrees, a: Desk, k: int, stop: Ints) -> None:
    """Grow the tree of structure k that is grown apart, until it is done or `stop` () is not 0."""
    none = np.empty((0, 1))
    events = np.empty((0, int(booster.shape[0])), np.int32), none, np.empty(0)
    _learn(booster, events, a, none, ((True, k, stop), np.zeros((), np.int64)))


@quiesce.register
def _(booster: ReboostedTrees) -> None:
    pace = booster.bank.pace
    for k in np.flatnonzero(pace.busy == APART):
        _grow(booster, _desk(booster), int(k), NEVER)
        pace.busy[k] = WAITING
    if pace.spent.flags.writeable:
        pace.spent[...] = 0.0


def _early(booster: ReboostedTrees, W: Vec) -> int:
    """Return how many events of weights W (n,) there are up to the last that is looked at with the
    first ones; 0 where that is not among them.
    """
    seen = int(booster.bank.pace.time)
    if seen >= FIRST_LABELS or int(booster.bank.plan.link) != NUMBERS:
        return 0
    learned = np.flatnonzero(W > 0.0)[FIRST_LABELS - seen - 1 : FIRST_LABELS - seen]
    return int(learned[0]) + 1 if len(learned) else 0


def _look_back(booster: ReboostedTrees) -> None:
    """Where one of the first labels is far from the others, or all are from 0, begin anew with all
    that heard of it; the window keeps the events, their labels brought nearer.
    """
    bank, labels = booster.bank, booster.bank.window.labels[:FIRST_LABELS]
    cut, origin = cut_first(labels), offset(labels)
    if not cut and origin == 0.0:
        return
    labels -= origin
    lines = linear_filters(int(booster.shape[0]))._replace(names=booster.linear.names)
    fresh = (*lines, *_stack(len(bank.trees) * len(bank.plan.rates)))
    for old, new in zip((*booster.linear, *booster.stack), fresh, strict=True):
        old[...] = new
    for sums in (bank.pace.losses, bank.pace.slopes, bank.pace.squares, bank.pace.watch, bank.lags):
        sums[...] = 0.0
    for trees in bank.trees:
        forget(trees)
    mean = float(labels.mean())
    bank.y0[...], off = mean, abs(labels - mean)
    said = np.array([value_gradient_hessian(booster.loss, mean, float(y)) for y in labels])
    bends = np.array(
        [newton_curvature(booster.loss, mean, float(y), float(off.mean())) for y in labels]
    )
    typical = (mean, off.mean(), said[:, 0].mean(), ((said[:, 1] / bends) ** 2).mean(), off.mean())
    for kept, value_ in zip(booster.scale, (*typical, bends.mean(), origin, 0.0), strict=True):
        kept[...] = value_
    for y in labels:
        bank.lags[...] += bank.plan.lag_rates * (y - bank.lags)


@add_features.register
def _(booster: ReboostedTrees, full: Mapping[str, Any], d: int) -> ReboostedTrees:
    sizes = setup(full)
    fitting(sizes, d)  # refuses before anything moves
    _finish(booster.bank, booster.works, booster.loss)
    made, beside = widened(booster.bank, sizes, d)
    shape = np.array([d, 1], np.int64)
    lines = widened_filters(booster.linear, d)
    return booster._replace(bank=made, works=beside, linear=lines, shape=shape)


@mark_categorical.register
def _(booster: ReboostedTrees, columns: Ints) -> None:
    booster.linear.names[columns] = 1.0


@score_many.register
def _(booster: ReboostedTrees, X: Mat) -> Mat:
    scores = np.empty((len(X), 1))
    kind, calibrated = int(booster.bank.plan.link), bool(booster.calibrated)
    head = (booster.linear, booster.stack, booster.calibration, booster.scale, kind, calibrated)
    room = room_for(booster.bank, booster.stack, int(booster.shape[0]))
    _score(forest_of(booster.bank), head, rows_of(booster, X), room, scores)
    return scores


@prefixes_many.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Mat3:
    rows, a = rows_of(booster, X), _desk(booster)
    K, N = len(booster.bank.trees), booster.learners
    sums = np.empty((len(rows), N + 1, K))
    _prefixes(forest_of(booster.bank), rows, a, sums)
    sums += booster.scale.origin
    return sums


@predictions.register
def _(booster: ReboostedTrees, scores: Mat) -> Mat:
    scores = np.ascontiguousarray(scores)  # a class's column would be another kernel to compile
    linked = np.empty_like(scores)
    link_many(booster.loss, scores, linked)
    return linked


@losses.register
def _(booster: ReboostedTrees, scores: Mat, y: ArrayLike) -> Vec:
    found = np.empty(len(scores))
    _losses(booster.loss, scores, encode_labels(booster.loss, as_float64("y", y), 1), found)
    return found


def _desk(booster: ReboostedTrees, events: int = 1) -> Desk:
    return desk(booster.bank, booster.stack, int(booster.shape[0]), events)


@kernel
def _learn(b: Any, events: Any, a: Any, scores: Mat, how: Any) -> None:
    """Learn events until what is grown apart must be lent or taken back. Or, one kernel being half
    as long to compile as two, grow tree k. `how` is whether there is another thread, k or -1, what
    stops the growing; and how many events are learned (), which it keeps.
    """
    # States are taken apart here: in the loop, LLVM would go through their 200 arrays at each look.
    (rows, Y, weights), ((helped, apart, stop), done) = events, how
    bank, works, stack, map_, scale = b.bank, b.works, b.stack, b.calibration, b.scale
    lines, loss, seen, calibrated = b.linear, b.loss, b.progress, b.calibrated[()] > 0
    plan, pace, window, bins, lags = bank.plan, bank.pace, bank.window, bank.bins, bank.lags
    kind, forest = int(plan.link[()]), Forest(plan.rates, plan.depth, bank.trees, bank.y0, lags)
    while apart >= 0 and stop[()] == 0 and works[apart].at[STEP] != GROWN:
        regrow(bank, works[apart], loss, apart, LENT_PIECE)
    until = next_due(pace) if helped else FOREVER
    first, last = 0, 0  # of the events whose leaves were found
    for k in range(int(done[()]), rows.shape[0]):
        done[()] = k + 1
        if k >= last:
            first, last = k, look_ahead(bank, events, a, (k, scale.origin[()]))
        w, t, leaf, up = float(weights[k]), int(pace.time[()]), a.leaf[k - first], scale.origin[()]
        score_leaves(forest, leaf, a)
        score_lines(lines, rows[k], lags, kind, scale, a)
        mixed = answer(kind, stack, scale, a)
        scores[k, 0] = out(kind, map_, mixed, calibrated) + up
        if w > 0.0:
            _observe(seen, loss, w, scores[k], Y[k])
            keep(window.prefix, t, a.F, pace.cursor)
            foretold = Y[k, 0] - up
            if t % SEEN_EVERY == SEEN_EVERY - 1:
                observe_structures(plan.eta, loss, (foretold, w), seen, a)
            y = tame(scale, foretold, t, mixed, lines, a) if kind == NUMBERS else foretold
            last = last if y == foretold else k + 1  # other lags follow than were reckoned with
            assess_scores(loss, y, scale, kind, a)
            if watch(pace, lost_of(loss, mixed, y, scale, kind), t, kind):
                unsettle(stack)
            if helped and pace.alarm[()] == t:  # trees have become due sooner
                until = next_due(pace)
            learn_filters(stack, loss, y, (min(w, 1e6), noise_of(scale, kind), unit_of(scale)), a)
            learn_trees(plan, pace, forest.trees, (w, float(scale.curve[()]), leaf), a)
            learn_lines(lines, loss, y, w, kind, scale, a)
            learn_stack(stack, (w, sharpness(loss, scale, kind)), a)
            if kind == LOG_ODDS:
                calibrate(map_, mixed, 0.5 + 0.5 * y, w)
            learn_scale(scale, loss, y, kind, t, float(a.z[0]))
            lay_row(lags, rows[k], a.x)
            insert(window, bins, a, t, y, w)
            count_columns(pace, a, t)
            learn_lags(lags, plan.lag_rates, y, kind)
            pace.time[()], begun = t + 1, False
            if schedule(plan, pace, window, bins, (a.sizes, helped)):
                begun = grow_trees(bank, works, loss, labels_of(scale), helped)
                look_again(bank, a, k + 1 - first, last - first)
            if helped and (begun or t + 2 >= until):
                return


# A kernel of its own: where a verb is put into a loop, numba takes writes after it for dead code.
@kernel
def _observe(seen: Any, loss: Any, w: float, s: Vec, label: Vec) -> None:
    lost = w * min(value(loss, s, label), 1e12)
    seen.events[()] += 1
    seen.weight_sum[()] += w
    seen.loss_sum[()] += lost
    seen.recent_weight[()] = 0.999 * seen.recent_weight[()] + w
    seen.recent_loss[()] = 0.999 * seen.recent_loss[()] + lost


@kernel
def _finish(bank: Any, works: Any, loss: Any) -> None:
    """Bring to an end what is being grown and re-coded."""
    pace, bins, t = bank.pace, bank.bins, int(bank.pace.time[()])
    for k in range(pace.busy.shape[0]):
        while pace.busy[k] != REST:
            if works[k].at[STEP] != GROWN:
                regrow(bank, works[k], loss, k, PIECE)
            else:
                hand_over(bank, works[k], k, t, PIECE)
    while bins.at[0] != BINNED:
        rebin(bins, bank.window.codes, t, pace.busy)


@kernel
def _score(forest: Any, head: Any, rows: Any, room: Any, scores: Mat) -> None:
    lines, stack, map_, scale, kind, calibrated = head
    a = reading(forest, stack, rows.shape[1], room)
    for k in range(rows.shape[0]):
        score(forest, rows[k], (a.x, a.leaf), a)
        score_lines(lines, rows[k], forest.lags, kind, scale, a)
        mixed = answer(kind, stack, scale, a)
        scores[k, 0] = out(kind, map_, mixed, calibrated) + scale.origin[()]


@kernel
def _prefixes(forest: Any, rows: Any, a: Any, sums: Mat3) -> None:
    N = sums.shape[1] - 1
    for r in range(rows.shape[0]):
        score(forest, rows[r], (a.x, a.leaf[0]), a)
        for k in range(a.sizes.shape[0]):
            for i in range(N + 1):
                sums[r, i, k] = a.F[k, min(i, a.sizes[k])]


@kernel
def _losses(loss: Any, scores: Mat, Y: Mat, found: Vec) -> None:
    for k in range(scores.shape[0]):
        found[k] = value(loss, scores[k], Y[k])
