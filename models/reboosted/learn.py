"""Learn one event: predict, record, guard the label, update every learner, insert, rebuild.

The order is that of the specification of reboosted trees, section 2. Everything is predicted before
the label is used; the label means of an event's row hold labels of earlier events only.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.reboosted.background import (
    NO_EVENT,
    WITH_WORKER,
    WITHOUT_WORKER,
    TreeWorker,
    next_commit,
    processors,
)
from kaboost.models.reboosted.calibration import Calibration, calibrate
from kaboost.models.reboosted.config import MIN_WORKER_EVENTS
from kaboost.models.reboosted.drift import update_drift
from kaboost.models.reboosted.ensemble import LINEAR_SCORES, ReboostedTrees, ServedTrees
from kaboost.models.reboosted.growth import grow_trees
from kaboost.models.reboosted.label_guard import label_to_learn, limit_label
from kaboost.models.reboosted.label_scale import (
    TINY,
    LabelScale,
    follows_labels,
    relative_weight,
    residual_unit,
    residual_variance,
    update_label_means,
    update_label_scale,
)
from kaboost.models.reboosted.linear import LINEAR_LEARNERS, LinearFilters
from kaboost.models.reboosted.linear_learners import (
    init_new_categories,
    learn_columns,
    learn_line,
)
from kaboost.models.reboosted.lookahead import Batch, find_leaves, refresh_leaves
from kaboost.models.reboosted.moves import follow_features
from kaboost.models.reboosted.predict import (
    calibrated_score,
    fill_row,
    leaf_scores,
    linear_scores,
    stacked_score,
)
from kaboost.models.reboosted.prefix_metrics import (
    observe_served,
    observe_structures,
    store_prefixes,
)
from kaboost.models.reboosted.schedule import advance_schedule
from kaboost.models.reboosted.score_losses import assess_scores, scaled_loss, sharpness
from kaboost.models.reboosted.scratch import LearnScratch, allocate
from kaboost.models.reboosted.stacking import (
    MIXTURE_DECAY,
    SCORE_DECAY,
    Stack,
    Target,
    decay_losses,
    inflate_covariance,
    learn_filters,
)
from kaboost.models.reboosted.state import (
    GROWN,
    LOG_ODDS,
    LOGARITHMS,
    NUMBERS,
    Bins,
    Schedule,
    StructureParams,
    Trees,
    Window,
)
from kaboost.models.reboosted.trees.binning import count_present, encode
from kaboost.models.reboosted.trees.cost import WORKER_SLICE_NS
from kaboost.models.reboosted.trees.leaves import learn_leaves, update_adagrad
from kaboost.models.reboosted.trees.rebuild import rebuild_tree
from kaboost.models.reboosted.trees.sample import observe_row, thin_sample
from kaboost.models.types import Ints, Loss, Mat, Vec
from kaboost.models.verbs import newton_curvature

ADAGRAD_EVERY = 4  # events between two updates of AdaGrad's sums
STRUCTURE_DECAY = 0.9995  # an event, of the losses that share the work among structures
MEAN_RATE = 1e-3  # lowest rate of running means, an event
MAX_CURVATURE = 0.25  # of log-loss
MAX_STEP_WEIGHT = 1e6  # an importance counts as at most this in Kalman and AdaGrad steps
MAX_LOG_ERROR = 3.0  # error of a logarithm that linear and leaf learners learn
CURVATURE_SHARE = 0.25  # of the curvature at a leaf learner's score that counts at least
MAX_EXPONENT = 30.0  # of a curvature: that of the loss grows no more from there


class BatchRun(NamedTuple):
    """How `learn_events` learns a batch, and what it fills."""

    scores: Mat  # (n, 1) made before each event was learned
    done: Ints  # () events of the batch that were learned
    has_worker: bool  # whether another thread grows the trees in the background
    tree: int  # structure whose background tree to grow before any event; -1 for none
    stop: Ints  # () not 0 stops growing that tree


def learn_batch(booster: ReboostedTrees, batch: Batch, scores: Mat) -> None:
    """Learn the events, and fill scores (n, 1) with those made before each was learned.

    Where there are many events and a second processor, another thread grows background trees
    meanwhile; no result depends on it.
    """
    n, done, a = len(scores), np.zeros((), np.int64), learn_scratch(booster, len(scores))
    grow = partial(grow_in_background, booster, a)
    try:
        if n >= MIN_WORKER_EVENTS and processors() >= 2:
            with TreeWorker(booster.trees.schedule, grow) as worker:
                while done < n and worker.sync():
                    learn_events(booster, batch, a, BatchRun(scores, done, *WITH_WORKER))
    finally:  # a batch is always learned to its end: an interrupt could not tell how far it came
        if done < n or n == 0:  # a service compiles by learning no event
            learn_events(booster, batch, a, BatchRun(scores, done, *WITHOUT_WORKER))


def grow_in_background(booster: ReboostedTrees, a: LearnScratch, k: int, stop: Ints) -> None:
    """Grow the background tree of structure k until it is done or `stop` () is not 0."""
    none = np.empty((0, 1))
    keys = np.empty((0, int(booster.shape[0])), np.int32)
    batch = Batch(keys, none, np.empty(0), np.empty((0, 0)))
    learn_events(booster, batch, a, BatchRun(none, np.zeros((), np.int64), True, k, stop))


def learn_scratch(booster: ReboostedTrees, events: int = 1) -> LearnScratch:
    """Return scratch to learn a batch of so many events."""
    return allocate(booster.trees, booster.stack, int(booster.shape[0]), events)


@kernel
def learn_events(b: ReboostedTrees, batch: Batch, a: LearnScratch, run: BatchRun) -> None:
    """Learn events until a background tree must be submitted or committed.

    It also grows the background tree `run.tree`: one kernel takes half as long to compile as two.
    Parts are unpacked first: in the loop, LLVM would go through the state's 200 arrays each time.
    """
    bank, builds, loss, seen = b.trees, b.builds, b.loss, b.progress
    filters, stack, scale, calibration = b.linear, b.stack, b.labels, b.calibration
    params, schedule, window, bins = bank.params, bank.schedule, bank.window, bank.bins
    means, link, calibrated = bank.label_means, int(params.link[()]), bool(b.calibrated[()] > 0)
    trees = ServedTrees(params.leaf_rates, params.depth, bank.structures, bank.base_score, means)
    scores, done, has_worker, tree = run.scores, run.done, run.has_worker, run.tree
    while tree >= 0 and run.stop[()] == 0 and builds[tree].cursor[0].step != GROWN:
        rebuild_tree(bank, builds[tree], loss, tree, WORKER_SLICE_NS)
    until, first, last = next_commit(schedule) if has_worker else NO_EVENT, 0, 0  # leaves found
    for k in range(int(done[()]), batch.keys.shape[0]):
        done[()], offset = k + 1, float(scale.offset[()])
        read_means(means, batch.captured, k, a.event_means)
        if k >= last:
            first, last = k, find_leaves(bank, batch, k, offset, a)
        w, t, leaves = float(batch.weights[k]), int(schedule.time[()]), a.leaves[k - first]
        leaf_scores(trees, leaves, a)
        linear_scores(filters, batch.keys[k], a.event_means, link, scale, a)
        mixed = stacked_score(link, stack, scale, a)
        served = calibrated_score(link, calibration, mixed, calibrated) + offset
        scores[k, 0] = captured_score(batch.captured, k, served)
        if w > 0.0:
            label = batch.labels[k, 0] - offset
            measured = limit_label(scale, batch.labels[k], (t, link), offset)
            observe_served(seen, loss, w, scores[k], batch.labels[k])
            store_prefixes(window.prefix, t, a.F, schedule.cursor)
            observe_structures(params.eta, loss, measured, (t, w), seen, a)
            importance, w = w, relative_weight(scale.mean_weight, w, float(t))
            y = label_to_learn(scale, loss, label, (t, link), mixed, filters, a.inputs)
            last = last if y == label else k + 1  # later label means differ from those assumed
            assess_scores(loss, y, scale, link, a)
            if update_drift(schedule, scaled_loss(loss, mixed, y, scale, link), t, link):
                inflate_covariance(stack)
            learn_trees(params, schedule, bank.structures, leaves, w, float(scale.curvature[()]), a)
            learn_lines(filters, loss, y, w, link, scale, a)
            learn_label(stack, loss, scale, (y, w), link, a)
            learn_calibration(calibration, link, mixed, y, w)
            update_label_scale(scale, loss, y, link, t, float(a.expert_scores[0]))
            fill_row(a.event_means, batch.keys[k], a.row)
            insert_event(window, bins, schedule, a, t, y, importance)
            if follows_labels(scale, means, batch.captured, k, t):
                update_label_means(means, params.label_mean_rates, y, link)
            schedule.time[()], started = t + 1, False
            if follow_features(bins, window.codes, schedule, filters, t + 1) and has_worker:
                until = next_commit(schedule)
            if advance_schedule(params, schedule, window, bins, a.tree_counts, has_worker):
                started = grow_trees(bank, builds, loss, scale, has_worker)
                refresh_leaves(bank, a, k + 1 - first, last - first)
            if has_worker and (started or t + 2 >= until):
                return


@inlined
def read_means(means: Vec, captured: Mat, k: int, out: Vec) -> None:
    """Fill out (5,) with the label means that event k was predicted with."""
    for j in range(out.shape[0]):
        out[j] = captured[k, j] if captured.shape[1] > 0 else means[j]


@inlined
def captured_score(captured: Mat, k: int, score: float) -> float:
    """Return the score that event k was predicted with: `score` if its label came at once."""
    served = captured.shape[1] - 2
    return captured[k, served] if served >= 0 else score


@inlined
def _target(scale: LabelScale, link: int, y: float, w: float) -> Target:
    variance = residual_variance(scale, link)
    return Target(y, min(w, MAX_STEP_WEIGHT), variance, residual_unit(scale))


@inlined
def learn_label(
    stack: Stack, loss: Loss, scale: LabelScale, label: tuple[float, float], link: int,
    a: LearnScratch,
) -> None:  # fmt: skip
    """Let the stack learn a label, which is y and its importance."""
    y, w = label
    factor = w * sharpness(loss, scale, link)
    learn_stack(stack, loss, _target(scale, link, y, w), factor, a)


@inlined
def learn_calibration(
    calibration: Calibration, link: int, mixed: float, y: float, w: float
) -> None:
    """Update the calibration, if scores are log-odds, for their mixture and label y."""
    if link == LOG_ODDS:
        calibrate(calibration, mixed, 0.5 + 0.5 * y, w)


@inlined
def learn_stack(stack: Stack, loss: Loss, target: Target, factor: float, a: LearnScratch) -> None:
    """Update the filters' weights, and the decayed losses behind average and mixture by this
    event's, a.score_losses (n,) and a.expert_losses (S+1,), times `factor`.
    """
    learn_filters(stack, loss, target, a.expert_scores, a.filter_inputs, a.kalman_gain)
    n, S = a.scores.shape[0], a.expert_losses.shape[0]
    for i in range(n):
        a.score_losses[i] *= factor
    decay_losses(stack.score_losses, SCORE_DECAY, a.score_losses, n)
    for j in range(S):
        a.expert_losses[j] *= factor
    decay_losses(stack.mixture_losses, MIXTURE_DECAY, a.expert_losses, S)


@kernel
def learn_trees(
    params: StructureParams, schedule: Schedule, structures: tuple[Trees, ...],
    leaves: NDArray[np.int32], w: float, curvature: float, a: LearnScratch,
) -> None:  # fmt: skip
    """Move the offsets of every reached leaf (K, N), and the losses that share the work among
    structures; `curvature` is the usual one of the loss.
    """
    t, link, E = int(schedule.time[()]), int(params.link[()]), params.leaf_rates.shape[0]
    curvature = MAX_CURVATURE if link == LOG_ODDS else curvature
    step = 1.0 / max(curvature, TINY) if curvature > 0.0 else 0.0  # finite for labels of 1e308
    for k in range(a.tree_counts.shape[0]):
        N = float(a.tree_counts[k])
        for e in range(E):
            i = k * E + e
            decayed = STRUCTURE_DECAY * schedule.structure_losses[k, e]
            schedule.structure_losses[k, e] = decayed + w * a.score_losses[i]
            rate = min(params.leaf_rates[e] * w, 1.0)
            move = step * a.score_gradients[i]
            if link == LOGARITHMS:
                move = _log_step(float(a.scores[i]), a.score_gradients[i], curvature)
            a.leaf_steps[1 + e] = rate * move / N
        _add_gradient_square(schedule, k, a.score_gradients[k * E], w, link)
        learn_leaves(structures[k].rows, leaves[k], a.leaf_steps)
        if t % ADAGRAD_EVERY == ADAGRAD_EVERY - 1:
            update_adagrad(structures[k].rows, leaves[k], schedule.gradient_squares[k])
            schedule.gradient_squares[k] = 0.0


@inlined
def _log_step(score: float, gradient: float, curvature: float) -> float:
    """Return Newton's step of a logarithm, with a bound: where counts rise a thousandfold their
    usual curvature is a thousand times too small.
    """
    own = CURVATURE_SHARE * math.exp(min(score, MAX_EXPONENT))
    step = gradient / max(curvature, own, TINY)
    return min(max(step, -MAX_LOG_ERROR), MAX_LOG_ERROR)


@inlined
def _add_gradient_square(schedule: Schedule, k: int, g: float, w: float, link: int) -> None:
    """Add a squared gradient of structure k for AdaGrad, relative to the usual one but for
    log-odds.
    """
    rate = max(1.0 / (schedule.time[()] + 1.0), MEAN_RATE)
    square = g * g
    schedule.mean_square_gradient[k] += rate * (square - schedule.mean_square_gradient[k])
    if link != LOG_ODDS:
        square = 0.25 * square / max(schedule.mean_square_gradient[k], TINY)
    schedule.gradient_squares[k] += min(w, MAX_STEP_WEIGHT) * square


@inlined
def learn_lines(
    filters: LinearFilters, loss: Loss, y: float, w: float, link: int, scale: LabelScale,
    a: LearnScratch,
) -> None:  # fmt: skip
    """Let the linear learners take Newton's step from their scores, and update their columns."""
    first, most, unit = a.scores.shape[0] - LINEAR_SCORES, math.inf, 1.0
    if link == NUMBERS:  # noise is relative to that of usual residuals
        unit = newton_curvature(loss, 0.0, residual_unit(scale), residual_unit(scale))
    if link == LOGARITHMS:
        most = MAX_LOG_ERROR
    init_new_categories(filters, a.inputs)
    for i in range(LINEAR_LEARNERS):
        h = newton_curvature(loss, float(a.scores[first + i]), y, residual_unit(scale))
        error = min(max(-a.score_gradients[first + i] / h, -most), most)
        learn_line(filters, i, a.inputs, error, unit / (h * min(w, MAX_STEP_WEIGHT)))
    learn_columns(filters, a.inputs)


@inlined
def insert_event(
    window: Window, bins: Bins, schedule: Schedule, a: LearnScratch, t: int, y: float, w: float
) -> None:
    """Store event t with row a.row in the window, and update the mean number of present columns,
    label means included.
    """
    _store_event(window, bins, a, t, y, w)
    count = float(count_present(a.inputs.runs, schedule.feature_gains.shape[1]))
    rate = max(1.0 / (t + 1.0), MEAN_RATE)
    schedule.mean_columns[()] += rate * (count - schedule.mean_columns[()])


@kernel
def _store_event(window: Window, bins: Bins, a: LearnScratch, t: int, y: float, w: float) -> None:
    R = window.labels.shape[0]
    s = t % R
    thin_sample(bins, t, R)
    observe_row(bins, t, a.row, a.inputs.runs)
    encode(bins.edges, a.row, a.inputs.runs, window.codes[s])
    window.labels[s], window.weights[s] = y, w
