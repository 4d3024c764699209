"""From a plain specification to a Booster and back to arrays; what the theory forbids is refused
here, with the reason.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.banks.linear import LINEAR_BANK
from models.banks.nets import NETS
from models.booster import Booster
from models.losses import LOSSES
from models.progressive import progress
from models.rules.sgb import SGB, step
from models.types import ModelError, Param, Part, plain
from models.verbs import learning_only

Arrays = dict[str, NDArray[Any]]

RULES: dict[str, Part] = {SGB.kind: SGB}
BANKS: dict[str, Part] = {LINEAR_BANK.kind: LINEAR_BANK, NETS.kind: NETS}
PARTS: dict[str, Mapping[str, Part]] = {"rule": RULES, "bank": BANKS, "loss": LOSSES}
TASK_LOSS = {"regression": "squared", "binary": "logistic", "multiclass": "softmax"}
TASK_FITS = {"regression": ("squared",), "binary": ("logistic",), "multiclass": ("softmax",)}
RATES = {"nag": 0.5, "sgd": 0.05}
NET_RATES = {"adam": 0.001, "sgd": 0.3}


def build(
    spec: Mapping[str, Any] | None, d: int, m: int = 1, *, task: str | None = None
) -> Booster:
    """Return a booster that has seen nothing.

    Parameters
    ----------
    spec : rule, bank, loss and seed as in `kaboost.yaml`; None is the default model of the task.
    d : number of features.
    m : outputs: 1, or the number of classes for softmax.
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
    _check_pair(full, d, m)
    loss = make_loss(full["loss"])
    bank_params, N = full["bank"], full["bank"]["n"]
    rule = RULES[full["rule"]["kind"]].make(full["rule"], loss, m)
    bank = BANKS[bank_params["kind"]].make(bank_params, d, m, full["seed"])
    return Booster(bank, rule, loss, progress(N), np.array([d, m], np.int64))


def normalise_spec(spec: Mapping[str, Any] | None, task: str | None = None) -> dict[str, Any]:
    """Return the specification with every default filled in: equal values for equal models."""
    if spec is not None and not isinstance(spec, Mapping):
        raise ModelError(f"model: {spec!r} is no specification; give rule, bank and loss by name")
    given = dict(spec or {})
    _refuse_unknown("model", given, (*PARTS, "seed"))
    if task is not None and task not in TASK_LOSS:
        raise ModelError(f"task: {task!r} is not one; take {', '.join(TASK_LOSS)}")
    if "loss" not in given:
        if task is None:
            raise ModelError(f"loss: missing; name one of {', '.join(LOSSES)}, or give the task")
        given["loss"] = TASK_LOSS[task]
    given = {"rule": "sgb", "bank": "linear", **given}
    full: dict[str, Any] = {word: _fill(word, given[word]) for word in PARTS}
    if task is not None and full["loss"]["kind"] not in TASK_FITS[task]:
        raise ModelError(
            f"loss: {full['loss']['kind']} does not answer a {task} task; "
            f"take {' or '.join(TASK_FITS[task])}"
        )
    full["rule"]["eta"] = step(full["rule"], make_loss(full["loss"]), full["bank"]["n"])
    _fill_rates(full["bank"])
    full["seed"] = _integer("seed", given.get("seed", 1), 0, 2**63 - 1)
    return full


def make_loss(params: Mapping[str, Any]) -> Any:
    """Return the loss of a filled-in specification."""
    return LOSSES[params["kind"]].make(**{k: v for k, v in params.items() if k != "kind"})


def to_arrays(booster: Booster) -> Arrays:
    """Return every array of the booster under its dotted name, such as "bank.w"; scalars are arrays
    of no axis.
    """
    return {name: array for name, array, _ in _leaves(booster)}


def serving_arrays(booster: Booster) -> Arrays:
    """Return the arrays a prediction needs: all but those that only learning reads."""
    return {name: array for name, array, serving in _leaves(booster) if serving}


