"""The verbs that banks, rules and losses share: one dispatch table for Python and for numba.

A verb is a standard-library single-dispatch function over the NamedTuple type of its first
argument. Numba resolves the same table while it compiles, so one batch loop serves every
combination and still inlines to straight code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import singledispatch
from typing import Any, Protocol, TypeVar, cast

from numba import njit
from numba.extending import overload

from models.types import Mat, Vec

Function = TypeVar("Function", bound=Callable[..., Any])

# The numpy error model: a division by zero gives inf as in NumPy instead of a branch that stops
# vectorisation.
JIT: Any = {"error_model": "numpy", "nogil": True}


def kernel(function: Function) -> Function:
    """Compile `function` without the GIL, cached on disk; plain Python when numba's JIT is off."""
    return cast(Function, njit(cache=True, nogil=True, error_model="numpy")(function))


class Verb(Protocol):
    """A verb as type checkers see it: called like a function, registered per type of its first
    argument.
    """

    def __call__(self, *args: Any) -> Any: ...

    def register(self, function: Function) -> Function: ...

    def dispatch(self, kind: type) -> Callable[..., Any]: ...


def verb(default: Callable[..., Any]) -> Verb:
    """Make a kernel verb: dispatched by the type of its first argument, in Python and numba."""
    table = singledispatch(default)

    def resolve(*types: Any) -> Callable[..., Any] | None:
        found = table.dispatch(getattr(types[0], "instance_class", object))
        return None if found is default else found

    resolve.__signature__ = inspect.signature(default)  # type: ignore[attr-defined]
    # Inlined before types are lowered: a call would count references to every array of its state.
    overload(table, strict=False, jit_options=JIT, inline="always")(resolve)
    return cast(Verb, table)


def unregistered(verb_name: str, subject: object) -> TypeError:
    """Name the verb and the type that has no implementation of it."""
    return TypeError(f"{type(subject).__name__} has no {verb_name!r}: register one in its file")


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
def forward(rule: Any, h: Mat, F: Mat, yhat: Vec) -> None:
    """Fill the partial sums F (m, N+1), F[:, 0] = y0, and the served score yhat (m,)."""
    raise unregistered("forward", rule)


@verb
def targets(rule: Any, loss: Any, y: Vec, h: Mat, F: Mat, G: Mat, T: Mat, W: Vec) -> None:
    """Fill T (m, N) and W (N,): what each learner should learn; G (m, N+1) is the gradient at every
    prefix.

    W arrives holding the event's importance in every place.
    """
    raise unregistered("targets", rule)


@verb
def adapt(rule: Any, loss: Any, y: Vec, h: Mat, F: Mat, G: Mat, w: float) -> None:
    """Move the rule's own state after the bank has learned, from the quantities before it did."""
    raise unregistered("adapt", rule)


@verb
def value(loss: Any, s: Vec, y: Vec) -> float:
    """Return the loss of score s (m,) for label y."""
    raise unregistered("value", loss)


@verb
def gradient(loss: Any, s: Vec, y: Vec, g: Vec) -> None:
    """Fill g (m,) with the (sub)gradient of the loss in the score s (m,)."""
    raise unregistered("gradient", loss)


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
def smoothness(loss: Any) -> float | None:
    """Return beta, the smoothness of the loss in its score, or None where it has none."""
    raise unregistered("smoothness", loss)
