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
from kaboost.models.reboosted.calibration import served
from kaboost.models.reboosted.label_guard import RUNS
from kaboost.models.reboosted.linear import LEARNERS, inputs, learn_columns, learn_line, meet, said
from kaboost.models.reboosted.scratch import LINES
from kaboost.models.reboosted.stacking import (
    LARGEST,
    MIX_DECAY,
    SCORE_DECAY,
    lay,
    mixture,
    opinions,
    weigh,
)
from kaboost.models.reboosted.state import LOG_ODDS, LOGARITHMS, NUMBERS
from kaboost.models.reboosted.trees.binning import (
    FIRST,
    WANTED,
    encode,
    key,
    note,
    numbers,
    present,
    rebin,
    runs_of,
    thin,
)
from kaboost.models.reboosted.trees.binning import IDLE as BINNED
from kaboost.models.reboosted.trees.binning import LARGEST as MISSING_KEY
from kaboost.models.reboosted.trees.commit import hand_over
from kaboost.models.reboosted.trees.leaves import gather, learn_leaves, stiffen
from kaboost.models.reboosted.trees.rebuild import (
    APART,
    EVENT,
    GROWN,
    HERE,
    PIECE,
    REST,
    STEP,
    WAITING,
    begin,
    origin,
    regrow,
    set_pace,
    share_out,
)
from kaboost.models.reboosted.trees.traverse import walk
from kaboost.models.types import LOSS_LIMIT, UINT, Ints, Mat, Vec
from kaboost.models.verbs import newton_curvature, value_gradient_hessian

STIFF_EVERY = 4  # events between two additions to AdaGrad's sums
SEEN_EVERY = 4  # events between two looks at every prefix and tree
LABEL_MOST = 1e30  # a larger label counts as this
SHARP = 3.0  # usual losses in a unit: of Gaussian residuals a loss is then their log-likelihood
LOSS_SHARE, LOSS_MOST = 0.3, 10.0  # of losses of numbers, before they weigh anything
STRUCTURE_DECAY = 0.9995  # of the losses that share out the work: it takes thousands to tell
DECAY_SEEN = DECAY**SEEN_EVERY
SHY = 0.9  # of the way from an even chance to the last of two labels
LEAST_COUNT = 0.5  # the last count is at least this
FIERCEST = 3.0  # error of a logarithm that the linear learners learn
WIDEST = 60.0  # no filter says a larger logarithm
OFTEN, EARLY = 16, 2000  # events between two looks at the pace, once so many were seen


class Scale(NamedTuple):
    """What is typical of the labels; running means, of a memory of 500 to 1,000 events."""

    mean: Vec  # () of labels; of labels in {0, 1} where scores are log-odds
    spread: Vec  # () of their distance from it, where they are numbers
    base: Vec  # () loss of serving the mean
    noise: Vec  # () squared Newton step at what the first filter says
    unit: Vec  # () its size
    curve: Vec  # () curvature there
    origin: Vec  # () of numbers, which are learned less it; scores are told plus it
    run: Vec  # (RUNS,) of answers off by the same, and moves of the origin: see label_guard


class Forest(NamedTuple):
    """What the trees' answers need of the bank."""

    rates: Vec  # (E,)
    depth: Ints  # (K,)
    trees: Any  # (K,)
    y0: Vec  # (K,)
    lags: Vec  # (5,)


def scale() -> Scale:
    """Return what is typical before any label."""
    return Scale(*(np.zeros(RUNS if name == "run" else ()) for name in Scale._fields))


def forest_of(bank: Any) -> Forest:
    """Return what the trees' answers need of a bank."""
    return Forest(bank.plan.rates, bank.plan.depth, bank.trees, bank.y0, bank.lags)


@kernel
def lay_row(lags: Vec, keys: Any, x: Any) -> None:
    """Fill x (2d,) with the keys of an event's features and of the lags."""
    d0, d = keys.shape[0], keys.shape[0] + lags.shape[0]
    again = x[d:]
    for j in range(UINT(d0)):
        x[j] = keys[j]
        again[j] = keys[j] if keys[j] != MISSING_KEY else -MISSING_KEY
    for j in range(d0, d):
        x[j] = key(float(lags[j - d0]))
        x[d + j] = x[j]


