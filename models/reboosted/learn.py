"""One event of reboosted trees, in its order: row, walk, aggregate, learn, insert, regrow.

The order is that of the specification of reboosted trees, section 2. Everything is predicted before
the label is looked at; the features' lags hold labels of earlier events only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.evaluation.progress import DECAY
from kaboost.models.features.label_outliers import OUTLIER_SPREADS
from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.kernels.simd import Lane, NewLane, Number, over_learners
from kaboost.models.reboosted.calibration import served_log_odds
from kaboost.models.reboosted.label_guard import SHIFT_FIELDS
from kaboost.models.reboosted.linear import (
    LINEAR_LEARNERS,
    fill_inputs,
    init_new_categories,
    learn_columns,
    learn_line,
    scores,
)
from kaboost.models.reboosted.scratch import LINEAR_SCORES
from kaboost.models.reboosted.stacking import (
    MAX_LOG_ODDS,
    MIXTURE_DECAY,
    SCORE_DECAY,
    decay_losses,
    expert_scores,
    filter_inputs,
    mixture,
)
from kaboost.models.reboosted.state import LOG_ODDS, LOGARITHMS, NUMBERS
from kaboost.models.reboosted.trees.binning import MISSING_KEY as MISSING_KEY
from kaboost.models.reboosted.trees.binning import (
    column_runs,
    count_present,
    encode,
    from_keys,
    to_key,
)
from kaboost.models.reboosted.trees.leaves import learn_leaves, sum_leaves, update_adagrad
from kaboost.models.reboosted.trees.sample import observe_row, thin_sample
from kaboost.models.reboosted.trees.traverse import traverse
from kaboost.models.types import LOSS_LIMIT, UINT, Ints, Mat, Vec
from kaboost.models.verbs import newton_curvature, value_gradient_hessian

ADAGRAD_EVERY = 4  # events between two additions to AdaGrad's sums
METRICS_EVERY = 4  # events between two looks at every prefix and tree
MAX_LABEL = 1e30  # a larger label counts as this
SHARPNESS_UNITS = (
    3.0  # usual losses in a unit: of Gaussian residuals a loss is then their log-likelihood
)
LOSS_SHARE, MAX_LOSS = 0.3, 10.0  # of losses of numbers, before they weigh anything
STRUCTURE_DECAY = 0.9995  # of the losses that share out the build: it takes thousands to tell
METRICS_DECAY = DECAY**METRICS_EVERY
LAST_LABEL_SHRINKAGE = 0.9  # of the way from an even chance to the last of two labels
MIN_COUNT = 0.5  # the last count is at least this
MAX_LOG_ERROR = 3.0  # error of a logarithm that the linear learners learn
MAX_LOGARITHM = 60.0  # no filter says a larger logarithm


class LabelScale(NamedTuple):
    """What is typical of the labels; running means, of a memory of 500 to 1,000 events."""

    mean: Vec  # () of labels; of labels in {0, 1} where scores are log-odds
    deviation: Vec  # () of their distance from it, where they are numbers
    mean_loss: Vec  # () loss of serving the mean
    squared_step: Vec  # () squared Newton step at what the first filter says
    residual: Vec  # () its size
    curvature: Vec  # () curvature there
    offset: Vec  # () of numbers, which are learned less it; scores are told plus it
    shift: Vec  # (RUNS,) of answers off by the same, and moves of the origin: see label_guard


class ServedTrees(NamedTuple):
    """What the trees' answers need of the bank."""

    leaf_rates: Vec  # (E,)
    depth: Ints  # (K,)
    structures: Any  # (K,)
    base_score: Vec  # (K,)
    label_means: Vec  # (5,)


def label_scale() -> LabelScale:
    """Return what is typical before any label."""
    return LabelScale(
        *(np.zeros(SHIFT_FIELDS if name == "shift" else ()) for name in LabelScale._fields)
    )