def from_arrays(spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Booster:
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
    fresh = build(spec, d, m)
    return Booster(
        bank=_refill("bank", fresh.bank, arrays),
        rule=_refill("rule", fresh.rule, arrays),
        loss=fresh.loss,
        progress=_refill("progress", fresh.progress, arrays),
        shape=arrays["shape"],
    )


def _refill(prefix: str, part: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    only = learning_only(part)
    found = {}
    for field, template in part._asdict().items():
        name = f"{prefix}.{field}"
        if not isinstance(template, np.ndarray):
            continue
        if name in arrays:
            array = arrays[name]
            if array.dtype != template.dtype or array.shape != template.shape:
                raise ModelError(
                    f"arrays: {name!r} is {array.dtype} {array.shape}, "
                    f"not {template.dtype} {template.shape}"
                )
            found[field] = array
        elif field in only:
            found[field] = np.zeros((0,) * template.ndim, template.dtype)
        else:
            raise ModelError(
                f"arrays: {name!r} is missing; take the arrays of the same specification"
            )
    return part._replace(**found)


def _leaves(booster: Booster) -> Iterator[tuple[str, NDArray[Any], bool]]:
    for word, part in booster._asdict().items():
        if isinstance(part, np.ndarray):
            yield word, part, True
            continue
        only = learning_only(part)
        for field, array in part._asdict().items():
            if isinstance(array, np.ndarray):
                assert array.flags.c_contiguous, f"{word}.{field} must be C-contiguous"
                yield f"{word}.{field}", array, field not in only


def _fill(word: str, given: Any) -> dict[str, Any]:
    """Return one part of the specification with its defaults; a bare word means the kind of that
    name.
    """
    params = {"kind": given} if isinstance(given, str) else given
    if not isinstance(params, Mapping) or "kind" not in params:
        raise ModelError(
            f"{word}: {given!r} names no kind; write {word}: {{kind: {next(iter(PARTS[word]))}}}"
        )
    kind = params["kind"]
    if not isinstance(kind, str) or kind not in PARTS[word]:
        raise ModelError(f"{word}: {kind!r} is not known{_nearest(str(kind), PARTS[word])}")
    part = PARTS[word][kind]
    _refuse_unknown(f"{word} {kind}", params, ("kind", *(p.name for p in part.params)))
    return {"kind": kind} | {
        p.name: _value(word, p, params.get(p.name, p.default)) for p in part.params
    }


def _value(word: str, param: Param, given: Any) -> Any:
    where = f"{word}.{param.name}"
    if given is None and param.default is None:
        return None
    if isinstance(param.default, bool):
        if not isinstance(given, bool):
            raise ModelError(f"{where}: {given!r} is not true or false")
        return given
    if isinstance(given, str) and param.choices:
        if given not in param.choices:
            raise ModelError(f"{where}: {given!r} is not known{_nearest(given, param.choices)}")
        return given
    if param.low is None or param.high is None:
        raise ModelError(f"{where}: {given!r} is not one of {', '.join(param.choices)}")
    if param.integer:
        return _integer(where, given, int(param.low), int(param.high))
    return _number(where, given, param.low, param.high)


def _number(where: str, given: Any, low: float, high: float) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or not math.isfinite(given) or not low <= given <= high:
        raise ModelError(f"{where}: {given!r} is not a number from {low:g} to {high:g}")
    return float(given)


def _integer(where: str, given: Any, low: int, high: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
        raise ModelError(f"{where}: {given!r} is not a whole number from {low} to {high}")
    return given


def _fill_rates(bank: dict[str, Any]) -> None:
    """Put the default learning rate that goes with the step."""
    if bank.get("lr", 0.0) is None:
        bank["lr"] = RATES[bank["step"]] if "step" in bank else NET_RATES[bank["optimiser"]]


def _check_pair(full: Mapping[str, Any], d: int, m: int) -> None:
    for word, parts in PARTS.items():
        reason = parts[full[word]["kind"]].forbids({**full, "d": d, "m": m})
        if reason:
            raise ModelError(f"{word}: {reason}")


def _refuse_unknown(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise ModelError(f"{where}: unknown key {key!r}{_nearest(str(key), known)}")


def _nearest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