@inlined
def score(forest: Forest, keys: Any, at: Any, a: Any) -> None:
    """Fill a.f (n,) with the scores of all structures' leaf learners for the keys (d0,); `at` is
    room for the row (2d,) and the leaves (K, N).
    """
    x, leaf = at
    lay_row(forest.lags, keys, x)
    for k in range(a.sizes.shape[0]):
        walk(forest.trees[k].nodes, forest.depth[k], x, leaf[k])
    score_leaves(forest, leaf, a)


@inlined
def score_leaves(forest: Forest, leaf: Any, a: Any) -> None:
    """Fill a.f (n,) with the scores of all structures' leaf learners in the leaves (K, N)."""
    E = forest.rates.shape[0]
    for k in range(a.sizes.shape[0]):
        gather(forest.trees[k].rows, leaf[k], float(forest.y0[k]), a.F[k], a.total)
        for e in range(E):
            a.f[k * E + e] = a.total[e]


@inlined
def score_lines(filters: Any, keys: Any, lags: Vec, link: int, scale: Any, a: Any) -> None:
    """Fill the last of a.f (n,): the linear learners' scores for the keys (d0,), and what the first
    label lag, by default the last label, says alone.
    """
    first = a.f.shape[0] - LINES
    look(filters, keys, a)
    slow, bold = said(filters, a)
    if link == NUMBERS:
        mean, most = float(scale.mean[()]), OUTLIER_SPREADS * float(scale.spread[()])
        slow = min(max(slow, mean - most), mean + most)
        bold = min(max(bold, mean - most), mean + most)
    a.f[first], a.f[first + 1] = slow, bold
    a.f[first + 2] = last_label(filters, float(lags[0]), link)


@kernel
def look(filters: Any, keys: Any, a: Any) -> None:
    """Make the keys (d0,) a row of the linear learners."""
    runs_of(keys, a.runs)
    numbers(keys, a.runs, a.values)
    inputs(filters, a)


@kernel
def last_label(filters: Any, lag: float, link: int) -> float:
    """Return the score of an event whose label is expected to be the last one: `lag`; 0 before
    there was one.
    """
    if filters.age[()] == 0.0:
        return 0.0
    if link == NUMBERS:
        return lag
    if link == LOGARITHMS:
        return math.log(max(lag, LEAST_COUNT))
    p = 0.5 + SHY * (lag - 0.5)
    return math.log(p / (1.0 - p))


@inlined
def answer(link: int, stack: Any, scale: Any, a: Any) -> float:
    """Return the score that is served for the scores a.f (n,); a.z is as the filters said."""
    n = a.f.shape[0]
    if link == NUMBERS:
        centre, constant = float(scale.mean[()]), math.sqrt(float(scale.noise[()]))
    else:
        centre, constant = 0.0, 1.0
        for i in range(n):
            a.f[i] = min(max(a.f[i], -LARGEST), LARGEST)
    lay(a.f, n, centre, constant, a.features)
    opinions(stack, a.features, n, centre, a)
    bound(link, scale, a.z)
    return mixture(stack, a, link == LOG_ODDS)


@kernel
def bound(link: int, scale: Any, z: Vec) -> None:
    """Keep what the filters say, z (S + 1,), where labels can be: one that is far off must not set
    the noise that the next one reckons with, or they drive each other out of all numbers.
    """
    if link == LOG_ODDS:
        return
    middle, most = 0.0, WIDEST
    if link == NUMBERS:
        middle, most = float(scale.mean[()]), OUTLIER_SPREADS * float(scale.spread[()])
    for j in range(z.shape[0]):
        z[j] = min(max(z[j], middle - most), middle + most)


@inlined
def out(link: int, calibration: Any, mixed: float, calibrated: bool) -> float:
    """Return the calibrated score of the mixture's."""
    return served(calibration, mixed) if link == LOG_ODDS and calibrated else mixed


@inlined
def assess_scores(loss: Any, y: float, scale: Any, link: int, a: Any) -> None:
    """Fill a.loss and a.slope (n,) at the scores, and a.mixed (S+1,) with the filters' losses, in
    the unit that weighs them.
    """
    least, share = 0.0, 1.0
    if link == NUMBERS:
        share = 1.0 / max(LOSS_SHARE * float(scale.base[()]), 1e-300)
    elif link == LOGARITHMS and y > 0.0:
        least = y - y * math.log(y)
    for i in range(a.f.shape[0]):
        v, g, _ = value_gradient_hessian(loss, float(a.f[i]), y)
        a.loss[i] = min((v - least) * share, LOSS_MOST)
        a.slope[i] = g
    for j in range(a.z.shape[0]):
        v, _, _ = value_gradient_hessian(loss, float(a.z[j]), y)
        a.mixed[j] = min((v - least) * share, LOSS_MOST)


