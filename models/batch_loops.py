"""Compiled loops over the events of a batch: learn, predict, prefixes, losses (specification,
section 0).
"""

from __future__ import annotations

import math

import numpy as np

from kaboost.models.evaluation.progress import Progress, measure, observe
from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.kernels.numeric import fill
from kaboost.models.types import (
    TARGET_LIMIT,
    Bank,
    EventScratch,
    Loss,
    Mat,
    Mat3,
    Rule,
    SingleScratch,
    Vec,
)
from kaboost.models.verbs import (
    bank_scratch_rows,
    combine,
    combine_served,
    inverse_link,
    learn,
    learn_sequentially,
    observe_average,
    observe_features,
    predict,
    predict_served,
    prediction_bound,
    prefix_losses,
    rule_scratch_size,
    served_loss,
    targets,
    to_prediction,
    update_rule,
    update_shared,
)


def allocate(bank: Bank, rule: Rule, m: int, N: int) -> EventScratch:
    """Return the scratch for a bank of N learners with m outputs."""
    rows = bank_scratch_rows(bank)
    return EventScratch(
        h=np.empty((m, N)),
        F=np.empty((m, N + 1)),
        G=np.empty((m, N + 1)),
        L=np.empty(N + 1),
        T=np.empty((m, N)),
        W=np.empty(N),
        sound=np.empty(N),
        bank_scratch=np.empty((rows, N)),
        rule_scratch=np.empty(rule_scratch_size(rule)),
        single=SingleScratch(np.empty((m, 1)), np.empty((m, 1)), np.empty(1), np.empty((rows, 1))),
    )


@kernel
def learn_events(
    bank: Bank,
    rule: Rule,
    loss: Loss,
    seen: Progress,
    events: tuple[Mat, Mat, Vec],
    a: EventScratch,
    scores: Mat,
) -> None:
    """Fill scores (B, m) for events (X, Y, W), and learn each event of positive weight."""
    X, Y, weights = events
    for k in range(X.shape[0]):
        x, y, w = X[k], Y[k], weights[k]
        if w > 0.0:
            observe_average(bank, rule, loss, x, y, w, seen, a, scores[k])
        predict(bank, x, a.h, a.bank_scratch)
        bad = sanitise(a.h, a.sound)
        combine(rule, a.h, a.F, scores[k], a.rule_scratch)
        if w > 0.0:
            prefix_losses(rule, loss, a.F, y, a.G, a.L)
            observe(seen, _loss_of_served(rule, loss, scores[k], y, a), a.L, w)
            fill(a.W, w)
            targets(rule, loss, y, a.h, a.F, a.G, a.T, a.W, a.rule_scratch)
            if bad + count_large_targets(a.T) > 0:
                clip_targets(seen, a.T, a.W, bad, a.sound)
            measure(seen, a.h, a.T, a.W, rule.mode, prediction_bound(rule), w)
            learn(bank, x, a.h, a.T, a.W, rule.mode, a.bank_scratch)
            update_rule(rule, loss, y, a.h, a.F, a.G, w, a.rule_scratch)


@inlined
def _loss_of_served(rule: Rule, loss: Loss, s: Vec, y: Vec, a: EventScratch) -> float:
    """Return the loss of the served score s (m,): that of the last prefix where they are equal."""
    last = a.L.shape[0] - 1
    equal = True
    for c in range(s.shape[0]):
        equal = equal and s[c] == a.F[c, last]
    return a.L[last] if equal else served_loss(rule, loss, s, y)  # type: ignore[no-any-return]


@kernel
def learn_events_sequentially(
    bank: Bank,
    rule: Rule,
    loss: Loss,
    seen: Progress,
    events: tuple[Mat, Mat, Vec],
    a: EventScratch,
    scores: Mat,
) -> None:
    """Do what `learn_events` does for rules that look at a learner's prediction after it learned
    (docs/adr/0010).
    """
    X, Y, weights = events
    for k in range(X.shape[0]):
        x, y, w = X[k], Y[k], weights[k]
        predict(bank, x, a.h, a.bank_scratch)
        bad = sanitise(a.h, a.sound)
        combine(rule, a.h, a.F, scores[k], a.rule_scratch)
        if w > 0.0:
            prefix_losses(rule, loss, a.F, y, a.G, a.L)
            observe(seen, served_loss(rule, loss, scores[k], y), a.L, w)
            update_shared(bank, x)
            learn_sequentially(rule, bank, y, x, w, a.T, a.W, a.single)
            if bad + count_large_targets(a.T) > 0:
                clip_targets(seen, a.T, a.W, bad, a.sound)
            measure(seen, a.h, a.T, a.W, rule.mode, 1.0, w)


