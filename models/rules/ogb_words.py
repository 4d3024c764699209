"""What both rules of Online Gradient Boosting are told in a specification, and what they make of it
(specification, 3, 7.8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaboost.models.types import LINEAR, SQUARE, BuildContext, ModelError, Param
from kaboost.models.verbs import constants, smoothness

# What a learner is fed: the theorem's slope; the gradient where its own step leads to; a scaled
# residual; the same with the weight that makes its gradient that of the loss; the slope at the
# served score.
SLOPE, GREEDY, RESIDUAL, WEIGHED, REDUCED = 0, 1, 2, 3, 4

ETA = Param("eta", None, "step size, 1/n to 1; ln(n)/n, and 1 below 3 learners", 1e-12, 1.0)
BOUND = Param("bound", 1.0, "D: weak predictions are clipped to this length", 1e-12, 1e6)
LABEL_BOUND = Param("label_bound", 1.0, "Z: labels are at most this large", 1e-12, 1e6)
SCALE = Param("scale", 1.0, "every weak prediction counts this many times (A.2)", 1.0, 1e6)
T_MAX = Param("t_max", None, "events after which steps shrink no more", 1, 2**53, integer=True)
RADIUS = Param("radius", None, "B: length of partial sums; from equation 3.1", 1e-12, 1e12)
WORDS = (
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


def complete(own: dict[str, Any], loss: Any, full: dict[str, Any]) -> None:
    """Fill in fit, greedy_form and labels: they depend on loss, bank and task."""
    traits, closed = full["traits"], not full["part"].gradient
    kink = has_kink(loss)
    if own["fit"] is None:
        own["fit"] = "linear" if kink else "greedy"
    if closed and full["bank"]["kind"] != "stumps" and not traits.quadratic:
        own["fit"] = "linear"  # trees fit residuals, or bare slopes
    if own["greedy_form"] is None:
        own["greedy_form"] = "residual" if closed and traits.quadratic else "gradient"
    if own["labels"] is None:
        mapped = full["task"] == "regression" and traits.scale == "numbers"
        own["labels"] = "mapped" if mapped else "given"


def has_kink(loss: Any) -> bool:
    """Return whether the loss is smooth on no radius; ModelError where it has no constants."""
    return constants(loss, 1.0).smoothness is None


def refuse(context: Mapping[str, Any]) -> str | None:
    """Return why this loss does not go with what the rule is told, if so."""
    own, kind = context["rule"], context["loss"]["kind"]
    if own["labels"] == "mapped" and context["traits"].scale != "numbers":
        return f"labels: {kind} does not learn mapped labels; take labels: given"
    greedy = own["fit"] == "greedy"
    if greedy and own["greedy_form"] == "residual" and not context["traits"].quadratic:
        return f"greedy_form: residuals fit squared loss, not {kind}; take gradient"
    return None


def form(params: Mapping[str, Any], setting: BuildContext) -> int:
    """Return what learners are fed; ModelError for what the theory or the bank does not allow."""
    kind = setting.full["loss"]["kind"]
    greedy = params["fit"] == "greedy"
    if has_kink(setting.loss) and params["nonsmooth"] == "deterministic":
        _refuse_reduction(kind, greedy, setting)
        return REDUCED
    fed = SLOPE
    if greedy and params["greedy_form"] == "residual":
        fed = RESIDUAL
    elif greedy:  # a closed form moves by more than one gradient: it is fed the fit itself
        fed = WEIGHED if setting.traits.quadratic and not setting.bank.gradient else GREEDY
    if mode_of(fed) not in setting.bank.modes:
        raise ModelError(
            f"bank: {setting.bank.kind} cannot be fed slopes, as Online Gradient Boosting does for "
            f"{kind}; take linear or trees"
        )
    return fed


def mode_of(fed: int) -> int:
    """Return the mode of a bank that is fed so."""
    return SQUARE if fed in (RESIDUAL, WEIGHED) else LINEAR


def bend(loss: Any, fed: int) -> float:
    """Return the curvature of a quadratic loss, which residuals are measured in."""
    return float(smoothness(loss) or 1.0) if mode_of(fed) == SQUARE else 1.0


def _refuse_reduction(kind: str, greedy: bool, setting: BuildContext) -> None:
    """Raise ModelError where the deterministic reduction does not hold (specification, 3.5)."""
    if greedy:
        raise ModelError(
            f"rule.fit: greedy needs a smooth loss, and {kind} has a kink; "
            "take fit: linear, or nonsmooth: heuristic"
        )
    if setting.bank.has_random_learners(setting.full["bank"]):
        raise ModelError(
            f"rule.nonsmooth: {kind} has a kink, so all learners are fed one slope, and these "
            f"{setting.bank.kind} learners differ by more; take nonsmooth: heuristic, or alike "
            "learners (linear over all features)"
        )
    if LINEAR not in setting.bank.modes:
        raise ModelError(f"bank: {setting.bank.kind} cannot be fed slopes; take linear")