@inlined
def lost_of(loss: Any, mixed: float, y: float, scale: Any, link: int) -> float:
    """Return the loss of the mixture in a unit that outliers do not rule."""
    v, _, _ = value_gradient_hessian(loss, mixed, y)
    share = 1.0 / max(LOSS_SHARE * float(scale.base[()]), 1e-300) if link == NUMBERS else 1.0
    return float(min(v * share, LOSS_MOST))


@inlined
def learn_scale(scale: Any, loss: Any, y: float, link: int, t: int, first: float) -> None:
    """Move what is typical of labels towards y; `first` is what the first filter said."""
    slow, fast = max(1.0 / (t + 1.0), 1e-3), max(1.0 / (t + 1.0), 2e-3)
    v, _, _ = value_gradient_hessian(loss, float(scale.mean[()]), y)
    scale.base[()] += slow * (v - scale.base[()])
    scale.mean[()] += slow * ((0.5 + 0.5 * y if link == LOG_ODDS else y) - scale.mean[()])
    _, g, _ = value_gradient_hessian(loss, first, y)
    h = newton_curvature(loss, first, y, unit_of(scale))
    off = g / h
    square = off * off
    if t > 50:
        square = min(square, 25.0 * scale.noise[()])
    scale.noise[()] = max(scale.noise[()] + fast * (square - scale.noise[()]), 1e-300)
    scale.unit[()] += fast * (min(abs(first - y), 1e30) - scale.unit[()])
    scale.curve[()] += slow * (h - scale.curve[()])


@inlined
def noise_of(scale: Any, link: int) -> float:
    """Return the variance of residuals that the filters reckon with, never 0."""
    if link != NUMBERS:
        return 1.0
    spread = min(float(scale.spread[()]), 1.0)
    return max(float(scale.noise[()]), 1e-12 * spread * spread, 1e-24)


@inlined
def unit_of(scale: Any) -> float:
    """Return the typical size of a residual, never 0."""
    return max(float(scale.unit[()]), 1e-12)


@inlined
def labels_of(scale: Any) -> tuple[float, float]:
    """Return the typical residual of labels, and their mean."""
    return unit_of(scale), float(scale.mean[()])


@kernel
def learn_trees(plan: Any, pace: Any, forest: Any, event: Any, a: Any) -> None:
    """Move the offsets of every reached leaf, and the losses that share out the work; `event` is
    its importance, the usual curvature and its leaves (K, N).
    """
    w, curve, leaf = event
    t, link, E = int(pace.time[()]), int(plan.link[()]), plan.rates.shape[0]
    curve = 0.25 if link == LOG_ODDS else curve
    steep = 1.0 / curve if curve > 0.0 else 0.0
    slow = max(1.0 / (t + 1.0), 1e-3)
    for k in range(a.sizes.shape[0]):
        N = float(a.sizes[k])
        for e in range(E):
            i = k * E + e
            pace.losses[k, e] = STRUCTURE_DECAY * pace.losses[k, e] + w * a.loss[i]
            a.move[1 + e] = min(plan.rates[e] * w, 1.0) * steep * a.slope[i] / N
        g = a.slope[k * E]
        square = g * g
        pace.slopes[k] += slow * (square - pace.slopes[k])
        if link != LOG_ODDS:
            square = 0.25 * square / max(pace.slopes[k], 1e-300)
        pace.squares[k] += min(w, 1e6) * square
        trees = forest[k]
        learn_leaves(trees.rows, leaf[k], a.move)
        if t % STIFF_EVERY == STIFF_EVERY - 1:
            stiffen(trees.rows, leaf[k], pace.squares[k])
            pace.squares[k] = 0.0


@inlined
def learn_lines(filters: Any, loss: Any, y: float, w: float, link: int, scale: Any, a: Any) -> None:
    """Let the linear learners take Newton's step from what they said, and know their columns."""
    first, most, curve = a.f.shape[0] - LINES, math.inf, 1.0
    if link == NUMBERS:  # a variance is a share of that of usual residuals
        curve = newton_curvature(loss, 0.0, unit_of(scale), unit_of(scale))
    if link == LOGARITHMS:
        most = FIERCEST
    meet(filters, a)
    for i in range(LEARNERS):
        h = newton_curvature(loss, float(a.f[first + i]), y, unit_of(scale))
        error = min(max(-a.slope[first + i] / h, -most), most)
        learn_line(filters, i, a, error, curve / (h * min(w, 1e6)))
    learn_columns(filters, a)


