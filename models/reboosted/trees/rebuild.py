"""Regrowing trees one after the other, in boosting order, at a schedule set by a cost model.

Each structure earns credit with every event; when it has one, its next tree is grown anew on the
window, against what the trees before it say there. A regrow is a sequence of steps, each cut into
pieces of about the work there is room for (to part a leaf's rows is one piece, however many they
are), and where it stands is part of the state: a checkpoint in mid-regrow goes on
bit for bit. The cost model counts in nanoseconds but never looks at a clock.
"""

from __future__ import annotations

import math
from typing import Any

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import reseed, uniform
from kaboost.models.reboosted.state import CODES, NUMBERS, events_ahead
from kaboost.models.reboosted.trees.grower import (
    BINS,
    BINS_SCANNED,
    CACHED_COLUMNS,
    RESIDUAL_UNIT,
    grow,
    init_root,
    store_tree,
)
from kaboost.models.reboosted.trees.histogram import FEW_CODES, pack
from kaboost.models.reboosted.trees.traverse import add_to_prefix
from kaboost.models.types import INT, Vec
from kaboost.models.verbs import newton_curvature, value_gradient_hessian

# Places in Work.at: the step, rows drawn of n, columns, where the window begins and how far it is
# done, whether all features are looked at, how many events the window had, and how many came before
# its end.
STEP, DRAWN, ROWS, COLUMNS, FROM, DONE, ALL_FEATURES, SPAN, END = *range(8), 18
NOT_STARTED, FIT_BASE_SCORE, RESET_PREFIX, DRAW_ROWS, GROW_TREE, ADD_TO_PREFIX, GROWN = range(7)
MAX_GRADIENT, MAX_HESSIAN, WEIGHT_SUM, LABEL_SUM, BASE_SCORE = (
    0,
    1,
    4,
    5,
    6,
)  # in Work.scale; 2 and 3 are packed units
# In Pace.busy: no tree, one that takes its place as soon as it is grown, one that does so at the
# event that is due, and the same once it is grown.
UNASSIGNED, INLINE, BACKGROUND, READY = range(4)
SLICE_NS, EVENT_BUDGET_NS = (
    300_000.0,
    900_000.0,
)  # ns of work on one tree, and on all trees, in one event
SLACK = 4.0  # times over a tree that is grown apart could be, as its cost is told, before it is due
HALF_BINS_ROWS = 4000  # up to which histograms are of half the size
MIN_EVENTS = 50  # events before the first tree
ALL_FEATURES_EVERY = 16  # of the trees look at every feature
GAIN_DECAY, GAIN_COVERED, MIN_FEATURES, RANDOM_FEATURE_RATE = (
    0.7,
    0.95,
    6,
    0.1,
)  # screening of features: see `choose_columns`
START_BOOST, START_EVENTS = 9.0, 4000.0  # more work while little is known, soon fading
START_SPEEDUP = 0.5  # and so many fewer of the events that a sweep takes at least
SHORT_WINDOW_SPEEDUP = (
    0.25  # of short windows: they are swept often, and what leaves learned is lost
)
BUDGET_COLUMNS = 250.0  # that are there, from which on the budget grows with them
EVENTS_BEFORE_DRIFT = 200  # events before an alarm that are taken for new
BISECTIONS = 40  # till gains are told apart to 1e-12 of the largest
FEW_CODES_BINS = 3  # places whose time it takes to go to a column of few codes at all
LABEL_NS, COPY_ROW_NS, PACK_NS, CHOOSE_FEATURE_NS = (
    1.5,
    40.0,
    3.0,
    50.0,
)  # ns: a label, a row, a packed number, a feature
STEP_NS, STEP_FAR_NS = 1.8, 9.0  # ns a step down, and where rows are not NARROW


@kernel
def window_events(params: Any, schedule: Any, k: int, t: int, R: int) -> int:
    """Return the events in structure k's window after t events.

    The first structure looks back no further than a little before the last alarm: where the stream
    has changed for good it is rid of the past, and where it has not the others still have it.
    """
    m = min(t, R, int(params.window[k]))
    if k == 0 and schedule.drift_at[()] > 0:
        m = min(m, t - int(schedule.drift_at[()]) + EVENTS_BEFORE_DRIFT)
    return m