def served_trees(bank: Any) -> ServedTrees:
    """Return what the trees' answers need of a bank."""
    return ServedTrees(
        bank.params.leaf_rates,
        bank.params.depth,
        bank.structures,
        bank.base_score,
        bank.label_means,
    )


@kernel
def fill_row(lags: Vec, keys: Any, x: Any) -> None:
    """Fill x (2d,) with the keys of an event's features and of the lags."""
    d0, d = keys.shape[0], keys.shape[0] + lags.shape[0]
    again = x[d:]
    for j in range(UINT(d0)):
        x[j] = keys[j]
        again[j] = keys[j] if keys[j] != MISSING_KEY else -MISSING_KEY
    for j in range(d0, d):
        x[j] = to_key(float(lags[j - d0]))
        x[d + j] = x[j]


@inlined
def tree_scores(forest: ServedTrees, keys: Any, at: Any, a: Any) -> None:
    """Fill a.scores (n,) with the scores of all structures' leaf learners for the keys (d0,); `at` is
    room for the row (2d,) and the leaves (K, N).
    """
    x, leaf = at
    fill_row(forest.label_means, keys, x)
    for k in range(a.tree_counts.shape[0]):
        traverse(forest.structures[k].nodes, forest.depth[k], x, leaf[k])
    leaf_scores(forest, leaf, a)


@inlined
def leaf_scores(forest: ServedTrees, leaf: Any, a: Any) -> None:
    """Fill a.scores (n,) with the scores of all structures' leaf learners in the leaves (K, N)."""
    E = forest.leaf_rates.shape[0]
    for k in range(a.tree_counts.shape[0]):
        sum_leaves(
            forest.structures[k].rows, leaf[k], float(forest.base_score[k]), a.F[k], a.leaf_scores
        )
        for e in range(E):
            a.scores[k * E + e] = a.leaf_scores[e]


@inlined
def linear_scores(filters: Any, keys: Any, lags: Vec, link: int, scale: Any, a: Any) -> None:
    """Fill the last of a.scores (n,): the linear learners' scores for the keys (d0,), and what the first
    label lag, by default the last label, says alone.
    """
    first = a.scores.shape[0] - LINEAR_SCORES
    read_columns(filters, keys, a)
    slow, bold = scores(filters, a)
    if link == NUMBERS:
        mean, most = float(scale.mean[()]), OUTLIER_SPREADS * float(scale.deviation[()])
        slow = min(max(slow, mean - most), mean + most)
        bold = min(max(bold, mean - most), mean + most)
    a.scores[first], a.scores[first + 1] = slow, bold
    a.scores[first + 2] = last_label(filters, float(lags[0]), link)


@kernel
def read_columns(filters: Any, keys: Any, a: Any) -> None:
    """Make the keys (d0,) a row of the linear learners."""
    column_runs(keys, a.runs)
    from_keys(keys, a.runs, a.values)
    fill_inputs(filters, a)


@kernel
def last_label(filters: Any, lag: float, link: int) -> float:
    """Return the score of an event whose label is expected to be the last one: `lag`; 0 before
    there was one.
    """
    if filters.events[()] == 0.0:
        return 0.0
    if link == NUMBERS:
        return lag
    if link == LOGARITHMS:
        return math.log(max(lag, MIN_COUNT))
    p = 0.5 + LAST_LABEL_SHRINKAGE * (lag - 0.5)
    return math.log(p / (1.0 - p))


@inlined
def stacked_score(link: int, stack: Any, scale: Any, a: Any) -> float:
    """Return the score that is served for the scores a.scores (n,); a.expert_scores is as the filters said."""
    n = a.scores.shape[0]
    if link == NUMBERS:
        centre, constant = float(scale.mean[()]), math.sqrt(float(scale.squared_step[()]))
    else:
        centre, constant = 0.0, 1.0
        for i in range(n):
            a.scores[i] = min(max(a.scores[i], -MAX_LOG_ODDS), MAX_LOG_ODDS)
    filter_inputs(a.scores, n, centre, constant, a.filter_inputs)
    expert_scores(stack, a.filter_inputs, n, centre, a)
    clip_to_labels(link, scale, a.expert_scores)
    return mixture(stack, a, link == LOG_ODDS)


