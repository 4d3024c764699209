"""The verbs that banks, rules and losses share: what each means, and its default.

A verb is dispatched by the type of its first argument, in Python and in compiled code alike
(`kaboost.models.kernels.jit.verb`); a part registers its own implementation in its file.
"""

from __future__ import annotations

import math
from functools import partial, singledispatch
from typing import Any, NamedTuple

from kaboost.models.kernels.jit import kernel, unregistered, verb
from kaboost.models.types import Mat, Vec


@partial(verb, inline="never")
def point(loss: Any, s: float, z: float) -> tuple[float, float, float]:
    """Return value, slope and second derivative at one score s for one label z, l2 left out."""
    raise unregistered("point", loss)


@partial(verb, inline="never")
def bend(loss: Any, s: float, z: float, unit: float) -> float:
    """Return h > 0, the curvature that Newton's step divides the slope by: at least 1e-3.

    `unit` > 0 is the typical |s - z|, for losses that have no curvature of their own.
    """
    _, _, curve = point(loss, s, z)
    return float(max(curve, 1e-3))


@verb
def predict(bank: Any, x: Vec, h: Mat, room: Mat) -> None:
    """Fill h (m, N) with what each weak learner says of x (d,); the bank does not change.

    `room` (rooms(bank), N) is scratch: what it holds afterwards is there for the `update` of the
    same event.
    """
    raise unregistered("predict", bank)


@verb
def update(bank: Any, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, room: Mat) -> None:
    """Move every learner towards its target (m, N) with its weight (N,); h is what `predict` said.

    A learner of weight 0 is left untouched. `target` and `weight` are scratch: they may be
    overwritten. `room` is as `predict` left it.
    """
    raise unregistered("update", bank)


@verb
def answer(bank: Any, x: Vec, h: Mat, room: Mat) -> None:
    """Fill h (m, N) with what is served for x (d,): `predict`, unless the bank serves an average of
    what it learned.
    """
    predict(bank, x, h, room)


@verb
def one(bank: Any, i: int) -> Any:
    """Return learner i as a bank of one: the same type over views of the same arrays."""
    raise unregistered("one", bank)


@verb
def prepare(bank: Any, x: Vec) -> None:
    """Move what all learners share to where x (d,) puts it, before single ones learn from it.

    `update` does that by itself; the sequential pair `learn_one`, `predict_one` needs it done once
    an event.
    """


@verb
def renew(bank: Any, i: int, state: Any) -> None:
    """Make learner i a fresh one; what is random is drawn from the generator `state`."""
    raise unregistered("renew", bank)


@verb
def forward(rule: Any, h: Mat, F: Mat, yhat: Vec, desk: Vec) -> None:
    """Fill F (m, N+1) with what every prefix says, and the served score yhat (m,).

    F is the partial sums for most rules, F[:, 0] = y0. h (m, N) may be clipped in place. `desk`
    (desks(rule),) is the rule's scratch: what it holds is there for the later verbs of the same
    event.
    """
    raise unregistered("forward", rule)


@verb
def serve(rule: Any, h: Mat, F: Mat, yhat: Vec, desk: Vec) -> None:
    """Do what `forward` does where nothing will be learned: the same, unless the rule draws its
    answer.
    """
    forward(rule, h, F, yhat, desk)


@verb
def regard(rule: Any, x: Vec, desk: Vec) -> None:
    """Note what `serve` will want to know of the event x (d,) itself, for a rule that draws its
    answer.
    """


@verb
def targets(
    rule: Any, loss: Any, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec, desk: Vec
) -> None:
    """Fill T (m, N) and W (N,): what each learner should learn; G (m, N+1) is the gradient at every
    prefix.

    W arrives holding the event's importance in every place.
    """
    raise unregistered("targets", rule)


@verb
def adapt(rule: Any, loss: Any, y: Vec, h: Mat, F: Mat, G: Mat, w: float, desk: Vec) -> None:
    """Move the rule's own state after the bank has learned, from the quantities before it did."""
    raise unregistered("adapt", rule)


@verb
def boost(rule: Any, bank: Any, y: Vec, x: Vec, w: float, T: Mat, W: Vec, turn: Any) -> None:
    """Teach one learner after the other, for rules that look at a learner's answer after it learned
    (specification, section 0).

    Fill T (m, N) and W (N,) with what each was taught. `turn` is scratch for one learner.
    """
    raise unregistered("boost", rule)