@inlined
def count_columns(pace: Any, a: Any, t: int) -> None:
    """Note how many columns event t, as it is laid out in a, has: the lags count."""
    here = float(present(a.runs, pace.gains.shape[1]))
    pace.filled[()] += max(1.0 / (t + 1.0), 1e-3) * (here - pace.filled[()])


@kernel
def insert(window: Any, bins: Any, a: Any, t: int, y: float, w: float) -> None:
    """Put event t into the window."""
    R = window.labels.shape[0]
    s = t % R
    thin(bins, t, R)
    note(bins, t, a.x, a.runs)
    encode(bins.edges, a.x, a.runs, window.codes[s])
    window.labels[s], window.weights[s] = y, w


@inlined
def learn_lags(lags: Vec, rates: Vec, y: float, link: int) -> None:
    """Move the decayed means of labels towards y; of labels in {0, 1} where scores are log-odds."""
    seen = 0.5 + 0.5 * y if link == LOG_ODDS else y
    for j in range(lags.shape[0]):
        lags[j] += rates[j] * (seen - lags[j])


@inlined
def schedule(plan: Any, pace: Any, window: Any, bins: Any, how: Any) -> bool:
    """Do this event's part of making bins; return whether there is one of growing trees: `how` is
    the numbers of trees (K,) and whether another thread grows those that are grown apart.
    """
    t, (sizes, helped) = int(pace.time[()]), how
    if t % OFTEN == 0 or t < EARLY:
        share_out(plan, pace)
        set_pace(plan, pace, sizes, t, window.labels.shape[0])
    making = bins.at[0] > WANTED
    pace.spent[()] = 0.0
    if bins.at[0] != BINNED or t >= bins.due[()]:
        pace.spent[()] = rebin(bins, window.codes, t, pace.busy)
    due = earn(pace, bins.due[()] == FIRST, t, helped)
    return due and not (making and bins.at[0] == BINNED)  # that event has done enough


@kernel
def earn(pace: Any, unbinned: bool, t: int, helped: bool) -> bool:
    """Give every structure an event's credit; return whether there is something to do for one."""
    if unbinned:
        return True
    due = False
    for k in range(pace.credit.shape[0]):
        pace.credit[k] = min(pace.credit[k] + pace.step[k], 2.0)
        busy = pace.busy[k]
        due = due or busy == HERE or (busy == REST and pace.credit[k] >= 1.0)
        due = due or (busy >= APART and t >= pace.due[k]) or (busy == APART and not helped)
    return due


@kernel
def grow_trees(bank: Any, works: Any, loss: Any, labels: Any, helped: bool) -> bool:
    """Do this event's part of growing trees, each structure first in its turn; before there are
    bins, start every structure where the labels so far are. `labels` are their typical residual and
    their mean. Return whether a tree was begun that is grown apart.
    """
    pace, bins, t, (unit, mean) = bank.pace, bank.bins, int(bank.pace.time[()]), labels
    R, link = bank.window.labels.shape[0], int(bank.plan.link[()])
    ready = bins.at[0] == BINNED and bins.due[()] > FIRST
    total = t * (2.0 * mean - 1.0 if link == LOG_ODDS else mean)
    K, room, begun = pace.busy.shape[0], EVENT, False
    for i in range(K):
        k = (t + i) % K
        if bins.due[()] == FIRST:
            bank.y0[k] = origin(link, float(t), total)
            bank.window.prefix[k, (t - 1) % R] = bank.y0[k]
        elif room > 0.0 and pace.busy[k] == REST and ready and pace.credit[k] >= 1.0:
            spent = float(begin(bank.plan, pace, bins, works[k], (k, t, R, unit)))
            begun = begun or pace.busy[k] == APART
            room -= spent + _go_on(bank, works[k], loss, (k, t, min(PIECE, room) - spent))
        elif room > 0.0 and (pace.busy[k] == HERE or (pace.busy[k] > HERE and t >= pace.due[k])):
            room -= _go_on(bank, works[k], loss, (k, t, min(PIECE, room)))
    pace.spent[()] += EVENT - room
    if not helped and room >= EVENT - PIECE:  # an event that had little work else
        room = PIECE
        for i in range(K):
            k = (t + i) % K
            if room > 0.0 and pace.busy[k] == APART:
                room -= grow_apart(bank, works[k], loss, k, room)
        pace.spent[()] += PIECE - room
    return begun