@kernel
def clip_to_labels(link: int, scale: Any, z: Vec) -> None:
    """Keep what the filters say, z (S + 1,), where labels can be: one that is far off must not set
    the noise that the next one reckons with, or they drive each other out of all numbers.
    """
    if link == LOG_ODDS:
        return
    middle, most = 0.0, MAX_LOGARITHM
    if link == NUMBERS:
        middle, most = float(scale.mean[()]), OUTLIER_SPREADS * float(scale.deviation[()])
    for j in range(z.shape[0]):
        z[j] = min(max(z[j], middle - most), middle + most)


@inlined
def calibrated_score(link: int, calibration: Any, mixed: float, calibrated: bool) -> float:
    """Return the calibrated score of the mixture's."""
    return served_log_odds(calibration, mixed) if link == LOG_ODDS and calibrated else mixed


@inlined
def assess_scores(loss: Any, y: float, scale: Any, link: int, a: Any) -> None:
    """Fill a.score_losses and a.score_gradients (n,) at the scores, and a.expert_losses (S+1,) with the filters' losses, in
    the unit that weighs them.
    """
    least, share = 0.0, 1.0
    if link == NUMBERS:
        share = 1.0 / max(LOSS_SHARE * float(scale.mean_loss[()]), 1e-300)
    elif link == LOGARITHMS and y > 0.0:
        least = y - y * math.log(y)
    for i in range(a.scores.shape[0]):
        v, g, _ = value_gradient_hessian(loss, float(a.scores[i]), y)
        a.score_losses[i] = min((v - least) * share, MAX_LOSS)
        a.score_gradients[i] = g
    for j in range(a.expert_scores.shape[0]):
        v, _, _ = value_gradient_hessian(loss, float(a.expert_scores[j]), y)
        a.expert_losses[j] = min((v - least) * share, MAX_LOSS)


@inlined
def scaled_loss(loss: Any, mixed: float, y: float, scale: Any, link: int) -> float:
    """Return the loss of the mixture in a unit that outliers do not rule."""
    v, _, _ = value_gradient_hessian(loss, mixed, y)
    share = 1.0 / max(LOSS_SHARE * float(scale.mean_loss[()]), 1e-300) if link == NUMBERS else 1.0
    return float(min(v * share, MAX_LOSS))


@inlined
def update_label_scale(scale: Any, loss: Any, y: float, link: int, t: int, first: float) -> None:
    """Move what is typical of labels towards y; `first` is what the first filter said."""
    slow, fast = max(1.0 / (t + 1.0), 1e-3), max(1.0 / (t + 1.0), 2e-3)
    v, _, _ = value_gradient_hessian(loss, float(scale.mean[()]), y)
    scale.mean_loss[()] += slow * (v - scale.mean_loss[()])
    scale.mean[()] += slow * ((0.5 + 0.5 * y if link == LOG_ODDS else y) - scale.mean[()])
    _, g, _ = value_gradient_hessian(loss, first, y)
    h = newton_curvature(loss, first, y, residual_unit(scale))
    off = g / h
    square = off * off
    if t > 50:
        square = min(square, 25.0 * scale.squared_step[()])
    scale.squared_step[()] = max(
        scale.squared_step[()] + fast * (square - scale.squared_step[()]), 1e-300
    )
    scale.residual[()] += fast * (min(abs(first - y), 1e30) - scale.residual[()])
    scale.curvature[()] += slow * (h - scale.curvature[()])


@inlined
def residual_variance(scale: Any, link: int) -> float:
    """Return the variance of residuals that the filters reckon with, never 0."""
    if link != NUMBERS:
        return 1.0
    spread = min(float(scale.deviation[()]), 1.0)
    return max(float(scale.squared_step[()]), 1e-12 * spread * spread, 1e-24)


