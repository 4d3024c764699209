"""Learn one event of several classes, in the order of `kaboost.models.reboosted.learn`.

Trees learn the softmax of their logits. From there every class is a binary problem: its score by a
learner is the log-odds of its probability, which its stacking and its calibration learn, and so do
its linear learners. A class that an event hardly can be of learns every eighth of such events, with
eight times the weight: one with many classes costs little more.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.evaluation.progress import Progress
from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.kernels.numeric import sigmoid
from kaboost.models.reboosted.background import (
    NO_EVENT,
    WITH_WORKER,
    WITHOUT_WORKER,
    TreeWorker,
    next_commit,
    processors,
)
from kaboost.models.reboosted.calibration import Calibration, calibrate
from kaboost.models.reboosted.classes.ensemble import ClassTrees
from kaboost.models.reboosted.classes.growth import grow_trees
from kaboost.models.reboosted.classes.leaves import learn_leaves, update_adagrad
from kaboost.models.reboosted.classes.progress import observe_structures
from kaboost.models.reboosted.classes.rebuild import fill_base_scores, rebuild_tree
from kaboost.models.reboosted.classes.scores import (
    TINY,
    ClassScratch,
    class_lines,
    class_mixtures,
    class_scratch,
    tree_logits,
)
from kaboost.models.reboosted.classes.state import (
    LEARNERS,
    ClassSums,
    Singles,
    class_calibration,
    class_filters,
    class_stack,
    served_filters,
)
from kaboost.models.reboosted.config import FIRST_BINS_EVENTS, MIN_WORKER_EVENTS
from kaboost.models.reboosted.drift import update_drift
from kaboost.models.reboosted.ensemble import LINEAR_SCORES
from kaboost.models.reboosted.label_scale import (
    SLOW_RATE,
    follows_labels,
    relative_weight,
    update_label_means,
)
from kaboost.models.reboosted.learn import (
    ADAGRAD_EVERY,
    MAX_CURVATURE,
    MAX_STEP_WEIGHT,
    STRUCTURE_DECAY,
    insert_event,
    read_means,
)
from kaboost.models.reboosted.linear import LINEAR_LEARNERS, LinearFilters
from kaboost.models.reboosted.linear_inputs import NEW, InputRow, list_inputs
from kaboost.models.reboosted.linear_learners import (
    init_category_weights,
    learn_line,
    rescale_energy,
    update_energies,
    update_statistics,
)
from kaboost.models.reboosted.lookahead import Batch, find_leaves, refresh_leaves
from kaboost.models.reboosted.moves import follow_features
from kaboost.models.reboosted.predict import fill_row, read_columns
from kaboost.models.reboosted.schedule import advance_schedule
from kaboost.models.reboosted.score_losses import MAX_LOSS
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
from kaboost.models.reboosted.state import GROWN, LOG_ODDS, Reboosted, Schedule, StructureParams
from kaboost.models.reboosted.trees.cost import WORKER_SLICE_NS
from kaboost.models.types import LOSS_LIMIT, Ints, Loss, Mat, Vec
from kaboost.models.verbs import newton_curvature, value_gradient_hessian

UNLIKELY = 0.01  # probability below which a class learns only some of the events of others
UNLIKELY_EVERY = 8  # of these events, one in so many


class ClassRun(NamedTuple):
    """How `learn_events` learns a batch, and what it fills."""

    scores: Mat  # (n, C) made before each event was learned
    done: Ints  # () events of the batch that were learned
    has_worker: bool  # whether another thread grows the trees in the background
    tree: int  # structure whose background tree to grow before any event; -1 for none
    stop: Ints  # () not 0 stops growing that tree


class Scratches(NamedTuple):
    """Scratch of what all classes share, and of classes."""

    a: LearnScratch
    b: ClassScratch


def learn_batch(booster: ClassTrees, batch: Batch, scores: Mat) -> None:
    """Learn the events, whose labels are 2c - 1 for class c, and fill scores (n, C) with those made
    before each was learned.
    """
    n, done, s = len(scores), np.zeros((), np.int64), learn_scratch(booster, len(scores))
    grow = partial(grow_in_background, booster, s)
    try:
        if n >= MIN_WORKER_EVENTS and processors() >= 2:
            with TreeWorker(booster.trees.schedule, grow) as worker:
                while done < n and worker.sync():
                    learn_events(booster, batch, s, ClassRun(scores, done, *WITH_WORKER))
    finally:  # a batch is always learned to its end: an interrupt could not tell how far it came
        if done < n or n == 0:  # a service compiles by learning no event
            learn_events(booster, batch, s, ClassRun(scores, done, *WITHOUT_WORKER))


def grow_in_background(booster: ClassTrees, s: Scratches, k: int, stop: Ints) -> None:
    """Grow the background tree of structure k until it is done or `stop` () is not 0."""
    keys = np.empty((0, int(booster.shape[0])), np.int32)
    batch = Batch(keys, np.empty((0, 1)), np.empty(0), np.empty((0, 0)))
    scores = np.empty((0, booster.columns))
    learn_events(booster, batch, s, ClassRun(scores, np.zeros((), np.int64), True, k, stop))


def learn_scratch(booster: ClassTrees, events: int = 1) -> Scratches:
    """Return scratch to learn a batch of so many events."""
    one = Stack(*(array[0] for array in booster.stack))
    a = allocate(booster.trees, one, int(booster.shape[0]), events)
    return Scratches(a, class_scratch(len(booster.builds), booster.columns, booster.stack))


@kernel
def learn_events(m: ClassTrees, batch: Batch, s: Scratches, run: ClassRun) -> None:
    """Learn events until a background tree must be submitted or committed; it also grows the
    background tree `run.tree`.
    """
    bank, builds, loss, seen, sums, a, b = m.trees, m.builds, m.loss, m.progress, m.sums, s.a, s.b
    filters, stack, scale, calibration = m.linear, m.stack, m.labels, m.calibration
    params, schedule, window, bins = bank.params, bank.schedule, bank.window, bank.bins
    means, calibrated = bank.label_means, bool(m.calibrated[()] > 0)
    done, has_worker, tree = run.done, run.has_worker, run.tree
    while tree >= 0 and run.stop[()] == 0 and builds[tree].cursor[0].step != GROWN:
        rebuild_tree(bank, builds[tree], tree, WORKER_SLICE_NS)
    until, first, last = next_commit(schedule) if has_worker else NO_EVENT, 0, 0  # leaves found
    for k in range(int(done[()]), batch.keys.shape[0]):
        done[()], t = k + 1, int(schedule.time[()])
        read_means(means, batch.captured, k, a.event_means)
        if k >= last:
            first, last = k, find_leaves(bank, batch, k, 0.0, a)
        w, leaves = float(batch.weights[k]), a.leaves[k - first]
        tree_logits(bank.structures, bank.base_score, leaves, schedule.cursor, b)
        read_columns(served_filters(filters, 0), batch.keys[k], a.inputs)
        class_lines(filters, sums.last, a.inputs, b)
        class_mixtures(stack, calibration, calibrated, b, run.scores[k])
        read_captured(batch.captured, k, means.shape[0], run.scores[k], b)
        if w > 0.0:
            y = 0.5 * batch.labels[k, 0] + 0.5
            c = int(y)
            served = _observe_served(seen, w, c, b)
            store_prefixes(window.prefix, t, b.prefixes)
            observe_structures(
                params.eta, bank.structures, bank.base_score, leaves, (t, w, c), seen, b
            )
            importance, w = w, relative_weight(scale.mean_weight, w, float(t))
            if update_drift(schedule, min(served, MAX_LOSS), t, LOG_ODDS):
                for other in range(sums.means.shape[0]):
                    inflate_covariance(class_stack(stack, other))
            learn_trees(params, schedule, bank, leaves, (c, w), sums.gradient_squares, b)
            learn_classes(loss, filters, stack, calibration, (t, c, w), a.inputs, b)
            update_sums(sums, params, t, c)
            fill_row(a.event_means, batch.keys[k], a.row)
            insert_event(window, bins, schedule, a, t, y, importance)
            if follows_labels(scale, means, batch.captured, k, t):
                update_label_means(means, params.label_mean_rates, batch.labels[k, 0], LOG_ODDS)
            schedule.time[()], started = t + 1, False
            if follow_features(bins, window.codes, schedule, filters, t + 1) and has_worker:
                until = next_commit(schedule)
            if advance_schedule(params, schedule, window, bins, a.tree_counts, has_worker):
                if bins.rebin_at[()] == FIRST_BINS_EVENTS:
                    set_base_scores(bank, sums, b, t)
                else:
                    started = grow_trees(bank, builds, scale, has_worker)
                refresh_leaves(bank, a, k + 1 - first, last - first)
            if has_worker and (started or t + 2 >= until):
                return


@kernel
def read_captured(captured: Mat, k: int, first: int, scores: Vec, b: ClassScratch) -> None:
    """Fill scores (C,) and b.served with what event k was answered with, if its label came late."""
    if captured.shape[1] == 0:
        return
    block, total = b.scores.shape[1] + 2, 0.0
    for c in range(scores.shape[0]):
        scores[c] = captured[k, first + block * (c + 1) - 1]
        b.served[c] = sigmoid(float(scores[c]))
        total += b.served[c]
    for c in range(scores.shape[0]):
        b.served[c] /= total


@inlined
def _observe_served(seen: Progress, w: float, c: int, b: ClassScratch) -> float:
    """Add the log-loss of the served probabilities for an event of class c; return it."""
    loss = -math.log(max(b.served[c], TINY))
    seen.events[()] += 1
    seen.weight_sum[()] += w
    seen.loss_sum[()] += w * min(loss, LOSS_LIMIT)
    return loss


@kernel
def store_prefixes(prefix: NDArray[Any], t: int, logits: Mat) -> None:
    """Store the logits (K, C) of the trees before the cursors in `prefix` (K, R, C)."""
    i = t % prefix.shape[1]
    for k in range(logits.shape[0]):
        for c in range(logits.shape[1]):
            prefix[k, i, c] = logits[k, c]


@kernel
def set_base_scores(bank: Reboosted, sums: ClassSums, b: ClassScratch, t: int) -> None:
    """Set the base scores of all structures to those of the labels so far, of events 0 to t."""
    for c in range(b.squares.shape[0]):
        b.squares[c] = sums.means[c] * (t + 1.0)
    for k in range(bank.base_score.shape[0]):
        fill_base_scores(b.squares, t + 1.0, bank.base_score[k])
        for c in range(b.squares.shape[0]):
            bank.window.prefix[k, t % bank.window.labels.shape[0], c] = bank.base_score[k, c]


@kernel
def learn_trees(
    params: StructureParams, schedule: Schedule, bank: Reboosted, leaves: NDArray[Any],
    event: tuple[int, float], gradient_squares: Singles, b: ClassScratch,
) -> None:  # fmt: skip
    """Move the offsets of every reached leaf (K, N), and the losses that share the work among
    structures; `event` is its class and its importance.
    """
    label, w = event
    t, C = int(schedule.time[()]), b.squares.shape[0]
    for k in range(b.logits.shape[0]):
        rows = bank.structures[k].rows
        N = float(rows.shape[0])
        for e in range(LEARNERS):
            p = b.probabilities[k, e]
            loss = min(-math.log(max(p[label], TINY)), MAX_LOSS)
            decayed = STRUCTURE_DECAY * schedule.structure_losses[k, e]
            schedule.structure_losses[k, e] = decayed + w * loss
            step = min(params.leaf_rates[e] * w, 1.0) / (MAX_CURVATURE * N)
            place = (e + 1) * C if e < LEARNERS - 1 else 0
            for c in range(C):
                b.steps[place + c] = step * (p[c] - (1.0 if c == label else 0.0))
        for c in range(C):
            g = b.probabilities[k, 0, c] - (1.0 if c == label else 0.0)
            gradient_squares[k, c] += min(w, MAX_STEP_WEIGHT) * g * g
        learn_leaves(rows, leaves[k], b.steps)
        if t % ADAGRAD_EVERY == ADAGRAD_EVERY - 1:
            update_adagrad(rows, leaves[k], gradient_squares[k])
            for c in range(C):
                gradient_squares[k, c] = 0.0


@kernel
def learn_classes(
    loss: Loss, filters: LinearFilters, stack: Stack, calibration: Calibration,
    event: tuple[int, int, float], row: InputRow, b: ClassScratch,
) -> None:  # fmt: skip
    """Let linear learners, stacking and calibration of the classes learn; `event` is its number,
    its class and its importance.
    """
    t, label, w = event
    rescale_energy(filters)
    _init_categories(filters, row)
    for c in range(b.scores.shape[0]):
        weight = w
        if c != label and b.served[c] < UNLIKELY:
            if (t + c) % UNLIKELY_EVERY != 0:
                continue
            weight = w * UNLIKELY_EVERY
        y = 1.0 if c == label else -1.0
        _assess(loss, y, b, c)
        of_class = class_filters(filters, c)
        _learn_lines(of_class, loss, (y, weight), row, b, c)
        update_energies(of_class, row)
        _learn_stack(class_stack(stack, c), loss, (y, weight), b, c)
        calibrate(class_calibration(calibration, c), float(b.mixed[c]), 0.5 + 0.5 * y, weight)
    update_statistics(class_filters(filters, 0), row)
    filters.events[()] += 1.0


@kernel
def _init_categories(filters: LinearFilters, row: InputRow) -> None:
    """Initialise the weights of categories that are seen for the second time, in all classes."""
    if row.input_counts[NEW] == 0:
        return
    for c in range(filters.weights.shape[0]):
        init_category_weights(class_filters(filters, c), row)
    list_inputs(class_filters(filters, 0), row)


@kernel
def _assess(loss: Loss, y: float, b: ClassScratch, c: int) -> None:
    """Fill losses and gradients of class c's scores, and losses of its experts."""
    for i in range(b.score_losses.shape[0]):
        v, g, _ = value_gradient_hessian(loss, float(b.scores[c, i]), y)
        b.score_losses[i] = min(v, MAX_LOSS)
        b.score_gradients[i] = g
    for j in range(b.expert_losses.shape[0]):
        v, _, _ = value_gradient_hessian(loss, float(b.experts[c, j]), y)
        b.expert_losses[j] = min(v, MAX_LOSS)