@kernel
def _go_on(bank: Any, work: Any, loss: Any, now: Any) -> float:
    """Do a piece of what is to be done at this very event for the tree of structure k, after t
    events, in some ns: `now` is k, t and these. Return those it took.
    """
    k, t, most = now
    due, room, pace = t >= bank.pace.due[k], float(most), bank.pace
    while pace.busy[k] == APART and due:  # no event sees it less than grown, or the room that took
        pace.spent[()] += grow_apart(bank, work, loss, k, PIECE)
    if pace.busy[k] == HERE:
        room -= regrow(bank, work, loss, k, room)
    if (pace.busy[k] == HERE and work.at[STEP] == GROWN) or (pace.busy[k] == WAITING and due):
        room -= hand_over(bank, work, k, t, max(room, 0.0))
    return float(most) - room


@kernel
def grow_apart(bank: Any, work: Any, loss: Any, k: int, most: float) -> float:
    """Do a piece of work on a tree that is grown apart, for some `most` ns; return those it took.

    Who does it, and at which event, does not show in any result.
    """
    spent = float(regrow(bank, work, loss, k, most))
    if work.at[STEP] == GROWN:
        bank.pace.busy[k] = WAITING
    return spent


@kernel
def keep(prefix: Mat, t: int, F: Mat, cursor: Ints) -> None:
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
    w *= SEEN_EVERY
    for k in range(a.sizes.shape[0]):
        N = int(a.sizes[k])
        _judge(loss, y, N + 1, a.F[k], a)
        sums, recent = seen.prefix_loss_sum[k, : N + 1], seen.recent_prefix_loss[k, : N + 1]
        _record(sums, recent, a.lost[: N + 1], w)
        _explain(
            seen.edge_total[k, :N], seen.edge_missed[k, :N], seen.recent_edge_total[k, :N],
            seen.recent_edge_missed[k, :N], a.steep[:N], a.bent[:N], a.said[:N], w,
            1.0 / eta[k],
        )  # fmt: skip


@kernel
def _judge(loss: Any, y: float, count: int, F: Vec, a: Any) -> None:
    said, lost, steep, bent = a.said, a.lost, a.steep, a.bent
    for i in range(count - 1):
        said[i] = F[i + 1] - F[i]
    for i in range(count):
        v, g, h = value_gradient_hessian(loss, float(F[i]), y)
        lost[i], steep[i], bent[i] = min(v, LOSS_LIMIT), g, max(h, 1e-3)


@over_learners
def _record(total: NewLane, recent: NewLane, lost: Lane, w: Number) -> tuple[NewLane, NewLane]:
    return total + w * lost, DECAY_SEEN * recent + w * lost


@over_learners
def _explain(
    total: NewLane, missed: NewLane, recent: NewLane, missed_recently: NewLane,
    slope: Lane, curve: Lane, said: Lane, w: Number, inverse: Number,
) -> tuple[NewLane, NewLane, NewLane, NewLane]:  # fmt: skip
    part = w / curve
    left = slope + curve * (inverse * said)
    all_, rest = slope * slope * part, left * left * part
    fade = DECAY_SEEN
    return total + all_, missed + rest, fade * recent + all_, fade * missed_recently + rest


@inlined
def sharpness(loss: Any, scale: Any, link: int) -> float:
    """Return how much more than in the unit of `assess_scores` losses tell scores apart: where
    labels are easy to foretell, usual losses are far below those of the mean label.
    """
    if link != NUMBERS:
        return 1.0
    over, _, _ = value_gradient_hessian(
        loss, unit_of(scale), 0.0
    )  # a quantile minds one side more than the other
    under, _, _ = value_gradient_hessian(loss, -unit_of(scale), 0.0)
    usual = 0.5 * (float(over) + float(under))
    return max(1.0, LOSS_SHARE * float(scale.base[()]) / max(SHARP * usual, 1e-300))


@inlined
def learn_stack(stack: Any, weights: Any, a: Any) -> None:
    """Let the stack learn what each of its scores was worth; `weights` are the importance, and how
    sharply the scores' and the filters' losses are told apart.
    """
    w, sharp = weights
    n = a.f.shape[0]
    for i in range(n):
        a.loss[i] *= w * sharp
    weigh(stack.score_losses, SCORE_DECAY, a.loss, n)
    for j in range(a.mixed.shape[0]):
        a.mixed[j] *= w * sharp
    weigh(stack.mix_losses, MIX_DECAY, a.mixed, a.mixed.shape[0])
