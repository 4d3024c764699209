"""The bank of linear learners, h = w x, whatever step moves its weights.

Weights are w (m, rows, N), one row per feature and one more for the bias: learners lie along the
vector lanes, so sums over features stay strictly left to right and still fill whole vectors
(docs/adr/0009). A step is a NamedTuple of its state, without the weights. It registers the verbs
below that differ from their defaults, and for its arrays `learner_view`, `reset_learner`,
`learning_only` and `bank_scratch_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from kaboost.models.kernels.jit import kernel, unregistered, verb
from kaboost.models.kernels.numeric import add, clear_learner, fill, shift
from kaboost.models.kernels.random import State
from kaboost.models.types import Mat, Mat3, Param, Vec
from kaboost.models.verbs import (
    bank_scratch_rows,
    learn,
    learner_view,
    predict,
    reset_learner,
    update_shared,
)


class StepState(Protocol):
    """The state of any step: a NamedTuple, by whose type verbs are dispatched."""

    def _asdict(self) -> dict[str, Any]:
        """Return its arrays by name."""
        ...


class Linear(NamedTuple):
    """N linear learners and the step that moves their weights."""

    w: Mat3  # (m, rows, N)
    step: Any  # a StepState: the functions of each step know its fields
    cyclic: bool  # learner i sees only feature (first + i) mod d, and the bias
    first: int  # 0; in a bank of one, the number of its learner


class Step(NamedTuple):
    """One kind of step: its name, its options with their defaults, and what makes its state."""

    kind: str
    options: tuple[Param, ...]
    make: Callable[[Mapping[str, Any], Mat3, int], StepState]  # (options, w, d)


def learning_rate(default: float) -> Param:
    """Return the option `lr`."""
    return Param("lr", default, "learning rate", 1e-12, 1e6)


@verb
def dot_features(step: StepState, w: Mat, x: Vec, cyclic: bool, first: int, h: Vec) -> None:
    """Fill h (N,) with w (rows, N) times x (d,), 1 for the bias."""
    dot_rows(w, x, cyclic, first, h)


@verb
def rescale(step: StepState, w: Mat3, x: Vec) -> None:
    """Adapt scales, and the weights in them, to x (d,): most steps have none."""


@verb
def move_weights(
    step: StepState,
    bank: Linear,
    x: Vec,
    h: Mat,
    target: Mat,
    weight: Vec,
    mode: int,
    bank_scratch: Mat,
) -> None:
    """Update the weights by the step, as the verb `learn`; one verb, since every verb costs compile
    time.
    """
    raise unregistered("move_weights", step)


@verb
def move_weight(step: StepState, w: Mat3, c: int, j: int, i: int, g: float) -> None:
    """Move weight w[c, j, i] for its gradient g; g = 0 must move nothing. For `move_each`."""
    raise unregistered("move_weight", step)


@bank_scratch_rows.register
def _(bank: Linear) -> int:
    return bank_scratch_rows(bank.step)


@learner_view.register
def _(bank: Linear, i: int) -> Linear:
    w, step = bank.w[:, :, i : i + 1], learner_view(bank.step, i)
    return Linear(w, step, bank.cyclic, bank.first + i)


@reset_learner.register
def _(bank: Linear, i: int, state: State) -> None:
    clear_learner(bank.w, i)
    reset_learner(bank.step, i, state)


@update_shared.register
def _(bank: Linear, x: Vec) -> None:
    rescale(bank.step, bank.w, x)


@predict.register
def _(bank: Linear, x: Vec, h: Mat, bank_scratch: Mat) -> None:
    for c in range(bank.w.shape[0]):
        dot_features(bank.step, bank.w[c], x, bank.cyclic, bank.first, h[c])


@learn.register
def _(bank: Linear, x: Vec, h: Mat, target: Mat, weight: Vec, mode: int, bank_scratch: Mat) -> None:
    move_weights(bank.step, bank, x, h, target, weight, mode, bank_scratch)


@kernel
def dot_rows(w: Mat, x: Vec, cyclic: bool, first: int, h: Vec) -> None:
    """Fill h (N,) with w (rows, N) times x (d,), 1 for the bias: a plain loop, which compiles five
    seconds sooner than `numeric.dot` and takes twice its time.
    """
    d = x.shape[0]
    fill(h, 0.0)
    if cyclic:
        for i in range(h.shape[0]):
            j = (first + i) % d
            h[i] += w[j, i] * x[j]
    else:
        for j in range(d):
            if x[j] != 0.0:  # one-hot features cost what they hold
                add(h, w[j], x[j])
    if w.shape[0] > d:
        add(h, w[d], 1.0)


@kernel
def descend(bank: Linear, x: Vec, e: Mat) -> None:
    """Subtract e (m, N) times x (d,), 1 for the bias, from the weights."""
    m, rows, N = bank.w.shape
    d = x.shape[0]
    for c in range(m):
        if bank.cyclic:
            for i in range(N):
                j = (bank.first + i) % d
                bank.w[c, j, i] -= e[c, i] * x[j]
        else:
            for j in range(d):
                if x[j] != 0.0:
                    shift(bank.w[c, j], e[c], x[j])
        if rows > d:
            shift(bank.w[c, d], e[c], 1.0)


@kernel
def move_each(bank: Linear, x: Vec, e: Mat) -> None:
    """Call `move_weight` for every weight that x (d,) touches, with its gradient e (m, N) times
    x.
    """
    m, rows, N = bank.w.shape
    d = x.shape[0]
    for c in range(m):
        if bank.cyclic:
            for i in range(N):
                j = (bank.first + i) % d
                move_weight(bank.step, bank.w, c, j, i, e[c, i] * x[j])
        else:
            for j in range(d):
                if x[j] != 0.0:
                    for i in range(N):
                        move_weight(bank.step, bank.w, c, j, i, e[c, i] * x[j])
        if rows > d:
            for i in range(N):
                move_weight(bank.step, bank.w, c, d, i, e[c, i])


@kernel
def multiply_rates(e: Mat, rate: Vec) -> None:
    """Multiply e (m, N) by the rates (N,) of the learners."""
    for c in range(e.shape[0]):
        for i in range(e.shape[1]):
            e[c, i] *= rate[i]