@kernel
def sample_size(params: Any, k: int, m: int) -> int:
    """Return how many of m events a tree sees."""
    return min(m, max(int(params.min_rows[k]), int(params.row_fraction[k] * m)))


@kernel
def tree_bins(params: Any, k: int, n: int) -> int:
    """Return the bins of a tree over n rows: few rows do not fill many."""
    return int(params.bins[k]) if n > HALF_BINS_ROWS else 32


@kernel
def tree_cost(params: Any, schedule: Any, k: int, m: int) -> float:
    """Return the ns that one tree of structure k costs over a window of m events, on the whole:
    this sets the schedule. What pieces are said to cost, as if all were far, bounds an event.
    """
    n, columns = float(sample_size(params, k, m)), float(schedule.columns_used[k])
    leaves = float(schedule.leaf_count[k])
    rows = n * (COPY_ROW_NS + columns * 0.4 * (1.0 + 0.4 * math.log2(leaves)) + 12.0)
    scans = 2.0 * leaves * float(schedule.bins_scanned[k]) * 1.3
    return rows + scans + m * 0.8 * float(params.depth[k])


@kernel
def update_schedule(params: Any, schedule: Any, sizes: Any, t: int, R: int) -> None:
    """Spread a sweep over all trees of a structure over so many events that its work fits its
    share of the budget, and over a window at least, part of one while little is known; sizes (K,)
    are the numbers of trees.
    """
    since = t - int(schedule.drift_at[()])
    wide = max(
        1.0, schedule.mean_columns[()] / BUDGET_COLUMNS
    )  # such an event costs that much as well
    total = params.budget_ns[()] * wide
    start = min(1.0, START_EVENTS / (since + 1.0))
    total *= 1.0 + START_BOOST * start * math.sqrt(start)
    schedule.budget_ns[()] = total
    for k in range(params.window.shape[0]):
        m = window_events(params, schedule, k, t, R)
        trees = float(sizes[k])
        haste = (
            START_SPEEDUP if int(params.window[k]) >= R - events_ahead(R) else SHORT_WINDOW_SPEEDUP
        )
        least = (1.0 - haste * start) * m
        sweep = max(least, trees * tree_cost(params, schedule, k, m) / (total * schedule.share[k]))
        schedule.credit_per_event[k] = trees / max(sweep, 1.0) if m >= MIN_EVENTS else 0.0


@kernel
def share_budget(params: Any, schedule: Any) -> None:
    """Give half of the work to the structures that do better now."""
    K, E = schedule.structure_losses.shape
    total = 0.0
    least = math.inf
    for k in range(K):
        for e in range(E):
            least = min(least, schedule.structure_losses[k, e])
    for k in range(K):
        best = math.inf
        for e in range(E):
            best = min(best, schedule.structure_losses[k, e])
        schedule.share[k] = math.exp(-0.1 * (best - least))
        total += schedule.share[k]
    for k in range(K):
        schedule.share[k] = 0.5 * params.share[k] + 0.5 * schedule.share[k] / total


