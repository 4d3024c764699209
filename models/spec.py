"""Model specifications: fill in every default and refuse unknown keys, kinds and values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from kaboost.models.losses import DEFAULT_LOSS, LOSSES, NEWTON_LOSSES, TASK_LOSSES
from kaboost.models.one_vs_rest import ONE_VS_REST, SHARED_TREES, binary_task
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
    """Return the specification with every default filled in, so that equal models compare equal.

    Parameters
    ----------
    spec
        `rule`, `bank`, `loss`, `seed` and `multiclass` as in `kaboost.yaml`; None is the default
        model of the task.
    task
        `regression`, `binary` or `multiclass`; needed where the specification names no loss.

    Raises
    ------
    ModelError
        For an unknown key, kind or value, and for parts that do not support the task.
    """
    if spec is not None and not isinstance(spec, Mapping):
        raise ModelError(
            f"model: {spec!r} is not a specification; give rule, bank and loss by name"
        )
    partial = dict(spec or {})
    wrapper = partial.pop("multiclass", None)
    if wrapper is None and task == "multiclass" and partial.keys() <= {"rule", "seed"}:
        trees = _defaults_to_trees({**partial, "loss": DEFAULT_LOSS["binary"]})
        wrapper = ONE_VS_REST if trees else None
    if wrapper is not None:
        of_class = normalise_spec(partial, binary_task(wrapper, task))
        _refuse_shared(wrapper, of_class)
        return {**of_class, "multiclass": wrapper}
    _refuse_unknown("model", partial, (*PARTS, "seed", "multiclass"))
    if task is not None and task not in DEFAULT_LOSS:
        raise ModelError(f"task: {task!r} is unknown; take {', '.join(DEFAULT_LOSS)}")
    if "loss" not in partial:
        partial["loss"] = _default_loss(partial.get("rule", "sgb"), task)
    partial = {"rule": "sgb", **partial}
    if partial.get("bank") is None and _defaults_to_trees(partial):
        partial["bank"] = TREES
    partial["bank"] = _with_default_bank(partial.get("bank"), partial["rule"])
    full: dict[str, Any] = {word: _fill(word, partial[word]) for word in PARTS}
    takes = RULES[full["rule"]["kind"]].losses
    if task is not None and takes and not set(takes) & set(TASK_LOSSES[task]):
        instead = "multiclass: one_vs_rest with it" if task == "multiclass" else "sgb"
        raise ModelError(
            f"rule: {full['rule']['kind']} does not support a {task} task; take {instead}"
        )
    if task is not None and full["loss"]["kind"] not in TASK_LOSSES[task]:
        raise ModelError(
            f"loss: {full['loss']['kind']} does not support a {task} task; "
            f"take {' or '.join(TASK_LOSSES[task])}"
        )
    for word in ("bank", "rule"):  # a rule's defaults may depend on the bank's
        params = full[word]
        parts = {"part": BANKS[full["bank"]["kind"]], "traits": LOSSES[full["loss"]["kind"]].traits}
        context = {**full, "task": task, **parts}
        PARTS[word][params["kind"]].fill_defaults(params, make_loss(full["loss"]), context)
    full["seed"] = check_integer("seed", to_python(partial.get("seed", 1)), 0, 2**63 - 1)
    return full


def _refuse_shared(wrapper: str, full: Mapping[str, Any]) -> None:
    """Raise ModelError where classes cannot share their trees."""
    bank, loss = full["bank"]["kind"], full["loss"]["kind"]
    if wrapper == SHARED_TREES and (bank != TREES or loss != "logistic"):
        raise ModelError(
            f"multiclass: {SHARED_TREES} takes bank {TREES} and loss logistic, not {bank} and "
            f"{loss}; write {ONE_VS_REST}"
        )


def _defaults_to_trees(spec: Mapping[str, Any]) -> bool:
    """Return whether reboosted trees are the default bank for a rule and a loss.

    Whether memory suffices for the features is checked later.
    """
    rule, loss = (
        {"kind": part} if isinstance(part, str) else part
        for part in (spec.get("rule", "sgb"), spec["loss"])
    )
    both = isinstance(rule, Mapping) and isinstance(loss, Mapping)
    plain_rule = both and {word for word in rule if rule[word] is not None} == {"kind"}
    return bool(
        plain_rule
        and rule["kind"] == "sgb"
        and loss.get("kind") in NEWTON_LOSSES
        and not loss.get("l2")
    )


def _default_loss(rule: Any, task: str | None) -> str:
    """Return the default loss: the task's, or the first that both the rule and the task allow."""
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
    """Return the bank with the rule's defaults for it: all of them for a bank of the same kind, the
    number of learners for other kinds that have one.
    """
    kind = rule.get("kind") if isinstance(rule, Mapping) else rule
    defaults = RULES[kind].default_bank if isinstance(kind, str) and kind in RULES else {}
    params = {"kind": defaults.get("kind", "linear")} if bank is None else bank
    params = {"kind": params} if isinstance(params, str) else params
    if not isinstance(params, Mapping):
        return params
    same = params.get("kind") == defaults.get("kind")
    has_n = params.get("kind") != TREES
    kept = {name: v for name, v in defaults.items() if same or (name == "n" and has_n)}
    return {**kept, **params}