@verb
def judge(rule: Any, loss: Any, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    """Fill value L (N+1,) and gradient G (m, N+1) of every prefix F (m, N+1): the loss's, unless
    the rule's scores are votes.
    """
    assess(loss, F, y, G, L)


@verb
def cost(rule: Any, loss: Any, s: Vec, y: Vec) -> float:
    """Return the loss of the served score s (m,) for label y: the loss's own, unless scores are
    votes.
    """
    return value(loss, s, y)  # type: ignore[no-any-return]


@verb
def say(rule: Any, loss: Any, s: Vec, p: Vec) -> None:
    """Fill p (m,) with the prediction of score s (m,): the loss's link, unless scores are votes."""
    link(loss, s, p)


@verb
def shadow(
    bank: Any, rule: Any, loss: Any, x: Vec, y: Vec, w: float, seen: Any, a: Any, s: Vec
) -> None:
    """Record the loss of what `answer` serves where it is not what `predict` says (averaged banks).

    It runs first in an event that will be learned: a (Scratch) and s (m,) are free.
    """


@verb
def reach(rule: Any) -> float:
    """Return D, the bound of a weak prediction under the rule (specification, section 3)."""
    return 1.0


@verb
def value(loss: Any, s: Vec, y: Vec) -> float:
    """Return the loss of score s (m,) for label y."""
    raise unregistered("value", loss)


@verb
def gradient(loss: Any, s: Vec, y: Vec, g: Vec) -> None:
    """Fill g (m,) with the (sub)gradient of the loss in the score s (m,)."""
    raise unregistered("gradient", loss)


@verb
def curvature(loss: Any, s: Vec, y: Vec) -> float:
    """Return the second derivative of the loss in a score s (1,); for tests and constants."""
    raise unregistered("curvature", loss)


@verb
def assess(loss: Any, F: Mat, y: Vec, G: Mat, L: Vec) -> None:
    """Fill gradient G (m, N+1) and value L (N+1,) at every prefix F (m, N+1), sharing their
    exponentials.
    """
    raise unregistered("assess", loss)


@verb
def link(loss: Any, s: Vec, p: Vec) -> None:
    """Fill p (m,) with the prediction that score s (m,) stands for: a value, or probabilities."""
    raise unregistered("link", loss)


@verb
def tally(loss: Any, y: Vec, w: float, total: float, counts: Vec) -> None:
    """Add label y of importance w to the statistic that `start` makes y0 from; `total` has w."""
    raise unregistered("tally", loss)


@verb
def start(loss: Any, total: float, counts: Vec, y0: Vec) -> None:
    """Fill y0 (m,) with the best constant score for the labels tallied so far, of total weight
    `total`.
    """
    raise unregistered("start", loss)


@kernel
def predict_one(bank: Any, i: int, x: Vec, turn: Any) -> None:
    """Fill turn.h (m, 1) with what learner i says of x (d,)."""
    predict(one(bank, i), x, turn.h, turn.room)


@kernel
def learn_one(bank: Any, i: int, x: Vec, mode: int, turn: Any) -> None:
    """Let learner i learn turn.target (m, 1) with turn.weight (1,), from what it says of x now.

    Both are scratch, overwritten. A learner whose answer is not finite learns nothing.
    """
    _teach(one(bank, i), x, mode, turn)


# Apart from `learn_one`: where numba inlines `one` and `update` into one function it takes writes
# to the views, which nothing reads afterwards, for dead code.
@kernel
def _teach(single: Any, x: Vec, mode: int, turn: Any) -> None:
    predict(single, x, turn.h, turn.room)
    for c in range(turn.h.shape[0]):
        if not abs(turn.h[c, 0]) < math.inf:
            turn.weight[0] = 0.0
    update(single, x, turn.h, turn.target, turn.weight, mode, turn.room)


@singledispatch
def learning_only(bank: Any) -> tuple[str, ...]:
    """Return the fields of a bank that only learning reads: snapshots leave them out."""
    return ()


@singledispatch
def rooms(bank: Any) -> int:
    """Return how many rows of N numbers the bank wants as scratch while it predicts and learns."""
    return 0


@singledispatch
def encode_labels(loss: Any, y: Vec, m: int) -> Mat:
    """Return labels as kernels want them, (B, k) float64; raise ModelError for what this loss
    cannot learn.
    """
    raise unregistered("encode_labels", loss)


@singledispatch
def desks(rule: Any) -> int:
    """Return how many numbers the rule wants as scratch from `forward` to `adapt` of one event."""
    return 0


@singledispatch
def reveal(rule: Any) -> dict[str, Mat]:
    """Return what the rule's state says to people, by name: on `GET /model` and in snapshots."""
    return {}


@singledispatch
def sequential(rule: Any) -> bool:
    """Return whether the rule teaches one learner after the other, by `boost`."""
    return False


class Constants(NamedTuple):
    """What Online Gradient Boosting needs to know of a loss (specification, section 1)."""

    lipschitz: float  # L_b, on scores up to b
    smoothness: float | None  # beta_b, None where the loss has a kink
    projection: float  # eps_b: loss per unit of distance that projecting onto radius b can cost


@singledispatch
def smoothness(loss: Any) -> float | None:
    """Return beta, the smoothness of the loss in its score, or None where it has none."""
    raise unregistered("smoothness", loss)


@singledispatch
def convexity(loss: Any) -> float:
    """Return lambda, the strong convexity of the loss in its score, 0 where it has none."""
    raise unregistered("convexity", loss)


@singledispatch
def constants(loss: Any, b: float, Z: float = 1.0) -> Constants:
    """Return the constants on scores up to b >= 1 for labels up to Z; ModelError where OGB has
    none.
    """
    raise unregistered("constants", loss)


@singledispatch
def radius(loss: Any, eta: float, N: int, D: float, Z: float = 1.0) -> float:
    """Return B of equation (3.1): how far partial sums of OGB may go (specification, 1 and 3.1)."""
    raise unregistered("radius", loss)
