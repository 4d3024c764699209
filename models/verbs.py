"""The verbs that banks, rules and losses implement, with their defaults.

A verb is dispatched by the type of its first argument, in Python and in compiled code alike
(`kaboost.models.kernels.jit.verb`); a part registers its own implementation in its file.
"""

from __future__ import annotations

import math
from functools import partial, singledispatch
from typing import Any, NamedTuple

from kaboost.models.kernels.jit import kernel, unregistered, verb
from kaboost.models.kernels.random import State
from kaboost.models.types import Bank, EventScratch, Loss, Mat, Rule, SingleScratch, Vec


@partial(verb, inline="never")
def value_gradient_hessian(loss: Loss, s: float, z: float) -> tuple[float, float, float]:
    """Return value, gradient and second derivative at one score s for one label z, without l2."""
    raise unregistered("value_gradient_hessian", loss)


@partial(verb, inline="never")
def newton_curvature(loss: Loss, s: float, z: float, unit: float) -> float:
    """Return h >= 1e-3, the curvature that Newton's step divides the gradient by.

    `unit` > 0 is the typical |s - z|, for losses that have no curvature of their own.
    """
    _, _, curve = value_gradient_hessian(loss, s, z)
    return float(max(curve, 1e-3))


@verb
def predict(bank: Bank, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    """Fill h (m, N) with the prediction of each weak learner for x (d,); the bank does not change.

    `bank_scratch` (bank_scratch_rows(bank), N) keeps its contents for the `learn` of the same
    event.
    """
    raise unregistered("predict", bank)


@verb
def learn(
    bank: Bank, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat
) -> None:
    """Move every learner towards its target (m, N) with its weight (N,); h is from `predict`.

    A learner of weight 0 is left unchanged. `target` and `weight` may be overwritten.
    `bank_scratch` is as `predict` left it.
    """
    raise unregistered("learn", bank)


@verb
def predict_served(bank: Bank, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    """Fill h (m, N) with the predictions to serve for x (d,): those of `predict`, unless the bank
    serves an average of its learned weights.
    """
    predict(bank, x, h, bank_scratch)


@verb
def learner_view(bank: Bank, i: int) -> Any:
    """Return learner i as a bank of one: the same type over views of the same arrays."""
    raise unregistered("learner_view", bank)


@verb
def update_shared(bank: Bank, x: Vec) -> None:
    """Update what all learners share with x (d,), before single learners learn from it.

    `learn` does that by itself; the sequential pair `learn_one`, `predict_one` needs it once an
    event.
    """


@verb
def reset_learner(bank: Bank, i: int, state: State) -> None:
    """Reset learner i to its initial state; random parts are drawn from the generator `state`."""
    raise unregistered("reset_learner", bank)


@verb
def combine(rule: Rule, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    """Fill F (m, N+1) with the score of every prefix, and the served score yhat (m,).

    F holds the partial sums for most rules, F[:, 0] = y0. h (m, N) may be clipped in place.
    `rule_scratch` (rule_scratch_size(rule),) keeps its contents for the later verbs of the event.
    """
    raise unregistered("combine", rule)


@verb
def combine_served(rule: Rule, h: Mat, F: Mat, yhat: Vec, rule_scratch: Vec) -> None:
    """Do what `combine` does where nothing will be learned: the same, unless the rule draws its
    served score at random.
    """
    combine(rule, h, F, yhat, rule_scratch)


@verb
def observe_features(rule: Rule, x: Vec, rule_scratch: Vec) -> None:
    """Note what `combine_served` needs to know of the features x (d,), for a rule that draws its
    served score at random.
    """


@verb
def targets(
    rule: Rule, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec, rule_scratch: Vec
) -> None:
    """Fill T (m, N) and W (N,): target and weight of each learner; G (m, N+1) is the gradient at
    every prefix.

    W holds the event's weight in every place on entry.
    """
    raise unregistered("targets", rule)


@verb
def update_rule(
    rule: Rule, loss: Loss, y: Vec, h: Mat, F: Mat, G: Mat, w: float, rule_scratch: Vec
) -> None:
    """Update the rule's own state after the bank has learned, from the quantities before it did."""
    raise unregistered("update_rule", rule)


@verb
def learn_sequentially(
    rule: Rule, bank: Bank, y: Vec, x: Vec, w: float, T: Mat, W: Vec, single: SingleScratch
) -> None:
    """Let one learner after the other learn, for rules that look at a learner's prediction after it
    has learned (specification, section 0).

    Fill T (m, N) and W (N,) with the target and weight of each. `single` is scratch for one
    learner.
    """
    raise unregistered("learn_sequentially", rule)


@verb
def prefix_losses(rule: Rule, loss: Loss, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    """Fill value L (N+1,) and gradient G (m, N+1) of every prefix F (m, N+1): the loss's, unless
    the rule's scores are votes.
    """
    value_gradient_prefixes(loss, F, y, G, L)


@verb
def served_loss(rule: Rule, loss: Loss, s: Vec, y: Vec) -> float:
    """Return the loss of the served score s (m,) for label y: the loss's own, unless scores are
    votes.
    """
    return value(loss, s, y)  # type: ignore[no-any-return]


@verb
def to_prediction(rule: Rule, loss: Loss, s: Vec, p: Vec) -> None:
    """Fill p (m,) with the prediction of score s (m,): the loss's inverse link, unless scores are
    votes.
    """
    inverse_link(loss, s, p)


@verb
def observe_average(
    bank: Bank, rule: Rule, loss: Loss, x: Vec, y: Vec, w: float, seen: Any, a: EventScratch, s: Vec
) -> None:
    """Record the loss of what `predict_served` gives where that differs from `predict` (averaged
    banks).

    It runs first in an event that will be learned: a and s (m,) are free.
    """


@verb
def prediction_bound(rule: Rule) -> float:
    """Return D, the bound of a weak prediction under the rule (specification, section 3)."""
    return 1.0


@verb
def value(loss: Loss, s: Vec, y: Vec) -> float:
    """Return the loss of score s (m,) for label y."""
    raise unregistered("value", loss)


@verb
def gradient(loss: Loss, s: Vec, y: Vec, g: Vec) -> None:
    """Fill g (m,) with the (sub)gradient of the loss in the score s (m,)."""
    raise unregistered("gradient", loss)


@verb
def curvature(loss: Loss, s: Vec, y: Vec) -> float:
    """Return the second derivative of the loss in a score s (1,); for tests and constants."""
    raise unregistered("curvature", loss)


@verb
def value_gradient_prefixes(loss: Loss, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    """Fill gradient G (m, N+1) and value L (N+1,) at every prefix F (m, N+1), sharing their
    exponentials.
    """
    raise unregistered("value_gradient_prefixes", loss)


@verb
def inverse_link(loss: Loss, s: Vec, p: Vec) -> None:
    """Fill p (m,) with the prediction of score s (m,): a value, or probabilities."""
    raise unregistered("inverse_link", loss)


@verb
def update_init(loss: Loss, y: Vec, w: float, total: float, counts: Vec) -> None:
    """Add label y of weight w to the statistic that `init_score` uses; `total` includes w."""
    raise unregistered("update_init", loss)


@verb
def init_score(loss: Loss, total: float, counts: Vec, y0: Vec) -> None:
    """Fill y0 (m,) with the best constant score for the labels so far, of total weight `total`."""
    raise unregistered("init_score", loss)


@kernel
def predict_one(bank: Bank, i: int, x: Vec, single: SingleScratch) -> None:
    """Fill single.h (m, 1) with the prediction of learner i for x (d,)."""
    predict(learner_view(bank, i), x, single.h, single.bank_scratch)


@kernel
def learn_one(bank: Bank, i: int, x: Vec, mode: int, single: SingleScratch) -> None:
    """Let learner i learn single.target (m, 1) with single.weight (1,), from its prediction for x.

    Both are overwritten. A learner whose prediction is not finite learns nothing.
    """
    _learn_view(learner_view(bank, i), x, mode, single)


# Apart from `learn_one`: where numba inlines `learner_view` and `learn` into one function it takes
# writes to the views, which nothing reads afterwards, for dead code.
@kernel
def _learn_view(view: Bank, x: Vec, mode: int, single: SingleScratch) -> None:
    predict(view, x, single.h, single.bank_scratch)
    for c in range(single.h.shape[0]):
        if not abs(single.h[c, 0]) < math.inf:
            single.weight[0] = 0.0
    learn(view, x, single.h, single.target, single.weight, mode, single.bank_scratch)


@singledispatch
def learning_only(part: Any) -> tuple[str, ...]:
    """Return the fields of a part that only learning reads: snapshots leave them out."""
    return ()


@singledispatch
def bank_scratch_rows(bank: Bank) -> int:
    """Return how many rows of N numbers the bank needs as scratch to predict and learn."""
    return 0


@singledispatch
def encode_labels(loss: Loss, y: Vec, m: int) -> Mat:
    """Return labels as kernels need them, (B, k) float64; raise ModelError for labels that this
    loss cannot learn.
    """
    raise unregistered("encode_labels", loss)


@singledispatch
def rule_scratch_size(rule: Rule) -> int:
    """Return how many numbers the rule needs as scratch from `combine` to `update_rule`."""
    return 0


@singledispatch
def diagnostics(rule: Rule | None) -> dict[str, Mat]:
    """Return the parts of the rule's state that people read, by name: on `GET /model` and in
    snapshots.
    """
    return {}


@singledispatch
def sequential(rule: Rule) -> bool:
    """Return whether learners learn one after the other, by `learn_sequentially`."""
    return False


class Constants(NamedTuple):
    """What Online Gradient Boosting needs to know of a loss (specification, section 1)."""

    lipschitz: float  # L_b, on scores up to b
    smoothness: float | None  # beta_b, None where the loss has a kink
    projection: float  # eps_b: loss per unit of distance that projecting onto radius b can cost


@singledispatch
def smoothness(loss: Loss) -> float | None:
    """Return beta, the smoothness of the loss in its score, or None where it has none."""
    raise unregistered("smoothness", loss)


@singledispatch
def convexity(loss: Loss) -> float:
    """Return lambda, the strong convexity of the loss in its score, 0 where it has none."""
    raise unregistered("convexity", loss)


@singledispatch
def gradient_bound(loss: Loss) -> float | None:
    """Return the bound of the gradient without l2; None where a rule has to measure it."""
    return None


@singledispatch
def constants(loss: Loss, b: float, Z: float = 1.0) -> Constants:
    """Return the constants on scores up to b >= 1 for labels up to Z; ModelError where OGB has
    none.
    """
    raise unregistered("constants", loss)


@singledispatch
def radius(loss: Loss, eta: float, N: int, D: float, Z: float = 1.0) -> float:
    """Return B of equation (3.1), the bound of the partial sums of OGB (specification, 1, 3.1)."""
    raise unregistered("radius", loss)