@kernel
def _learn_lines(
    filters: LinearFilters, loss: Loss, label: tuple[float, float], row: InputRow,
    b: ClassScratch, c: int,
) -> None:  # fmt: skip
    """Let class c's linear learners take Newton's step from their scores."""
    y, w = label
    first = b.score_losses.shape[0] - LINEAR_SCORES
    for i in range(LINEAR_LEARNERS):
        h = newton_curvature(loss, float(b.scores[c, first + i]), y, 1.0)
        learn_line(
            filters, i, row, -b.score_gradients[first + i] / h, 1.0 / (h * min(w, MAX_STEP_WEIGHT))
        )


@kernel
def _learn_stack(
    stack: Stack, loss: Loss, label: tuple[float, float], b: ClassScratch, c: int
) -> None:
    """Let class c's filters learn, and the decayed losses behind average and mixture."""
    y, w = label
    target = Target(y, min(w, MAX_STEP_WEIGHT), 1.0, 1.0)
    learn_filters(stack, loss, target, b.experts[c], b.inputs[c], b.gain)
    n, S = b.score_losses.shape[0], b.expert_losses.shape[0]
    for i in range(n):
        b.score_losses[i] *= w
    decay_losses(stack.score_losses, SCORE_DECAY, b.score_losses, n)
    for j in range(S):
        b.expert_losses[j] *= w
    decay_losses(stack.mixture_losses, MIXTURE_DECAY, b.expert_losses, S)


@inlined
def update_sums(sums: ClassSums, params: StructureParams, t: int, label: int) -> None:
    """Move the running means of the labels towards that of event t."""
    slow, fast = max(1.0 / (t + 1.0), SLOW_RATE), params.label_mean_rates[0]
    for c in range(sums.means.shape[0]):
        y = 1.0 if c == label else 0.0
        sums.means[c] += slow * (y - sums.means[c])
        sums.last[c] += fast * (y - sums.last[c])
