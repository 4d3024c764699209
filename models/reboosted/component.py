"""Settings of the bank `reboosted_trees`: their checks, and the sizes they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kaboost.models.losses import LOSSES, NEWTON_LOSSES
from kaboost.models.reboosted.config import (
    MAX_STRUCTURES,
    MAX_WINDOW,
    STRUCTURES,
    Sizes,
    Structure,
)
from kaboost.models.reboosted.effort import HIGH, LOW, structures_of
from kaboost.models.reboosted.initial import bank
from kaboost.models.reboosted.memory import affordable_window
from kaboost.models.reboosted.state import LOG_ODDS, LOGARITHMS, NUMBERS
from kaboost.models.types import SQUARE, Component, ModelError, Param

SCALE_LINKS = {"log_odds": LOG_ODDS, "logarithms": LOGARITHMS}
DEFAULT_RATES = {  # and the largest that may be set
    "leaf_rates": ((0.7, 0.1, 0.4, 1.0), 2.0),  # the first one is AdaGrad's
    "label_lags": ((1.0, 0.5, 0.2, 0.05, 0.01), 1.0),
}
STRUCTURE_RANGES = {
    "window": (0, MAX_WINDOW),
    "trees": (1, 1_000),
    "leaves": (2, 1_024),
    "depth": (1, 16),
    "eta": (1e-6, 1.0),
    "least_rows": (1, MAX_WINDOW),
    "part": (0.0, 1.0),
    "share": (1e-6, 1e6),
    "least_h": (0.0, 1e6),
    "lam": (1e-6, 1e6),
}


def sizes_of(full: Mapping[str, Any]) -> Sizes:
    """Return the sizes of a filled-in specification."""
    bank_, columns = full["bank"], full.get("columns", 0)
    default = structures_of(bank_["effort"], of_classes=columns > 0)
    return Sizes(
        structures=structures(bank_["structures"]) or default,
        rates=(*rates("leaf_rates", bank_["leaf_rates"]), 0.0),  # the last one does not learn
        lag_rates=rates("label_lags", bank_["label_lags"]),
        budget=bank_["budget"] * bank_["effort"],
        memory=int(bank_["max_memory"] * 1e6),
        events=MAX_WINDOW,
        link=SCALE_LINKS.get(LOSSES[full["loss"]["kind"]].traits.scale, NUMBERS),
        classes=full.get("classes", 1),
        columns=columns,
    )


def rates(name: str, value: Any) -> tuple[float, ...]:
    """Return the rates of a list, or the default ones.

    Raises
    ------
    ModelError
        It is no list of as many numbers in their range.
    """
    default, most = DEFAULT_RATES[name]
    if value is None:
        return default
    different = name == "label_lags"
    fits = isinstance(value, list | tuple) and len(value) == len(default)
    fits = fits and all(_is_number(rate) and 0 <= rate <= most for rate in value)
    if not fits or (different and len({f"{rate:g}" for rate in value}) < len(value)):
        what = "different numbers" if different else "numbers"
        raise ModelError(
            f"bank.{name}: {value!r:.80} is no list of {len(default)} {what} from 0 to {most:g}; "
            f"the default is {list(default)}"
        )
    return tuple(map(float, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def structures(value: Any) -> tuple[Structure, ...]:
    """Return the structures of a list of mappings, none for None; a setting that a mapping leaves
    out is that of the first default structure.

    Raises
    ------
    ModelError
        It is no list of mappings, or has an unknown setting or one out of range.
    """
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MAX_STRUCTURES:
        raise ModelError(
            f"bank.structures: {value!r} is no list of 1 to {MAX_STRUCTURES} structures; "
            "leave it out"
        )
    for one in value:
        if not isinstance(one, Mapping):
            raise ModelError(f"bank.structures: {one!r} is no mapping; give {{trees: 40}} or so")
        unknown = set(one) - set(Structure._fields)
        if unknown:
            raise ModelError(
                f"bank.structures: {unknown.pop()!r} is not known; "
                f"known are {', '.join(Structure._fields)}"
            )
    return tuple(_structure(k, one) for k, one in enumerate(value))


def _structure(k: int, settings: Mapping[str, Any]) -> Structure:
    for name, value in settings.items():
        expected = _expected(name, value)
        if expected:
            raise ModelError(f"bank.structures[{k}].{name}: {value!r} is not {expected}")
    return STRUCTURES[0]._replace(**settings)


def _expected(name: str, value: Any) -> str | None:
    """Return which values a setting of a structure takes, None where this is one."""
    if name == "lags":
        return None if isinstance(value, bool) else "true or false"
    if name == "bins":
        return None if value in (32, 64) else "32 or 64"
    low, high = STRUCTURE_RANGES[name]
    whole = isinstance(getattr(STRUCTURES[0], name), int)
    fits = isinstance(value, int) if whole else _is_number(value)
    if fits and not isinstance(value, bool) and low <= value <= high:
        return None
    return f"a {'whole ' if whole else ''}number from {low:g} to {high:g}"


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Any:
    full = {"bank": params, "loss": {"kind": "squared"}}
    return bank(sizes_of(full), d, seed)


def _reject_reason(context: Mapping[str, Any]) -> str | None:
    rule, loss, kind = (context[word]["kind"] for word in ("rule", "loss", "bank"))
    if rule != "sgb":
        return f"{kind} rebuilds its trees in the order of sgb; take rule sgb, not {rule}"
    if context["m"] > 1:
        return (
            f"{kind} has one output; write multiclass: one_vs_rest or shared_trees with it, or "
            "bank: linear"
        )
    if not context["traits"].newton:
        return f"{kind} lowers {', '.join(NEWTON_LOSSES)}; take one of them, not {loss}"
    if context["loss"].get("l2"):
        return f"{kind} does not shrink its scores by l2; leave it 0"
    affordable_window(sizes_of(context), context["d"])  # raises where none fits into max_memory
    return None


REBOOSTED_TREES = Component(
    "reboosted_trees",
    "structures of regression trees, rebuilt in boosting order on windows of several lengths, with "
    "leaves that go on learning, stacked online with two linear learners and the last label, and "
    "calibrated",
    "Hu et al. 2017, Algorithm 1 with follow-the-leader trees; specification of reboosted trees",
    (
        Param(
            "effort",
            1.0,
            "work, and sizes of the default structures: 1 costs about 15 microseconds an event, 10 "
            "about 60; choose by the events a second that come (bench/README.md, Effort)",
            LOW,
            HIGH,
        ),
        Param(
            "budget",
            4000.0,
            "nanoseconds of work on new trees an event, times effort; more in proportion where "
            "events have over 250 values",
            100.0,
            1e6,
        ),
        Param(
            "leaf_rates",
            None,
            "of the leaf learners: AdaGrad's, and three constant ones; a fifth learner has none",
            check=partial(rates, "leaf_rates"),
        ),
        Param(
            "label_lags",
            None,
            "rates of the five decayed label means that are features as well",
            check=partial(rates, "label_lags"),
        ),
        Param("calibrate", True, "calibrate probabilities by the labels observed"),
        Param(
            "max_memory",
            128.0,
            "largest size of trees and window in megabytes; the classes of one_vs_rest share it",
            1.0,
            1e6,
        ),
        Param(
            "structures",
            None,
            "a list of mappings with any of window, trees, leaves, depth, eta, least_rows, part, "
            "lags, bins, share, least_h, lam; replaces the four default structures",
            check=structures,
        ),
    ),
    _make,
    _reject_reason,
    modes=(SQUARE,),
    takes_raw_columns=True,
)
