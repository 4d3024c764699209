"""Types that all parts of `models` share: array aliases, modes, descriptions of parts, the error.

Letters, the same everywhere: N weak learners, m outputs, d features, B events. Arrays over learners
keep the learners along the **last** axis (vector lanes; docs/adr/0009): weak predictions are h (m,
N), partial sums F (m, N+1). Inside trees, walked one by one, the learner is the first axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

# float64 throughout: float32 counts stop at 2^24, and variances by difference cancel.
Vec = NDArray[np.float64]  # one axis, or none where the comment says ()
Mat = NDArray[np.float64]
Mat3 = NDArray[np.float64]
Ints = NDArray[np.int64]

SQUARE, LINEAR, LOGISTIC = 0, 1, 2  # modes of a weak learner: specification, section 7
TARGET_LIMIT = 1e6  # targets are clipped to this as a last resort (section 0, Dtype)
# Kernels use these names: naming NumPy in a kernel makes it count references of every array.
UINT = np.uint64  # for values that are never negative
INT = np.int64
DOUBLE = np.float64  # `float` leaves a float32 as it is in compiled code
LOSS_LIMIT = 1e12  # one event adds at most this to a loss sum
WEIGHT_LIMIT = 1e15  # a larger importance counts as this: sums over 10^12 such events stay finite
REPR_LENGTH = 60  # characters of a faulty value that a message quotes
LABEL_LIMIT = 1e150  # a larger label counts as this in y0: differences and products stay finite


class ModelError(ValueError):
    """An invalid model, argument or file: the message has the field, the value and the remedy."""


def to_python(value: Any) -> Any:
    """Return a NumPy scalar, or a decimal as databases have them, as the plain value it stands for;
    anything else as it is.
    """
    if isinstance(value, Decimal):
        return math.nan if value.is_nan() else float(value)
    return value.item() if isinstance(value, np.generic) else value


def short_repr(value: object) -> str:
    """Return the repr of a value, shortened for a message."""
    try:
        text = repr(value)
    except ValueError:  # more digits than Python converts
        return "an integer of thousands of digits"
    return text if len(text) <= REPR_LENGTH else f"{text[:REPR_LENGTH]}..."


def as_float64(name: str, values: Any) -> Vec:
    """Return `values` as a C-contiguous float64 array.

    Raises
    ------
    ModelError
        A value is not a number; the message has `name`.
    """
    try:
        return np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise ModelError(
            f"{name}: holds a value that is not a number ({err}); give numbers"
        ) from err


class Param(NamedTuple):
    """One parameter of a rule, a bank or a loss, as users write it in a specification."""

    name: str
    default: object
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    integer: bool = False
    infinite: bool = False  # "inf" is a value as well
    check: Callable[[Any], object] | None = None  # of other values; it raises ModelError


Scale = Literal[
    "", "numbers", "logarithms", "log_odds", "half_log_odds", "margins", "log_probabilities"
]


class LossTraits(NamedTuple):
    """Properties of a loss that other parts decide by, instead of its name."""

    task: Literal["", "regression", "binary", "multiclass"] = ""
    scale: Scale = ""  # what a score is; numbers: the prediction itself
    probabilistic: bool = False  # the inverse link gives probabilities
    log_loss: bool = False  # it is the log-loss of these probabilities, exact in the tails
    quadratic: bool = False  # its curvature is one number
    newton: bool = False  # reboosted trees lower it, by Newton steps of `newton_curvature`
    lowest_label: float = -math.inf


class Loss(Protocol):
    """The state of any loss."""

    @property
    def l2(self) -> float:
        """Weight r of the term r |score|^2."""
        ...


class Bank(Protocol):
    """The state of any bank: a NamedTuple, by whose type verbs are dispatched."""

    def _asdict(self) -> dict[str, Any]:
        """Return its arrays and parts by name."""
        ...


class Rule(Protocol):
    """The state of any rule: a NamedTuple, by whose type verbs are dispatched."""

    @property
    def mode(self) -> int:
        """The mode in which its weak learners learn."""
        ...


class SingleScratch(NamedTuple):
    """Scratch for one learner at a time, for rules whose learners learn one after the other."""

    h: Mat  # (m, 1)
    target: Mat  # (m, 1)
    weight: Vec  # (1,)
    bank_scratch: Mat  # (bank_scratch_rows(bank), 1)


class EventScratch(NamedTuple):
    """Scratch of the loops for one event; allocated once for every batch."""

    h: Mat  # (m, N)
    F: Mat  # (m, N+1)
    G: Mat  # (m, N+1)
    L: Vec  # (N+1,)
    T: Mat  # (m, N)
    W: Vec  # (N,)
    sound: Vec  # (N,) 1 for learners whose h is finite, else 0
    bank_scratch: Mat  # (bank_scratch_rows(bank), N)
    rule_scratch: Vec  # (rule_scratch_size(rule),)
    single: SingleScratch


class BuildContext(NamedTuple):
    """What the rule and the bank of a booster are built from."""

    full: Mapping[str, Any]  # the specification with the defaults of every part
    loss: Loss  # the loss itself
    traits: LossTraits  # of the loss
    bank: Component  # the bank's kind
    d: int
    m: int

    @property
    def learners(self) -> int:
        """The number of weak learners, N."""
        return int(self.full["bank"].get("n", 1))


class Component(NamedTuple):
    """One kind of rule, bank or loss: its description, and the function that makes its state.

    `make` takes its own parameters: a loss as keywords, a bank as (params, d, m, seed), a rule as
    (params, BuildContext). `fill_defaults` sets, in place, defaults that depend on other parts.
    """

    kind: str
    summary: str
    source: str
    params: tuple[Param, ...]
    make: Callable[..., Any]
    reject_reason: Callable[[Mapping[str, Any]], str | None] = lambda context: None
    fill_defaults: Callable[[dict[str, Any], Any, dict[str, Any]], None] = (
        lambda params, loss, full: None
    )
    losses: tuple[str, ...] = ()  # of a rule: the only kinds it takes; empty for all
    loss_scales: tuple[Scale, ...] = ()  # of a rule: `losses` and all of these scales
    traits: LossTraits = LossTraits()  # of a loss
    default_bank: Mapping[str, Any] = MappingProxyType(
        {}
    )  # of a rule: its default bank, where not linear
    modes: tuple[int, ...] = (SQUARE, LINEAR, LOGISTIC)  # of a bank: what it can be asked for
    gradient: bool = True  # of a bank: it moves by derivatives, not by a closed form
    has_random_learners: Callable[[Mapping[str, Any]], bool] = lambda params: (
        False
    )  # of a bank: learners differ
    takes_raw_columns: bool = False  # of a bank: it takes columns as they are, NaN where missing
    initial_draws: Callable[[Mapping[str, Any], int, int], int] = lambda params, d, m: (
        0
    )  # of a bank
