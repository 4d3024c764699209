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

from kaboost.models.batch_loops import link_many
from kaboost.models.booster import (
    add_features,
    features,
    learn_many,
    losses,
    mark_categorical,
    predictions,
    prefixes_many,
    quiesce,
    score_many,
)
from kaboost.models.evaluation.progress import Progress, progress
from kaboost.models.features.label_outliers import FIRST_LABELS, replace_outliers
from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.add_features import with_features
from kaboost.models.reboosted.background import (
    MIN_WORKER_EVENTS,
    NO_EVENT,
    NO_STOP,
    WITH_WORKER,
    WITHOUT_WORKER,
    WORKER_SLICE_NS,
    TreeWorker,
    next_commit,
    processors,
)
from kaboost.models.reboosted.calibration import Calibration, calibrate, calibration
from kaboost.models.reboosted.config import sizes_of
from kaboost.models.reboosted.drift import update_drift
from kaboost.models.reboosted.label_guard import guard_label, label_offset
from kaboost.models.reboosted.learn import (
    MAX_LABEL,
    METRICS_EVERY,
    LabelScale,
    ServedTrees,
    advance_schedule,
    assess_scores,
    calibrated_score,
    fill_row,
    grow_trees,
    insert_event,
    label_scale,
    label_summary,
    leaf_scores,
    learn_lines,
    learn_stack,
    learn_trees,
    linear_scores,
    observe_structures,
    residual_unit,
    residual_variance,
    scaled_loss,
    served_trees,
    sharpness,
    stacked_score,
    store_prefixes,
    tree_scores,
    update_column_count,
    update_label_means,
    update_label_scale,
)
from kaboost.models.reboosted.linear import LinearFilters, linear_filters
from kaboost.models.reboosted.linear import with_features as widened_filters
from kaboost.models.reboosted.lookahead import find_leaves, refresh_leaves
from kaboost.models.reboosted.scratch import (
    LINEAR_SCORES,
    LearnScratch,
    allocate,
    allocate_predict,
    slice_scratch,
)
from kaboost.models.reboosted.stacking import Stack, inflate_covariance, learn_filters, stack
from kaboost.models.reboosted.state import (
    LOG_ODDS,
    NUMBERS,
    Reboosted,
    TreeBuild,
    affordable_window,
    bank,
    reset_structure,
    tree_builds,
)
from kaboost.models.reboosted.trees.binning import IDLE as BINNED
from kaboost.models.reboosted.trees.binning import to_keys, update_bins
from kaboost.models.reboosted.trees.commit import commit_tree
from kaboost.models.reboosted.trees.rebuild import (
    BACKGROUND,
    GROWN,
    READY,
    SLICE_NS,
    STEP,
    UNASSIGNED,
    rebuild_tree,
)
from kaboost.models.types import WEIGHT_LIMIT, Ints, Mat, Mat3, ModelError, Vec, as_float64
from kaboost.models.verbs import encode_labels, newton_curvature, value, value_gradient_hessian

# Initial stacking weights of the two linear learners and of the last label.
LINEAR_START_WEIGHTS = (0.1, 0.1, 0.2)


class ReboostedTrees(NamedTuple):
    """The bank, what aggregates its scores, the loss they lower, and what was seen."""

    trees: Reboosted
    builds: tuple[TreeBuild, ...]  # (K,) trees that are being grown
    linear: LinearFilters
    stack: Stack
    calibration: Calibration
    labels: LabelScale
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
    sizes = sizes_of(full)
    made = bank(sizes, d, full["seed"])
    K, N = len(made.structures), max(one.nodes.shape[0] for one in made.structures)
    flat = progress(N)
    wide = {
        name: np.zeros((K, *getattr(flat, name).shape))
        for name in Progress._fields
        if getattr(flat, name).ndim == 1
    }
    for sums in (wide["prefix_loss_sum"], wide["recent_prefix_loss"]):
        for k, one in enumerate(made.structures):
            sums[k, one.nodes.shape[0] + 1 :] = np.nan  # no such prefix
    return ReboostedTrees(
        trees=made,
        builds=tree_builds(sizes, made.params, d),
        linear=linear_filters(d),
        stack=_fresh_stack(K * len(sizes.rates)),
        calibration=calibration(),
        labels=label_scale(),
        loss=loss,
        progress=flat._replace(**wide),
        shape=np.array([d, 1], np.int64),
        calibrated=np.array(int(full["bank"]["calibrate"])),
    )