@inlined
def residual_unit(scale: Any) -> float:
    """Return the typical size of a residual, never 0."""
    return max(float(scale.residual[()]), 1e-12)


@kernel
def learn_trees(params: Any, schedule: Any, forest: Any, event: Any, a: Any) -> None:
    """Move the offsets of every reached leaf, and the losses that share out the work; `event` is
    its importance, the usual curvature and its leaves (K, N).
    """
    w, curve, leaf = event
    t, link, E = int(schedule.time[()]), int(params.link[()]), params.leaf_rates.shape[0]
    curve = 0.25 if link == LOG_ODDS else curve
    steep = 1.0 / curve if curve > 0.0 else 0.0
    slow = max(1.0 / (t + 1.0), 1e-3)
    for k in range(a.tree_counts.shape[0]):
        N = float(a.tree_counts[k])
        for e in range(E):
            i = k * E + e
            schedule.structure_losses[k, e] = (
                STRUCTURE_DECAY * schedule.structure_losses[k, e] + w * a.score_losses[i]
            )
            a.leaf_steps[1 + e] = (
                min(params.leaf_rates[e] * w, 1.0) * steep * a.score_gradients[i] / N
            )
        g = a.score_gradients[k * E]
        square = g * g
        schedule.mean_square_gradient[k] += slow * (square - schedule.mean_square_gradient[k])
        if link != LOG_ODDS:
            square = 0.25 * square / max(schedule.mean_square_gradient[k], 1e-300)
        schedule.gradient_squares[k] += min(w, 1e6) * square
        trees = forest[k]
        learn_leaves(trees.rows, leaf[k], a.leaf_steps)
        if t % ADAGRAD_EVERY == ADAGRAD_EVERY - 1:
            update_adagrad(trees.rows, leaf[k], schedule.gradient_squares[k])
            schedule.gradient_squares[k] = 0.0


@inlined
def learn_lines(filters: Any, loss: Any, y: float, w: float, link: int, scale: Any, a: Any) -> None:
    """Let the linear learners take Newton's step from what they said, and know their columns."""
    first, most, curve = a.scores.shape[0] - LINEAR_SCORES, math.inf, 1.0
    if link == NUMBERS:  # a variance is a share of that of usual residuals
        curve = newton_curvature(loss, 0.0, residual_unit(scale), residual_unit(scale))
    if link == LOGARITHMS:
        most = MAX_LOG_ERROR
    init_new_categories(filters, a)
    for i in range(LINEAR_LEARNERS):
        h = newton_curvature(loss, float(a.scores[first + i]), y, residual_unit(scale))
        error = min(max(-a.score_gradients[first + i] / h, -most), most)
        learn_line(filters, i, a, error, curve / (h * min(w, 1e6)))
    learn_columns(filters, a)


@inlined
def update_column_count(schedule: Any, a: Any, t: int) -> None:
    """Note how many columns event t, as it is laid out in a, has: the lags count."""
    here = float(count_present(a.runs, schedule.feature_gains.shape[1]))
    schedule.mean_columns[()] += max(1.0 / (t + 1.0), 1e-3) * (here - schedule.mean_columns[()])


@kernel
def insert_event(window: Any, bins: Any, a: Any, t: int, y: float, w: float) -> None:
    """Put event t into the window."""
    R = window.labels.shape[0]
    s = t % R
    thin_sample(bins, t, R)
    observe_row(bins, t, a.row, a.runs)
    encode(bins.edges, a.row, a.runs, window.codes[s])
    window.labels[s], window.weights[s] = y, w


@inlined
def update_label_means(lags: Vec, rates: Vec, y: float, link: int) -> None:
    """Move the decayed means of labels towards y; of labels in {0, 1} where scores are log-odds."""
    seen = 0.5 + 0.5 * y if link == LOG_ODDS else y
    for j in range(lags.shape[0]):
        lags[j] += rates[j] * (seen - lags[j])