@kernel
def start_tree(params: Any, schedule: Any, bins: Any, build: Any, now: Any) -> float:
    """Start on the next tree of structure k after t events, in a ring of R, where `unit` is a
    typical residual: `now` is k, t, R, unit. Return the ns it took.

    A tree that takes long is due only when the work of an event has gone into it so often, one
    after the other: till then it may be grown by whom and when it suits. It is not due before
    pieces between the events would have done it, all structures in turn, some times over.
    """
    at, (k, t, R, unit) = build.cursor, now
    m = window_events(params, schedule, k, t, R)
    at[FROM], at[DONE], at[DRAWN], at[END] = t - m, t - m, 0, t
    at[ROWS], at[SPAN] = sample_size(params, k, m), m
    at[BINS] = tree_bins(params, k, int(at[ROWS]))
    at[ALL_FEATURES] = schedule.grown[k] % ALL_FEATURES_EVERY == 0
    at[COLUMNS] = choose_columns(
        schedule.feature_gains[k, : params.features[k]], schedule.generator, bins, build
    )
    schedule.columns_used[k], schedule.bins_scanned[k] = at[COLUMNS], at[BINS_SCANNED]
    schedule.credit[k] -= 1.0
    for place in range(8):
        build.scale[place] = 0.0
    build.scale[RESIDUAL_UNIT] = unit
    reseed(build.generator, schedule.generator)
    at[STEP] = FIT_BASE_SCORE if schedule.cursor[k] == 0 else DRAW_ROWS
    cost, last = tree_cost(params, schedule, k, m), t
    for other in range(schedule.commit_at.shape[0]):
        last = max(last, int(schedule.commit_at[other]))
    soonest = t + 1 + int(SLACK * schedule.commit_at.shape[0] * cost / SLICE_NS)
    schedule.status[k] = INLINE
    if cost >= params.background_min_ns[()] and soonest <= t + events_ahead(R):
        schedule.status[k], schedule.earliest_commit[k] = BACKGROUND, soonest
        due = last + 1 + int(cost / schedule.budget_ns[()])
        schedule.commit_at[k] = max(min(due, t + events_ahead(R)), soonest)
    return CHOOSE_FEATURE_NS * int(params.features[k])


@kernel
def choose_columns(gains: Vec, state: Any, bins: Any, build: Any) -> int:
    """Fill build.columns with the features this tree looks at, of those with gains (F,); return how
    many.

    Every 16th tree looks at all. The others take features in falling order of gain until 95 % of it
    are covered, six at least, and each of the rest with probability .1.
    """
    F = gains.shape[0]
    total = 0.0
    for j in range(F):
        total += gains[j]
    wide = build.cursor[ALL_FEATURES] > 0 or not total > 0.0
    if not wide:
        mark_top_features(gains, GAIN_COVERED * total, build.split_gain)
    build.cursor[BINS_SCANNED] = 0
    columns = 0
    for j in range(F):
        luck = not wide and uniform(state) < RANDOM_FEATURE_RATE
        if (wide or luck or build.split_gain[j] > 0.0) and _varies(bins, j):
            build.columns[columns] = j
            codes, whole = int(bins.counts[j]) + 1, int(build.cursor[BINS])
            narrow = whole < CODES and codes > whole - 1
            build.half_bins[columns] = narrow
            width = codes + 1 if codes <= FEW_CODES else whole
            build.first_bins[columns + 1] = int(build.first_bins[columns]) + width
            build.cursor[BINS_SCANNED] += (
                FEW_CODES_BINS + 2 * codes if codes <= FEW_CODES else whole
            )
            columns += 1
    return columns


@kernel
def mark_top_features(gains: Vec, goal: float, marks: Vec) -> None:
    """Put 1 in marks (F,) for the features of largest gain that have `goal` of it together, LEAST
    of them at least and of equal ones the first; 0 for others.

    The smallest gain of these is found by halving what it may be: to take the largest again and
    again cost 11 ms of 7,000 features.
    """
    F = gains.shape[0]
    low, high = 0.0, 0.0
    for j in range(F):
        high = max(high, gains[j])
    high *= 2.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        count, covered = 0, 0.0
        for j in range(F):
            richer = gains[j] >= middle
            count += richer
            covered += gains[j] if richer else 0.0
        if covered >= goal and count >= MIN_FEATURES:
            low = middle
        else:
            high = middle
    count, covered = 0, 0.0
    for j in range(F):
        marks[j] = 1.0 if gains[j] >= high else 0.0
        count += gains[j] >= high
        covered += gains[j] if gains[j] >= high else 0.0
    for j in range(F):  # those between are as good as equal
        if low <= gains[j] < high and (covered < goal or count < MIN_FEATURES):
            marks[j] = 1.0
            count += 1
            covered += gains[j]


@kernel
def _varies(bins: Any, j: int) -> bool:
    return bool(
        bins.counts[j] > 0 or (bins.has_missing[j] > 0 and bins.lowest[j] <= bins.highest[j])
    )