def make_loss(params: Mapping[str, Any]) -> Any:
    """Return the loss of a filled-in specification."""
    return LOSSES[params["kind"]].make(**{k: v for k, v in params.items() if k != "kind"})


def _fill(word: str, value: Any) -> dict[str, Any]:
    """Return one part of the specification with its defaults; a bare word is a kind."""
    params = {"kind": value} if isinstance(value, str) else value
    if not isinstance(params, Mapping) or "kind" not in params:
        raise ModelError(
            f"{word}: {value!r} has no kind; "
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


def _likely_kind(word: str, value: Any) -> str:
    """Return the first kind that has these parameters, or the first of all."""
    keys = set(value) if isinstance(value, Mapping) else set()
    kinds = PARTS[word].items()
    fitting = (kind for kind, part in kinds if keys <= {p.name for p in part.params})
    return next(fitting, next(iter(PARTS[word])))


def _value(word: str, param: Param, value: Any) -> Any:
    where = f"{word}.{param.name}"
    value = to_python(value)
    if value is None and param.default is None:
        return None
    if param.check:
        param.check(value)
        return value
    if isinstance(param.default, bool):
        if not isinstance(value, bool):
            raise ModelError(f"{where}: {value!r} is not true or false")
        return value
    if param.infinite and value in ("inf", math.inf):
        return "inf"  # a word, because JSON has no infinity
    if isinstance(value, str) and param.choices:
        if value not in param.choices:
            number = "" if param.low is None else f"; or give a number from {param.low:g} on"
            near = _hint(value, param.choices)
            raise ModelError(f"{where}: {value!r} is not known{near}{number}")
        return value
    if param.low is None or param.high is None:
        raise ModelError(f"{where}: {value!r} is not one of {', '.join(param.choices)}")
    if param.integer:
        return check_integer(where, value, int(param.low), int(param.high))
    return _number(where, value, param.low, param.high)


def _number(where: str, value: Any, low: float, high: float) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high:  # nan as well; an integer may be beyond any float
        raise ModelError(f"{where}: {value!r:.60} is not a number from {low:g} to {high:g}")
    return float(value)


def check_integer(where: str, value: Any, low: int, high: int) -> int:
    """Return a whole number from low to high.

    Raises
    ------
    ModelError
        For anything else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ModelError(f"{where}: {value!r} is not a whole number from {low} to {high}")
    return value


def _refuse_unknown(where: str, params: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in params:
        if key not in known:
            raise ModelError(f"{where}: unknown key {key!r}{_hint(str(key), known)}")


def _hint(word: str, known: Iterable[str]) -> str:
    """Return a hint: the known words nearest to an unknown one, or all of a short list."""
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
