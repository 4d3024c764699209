"""The linear bank in a specification: its parameters, and the steps it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kaboost.models.banks.linear.adagrad import ADAGRAD
from kaboost.models.banks.linear.adam import ADAM
from kaboost.models.banks.linear.bank import Linear, Step
from kaboost.models.banks.linear.ftrl import FTRL
from kaboost.models.banks.linear.invariant import INVARIANT
from kaboost.models.banks.linear.nag import NAG
from kaboost.models.banks.linear.ng import NG
from kaboost.models.banks.linear.ogd import OGD
from kaboost.models.banks.linear.sgd import SGD
from kaboost.models.kernels.simd import aligned
from kaboost.models.types import Component, Loss, Param

STEPS: dict[str, Step] = {
    step.kind: step for step in (NAG, NG, SGD, OGD, ADAGRAD, ADAM, FTRL, INVARIANT)
}
DEFAULTS = {
    kind: {option.name: option.default for option in step.options} for kind, step in STEPS.items()
}


def _merged_options() -> tuple[Param, ...]:
    """Return the options of all steps, one Param a name; None stands for the step's default."""
    options = {option.name: option for step in STEPS.values() for option in step.options}
    return tuple(
        option._replace(default=None, doc=f"{option.doc} ({_defaults(name)})")
        for name, option in options.items()
    )


def _defaults(name: str) -> str:
    """Describe which steps take an option, with their defaults."""
    kinds: dict[object, list[str]] = {}
    for kind, defaults in DEFAULTS.items():
        if name in defaults:
            kinds.setdefault(defaults[name], []).append(kind)
    return "; ".join(
        f"step {', '.join(some)}: {'none' if default is None else f'{default:g}'}"
        for default, some in kinds.items()
    )


OPTIONS = _merged_options()


def _fill_defaults(bank: dict[str, Any], loss: Loss, full: dict[str, Any]) -> None:
    """Fill in the options of the step; leave out those of others, so that specifications of equal
    models are equal.
    """
    defaults = DEFAULTS[bank["step"]]
    for option in OPTIONS:
        if bank[option.name] is None:
            bank[option.name] = defaults.get(option.name)
        if bank[option.name] is None:
            del bank[option.name]


def _reject_reason(context: Mapping[str, Any]) -> str | None:
    bank = context["bank"]
    for option in OPTIONS:
        name = option.name
        if name in bank and name not in DEFAULTS[bank["step"]]:
            steps = " or ".join(kind for kind, defaults in DEFAULTS.items() if name in defaults)
            return (
                f"{name} is no option of the step {bank['step']}; "
                f"leave it out, or take step {steps}"
            )
    return None


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Linear:
    rows = d + (1 if params["bias"] else 0)
    w = aligned(np.zeros((m, rows, params["n"])))
    step = STEPS[params["step"]].make(params, w, d)
    return Linear(w, step, params["features"] == "cyclic", 0)


LINEAR_BANK = Component(
    "linear",
    "N linear learners",
    "specification, 7.1; nag: Ross, Mineiro, Langford 2013",
    (
        Param("n", 20, "weak learners", 1, 100_000, integer=True),
        Param("step", "nag", "how weights move", choices=tuple(STEPS)),
        Param("bias", True, "a constant feature 1"),
        Param(
            "features",
            "all",
            "all, or cyclic: learner i sees feature i mod d",
            choices=("all", "cyclic"),
        ),
        *OPTIONS,
    ),
    _make,
    _reject_reason,
    _fill_defaults,
    has_random_learners=lambda bank: bool(bank["features"] == "cyclic"),
)