@kernel
def rebuild_tree(bank: Any, build: Any, loss: Any, k: int, most: float) -> float:
    """Do a piece of work on the tree of structure k that is being grown, for some `most` ns, with
    the window as it was when the tree was begun; return the ns it took.

    Of what events change meanwhile nothing is looked at, and nothing of theirs changed: another
    thread may do it.
    """
    params, window = bank.params, bank.window
    at, prefix = build.cursor, window.prefix[k]
    limits, room = (params.depth[k], params.min_hessian[k], params.l2[k]), float(most)
    while room > 0.0 and at[STEP] != GROWN:
        if at[STEP] == FIT_BASE_SCORE:
            room -= _fit_base_score(window.labels, window.weights, build, int(params.link[()]))
        elif at[STEP] == RESET_PREFIX:
            room -= _reset_prefix(prefix, build)
        elif at[STEP] == DRAW_ROWS:
            room -= _draw_rows(window, prefix, build, (loss, int(params.link[()]), room))
        elif at[STEP] == GROW_TREE:
            room, done = grow(build, limits, int(at[COLUMNS]), room)
            if done:
                store_tree(build, float(params.l2[k]), float(params.eta[k]), bank.bins.edges)
                at[STEP] = ADD_TO_PREFIX
        else:
            room -= add_tree_to_prefixes(
                window.codes, prefix, build, (int(at[END]), int(limits[0]), room)
            )
            if at[DONE] == at[END]:
                at[STEP] = GROWN
                for i in range(build.positions.shape[0]):
                    build.positions[i] = 0  # how the work was cut into pieces must not show
    return float(most) - room


@kernel
def _fit_base_score(labels: Vec, weights: Vec, build: Any, link: int) -> float:
    """Find where the structure starts: the constant that serves the window best (`best_constant`)."""
    total, said, first, end = (
        build.scale[WEIGHT_SUM],
        build.scale[LABEL_SUM],
        build.cursor[DONE],
        build.cursor[END],
    )
    s, last = _ring_span(
        int(first), min(int(end), int(first) + int(SLICE_NS / LABEL_NS)), labels.shape[0]
    )
    for i in range(s, s + last - first):
        total += weights[i]
        said += weights[i] * labels[i]
    build.scale[WEIGHT_SUM], build.scale[LABEL_SUM] = total, said
    build.cursor[DONE] = last
    if last == end:
        build.scale[BASE_SCORE] = best_constant(link, float(total), float(said))
        build.cursor[STEP], build.cursor[DONE] = RESET_PREFIX, build.cursor[FROM]
    return float((last - first) * LABEL_NS)


@kernel
def best_constant(link: int, weight: float, total: float) -> float:
    """Return the starting score of labels of that weight and sum: mean, log-odds or logarithm."""
    if link == 1:  # labels -1 and 1
        positive = 0.5 * (weight + total)
        return math.log((positive + 1.0) / (weight - positive + 1.0))
    if link == 2:
        return math.log((total + 1.0) / (weight + 1.0))
    return total / weight if weight > 0.0 else 0.0


@kernel
def _ring_span(first: int, last: int, R: int) -> tuple[int, int]:
    """Return where event `first` stands in a ring of R, and what is left of [first, last) up to
    where the ring begins again.
    """
    s = first % R
    return s, min(last, first + R - s)


@kernel
def _reset_prefix(prefix: Vec, build: Any) -> float:
    first, end = int(build.cursor[DONE]), int(build.cursor[END])
    s, last = _ring_span(first, min(end, first + int(SLICE_NS / LABEL_NS)), prefix.shape[0])
    for i in range(s, s + last - first):
        prefix[i] = build.scale[BASE_SCORE]
    build.cursor[DONE] = last
    if last == end:
        build.cursor[STEP] = DRAW_ROWS
    return float((last - first) * LABEL_NS)


