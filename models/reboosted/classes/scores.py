"""Scores of an event for every class: log-odds of the class by all learners, their mixture, and its
calibration.

The learning pass uses the same functions, before it looks at the label.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.kernels.jit import inlined, kernel
from kaboost.models.kernels.numeric import exp_negative, log1p_unit, sigmoid
from kaboost.models.reboosted.calibration import Calibration, served_log_odds
from kaboost.models.reboosted.classes.leaves import learner_logits, sum_leaves
from kaboost.models.reboosted.classes.state import (
    LEARNERS,
    Singles,
    class_calibration,
    served_filters,
    served_stack,
)
from kaboost.models.reboosted.ensemble import LINEAR_SCORES
from kaboost.models.reboosted.linear import LinearFilters
from kaboost.models.reboosted.linear_inputs import InputRow
from kaboost.models.reboosted.linear_learners import scores as line_scores
from kaboost.models.reboosted.predict import last_label
from kaboost.models.reboosted.stacking import (
    MAX_LOG_ODDS,
    Stack,
    expert_scores,
    filter_inputs,
    mixture,
)
from kaboost.models.reboosted.state import LOG_ODDS, Trees
from kaboost.models.types import Ints, Mat, Mat3, Vec

TINY = 1e-300  # keeps logarithms finite


class ClassScratch(NamedTuple):
    """Scratch of one event of C classes; n scores a class, S experts, R filter inputs."""

    totals: Vec  # (5C,) sums over the leaves of one structure
    logits: Mat3  # (K, 5, C)
    probabilities: Mat3  # (K, 5, C)
    prefixes: Mat  # (K, C) logits of the trees before the cursor
    scores: Mat  # (C, n) log-odds
    experts: Mat  # (C, S)
    inputs: Mat  # (C, R)
    odds: Vec  # (C,) of one learner
    mixed: Vec  # (C,)
    served: Vec  # (C,) probabilities, which sum to 1
    weights: Vec  # (max(n, S),)
    score_losses: Vec  # (n,) of one class
    score_gradients: Vec  # (n,)
    expert_losses: Vec  # (S,)
    gain: Vec  # (R,)
    steps: Singles  # (5C,)
    squares: Vec  # (C,)


def class_scratch(K: int, C: int, stack: Stack) -> ClassScratch:
    """Return scratch for events of C classes."""
    n, S, R = K * LEARNERS + LINEAR_SCORES, stack.mixture_losses.shape[1], stack.weights.shape[2]
    return ClassScratch(
        totals=np.zeros(LEARNERS * C), logits=np.zeros((K, LEARNERS, C)),
        probabilities=np.zeros((K, LEARNERS, C)), prefixes=np.zeros((K, C)),
        scores=np.zeros((C, n)), experts=np.zeros((C, S)), inputs=np.zeros((C, R)),
        odds=np.zeros(C), mixed=np.zeros(C), served=np.zeros(C), weights=np.zeros(max(n, S)),
        score_losses=np.zeros(n), score_gradients=np.zeros(n), expert_losses=np.zeros(S),
        gain=np.zeros(R), steps=np.zeros(LEARNERS * C, np.float32), squares=np.zeros(C),
    )  # fmt: skip


@kernel
def tree_logits(
    structures: tuple[Trees, ...], base: Mat, leaves: NDArray[Any], cursor: Ints, b: ClassScratch
) -> None:
    """Fill b.logits (K, 5, C) of all leaf learners for the leaves (K, N), b.probabilities, and
    b.prefixes of the trees before the cursors (K,).
    """
    for k in range(base.shape[0]):
        rows = structures[k].rows
        for j in range(b.totals.shape[0]):
            b.totals[j] = 0.0
        sum_leaves(rows, leaves[k], 0, int(cursor[k]), b.totals)
        for c in range(base.shape[1]):
            b.prefixes[k, c] = base[k, c] + b.totals[c]
        sum_leaves(rows, leaves[k], int(cursor[k]), rows.shape[0], b.totals)
        learner_logits(b.totals, base[k], b.logits[k])
        for e in range(LEARNERS):
            total = softmax(b.logits[k, e], b.probabilities[k, e])
            _log_odds(b.logits[k, e], b.probabilities[k, e], total, b.odds)
            for c in range(base.shape[1]):
                b.scores[c, k * LEARNERS + e] = b.odds[c]


@kernel
def softmax(logits: Vec, p: Vec) -> float:
    """Fill p (C,) with the probabilities of logits (C,); return the logarithm of the sum of their
    exponentials.
    """
    most, total = logits[0], 0.0
    for c in range(1, logits.shape[0]):
        most = max(most, logits[c])
    for c in range(logits.shape[0]):
        p[c] = exp_negative(logits[c] - most)
    for c in range(logits.shape[0]):
        total += p[c]
    share = 1.0 / total
    for c in range(logits.shape[0]):
        p[c] *= share
    return float(most + math.log(total))


@kernel
def _log_odds(logits: Vec, p: Vec, total: float, odds: Vec) -> None:
    """Fill odds (C,) with the log-odds of every class, clipped; `total` is what `softmax` gave."""
    C, likely = p.shape[0], 0
    for c in range(C):
        low = min(p[c], 0.5)
        z = logits[c] - total + log1p_unit(low / (1.0 - low))
        odds[c] = min(max(z, -MAX_LOG_ODDS), MAX_LOG_ODDS)
    for c in range(1, C):
        likely = c if p[c] > p[likely] else likely
    if p[likely] > 0.5:
        rest = 0.0  # summed: 1 - p would lose the digits of a small one
        for c in range(C):
            rest += p[c] if c != likely else 0.0
        odds[likely] = min(math.log(p[likely] / max(rest, TINY)), MAX_LOG_ODDS)


@inlined
def class_lines(filters: LinearFilters, last: Vec, row: InputRow, b: ClassScratch) -> None:
    """Fill the last of b.scores (C, n): of the linear learners for the event's inputs, and of the
    last label.
    """
    first = b.scores.shape[1] - LINEAR_SCORES
    for c in range(b.scores.shape[0]):
        of_class = served_filters(filters, c)
        slow, fast = line_scores(of_class, row)
        b.scores[c, first] = min(max(slow, -MAX_LOG_ODDS), MAX_LOG_ODDS)
        b.scores[c, first + 1] = min(max(fast, -MAX_LOG_ODDS), MAX_LOG_ODDS)
        b.scores[c, first + 2] = last_label(of_class, float(last[c]), LOG_ODDS)


@inlined
def class_mixtures(
    stack: Stack, calibration: Calibration, calibrated: bool, b: ClassScratch, served: Vec
) -> None:
    """Fill b.mixed (C,) with the mixture of every class's scores, served (C,) with the calibrated
    log-odds, and b.served (C,) with probabilities that sum to 1.
    """
    C, n, total = b.scores.shape[0], b.scores.shape[1], 0.0
    for c in range(C):
        of_class, inputs, experts = served_stack(stack, c), b.inputs[c], b.experts[c]
        filter_inputs(b.scores[c], n, 0.0, 1.0, inputs)
        expert_scores(of_class, inputs, n, 0.0, b.weights, experts)
        z = mixture(of_class, experts, b.weights, True)
        b.mixed[c] = z
        z = served_log_odds(class_calibration(calibration, c), z) if calibrated else z
        served[c] = z
        b.served[c] = sigmoid(z)
        total += b.served[c]
    for c in range(C):
        b.served[c] /= total
