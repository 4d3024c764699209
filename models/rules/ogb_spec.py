"""The parameters of Online Gradient Boosting, their defaults, and the form of the targets that they
choose (specification, 3, 7.8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaboost.models.types import LINEAR, SQUARE, BuildContext, Loss, ModelError, Param
from kaboost.models.verbs import constants, smoothness

# Forms of targets: the theorem's slope; the gradient after the learner's step; a scaled
# residual; the same with the weight that makes its gradient that of the loss; the slope at the
# served score.
SLOPE, GREEDY, RESIDUAL, WEIGHED, REDUCED = 0, 1, 2, 3, 4

ETA = Param("eta", None, "step size, 1/n to 1; ln(n)/n, and 1 below 3 learners", 1e-12, 1.0)
BOUND = Param("bound", 1.0, "D: weak predictions are clipped to this length", 1e-12, 1e6)
LABEL_BOUND = Param("label_bound", 1.0, "Z: labels are at most this large", 1e-12, 1e6)
SCALE = Param("scale", 1.0, "every weak prediction counts this many times (A.2)", 1.0, 1e6)
T_MAX = Param("t_max", None, "events after which steps shrink no more", 1, 2**53, integer=True)
RADIUS = Param("radius", None, "B: length of partial sums; from equation 3.1", 1e-12, 1e12)
PARAMS = (
    Param("fit", None, "greedy (A.1), or linear as in the theorem", choices=("greedy", "linear")),
    Param(
        "greedy_form",
        None,
        "gradient, or residual for trees and stumps under squared loss",
        choices=("gradient", "residual"),
    ),
    SCALE,
    BOUND,
    LABEL_BOUND,
    Param(
        "nonsmooth",
        "deterministic",
        "losses with a kink: one slope for all learners, or subgradients without a theorem",
        choices=("deterministic", "heuristic"),
    ),
    Param(
        "labels",
        None,
        "mapped to [-1, 1] from the first 500 (default of a regression task), or as given",
        choices=("mapped", "given"),
    ),
)


def fill_defaults(params: dict[str, Any], loss: Loss, full: dict[str, Any]) -> None:
    """Fill in fit, greedy_form and labels: they depend on loss, bank and task."""
    traits, closed = full["traits"], not full["part"].gradient
    kink = has_kink(loss)
    if params["fit"] is None:
        params["fit"] = "linear" if kink else "greedy"
    if closed and full["bank"]["kind"] != "stumps" and not traits.quadratic:
        params["fit"] = "linear"  # trees fit residuals, or bare slopes
    if params["greedy_form"] is None:
        params["greedy_form"] = "residual" if closed and traits.quadratic else "gradient"
    if params["labels"] is None:
        mapped = full["task"] == "regression" and traits.scale == "numbers"
        params["labels"] = "mapped" if mapped else "given"


def has_kink(loss: Loss) -> bool:
    """Return whether the loss is smooth on no radius; ModelError where it has no constants."""
    return constants(loss, 1.0).smoothness is None


def reject_reason(context: Mapping[str, Any]) -> str | None:
    """Return why the loss does not fit the parameters of the rule, or None."""
    params, kind = context["rule"], context["loss"]["kind"]
    if params["labels"] == "mapped" and context["traits"].scale != "numbers":
        return f"labels: {kind} does not learn mapped labels; take labels: given"
    greedy = params["fit"] == "greedy"
    if greedy and params["greedy_form"] == "residual" and not context["traits"].quadratic:
        return f"greedy_form: residuals fit squared loss, not {kind}; take gradient"
    return None


def target_form(params: Mapping[str, Any], context: BuildContext) -> int:
    """Return the form of the targets; ModelError where the theory or the bank does not allow it."""
    kind = context.full["loss"]["kind"]
    greedy = params["fit"] == "greedy"
    if has_kink(context.loss) and params["nonsmooth"] == "deterministic":
        _check_reduction(kind, greedy, context)
        return REDUCED
    form = SLOPE
    if greedy and params["greedy_form"] == "residual":
        form = RESIDUAL
    elif greedy:  # a closed form moves by more than one gradient: its target is the fit itself
        form = WEIGHED if context.traits.quadratic and not context.bank.gradient else GREEDY
    if mode_of(form) not in context.bank.modes:
        raise ModelError(
            f"bank: {context.bank.kind} cannot be fed slopes, as Online Gradient Boosting does for "
            f"{kind}; take linear or trees"
        )
    return form


def mode_of(form: int) -> int:
    """Return the mode in which a bank learns targets of this form."""
    return SQUARE if form in (RESIDUAL, WEIGHED) else LINEAR


def quadratic_curvature(loss: Loss, form: int) -> float:
    """Return the curvature of a quadratic loss, the unit of residuals; 1 for other targets."""
    return float(smoothness(loss) or 1.0) if mode_of(form) == SQUARE else 1.0


def _check_reduction(kind: str, greedy: bool, context: BuildContext) -> None:
    """Raise ModelError where the deterministic reduction does not hold (specification, 3.5)."""
    if greedy:
        raise ModelError(
            f"rule.fit: greedy needs a smooth loss, and {kind} has a kink; "
            "take fit: linear, or nonsmooth: heuristic"
        )
    if context.bank.has_random_learners(context.full["bank"]):
        raise ModelError(
            f"rule.nonsmooth: {kind} has a kink, so all learners are fed one slope, and these "
            f"{context.bank.kind} learners differ by more; take nonsmooth: heuristic, or alike "
            "learners (linear over all features)"
        )
    if LINEAR not in context.bank.modes:
        raise ModelError(f"bank: {context.bank.kind} cannot be fed slopes; take linear")