@kernel
def _draw_rows(window: Any, prefix: Vec, build: Any, how: Any) -> float:
    """Copy the chosen columns of one event from each of n equal stretches of the window, with slope
    and hessian of the loss at the prefix.
    """
    at, (loss, link, room) = build.cursor, how
    R, n, columns = prefix.shape[0], int(at[ROWS]), int(at[COLUMNS])
    first = int(at[DRAWN])
    cost = COPY_ROW_NS + 0.75 * columns
    last = min(n, first + 16 + int(room / cost))
    begins, m = int(at[FROM]) % R, int(at[SPAN])
    stretch, shift = m / n, code_shift(build, columns)
    for i in range(first, last):
        place = i if n == m else min(int((i + uniform(build.generator)) * stretch), m - 1)
        s = begins + place
        s = s - R if s >= R else s
        build.gradients[i], build.hessians[i] = prefix[s], window.labels[s]
        build.weights[i] = window.weights[s]
        row = build.codes[i * columns : (i + 1) * columns]
        copy_codes(window.codes[s], build, shift, row)
    _gradients_hessians(loss, link, build, (first, last))
    at[DRAWN] = last
    if last == n:
        pack(build, n)
        init_root(build, n, columns)
        at[STEP], at[DONE] = GROW_TREE, at[FROM]
        return float((last - first) * cost + n * PACK_NS)
    return float((last - first) * cost)


@kernel
def _gradients_hessians(loss: Any, link: int, build: Any, span: Any) -> None:
    """Put slope and hessian in the place of prefix and label, and note the largest of each.

    Where scores are numbers, both are in the hessian of a typical residual: what a leaf needs at
    least, and what is added to hessians, are numbers of events, whatever labels are measured in.
    """
    (first, last), unit = span, float(build.scale[RESIDUAL_UNIT])
    share = 1.0 / newton_curvature(loss, 0.0, unit, unit) if link == NUMBERS else 1.0
    slopes, bends, weights = build.gradients[first:last], build.hessians[first:last], build.weights
    for i in range(last - first):
        f, y, w = float(slopes[i]), float(bends[i]), weights[first + i]
        _, g, _ = value_gradient_hessian(loss, f, y)
        slopes[i] = w * g * share
        bends[i] = w * newton_curvature(loss, f, y, unit) * share
    top, most = build.scale[MAX_GRADIENT], build.scale[MAX_HESSIAN]
    for i in range(last - first):
        top = max(top, abs(slopes[i]))
        most = max(most, bends[i])
    build.scale[MAX_GRADIENT], build.scale[MAX_HESSIAN] = top, most


@kernel
def code_shift(build: Any, columns: int) -> int:
    """Return by how many bits the codes of all chosen columns are shifted, 0 or 1; -1 where that
    is not all: where columns differ, or have fewer bins than codes.
    """
    bins, narrow = int(build.cursor[BINS]), 0
    for j in range(columns):
        narrow += build.half_bins[j]
    if int(build.first_bins[columns]) != columns * bins:
        return -1
    if narrow == columns and 2 * bins == CODES:
        return 1
    return 0 if bins == CODES else -1


@kernel
def copy_codes(codes: Any, build: Any, shift: int, row: Any) -> None:
    """Fill a row with an event's codes (d,) in the chosen columns, in as many bins as these have;
    where `shift` (`code_shift`) is not -1, all are shifted by so much.
    """
    chosen, narrow, starts = build.columns, build.half_bins, build.first_bins
    if shift == 0:
        for j in range(row.shape[0]):
            row[j] = codes[chosen[j]]
    elif shift == 1:
        for j in range(row.shape[0]):
            row[j] = codes[chosen[j]] >> 1
    else:
        for j in range(row.shape[0]):
            # as int64: numba takes signed and unsigned numbers together for floats
            code = INT(codes[chosen[j]]) >> narrow[j]
            row[j] = min(code, INT(starts[j + 1] - starts[j]) - 1)


@kernel
def add_tree_to_prefixes(codes: Any, prefix: Vec, build: Any, how: Any) -> float:
    """Add the new tree to the prefixes of events before t, oldest first; return the ns it took."""
    t, D, room = how
    R, each = prefix.shape[0], D * (STEP_NS if codes.shape[1] <= CACHED_COLUMNS else STEP_FAR_NS)
    first = int(build.cursor[DONE])
    s, last = _ring_span(first, min(t, first + 64 + int(room / each)), R)
    e = s + last - first
    add_to_prefix(build, D, codes[s:e], prefix[s:e])
    build.cursor[DONE] = last
    return float((last - first) * each)
