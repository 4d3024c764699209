"""The kind of bank `reboosted_trees`: its words for people, and the sizes they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kaboost.models.losses import LOSSES, NEWTON_LOSSES
from kaboost.models.reboosted.state import (
    BLOCK_EVENTS,
    LOG_ODDS,
    LOGARITHMS,
    NUMBERS,
    STRUCTURES,
    Sizes,
    Structure,
    affordable_window,
    bank,
)
from kaboost.models.types import SQUARE, Component, ModelError, Param

SCALE_LINKS = {"log_odds": LOG_ODDS, "logarithms": LOGARITHMS}
DEFAULT_RATES = {  # where the specification says none, and the largest
    "leaf_rates": ((0.7, 0.1, 0.4, 1.0), 2.0),  # the first takes AdaGrad's steps
    "label_lags": ((1.0, 0.5, 0.2, 0.05, 0.01), 1.0),
}
STRUCTURE_RANGES = {  # of what a structure can be told
    "window": (0, 262_144),
    "trees": (1, 1_000),
    "leaves": (2, 1_024),
    "depth": (1, 16),
    "eta": (1e-6, 1.0),
    "least_rows": (1, 262_144),
    "part": (0.0, 1.0),
    "lags": (0, 1),
    "bins": (32, 64),
    "share": (1e-6, 1e6),
    "least_h": (0.0, 1e6),
    "lam": (1e-6, 1e6),
}
MAX_STRUCTURES = 8  # structures
MAX_WINDOW = 32 * BLOCK_EVENTS  # events in the window


def sizes_of(full: Mapping[str, Any]) -> Sizes:
    """Return the sizes of a filled-in specification."""
    own = full["bank"]
    return Sizes(
        structures=structures(own["structures"]),
        rates=(*rates("leaf_rates", own["leaf_rates"]), 0.0),  # the last one keeps still
        lag_rates=rates("label_lags", own["label_lags"]),
        budget=own["budget"],
        memory=int(own["max_memory"] * 1e6),
        events=MAX_WINDOW,
        link=SCALE_LINKS.get(LOSSES[full["loss"]["kind"]].traits.scale, NUMBERS),
        classes=full.get("classes", 1),
    )


def rates(name: str, given: Any) -> tuple[float, ...]:
    """Return the rates of a list, or the default ones.

    Raises
    ------
    ModelError
        It is no list of as many numbers in their range.
    """
    default, most = DEFAULT_RATES[name]
    if given is None:
        return default
    fits = isinstance(given, list | tuple) and len(given) == len(default)
    fits = fits and all(_is_number(one) and 0 <= one <= most for one in given)
    if not fits or (name == "label_lags" and len({f"{one:g}" for one in given}) < len(given)):
        what = "different numbers" if name == "label_lags" else "numbers"
        raise ModelError(
            f"bank.{name}: {given!r:.80} is no list of {len(default)} {what} from 0 to {most:g}; "
            f"the default is {list(default)}"
        )
    return tuple(map(float, given))


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def structures(given: Any) -> tuple[Structure, ...]:
    """Return the structures of a list of mappings, or the default ones; what a mapping leaves out
    is the first default structure's.

    Raises
    ------
    ModelError
        It is no list of mappings, or names what no structure has.
    """
    if given is None:
        return STRUCTURES
    if not isinstance(given, list | tuple) or not 0 < len(given) <= MAX_STRUCTURES:
        raise ModelError(
            f"bank.structures: {given!r} is no list of 1 to {MAX_STRUCTURES} structures; leave it out"
        )
    for one in given:
        if not isinstance(one, Mapping):
            raise ModelError(f"bank.structures: {one!r} is no mapping; give {{trees: 40}} or so")
        unknown = set(one) - set(Structure._fields)
        if unknown:
            raise ModelError(
                f"bank.structures: {unknown.pop()!r} is not known; "
                f"known are {', '.join(Structure._fields)}"
            )
    return tuple(_structure(k, one) for k, one in enumerate(given))


def _structure(k: int, given: Mapping[str, Any]) -> Structure:
    """Return one structure; refuse what is out of range, which trees cannot be built of."""
    for name, value in given.items():
        low, high = STRUCTURE_RANGES[name]
        whole = isinstance(getattr(STRUCTURES[0], name), int)
        fits = isinstance(value, int) if whole else isinstance(value, int | float)
        if name == "lags":
            fits, low, high = isinstance(value, bool), 0, 1
        elif name == "bins":
            fits = value in (32, 64)
        elif isinstance(value, bool):
            fits = False
        if not fits or not low <= value <= high:
            kind = f"a {'whole ' if whole else ''}number from {low:g} to {high:g}"
            kind = "true or false" if name == "lags" else kind
            kind = "32 or 64" if name == "bins" else kind
            raise ModelError(f"bank.structures[{k}].{name}: {value!r} is not {kind}")
    return STRUCTURES[0]._replace(**given)


def _make(params: Mapping[str, Any], d: int, m: int, seed: int) -> Any:
    full = {"bank": params, "loss": {"kind": "squared"}}
    return bank(sizes_of(full), d, seed)


def _forbids(context: Mapping[str, Any]) -> str | None:
    rule, loss, own = (context[word]["kind"] for word in ("rule", "loss", "bank"))
    if rule != "sgb":
        return f"{own} regrows its trees in the order of sgb; take rule sgb, not {rule}"
    if context["m"] > 1:
        return f"{own} has one output; write multiclass: one_vs_rest beside it, or bank: linear"
    if not context["traits"].newton:
        return f"{own} lowers {', '.join(NEWTON_LOSSES)}; take one of them, not {loss}"
    if context["loss"].get("l2"):
        return f"{own} does not shrink its scores by l2; leave it 0"
    affordable_window(
        sizes_of(context), context["d"]
    )  # raises where no window fits into max_memory
    return None


REBOOSTED_TREES = Component(
    "reboosted_trees",
    "structures of regression trees, regrown in boosting order on windows of several lengths, with "
    "leaves that go on learning, stacked online with two linear learners and the last label, and "
    "calibrated",
    "Hu et al. 2017, Algorithm 1 with follow-the-leader trees; specification of reboosted trees",
    (
        Param(
            "budget",
            4000.0,
            "work an event on new trees, in nanoseconds; in proportion more where events have over "
            "250 values",
            100.0,
            1e6,
        ),
        Param(
            "leaf_rates",
            None,
            "of the leaf learners: AdaGrad's, and three constant ones; a fifth keeps still",
            check=partial(rates, "leaf_rates"),
        ),
        Param(
            "label_lags",
            None,
            "rates of the five decayed label means that stand beside the features",
            check=partial(rates, "label_lags"),
        ),
        Param("calibrate", True, "correct probabilities by how they turned out"),
        Param(
            "max_memory",
            128.0,
            "bound of trees and window in megabytes; the classes of one_vs_rest share it",
            1.0,
            1e6,
        ),
        Param(
            "structures",
            None,
            "in place of the default four a list of mappings with any of window, trees, leaves, "
            "depth, eta, least_rows, part, lags, bins, share, least_h, lam",
            check=structures,
        ),
    ),
    _make,
    _forbids,
    modes=(SQUARE,),
    takes_raw_columns=True,
)