@kernel
def store_prefixes(prefix: Mat, t: int, F: Mat, cursor: Ints) -> None:
    """Put every structure's prefix before the cursor into the window prefix (K, R)."""
    s = t % prefix.shape[1]
    for k in range(prefix.shape[0]):
        prefix[k, s] = F[k, cursor[k]]


@kernel
def observe_structures(eta: Vec, loss: Any, event: Any, seen: Any, a: Any) -> None:
    """With every fourth event, for four, record the loss of every prefix of every structure and
    every tree's edge.

    A tree fits slope / curvature by weighted squares: that is what its edge is a share of.
    """
    y, w = event
    w *= METRICS_EVERY
    for k in range(a.tree_counts.shape[0]):
        N = int(a.tree_counts[k])
        _prefix_gradients(loss, y, N + 1, a.F[k], a)
        sums, recent = seen.prefix_loss_sum[k, : N + 1], seen.recent_prefix_loss[k, : N + 1]
        _record(sums, recent, a.prefix_losses[: N + 1], w)
        _tree_edges(
            seen.edge_total[k, :N], seen.edge_missed[k, :N], seen.recent_edge_total[k, :N],
            seen.recent_edge_missed[k, :N], a.prefix_gradients[:N], a.prefix_hessians[:N], a.tree_outputs[:N], w,
            1.0 / eta[k],
        )  # fmt: skip


@kernel
def _prefix_gradients(loss: Any, y: float, count: int, F: Vec, a: Any) -> None:
    said, lost, steep, bent = a.tree_outputs, a.prefix_losses, a.prefix_gradients, a.prefix_hessians
    for i in range(count - 1):
        said[i] = F[i + 1] - F[i]
    for i in range(count):
        v, g, h = value_gradient_hessian(loss, float(F[i]), y)
        lost[i], steep[i], bent[i] = min(v, LOSS_LIMIT), g, max(h, 1e-3)


@over_learners
def _record(total: NewLane, recent: NewLane, lost: Lane, w: Number) -> tuple[NewLane, NewLane]:
    return total + w * lost, METRICS_DECAY * recent + w * lost


@over_learners
def _tree_edges(
    total: NewLane, missed: NewLane, recent: NewLane, missed_recently: NewLane,
    slope: Lane, curve: Lane, said: Lane, w: Number, inverse: Number,
) -> tuple[NewLane, NewLane, NewLane, NewLane]:  # fmt: skip
    part = w / curve
    left = slope + curve * (inverse * said)
    all_, rest = slope * slope * part, left * left * part
    fade = METRICS_DECAY
    return total + all_, missed + rest, fade * recent + all_, fade * missed_recently + rest


@inlined
def sharpness(loss: Any, scale: Any, link: int) -> float:
    """Return how much more than in the unit of `assess_scores` losses tell scores apart: where
    labels are easy to foretell, usual losses are far below those of the mean label.
    """
    if link != NUMBERS:
        return 1.0
    over, _, _ = value_gradient_hessian(
        loss, residual_unit(scale), 0.0
    )  # a quantile minds one side more than the other
    under, _, _ = value_gradient_hessian(loss, -residual_unit(scale), 0.0)
    usual = 0.5 * (float(over) + float(under))
    return max(1.0, LOSS_SHARE * float(scale.mean_loss[()]) / max(SHARPNESS_UNITS * usual, 1e-300))


@inlined
def learn_stack(stack: Any, weights: Any, a: Any) -> None:
    """Let the stack learn what each of its scores was worth; `weights` are the importance, and how
    sharply the scores' and the filters' losses are told apart.
    """
    w, sharp = weights
    n = a.scores.shape[0]
    for i in range(n):
        a.score_losses[i] *= w * sharp
    decay_losses(stack.score_losses, SCORE_DECAY, a.score_losses, n)
    for j in range(a.expert_losses.shape[0]):
        a.expert_losses[j] *= w * sharp
    decay_losses(stack.mixture_losses, MIXTURE_DECAY, a.expert_losses, a.expert_losses.shape[0])