def _fresh_stack(n: int) -> Stack:
    """Return the stacking of n scores of trees and those of LINES."""
    made = stack(n + LINEAR_SCORES)
    made.weights[:, :n] = (1.0 - sum(LINEAR_START_WEIGHTS)) / n
    made.weights[:, n : n + LINEAR_SCORES] = LINEAR_START_WEIGHTS
    return made


def to_rows(booster: ReboostedTrees, X: ArrayLike) -> Any:
    """Return X (B, d) as keys; nan is missing, infinities count as the largest numbers."""
    rows = as_float64("X", X)
    d = int(booster.shape[0])
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ModelError(f"X: has shape {rows.shape}; give (events, {d}) numbers")
    return to_keys(rows)


@features.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Mat:
    rows = as_float64("X", X)
    to_rows(booster, rows[:0] if rows.ndim == 2 else rows)
    return rows


@learn_many.register
def _(booster: ReboostedTrees, X: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> Mat:
    if not booster.progress.events.flags.writeable:
        raise ModelError("booster: its arrays are read-only (a snapshot); load a checkpoint")
    rows = to_rows(booster, X)
    Y = np.clip(encode_labels(booster.loss, as_float64("y", y), 1), -MAX_LABEL, MAX_LABEL)
    W = np.ones(len(rows)) if w is None else as_float64("w", w)
    if len(Y) != len(rows) or W.shape != (len(rows),):
        raise ModelError(
            f"y, w: {len(Y)} labels and {W.shape} weights for {len(rows)} events; give one of each"
        )
    if not (W >= 0.0).all() or not (math.inf > W).all():
        raise ModelError("w: an importance is negative or not finite; give numbers >= 0")
    scores, events = np.empty((len(rows), 1)), (rows, Y, np.minimum(W, WEIGHT_LIMIT))
    early = _first_label_count(booster, W)
    if early:
        _learn_batch(booster, tuple(each[:early] for each in events), scores[:early])
        _restart_from_first_labels(booster)
    _learn_batch(booster, tuple(each[early:] for each in events), scores[early:])
    return scores


def _learn_batch(booster: ReboostedTrees, events: Any, scores: Mat) -> None:
    """Learn the events: keys, labels and weights. Where there are many, another thread grows the
    trees that take long meanwhile, if there is a second processor; nothing depends on it.
    """
    n, done = len(scores), np.zeros((), np.int64)
    a = _learn_scratch(booster, n)
    try:
        if n >= MIN_WORKER_EVENTS and processors() >= 2:
            with TreeWorker(
                booster.trees.schedule, partial(_grow_in_background, booster, a)
            ) as helper:
                while done < n and helper.exchange():
                    _learn(booster, events, a, scores, (WITH_WORKER, done))
    finally:  # a batch is learned to its end: who interrupts it could not tell how far it came
        if done < n or n == 0:  # nothing to learn is how a service has it compiled beforehand
            _learn(booster, events, a, scores, (WITHOUT_WORKER, done))


def _grow_in_background(booster: ReboostedTrees, a: LearnScratch, k: int, stop: Ints) -> None:
    """Grow the tree of structure k that is grown apart, until it is done or `stop` () is not 0."""
    none = np.empty((0, 1))
    events = np.empty((0, int(booster.shape[0])), np.int32), none, np.empty(0)
    _learn(booster, events, a, none, ((True, k, stop), np.zeros((), np.int64)))


@quiesce.register
def _(booster: ReboostedTrees) -> None:
    schedule = booster.trees.schedule
    for k in np.flatnonzero(schedule.status == BACKGROUND):
        _grow_in_background(booster, _learn_scratch(booster), int(k), NO_STOP)
        schedule.status[k] = READY
    if schedule.spent_ns.flags.writeable:
        schedule.spent_ns[...] = 0.0


def _first_label_count(booster: ReboostedTrees, W: Vec) -> int:
    """Return how many events of weights W (n,) there are up to the last that is looked at with the
    first ones; 0 where that is not among them.
    """
    seen = int(booster.trees.schedule.time)
    if seen >= FIRST_LABELS or int(booster.trees.params.link) != NUMBERS:
        return 0
    learned = np.flatnonzero(W > 0.0)[FIRST_LABELS - seen - 1 : FIRST_LABELS - seen]
    return int(learned[0]) + 1 if len(learned) else 0


def _restart_from_first_labels(booster: ReboostedTrees) -> None:
    """Where one of the first labels is far from the others, or all are from 0, begin anew with all
    that heard of it; the window keeps the events, their labels brought nearer.
    """
    bank, labels = booster.trees, booster.trees.window.labels[:FIRST_LABELS]
    cut, origin = replace_outliers(labels), label_offset(labels)
    if not cut and origin == 0.0:
        return
    labels -= origin
    lines = linear_filters(int(booster.shape[0]))._replace(categorical=booster.linear.categorical)
    fresh = (*lines, *_fresh_stack(len(bank.structures) * len(bank.params.leaf_rates)))
    for old, new in zip((*booster.linear, *booster.stack), fresh, strict=True):
        old[...] = new
    for sums in (
        bank.schedule.structure_losses,
        bank.schedule.mean_square_gradient,
        bank.schedule.gradient_squares,
        bank.schedule.loss_statistics,
        bank.label_means,
    ):
        sums[...] = 0.0
    for trees in bank.structures:
        reset_structure(trees)
    mean = float(labels.mean())
    bank.base_score[...], off = mean, abs(labels - mean)
    said = np.array([value_gradient_hessian(booster.loss, mean, float(y)) for y in labels])
    bends = np.array(
        [newton_curvature(booster.loss, mean, float(y), float(off.mean())) for y in labels]
    )
    typical = (mean, off.mean(), said[:, 0].mean(), ((said[:, 1] / bends) ** 2).mean(), off.mean())
    for kept, value_ in zip(booster.labels, (*typical, bends.mean(), origin, 0.0), strict=True):
        kept[...] = value_
    for y in labels:
        bank.label_means[...] += bank.params.label_mean_rates * (y - bank.label_means)


@add_features.register
def _(booster: ReboostedTrees, full: Mapping[str, Any], d: int) -> ReboostedTrees:
    sizes = sizes_of(full)
    affordable_window(sizes, d)  # refuses before anything moves
    _finish_builds(booster.trees, booster.builds, booster.loss)
    made, beside = with_features(booster.trees, sizes, d)
    shape = np.array([d, 1], np.int64)
    lines = widened_filters(booster.linear, d)
    return booster._replace(trees=made, builds=beside, linear=lines, shape=shape)


@mark_categorical.register
def _(booster: ReboostedTrees, columns: Ints) -> None:
    booster.linear.categorical[columns] = 1.0


@score_many.register
def _(booster: ReboostedTrees, X: Mat) -> Mat:
    scores = np.empty((len(X), 1))
    kind, calibrated = int(booster.trees.params.link), bool(booster.calibrated)
    head = (booster.linear, booster.stack, booster.calibration, booster.labels, kind, calibrated)
    room = allocate_predict(booster.trees, booster.stack, int(booster.shape[0]))
    _score(served_trees(booster.trees), head, to_rows(booster, X), room, scores)
    return scores


@prefixes_many.register
def _(booster: ReboostedTrees, X: ArrayLike) -> Mat3:
    rows, a = to_rows(booster, X), _learn_scratch(booster)
    K, N = len(booster.trees.structures), booster.learners
    sums = np.empty((len(rows), N + 1, K))
    _prefixes(served_trees(booster.trees), rows, a, sums)
    sums += booster.labels.offset
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


def _learn_scratch(booster: ReboostedTrees, events: int = 1) -> LearnScratch:
    return allocate(booster.trees, booster.stack, int(booster.shape[0]), events)


@kernel
def _learn(b: Any, events: Any, a: Any, scores: Mat, how: Any) -> None:
    """Learn events until what is grown apart must be lent or taken back. Or, one kernel being half
    as long to compile as two, grow tree k. `how` is whether there is another thread, k or -1, what
    stops the growing; and how many events are learned (), which it keeps.
    """
    # States are taken apart here: in the loop, LLVM would go through their 200 arrays at each look.
    (rows, Y, weights), ((helped, apart, stop), done) = events, how
    bank, builds, stack, map_, scale = b.trees, b.builds, b.stack, b.calibration, b.labels
    lines, loss, seen, calibrated = b.linear, b.loss, b.progress, b.calibrated[()] > 0
    params, schedule, window, bins, lags = (
        bank.params,
        bank.schedule,
        bank.window,
        bank.bins,
        bank.label_means,
    )
    kind, forest = (
        int(params.link[()]),
        ServedTrees(params.leaf_rates, params.depth, bank.structures, bank.base_score, lags),
    )
    while apart >= 0 and stop[()] == 0 and builds[apart].cursor[STEP] != GROWN:
        rebuild_tree(bank, builds[apart], loss, apart, WORKER_SLICE_NS)
    until = next_commit(schedule) if helped else NO_EVENT
    first, last = 0, 0  # of the events whose leaves were found
    for k in range(int(done[()]), rows.shape[0]):
        done[()] = k + 1
        if k >= last:
            first, last = k, find_leaves(bank, events, a, (k, scale.offset[()]))
        w, t, leaf, up = (
            float(weights[k]),
            int(schedule.time[()]),
            a.leaves[k - first],
            scale.offset[()],
        )
        leaf_scores(forest, leaf, a)
        linear_scores(lines, rows[k], lags, kind, scale, a)
        mixed = stacked_score(kind, stack, scale, a)
        scores[k, 0] = calibrated_score(kind, map_, mixed, calibrated) + up
        if w > 0.0:
            _observe(seen, loss, w, scores[k], Y[k])
            store_prefixes(window.prefix, t, a.F, schedule.cursor)
            foretold = Y[k, 0] - up
            if t % METRICS_EVERY == METRICS_EVERY - 1:
                observe_structures(params.eta, loss, (foretold, w), seen, a)
            y = guard_label(scale, foretold, t, mixed, lines, a) if kind == NUMBERS else foretold
            last = last if y == foretold else k + 1  # other lags follow than were reckoned with
            assess_scores(loss, y, scale, kind, a)
            if update_drift(schedule, scaled_loss(loss, mixed, y, scale, kind), t, kind):
                inflate_covariance(stack)
            if helped and schedule.drift_at[()] == t:  # trees have become due sooner
                until = next_commit(schedule)
            learn_filters(
                stack,
                loss,
                y,
                (min(w, 1e6), residual_variance(scale, kind), residual_unit(scale)),
                a,
            )
            learn_trees(
                params, schedule, forest.structures, (w, float(scale.curvature[()]), leaf), a
            )
            learn_lines(lines, loss, y, w, kind, scale, a)
            learn_stack(stack, (w, sharpness(loss, scale, kind)), a)
            if kind == LOG_ODDS:
                calibrate(map_, mixed, 0.5 + 0.5 * y, w)
            update_label_scale(scale, loss, y, kind, t, float(a.expert_scores[0]))
            fill_row(lags, rows[k], a.row)
            insert_event(window, bins, a, t, y, w)
            update_column_count(schedule, a, t)
            update_label_means(lags, params.label_mean_rates, y, kind)
            schedule.time[()], begun = t + 1, False
            if advance_schedule(params, schedule, window, bins, (a.tree_counts, helped)):
                begun = grow_trees(bank, builds, loss, label_summary(scale), helped)
                refresh_leaves(bank, a, k + 1 - first, last - first)
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
def _finish_builds(bank: Any, builds: Any, loss: Any) -> None:
    """Bring to an end what is being grown and re-coded."""
    schedule, bins, t = bank.schedule, bank.bins, int(bank.schedule.time[()])
    for k in range(schedule.status.shape[0]):
        while schedule.status[k] != UNASSIGNED:
            if builds[k].cursor[STEP] != GROWN:
                rebuild_tree(bank, builds[k], loss, k, SLICE_NS)
            else:
                commit_tree(bank, builds[k], k, t, SLICE_NS)
    while bins.progress[0] != BINNED:
        update_bins(bins, bank.window.codes, t, schedule.status)


@kernel
def _score(forest: Any, head: Any, rows: Any, room: Any, scores: Mat) -> None:
    lines, stack, map_, scale, kind, calibrated = head
    a = slice_scratch(forest, stack, rows.shape[1], room)
    for k in range(rows.shape[0]):
        tree_scores(forest, rows[k], (a.row, a.leaves), a)
        linear_scores(lines, rows[k], forest.label_means, kind, scale, a)
        mixed = stacked_score(kind, stack, scale, a)
        scores[k, 0] = calibrated_score(kind, map_, mixed, calibrated) + scale.offset[()]


@kernel
def _prefixes(forest: Any, rows: Any, a: Any, sums: Mat3) -> None:
    N = sums.shape[1] - 1
    for r in range(rows.shape[0]):
        tree_scores(forest, rows[r], (a.row, a.leaves[0]), a)
        for k in range(a.tree_counts.shape[0]):
            for i in range(N + 1):
                sums[r, i, k] = a.F[k, min(i, a.tree_counts[k])]


@kernel
def _losses(loss: Any, scores: Mat, Y: Mat, found: Vec) -> None:
    for k in range(scores.shape[0]):
        found[k] = value(loss, scores[k], Y[k])
