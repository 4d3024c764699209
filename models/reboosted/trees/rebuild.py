"""Regrowing trees one after the other, in boosting order, at a pace set by a cost model.

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
from kaboost.models.reboosted.state import CODES, NUMBERS, ahead
from kaboost.models.reboosted.trees.grower import BINS, NARROW, PLACES, UNIT, finish, grow, plant
from kaboost.models.reboosted.trees.histogram import FEW, pack
from kaboost.models.reboosted.trees.traverse import raise_prefix
from kaboost.models.types import INT, Vec
from kaboost.models.verbs import newton_curvature, value_gradient_hessian

# Places in Work.at: the step, rows drawn of n, columns, where the window begins and how far it is
# done, whether all features are looked at, how many events the window had, and how many came before
# its end.
STEP, DRAWN, ROWS, COLUMNS, FROM, DONE, WIDE, SPAN, END = *range(8), 18
IDLE, CENTRE, RESET, DRAW, GROW, RAISE, GROWN = range(7)
TOP, BENT, WEIGHT, SAID, Y0 = 0, 1, 4, 5, 6  # in Work.scale; 2 and 3 are packed units
# In Pace.busy: no tree, one that takes its place as soon as it is grown, one that does so at the
# event that is due, and the same once it is grown.
REST, HERE, APART, WAITING = range(4)
PIECE, EVENT = 300_000.0, 900_000.0  # ns of work on one tree, and on all trees, in one event
SURE = 4.0  # times over a tree that is grown apart could be, as its cost is told, before it is due
FEW_ROWS = 4000  # up to which histograms are of half the size
ENOUGH = 50  # events before the first tree
WIDE_EVERY = 16  # of the trees look at every feature
KEPT, COVERED, LEAST, LUCK = 0.7, 0.95, 6, 0.1  # screening of features: see `choose_columns`
START_BOOST, START_EVENTS = 9.0, 4000.0  # more work while little is known, soon fading
START_HASTE = 0.5  # and so many fewer of the events that a sweep takes at least
SHORT_HASTE = 0.25  # of short windows: they are swept often, and what leaves learned is lost
MANY_COLUMNS = 250.0  # that are there, from which on the budget grows with them
BEFORE = 200  # events before an alarm that are taken for new
HALVINGS = 40  # till gains are told apart to 1e-12 of the largest
FEW_CALLS = 3  # places whose time it takes to go to a column of few codes at all
SEE, COPY, MOVE, CHOICE = 1.5, 40.0, 3.0, 50.0  # ns: a label, a row, a packed number, a feature
DESCENT, DESCENT_FAR = 1.8, 9.0  # ns a step down, and where rows are not NARROW


@kernel
def seen(plan: Any, pace: Any, k: int, t: int, R: int) -> int:
    """Return the events in structure k's window after t events.

    The first structure looks back no further than a little before the last alarm: where the stream
    has changed for good it is rid of the past, and where it has not the others still have it.
    """
    m = min(t, R, int(plan.window[k]))
    if k == 0 and pace.alarm[()] > 0:
        m = min(m, t - int(pace.alarm[()]) + BEFORE)
    return m


@kernel
def sample_size(plan: Any, k: int, m: int) -> int:
    """Return how many of m events a tree sees."""
    return min(m, max(int(plan.least_rows[k]), int(plan.part[k] * m)))


@kernel
def bins_of(plan: Any, k: int, n: int) -> int:
    """Return the bins of a tree over n rows: few rows do not fill many."""
    return int(plan.bins[k]) if n > FEW_ROWS else 32


@kernel
def cost_of(plan: Any, pace: Any, k: int, m: int) -> float:
    """Return the ns that one tree of structure k costs over a window of m events, on the whole:
    this sets the pace. What pieces are said to cost, as if all were far, bounds an event.
    """
    n, columns = float(sample_size(plan, k, m)), float(pace.chosen[k])
    leaves = float(pace.leaves[k])
    rows = n * (COPY + columns * 0.4 * (1.0 + 0.4 * math.log2(leaves)) + 12.0)
    scans = 2.0 * leaves * float(pace.places[k]) * 1.3
    return rows + scans + m * 0.8 * float(plan.depth[k])


@kernel
def set_pace(plan: Any, pace: Any, sizes: Any, t: int, R: int) -> None:
    """Spread a sweep over all trees of a structure over so many events that its work fits its
    share of the budget, and over a window at least, part of one while little is known; sizes (K,)
    are the numbers of trees.
    """
    since = t - int(pace.alarm[()])
    wide = max(1.0, pace.filled[()] / MANY_COLUMNS)  # such an event costs that much as well
    total = plan.budget[()] * wide
    start = min(1.0, START_EVENTS / (since + 1.0))
    total *= 1.0 + START_BOOST * start * math.sqrt(start)
    pace.total[()] = total
    for k in range(plan.window.shape[0]):
        m = seen(plan, pace, k, t, R)
        trees = float(sizes[k])
        haste = START_HASTE if int(plan.window[k]) >= R - ahead(R) else SHORT_HASTE
        least = (1.0 - haste * start) * m
        sweep = max(least, trees * cost_of(plan, pace, k, m) / (total * pace.share[k]))
        pace.step[k] = trees / max(sweep, 1.0) if m >= ENOUGH else 0.0


@kernel
def share_out(plan: Any, pace: Any) -> None:
    """Give half of the work to the structures that do better now."""
    K, E = pace.losses.shape
    total = 0.0
    least = math.inf
    for k in range(K):
        for e in range(E):
            least = min(least, pace.losses[k, e])
    for k in range(K):
        best = math.inf
        for e in range(E):
            best = min(best, pace.losses[k, e])
        pace.share[k] = math.exp(-0.1 * (best - least))
        total += pace.share[k]
    for k in range(K):
        pace.share[k] = 0.5 * plan.share[k] + 0.5 * pace.share[k] / total


@kernel
def begin(plan: Any, pace: Any, bins: Any, work: Any, now: Any) -> float:
    """Start on the next tree of structure k after t events, in a ring of R, where `unit` is a
    typical residual: `now` is k, t, R, unit. Return the ns it took.

    A tree that takes long is due only when the work of an event has gone into it so often, one
    after the other: till then it may be grown by whom and when it suits. It is not due before
    pieces between the events would have done it, all structures in turn, some times over.
    """
    at, (k, t, R, unit) = work.at, now
    m = seen(plan, pace, k, t, R)
    at[FROM], at[DONE], at[DRAWN], at[END] = t - m, t - m, 0, t
    at[ROWS], at[SPAN] = sample_size(plan, k, m), m
    at[BINS] = bins_of(plan, k, int(at[ROWS]))
    at[WIDE] = pace.grown[k] % WIDE_EVERY == 0
    at[COLUMNS] = choose_columns(pace.gains[k, : plan.features[k]], pace.state, bins, work)
    pace.chosen[k], pace.places[k] = at[COLUMNS], at[PLACES]
    pace.credit[k] -= 1.0
    for place in range(8):
        work.scale[place] = 0.0
    work.scale[UNIT] = unit
    reseed(work.state, pace.state)
    at[STEP] = CENTRE if pace.cursor[k] == 0 else DRAW
    cost, last = cost_of(plan, pace, k, m), t
    for other in range(pace.due.shape[0]):
        last = max(last, int(pace.due[other]))
    soonest = t + 1 + int(SURE * pace.due.shape[0] * cost / PIECE)
    pace.busy[k] = HERE
    if cost >= plan.apart[()] and soonest <= t + ahead(R):
        pace.busy[k], pace.soonest[k] = APART, soonest
        due = last + 1 + int(cost / pace.total[()])
        pace.due[k] = max(min(due, t + ahead(R)), soonest)
    return CHOICE * int(plan.features[k])


@kernel
def choose_columns(gains: Vec, state: Any, bins: Any, work: Any) -> int:
    """Fill work.columns with the features this tree looks at, of those with gains (F,); return how
    many.

    Every 16th tree looks at all. The others take features in falling order of gain until 95 % of it
    are covered, six at least, and each of the rest with probability .1.
    """
    F = gains.shape[0]
    total = 0.0
    for j in range(F):
        total += gains[j]
    wide = work.at[WIDE] > 0 or not total > 0.0
    if not wide:
        mark_richest(gains, COVERED * total, work.won)
    work.at[PLACES] = 0
    columns = 0
    for j in range(F):
        luck = not wide and uniform(state) < LUCK
        if (wide or luck or work.won[j] > 0.0) and _varies(bins, j):
            work.columns[columns] = j
            codes, whole = int(bins.counts[j]) + 1, int(work.at[BINS])
            narrow = whole < CODES and codes > whole - 1
            work.narrow[columns] = narrow
            width = codes + 1 if codes <= FEW else whole
            work.starts[columns + 1] = int(work.starts[columns]) + width
            work.at[PLACES] += FEW_CALLS + 2 * codes if codes <= FEW else whole
            columns += 1
    return columns


@kernel
def mark_richest(gains: Vec, goal: float, marks: Vec) -> None:
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
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        count, covered = 0, 0.0
        for j in range(F):
            richer = gains[j] >= middle
            count += richer
            covered += gains[j] if richer else 0.0
        if covered >= goal and count >= LEAST:
            low = middle
        else:
            high = middle
    count, covered = 0, 0.0
    for j in range(F):
        marks[j] = 1.0 if gains[j] >= high else 0.0
        count += gains[j] >= high
        covered += gains[j] if gains[j] >= high else 0.0
    for j in range(F):  # those between are as good as equal
        if low <= gains[j] < high and (covered < goal or count < LEAST):
            marks[j] = 1.0
            count += 1
            covered += gains[j]


@kernel
def _varies(bins: Any, j: int) -> bool:
    return bool(bins.counts[j] > 0 or (bins.lost[j] > 0 and bins.lowest[j] <= bins.highest[j]))


@kernel
def regrow(bank: Any, work: Any, loss: Any, k: int, most: float) -> float:
    """Do a piece of work on the tree of structure k that is being grown, for some `most` ns, with
    the window as it was when the tree was begun; return the ns it took.

    Of what events change meanwhile nothing is looked at, and nothing of theirs changed: another
    thread may do it.
    """
    plan, window = bank.plan, bank.window
    at, prefix = work.at, window.prefix[k]
    limits, room = (plan.depth[k], plan.least_h[k], plan.lam[k]), float(most)
    while room > 0.0 and at[STEP] != GROWN:
        if at[STEP] == CENTRE:
            room -= _centre(window.labels, window.weights, work, int(plan.link[()]))
        elif at[STEP] == RESET:
            room -= _reset(prefix, work)
        elif at[STEP] == DRAW:
            room -= _draw(window, prefix, work, (loss, int(plan.link[()]), room))
        elif at[STEP] == GROW:
            room, done = grow(work, limits, int(at[COLUMNS]), room)
            if done:
                finish(work, float(plan.lam[k]), float(plan.eta[k]), bank.bins.edges)
                at[STEP] = RAISE
        else:
            room -= raise_some(window.codes, prefix, work, (int(at[END]), int(limits[0]), room))
            if at[DONE] == at[END]:
                at[STEP] = GROWN
                for i in range(work.places.shape[0]):
                    work.places[i] = 0  # how the work was cut into pieces must not show
    return float(most) - room


@kernel
def _centre(labels: Vec, weights: Vec, work: Any, link: int) -> float:
    """Find where the structure starts: the constant that serves the window best (`origin`)."""
    total, said, first, end = work.scale[WEIGHT], work.scale[SAID], work.at[DONE], work.at[END]
    s, last = _run_from(int(first), min(int(end), int(first) + int(PIECE / SEE)), labels.shape[0])
    for i in range(s, s + last - first):
        total += weights[i]
        said += weights[i] * labels[i]
    work.scale[WEIGHT], work.scale[SAID] = total, said
    work.at[DONE] = last
    if last == end:
        work.scale[Y0] = origin(link, float(total), float(said))
        work.at[STEP], work.at[DONE] = RESET, work.at[FROM]
    return float((last - first) * SEE)


@kernel
def origin(link: int, weight: float, total: float) -> float:
    """Return the starting score of labels of that weight and sum: mean, log-odds or logarithm."""
    if link == 1:  # labels -1 and 1
        positive = 0.5 * (weight + total)
        return math.log((positive + 1.0) / (weight - positive + 1.0))
    if link == 2:
        return math.log((total + 1.0) / (weight + 1.0))
    return total / weight if weight > 0.0 else 0.0


@kernel
def _run_from(first: int, last: int, R: int) -> tuple[int, int]:
    """Return where event `first` stands in a ring of R, and what is left of [first, last) up to
    where the ring begins again.
    """
    s = first % R
    return s, min(last, first + R - s)


@kernel
def _reset(prefix: Vec, work: Any) -> float:
    first, end = int(work.at[DONE]), int(work.at[END])
    s, last = _run_from(first, min(end, first + int(PIECE / SEE)), prefix.shape[0])
    for i in range(s, s + last - first):
        prefix[i] = work.scale[Y0]
    work.at[DONE] = last
    if last == end:
        work.at[STEP] = DRAW
    return float((last - first) * SEE)


@kernel
def _draw(window: Any, prefix: Vec, work: Any, how: Any) -> float:
    """Copy the chosen columns of one event from each of n equal stretches of the window, with slope
    and hessian of the loss at the prefix.
    """
    at, (loss, link, room) = work.at, how
    R, n, columns = prefix.shape[0], int(at[ROWS]), int(at[COLUMNS])
    first = int(at[DRAWN])
    cost = COPY + 0.75 * columns
    last = min(n, first + 16 + int(room / cost))
    begins, m = int(at[FROM]) % R, int(at[SPAN])
    stretch, shift = m / n, shift_of(work, columns)
    for i in range(first, last):
        place = i if n == m else min(int((i + uniform(work.state)) * stretch), m - 1)
        s = begins + place
        s = s - R if s >= R else s
        work.slopes[i], work.bends[i] = prefix[s], window.labels[s]
        work.weights[i] = window.weights[s]
        row = work.codes[i * columns : (i + 1) * columns]
        copy_codes(window.codes[s], work, shift, row)
    _derive(loss, link, work, (first, last))
    at[DRAWN] = last
    if last == n:
        pack(work, n)
        plant(work, n, columns)
        at[STEP], at[DONE] = GROW, at[FROM]
        return float((last - first) * cost + n * MOVE)
    return float((last - first) * cost)


@kernel
def _derive(loss: Any, link: int, work: Any, span: Any) -> None:
    """Put slope and hessian in the place of prefix and label, and note the largest of each.

    Where scores are numbers, both are in the hessian of a typical residual: what a leaf needs at
    least, and what is added to hessians, are numbers of events, whatever labels are measured in.
    """
    (first, last), unit = span, float(work.scale[UNIT])
    share = 1.0 / newton_curvature(loss, 0.0, unit, unit) if link == NUMBERS else 1.0
    slopes, bends, weights = work.slopes[first:last], work.bends[first:last], work.weights
    for i in range(last - first):
        f, y, w = float(slopes[i]), float(bends[i]), weights[first + i]
        _, g, _ = value_gradient_hessian(loss, f, y)
        slopes[i] = w * g * share
        bends[i] = w * newton_curvature(loss, f, y, unit) * share
    top, most = work.scale[TOP], work.scale[BENT]
    for i in range(last - first):
        top = max(top, abs(slopes[i]))
        most = max(most, bends[i])
    work.scale[TOP], work.scale[BENT] = top, most


@kernel
def shift_of(work: Any, columns: int) -> int:
    """Return by how many bits the codes of all chosen columns are shifted, 0 or 1; -1 where that
    is not all: where columns differ, or have fewer bins than codes.
    """
    bins, narrow = int(work.at[BINS]), 0
    for j in range(columns):
        narrow += work.narrow[j]
    if int(work.starts[columns]) != columns * bins:
        return -1
    if narrow == columns and 2 * bins == CODES:
        return 1
    return 0 if bins == CODES else -1


@kernel
def copy_codes(codes: Any, work: Any, shift: int, row: Any) -> None:
    """Fill a row with an event's codes (d,) in the chosen columns, in as many bins as these have;
    where `shift` (`shift_of`) is not -1, all are shifted by so much.
    """
    chosen, narrow, starts = work.columns, work.narrow, work.starts
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
def raise_some(codes: Any, prefix: Vec, work: Any, how: Any) -> float:
    """Add the new tree to the prefixes of events before t, oldest first; return the ns it took."""
    t, D, room = how
    R, each = prefix.shape[0], D * (DESCENT if codes.shape[1] <= NARROW else DESCENT_FAR)
    first = int(work.at[DONE])
    s, last = _run_from(first, min(t, first + 64 + int(room / each)), R)
    e = s + last - first
    raise_prefix(work, D, codes[s:e], prefix[s:e])
    work.at[DONE] = last
    return float((last - first) * each)