@kernel
def predict_events(
    bank: Bank, rule: Rule, X: Mat, sizes: tuple[int, int, int], scores: Mat
) -> None:
    """Fill scores (B, m) for X (B, d); `sizes` are learners, rows of bank scratch, rule scratch."""
    # Scratch is allocated here: passing it from Python would add 5 us to a prediction.
    m, (N, rows, size) = scores.shape[1], sizes
    h, F, sound, bank_scratch = (
        np.empty((m, N)),
        np.empty((m, N + 1)),
        np.empty(N),
        np.empty((rows, N)),
    )
    rule_scratch = np.empty(size)
    for k in range(X.shape[0]):
        predict_served(bank, X[k], h, bank_scratch)
        sanitise(h, sound)
        observe_features(rule, X[k], rule_scratch)
        combine_served(rule, h, F, scores[k], rule_scratch)


@kernel
def fill_prefixes(bank: Bank, rule: Rule, X: Mat, a: EventScratch, sums: Mat3) -> None:
    """Fill sums (B, N+1, m) with the score of every prefix for X (B, d)."""
    yhat = np.empty(a.h.shape[0])
    for k in range(X.shape[0]):
        predict_served(bank, X[k], a.h, a.bank_scratch)
        sanitise(a.h, a.sound)
        observe_features(rule, X[k], a.rule_scratch)
        combine_served(rule, a.h, a.F, yhat, a.rule_scratch)
        for c in range(a.F.shape[0]):
            for i in range(a.F.shape[1]):
                sums[k, i, c] = a.F[c, i]


@kernel
def link_many(loss: Loss, scores: Mat, linked: Mat) -> None:
    """Fill linked (B, m) with the inverse link of scores (B, m)."""
    for k in range(scores.shape[0]):
        inverse_link(loss, scores[k], linked[k])


@kernel
def predict_scores(rule: Rule, loss: Loss, scores: Mat, linked: Mat) -> None:
    """Fill linked (B, m) with the predictions of scores (B, m) under rule and loss."""
    for k in range(scores.shape[0]):
        to_prediction(rule, loss, scores[k], linked[k])


@kernel
def fill_losses(rule: Rule, loss: Loss, scores: Mat, Y: Mat, losses: Vec) -> None:
    """Fill losses (B,) of scores (B, m) for encoded labels Y (B, k)."""
    for k in range(scores.shape[0]):
        losses[k] = served_loss(rule, loss, scores[k], Y[k])


@kernel
def sanitise(h: Mat, sound: Vec) -> int:
    """Replace values of h (m, N) that are not finite by 0; return how many there were.

    If there are any, sound (N,) is filled: 0 for their learners, 1 for the others. A diverged
    learner must not spoil the partial sums of those after it.
    """
    m, N = h.shape
    bad = 0
    for c in range(m):
        for i in range(N):
            bad += not abs(h[c, i]) < math.inf
    if bad > 0:
        fill(sound, 1.0)
        for c in range(m):
            for i in range(N):
                if not abs(h[c, i]) < math.inf:
                    h[c, i] = 0.0
                    sound[i] = 0.0
    return bad


@kernel
def count_large_targets(T: Mat) -> int:
    """Return how many targets T (m, N) are beyond +-1e6 or not finite."""
    m, N = T.shape
    count = 0
    for c in range(m):
        for i in range(N):
            count += not abs(T[c, i]) <= TARGET_LIMIT
    return count


@kernel
def clip_targets(seen: Progress, T: Mat, W: Vec, bad: int, sound: Vec) -> None:
    """Clip targets T (m, N) to +-1e6, and set the weight of a learner to 0 whose h or target is not
    finite; count both in `seen`. `bad` and `sound` are the results of `sanitise`.
    """
    m, N = T.shape
    if bad == 0:
        fill(sound, 1.0)
    for c in range(m):
        for i in range(N):
            if not abs(T[c, i]) < math.inf:
                T[c, i] = 0.0
                sound[i] = 0.0
            elif abs(T[c, i]) > TARGET_LIMIT:
                T[c, i] = TARGET_LIMIT if T[c, i] > 0.0 else -TARGET_LIMIT
                seen.clipped[()] += 1
    for i in range(N):
        if sound[i] == 0.0:
            W[i] = 0.0
            seen.skipped[()] += 1
