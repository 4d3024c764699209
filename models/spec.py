"""Model specifications: fill in every default and refuse unknown keys, kinds and values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from kaboost.models.losses import DEFAULT_LOSS, LOSSES, NEWTON_LOSSES, TASK_LOSSES
from kaboost.models.one_vs_rest import ONE_VS_REST, binary_task
from kaboost.models.parts import BANKS, PARTS, RULES
from kaboost.models.types import ModelError, Param, to_python

TREES = "reboosted_trees"  # the default bank

LISTED_NAMES = 8  # a message lists at most this many names
LOSS_ALIASES = {  # what other libraries call the losses
    "squared": "mse l2 rmse mean_squared_error squared_error least_squares gaussian regression",
    "absolute": "mae l1 mean_absolute_error absolute_error laplace",
    "huber": "smooth_l1",
    "quantile": "pinball",
    "logistic": "logloss log_loss bce binary_crossentropy binary_cross_entropy binary_logloss "
    "logistic_regression logistic_loss binary sigmoid cross_entropy crossentropy xentropy",
    "hinge": "svm",
    "softmax": "multi_logloss mlogloss categorical_crossentropy multinomial multiclass "
    "softmax_regression cross_entropy crossentropy xentropy",
}


def normalise_spec(spec: Mapping[str, Any] | None, task: str | None = None) -> dict[str, Any]:
    """Return the specification with every default filled in: equal values for equal models."""
    if spec is not None and not isinstance(spec, Mapping):
        raise ModelError(f"model: {spec!r} is no specification; give rule, bank and loss by name")
    given = dict(spec or {})
    wrapper = given.pop("multiclass", None)
    if wrapper is None and task == "multiclass" and given.keys() <= {"rule", "seed"}:
        trees = _defaults_to_trees({**given, "loss": DEFAULT_LOSS["binary"]})
        wrapper = ONE_VS_REST if trees else None
    if wrapper is not None:
        return {**normalise_spec(given, binary_task(wrapper, task)), "multiclass": wrapper}
    _refuse_unknown("model", given, (*PARTS, "seed", "multiclass"))
    if task is not None and task not in DEFAULT_LOSS:
        raise ModelError(f"task: {task!r} is not one; take {', '.join(DEFAULT_LOSS)}")
    if "loss" not in given:
        given["loss"] = _default_loss(given.get("rule", "sgb"), task)
    given = {"rule": "sgb", **given}
    if given.get("bank") is None and _defaults_to_trees(given):
        given["bank"] = TREES
    given["bank"] = _with_default_bank(given.get("bank"), given["rule"])
    full: dict[str, Any] = {word: _fill(word, given[word]) for word in PARTS}
    takes = RULES[full["rule"]["kind"]].losses
    if task is not None and takes and not set(takes) & set(TASK_LOSSES[task]):
        instead = "multiclass: one_vs_rest beside it" if task == "multiclass" else "sgb"
        raise ModelError(
            f"rule: {full['rule']['kind']} does not answer a {task} task; take {instead}"
        )
    if task is not None and full["loss"]["kind"] not in TASK_LOSSES[task]:
        raise ModelError(
            f"loss: {full['loss']['kind']} does not answer a {task} task; "
            f"take {' or '.join(TASK_LOSSES[task])}"
        )
    for word in ("bank", "rule"):  # a rule's defaults may depend on the bank's
        own = full[word]
        parts = {"part": BANKS[full["bank"]["kind"]], "traits": LOSSES[full["loss"]["kind"]].traits}
        around = {**full, "task": task, **parts}
        PARTS[word][own["kind"]].fill_defaults(own, make_loss(full["loss"]), around)
    full["seed"] = check_integer("seed", to_python(given.get("seed", 1)), 0, 2**63 - 1)
    return full


def _defaults_to_trees(given: Mapping[str, Any]) -> bool:
    """Return whether reboosted trees are the default bank beside a rule and a loss; whether they
    have the memory for its features is asked later, and refused with the remedy.
    """
    rule, loss = (
        {"kind": part} if isinstance(part, str) else part
        for part in (given.get("rule", "sgb"), given["loss"])
    )
    named = isinstance(rule, Mapping) and isinstance(loss, Mapping)
    plain_rule = named and {word for word in rule if rule[word] is not None} == {"kind"}
    return bool(
        plain_rule
        and rule["kind"] == "sgb"
        and loss.get("kind") in NEWTON_LOSSES
        and not loss.get("l2")
    )


def _default_loss(rule: Any, task: str | None) -> str:
    """Return the loss of a specification that names none: the task's, or the first that the rule
    takes and the task allows.
    """
    kind = rule.get("kind") if isinstance(rule, Mapping) else rule
    fixed = RULES[kind].losses if isinstance(kind, str) and kind in RULES else ()
    if task is None:
        if not fixed:
            raise ModelError(
                "loss: missing; name one, as `kaboost models` lists them, or give the task"
            )
        return fixed[0]
    fitting = [loss for loss in fixed if loss in TASK_LOSSES[task]]
    return fitting[0] if fitting and DEFAULT_LOSS[task] not in fitting else DEFAULT_LOSS[task]


def _with_default_bank(bank: Any, rule: Any) -> Any:
    """Return the bank with what the rule takes by default: all of it for a bank of that kind, the
    number of learners for any other that has one.
    """
    kind = rule.get("kind") if isinstance(rule, Mapping) else rule
    likes = RULES[kind].default_bank if isinstance(kind, str) and kind in RULES else {}
    own = {"kind": likes.get("kind", "linear")} if bank is None else bank
    own = {"kind": own} if isinstance(own, str) else own
    if not isinstance(own, Mapping):
        return own
    same = own.get("kind") == likes.get("kind")
    numbered = own.get("kind") != TREES
    return {**{name: v for name, v in likes.items() if same or (name == "n" and numbered)}, **own}


def make_loss(params: Mapping[str, Any]) -> Any:
    """Return the loss of a filled-in specification."""
    return LOSSES[params["kind"]].make(**{k: v for k, v in params.items() if k != "kind"})


def _fill(word: str, given: Any) -> dict[str, Any]:
    """Return one part of the specification with its defaults; a bare word means the kind of that
    name.
    """
    params = {"kind": given} if isinstance(given, str) else given
    if not isinstance(params, Mapping) or "kind" not in params:
        raise ModelError(
            f"{word}: {given!r} names no kind; "
            f"write {word}: {{kind: {_likely_kind(word, params)}, ...}}"
        )
    kind = params["kind"]
    if not isinstance(kind, str) or kind not in PARTS[word]:
        raise ModelError(f"{word}: {kind!r} is not known{_hint(str(kind), PARTS[word])}")
    part = PARTS[word][kind]
    _refuse_unknown(f"{word} {kind}", params, ("kind", *(p.name for p in part.params)))
    return {"kind": kind} | {
        p.name: _value(word, p, params.get(p.name, p.default)) for p in part.params
    }


def _likely_kind(word: str, given: Any) -> str:
    """Return the first kind that has the parameters given without one, or the first of all."""
    keys = set(given) if isinstance(given, Mapping) else set()
    kinds = PARTS[word].items()
    fitting = (kind for kind, part in kinds if keys <= {p.name for p in part.params})
    return next(fitting, next(iter(PARTS[word])))


def _value(word: str, param: Param, given: Any) -> Any:
    where = f"{word}.{param.name}"
    given = to_python(given)
    if given is None and param.default is None:
        return None
    if param.check:
        param.check(given)
        return given
    if isinstance(param.default, bool):
        if not isinstance(given, bool):
            raise ModelError(f"{where}: {given!r} is not true or false")
        return given
    if param.infinite and given in ("inf", math.inf):
        return "inf"  # a word, because JSON has no infinity
    if isinstance(given, str) and param.choices:
        if given not in param.choices:
            number = "" if param.low is None else f"; or give a number from {param.low:g} on"
            near = _hint(given, param.choices)
            raise ModelError(f"{where}: {given!r} is not known{near}{number}")
        return given
    if param.low is None or param.high is None:
        raise ModelError(f"{where}: {given!r} is not one of {', '.join(param.choices)}")
    if param.integer:
        return check_integer(where, given, int(param.low), int(param.high))
    return _number(where, given, param.low, param.high)


def _number(where: str, given: Any, low: float, high: float) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or not low <= given <= high:  # nan as well; an integer may be beyond any float
        raise ModelError(f"{where}: {given!r:.60} is not a number from {low:g} to {high:g}")
    return float(given)


def check_integer(where: str, given: Any, low: int, high: int) -> int:
    """Return a whole number from low to high; ModelError for anything else."""
    if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
        raise ModelError(f"{where}: {given!r} is not a whole number from {low} to {high}")
    return given


def _refuse_unknown(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise ModelError(f"{where}: unknown key {key!r}{_hint(str(key), known)}")


def _hint(word: str, known: Iterable[str]) -> str:
    """Return what an unknown word was probably meant to be; a long list is only pointed to."""
    names = list(known)
    alias = word.strip().lower().replace("-", "_").replace(" ", "_")
    close = [kind for kind, words in LOSS_ALIASES.items() if alias in words.split()]
    close = [kind for kind in close if kind in names] or get_close_matches(word, names, 1, 0.5)
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    if len(names) <= LISTED_NAMES:
        return f"; known are {', '.join(names)}"
    nearest = get_close_matches(word, names, 3, 0.0)
    return f"; nearest are {', '.join(nearest)}; `kaboost models` lists all"
