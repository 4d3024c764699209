"""From a plain specification to a Booster and back to arrays; what the theory forbids is refused
here, with the reason.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.banks import ALL as ALL_BANKS
from models.banks.averaged import averaged
from models.banks.copies import Copies
from models.banks.reboosted import LOSSES as TREE_LOSSES
from models.booster import Booster, settle
from models.losses import LOSSES
from models.one_vs_rest import WORD, OneVsRest, binary_task, one_vs_rest
from models.progressive import progress
from models.reboosted import ReboostedTrees, reboosted_trees
from models.rules import ALL as ALL_RULES
from models.types import ModelError, Param, Part, Setting, plain
from models.verbs import learning_only, sequential

Arrays = dict[str, NDArray[Any]]
AnyBooster = Booster | OneVsRest | ReboostedTrees

RULES: dict[str, Part] = {part.kind: part for part in ALL_RULES}
BANKS: dict[str, Part] = {part.kind: part for part in ALL_BANKS}
PARTS: dict[str, Mapping[str, Part]] = {"rule": RULES, "bank": BANKS, "loss": LOSSES}
TREES = "reboosted_trees"  # the default bank
TASK_LOSS = {"regression": "squared", "binary": "logistic", "multiclass": "softmax"}
TASK_FITS = {
    "regression": ("squared", "squared_full", "absolute", "quantile", "huber", "poisson", "pnorm"),
    "binary": ("logistic", "logistic2", "hinge", "exponential", "linear", "mls"),
    "multiclass": ("softmax",),
}


def build(
    spec: Mapping[str, Any] | None, d: int, m: int = 1, *, task: str | None = None
) -> AnyBooster:
    """Return a booster that has seen nothing; a `multiclass: one_vs_rest` beside its parts makes
    one for each class.

    Parameters
    ----------
    spec : rule, bank, loss and seed as in `kaboost.yaml`; None is the default model of the task.
    d : number of features.
    m : outputs: 1, or the number of classes for softmax and one_vs_rest.
    task : regression, binary or multiclass; only needed where the specification names no loss.

    Raises
    ------
    ModelError
        A key, kind or value is unknown, or the theory does not allow the combination.

    Examples
    --------
    >>> spec = {"rule": "sgb", "bank": {"kind": "linear", "n": 4}, "loss": "logistic"}
    >>> build(spec, d=3).bank.w.shape
    (1, 4, 4)
    """
    full = normalise_spec(spec, task)
    for name, count in (("d", d), ("m", m)):
        _integer(name, plain(count), 1, 2**31)
    if full.pop("multiclass", None):
        # Each class has a generator of its own, from the same seed: a class is the binary booster.
        full["classes"] = m
        return one_vs_rest([_build(full, d, 1) for _ in range(m)], d)
    return _build(full, d, m)


def check(spec: Mapping[str, Any] | None, d: int, m: int = 1, *, task: str | None = None) -> None:
    """Raise what `build` would raise, and for a rule that learns no events; the bank, which may be
    large, is not made.
    """
    full = normalise_spec(spec, task)
    if full.pop("multiclass", None):
        full["classes"], m = m, 1
    _, rule = _rule(full, d, m)
    sequential(rule)  # rules of models.fit refuse to say


def _rule(full: Mapping[str, Any], d: int, m: int) -> tuple[Setting, Any]:
    _check_pair(full, d, m)
    setting = Setting(full, make_loss(full["loss"]), BANKS[full["bank"]["kind"]], d, m)
    return setting, RULES[full["rule"]["kind"]].make(full["rule"], setting)


def _build(full: Mapping[str, Any], d: int, m: int) -> Booster | ReboostedTrees:
    setting, rule = _rule(full, d, m)
    part = setting.bank
    if part.kind == TREES:
        return reboosted_trees(full, setting.loss, d)
    bank = part.make(full["bank"], d, m, full["seed"])
    if full["rule"].get("averaged") or full["rule"].get("avg_halflife"):
        bank = averaged(bank, full["rule"]["avg_halflife"])
    if getattr(rule, "alike", False):
        bank = Copies(part.make({**full["bank"], "n": 1}, d, m, full["seed"]))
    return Booster(bank, rule, setting.loss, progress(setting.learners), np.array([d, m], np.int64))


def normalise_spec(spec: Mapping[str, Any] | None, task: str | None = None) -> dict[str, Any]:
    """Return the specification with every default filled in: equal values for equal models."""
    if spec is not None and not isinstance(spec, Mapping):
        raise ModelError(f"model: {spec!r} is no specification; give rule, bank and loss by name")
    given = dict(spec or {})
    wrapper = given.pop("multiclass", None)
    if wrapper is None and task == "multiclass" and given.keys() <= {"rule", "seed"}:
        wrapper = WORD if _takes_trees({**given, "loss": "logistic"}) else None
    if wrapper is not None:
        return {**normalise_spec(given, binary_task(wrapper, task)), "multiclass": wrapper}
    _refuse_unknown("model", given, (*PARTS, "seed", "multiclass"))
    if task is not None and task not in TASK_LOSS:
        raise ModelError(f"task: {task!r} is not one; take {', '.join(TASK_LOSS)}")
    if "loss" not in given:
        given["loss"] = _unnamed_loss(given.get("rule", "sgb"), task)
    given = {"rule": "sgb", **given}
    if given.get("bank") is None and _takes_trees(given):
        given["bank"] = TREES
    given["bank"] = _with_likings(given.get("bank"), given["rule"])
    full: dict[str, Any] = {word: _fill(word, given[word]) for word in PARTS}
    takes = RULES[full["rule"]["kind"]].losses
    if task is not None and takes and not set(takes) & set(TASK_FITS[task]):
        instead = "multiclass: one_vs_rest beside it" if task == "multiclass" else "sgb"
        raise ModelError(
            f"rule: {full['rule']['kind']} does not answer a {task} task; take {instead}"
        )
    if task is not None and full["loss"]["kind"] not in TASK_FITS[task]:
        raise ModelError(
            f"loss: {full['loss']['kind']} does not answer a {task} task; "
            f"take {' or '.join(TASK_FITS[task])}"
        )
    for word in ("bank", "rule"):  # a rule's defaults may depend on the bank's
        own = full[word]
        around = {**full, "task": task, "part": BANKS[full["bank"]["kind"]]}
        PARTS[word][own["kind"]].complete(own, make_loss(full["loss"]), around)
    full["seed"] = _integer("seed", plain(given.get("seed", 1)), 0, 2**63 - 1)
    return full


def _takes_trees(given: Mapping[str, Any]) -> bool:
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
        and loss.get("kind") in TREE_LOSSES
        and not loss.get("l2")
    )


def _unnamed_loss(rule: Any, task: str | None) -> str:
    """Return the loss of a specification that names none: the task's, or the first that the rule
    takes and the task allows.
    """
    kind = rule.get("kind") if isinstance(rule, Mapping) else rule
    fixed = RULES[kind].losses if isinstance(kind, str) and kind in RULES else ()
    if task is None:
        if not fixed:
            raise ModelError(f"loss: missing; name one of {', '.join(LOSSES)}, or give the task")
        return fixed[0]
    fitting = [loss for loss in fixed if loss in TASK_FITS[task]]
    return fitting[0] if fitting and TASK_LOSS[task] not in fitting else TASK_LOSS[task]


def _with_likings(bank: Any, rule: Any) -> Any:
    """Return the bank with what the rule takes by default: all of it for a bank of that kind, the
    number of learners for any other that has one.
    """
    kind = rule.get("kind") if isinstance(rule, Mapping) else rule
    likes = RULES[kind].likes if isinstance(kind, str) and kind in RULES else {}
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


def to_arrays(booster: AnyBooster) -> Arrays:
    """Return every array of the booster under its dotted name, such as "bank.w"; scalars are arrays
    of no axis. The same events leave the same bytes, in whatever batches and by how many threads.
    """
    settle(booster)
    return {name: array for name, array, _ in _leaves("", booster)}


def serving_arrays(booster: AnyBooster) -> Arrays:
    """Return the arrays a prediction needs: all but those that only learning reads."""
    return {name: array for name, array, serving in _leaves("", booster) if serving}


def from_arrays(spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> AnyBooster:
    """Return the booster of `spec` over these very arrays: read-only ones serve, writable ones go
    on learning.

    Arrays that only learning reads may be missing; then they are empty, and the booster can only
    predict.

    Raises
    ------
    ModelError
        An array is missing, or has another type or shape than the specification says.
    """
    if "shape" not in arrays or arrays["shape"].shape != (2,):
        raise ModelError("arrays: 'shape' is missing; these are not a booster's arrays")
    d, m = (int(n) for n in arrays["shape"])
    outline = _outline(json.dumps(normalise_spec(spec), sort_keys=True, default=plain), d, m)
    filled: AnyBooster = _refill("", outline, arrays)
    return filled


@lru_cache(maxsize=8)
def _outline(spec: str, d: int, m: int) -> AnyBooster:
    """Return a booster whose arrays have types and shapes and no memory: a reader would make a
    whole window of it with every snapshot.
    """
    outline: AnyBooster = _without_memory(build(json.loads(spec), d, m))
    return outline


def _without_memory(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return np.broadcast_to(np.zeros((), part.dtype), part.shape)
    if hasattr(part, "_asdict"):
        return part._replace(**{k: _without_memory(v) for k, v in part._asdict().items()})
    return tuple(map(_without_memory, part)) if isinstance(part, tuple) else part


def _refill(prefix: str, part: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    only = learning_only(part)
    found: dict[str, Any] = {}
    for field, template in part._asdict().items():
        name = f"{prefix}.{field}" if prefix else field
        if hasattr(template, "_asdict"):
            found[field] = _refill(name, template, arrays)
        elif isinstance(template, tuple):
            parts = enumerate(template)
            found[field] = tuple(_refill(f"{name}.{k}", part, arrays) for k, part in parts)
        elif isinstance(template, np.ndarray):
            found[field] = _same(name, template, arrays, field in only)
    return part._replace(**found)


def _same(
    name: str, template: NDArray[Any], arrays: Mapping[str, NDArray[Any]], optional: bool
) -> NDArray[Any]:
    """Return the array of that name, like its template; an empty one if it may be missing."""
    if name not in arrays:
        if optional:
            return np.zeros((0,) * template.ndim, template.dtype)
        raise ModelError(f"arrays: {name!r} is missing; take the arrays of the same specification")
    array = arrays[name]
    if array.dtype != template.dtype or array.shape != template.shape:
        raise ModelError(
            f"arrays: {name!r} is {array.dtype} {array.shape}, "
            f"not {template.dtype} {template.shape}; take those of the same specification and build"
        )
    return array


def _leaves(prefix: str, part: Any) -> Iterator[tuple[str, NDArray[Any], bool]]:
    only = learning_only(part) if prefix else ()
    for field, value in part._asdict().items():
        name = f"{prefix}.{field}" if prefix else field
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous, f"{name} must be C-contiguous"
            yield name, value, field not in only
        elif hasattr(value, "_asdict"):
            yield from _leaves(name, value)
        elif isinstance(value, tuple):  # the classes of one_vs_rest
            for k, each in enumerate(value):
                yield from _leaves(f"{name}.{k}", each)


def _fill(word: str, given: Any) -> dict[str, Any]:
    """Return one part of the specification with its defaults; a bare word means the kind of that
    name.
    """
    params = {"kind": given} if isinstance(given, str) else given
    if not isinstance(params, Mapping) or "kind" not in params:
        raise ModelError(
            f"{word}: {given!r} names no kind; write {word}: {{kind: {_meant(word, params)}, ...}}"
        )
    kind = params["kind"]
    if not isinstance(kind, str) or kind not in PARTS[word]:
        raise ModelError(f"{word}: {kind!r} is not known{_nearest(str(kind), PARTS[word])}")
    part = PARTS[word][kind]
    _refuse_unknown(f"{word} {kind}", params, ("kind", *(p.name for p in part.params)))
    return {"kind": kind} | {
        p.name: _value(word, p, params.get(p.name, p.default)) for p in part.params
    }


def _meant(word: str, given: Any) -> str:
    """Return the first kind that has the parameters given without one, or the first of all."""
    keys = set(given) if isinstance(given, Mapping) else set()
    kinds = PARTS[word].items()
    fitting = (kind for kind, part in kinds if keys <= {p.name for p in part.params})
    return next(fitting, next(iter(PARTS[word])))


def _value(word: str, param: Param, given: Any) -> Any:
    where = f"{word}.{param.name}"
    given = plain(given)
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
            near = _nearest(given, param.choices)
            raise ModelError(f"{where}: {given!r} is not known{near}{number}")
        return given
    if param.low is None or param.high is None:
        raise ModelError(f"{where}: {given!r} is not one of {', '.join(param.choices)}")
    if param.integer:
        return _integer(where, given, int(param.low), int(param.high))
    return _number(where, given, param.low, param.high)


def _number(where: str, given: Any, low: float, high: float) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or not low <= given <= high:  # nan as well; an integer may be beyond any float
        raise ModelError(f"{where}: {given!r:.60} is not a number from {low:g} to {high:g}")
    return float(given)


def _integer(where: str, given: Any, low: int, high: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
        raise ModelError(f"{where}: {given!r} is not a whole number from {low} to {high}")
    return given


def _check_pair(full: Mapping[str, Any], d: int, m: int) -> None:
    rule, loss = full["rule"]["kind"], full["loss"]["kind"]
    fixed = RULES[rule].losses
    if fixed and loss not in fixed:
        wrapped = ", with multiclass: one_vs_rest" if loss == "softmax" else ""
        raise ModelError(
            f"loss: {rule} fixes its own loss; take {' or '.join(fixed)}{wrapped}, not {loss}"
        )
    for word in ("rule", "loss", "bank"):  # a loss says best what is wrong with a default bank
        reason = PARTS[word][full[word]["kind"]].forbids({**full, "d": d, "m": m})
        if reason:
            raise ModelError(f"{word}: {reason}")


def _refuse_unknown(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise ModelError(f"{where}: unknown key {key!r}{_nearest(str(key), known)}")


def _nearest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
