"""What `model: {river: ...}` may say: names of River's own parts with plain parameters, checked and
built.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from kaboost.models.types import ModelError

# Nothing but these is ever imported. `base` and `utils` hold no parts; `active` answers in pairs;
# what `compose` and `multioutput` make is said by `steps`, or is no answer to one label.
MODULES = (
    "bandit",
    "drift",
    "drift.binary",
    "dummy",
    "ensemble",
    "facto",
    "feature_extraction",
    "feature_selection",
    "forest",
    "imblearn",
    "linear_model",
    "metrics",
    "model_selection",
    "multiclass",
    "naive_bayes",
    "neighbors",
    "optim",
    "optim.initializers",
    "optim.losses",
    "optim.schedulers",
    "preprocessing",
    "rules",
    "stats",
    "tree",
    "tree.splitter",
)
KEYS = ("river", "params", "steps", "scale", "one_hot", "seed")
SEED = 1
# What a step works on, as the types of the values; whatever else there is passes it by.
STEP_TYPES: dict[str, tuple[tuple[type, ...], tuple[type, ...]]] = {
    "number": ((float,), (str, int)),
    "category": ((str,), (float, int)),
}
SCALE = {"river": "preprocessing.StandardScaler", "params": {}, "on": "number"}
ONE_HOT = {"river": "preprocessing.OneHotEncoder", "params": {}, "on": "category"}
RIVER_ERRORS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError)


def is_river(spec: object) -> bool:
    """Tell a model of River from a booster."""
    return isinstance(spec, Mapping) and "river" in spec


def normalise_spec(spec: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the specification with nothing left open: every step spelled out, the seed named.

    Parameters
    ----------
    spec
        `river`: module and class, such as `forest.ARFClassifier`; `params`: plain values, or parts
        in the same words; `steps`: transformers before it; `scale`, `one_hot`: the two steps most
        used; `seed`: of every part that takes one and is given none, 1 unless said.
    task
        `regression`, `binary` or `multiclass`.

    Raises
    ------
    ModelError
        For a key, a name or a parameter that cannot be, and where River is not installed.

    Examples
    --------
    >>> said = normalise_spec({"river": "linear_model.LogisticRegression", "scale": True}, "binary")
    >>> said["steps"]
    [{'river': 'preprocessing.StandardScaler', 'params': {}, 'on': 'number'}]
    """
    seed = spec.get("seed", SEED)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ModelError(f"model.seed: {seed!r} is no whole number; give one, such as 1")
    full = {**_node(spec, "model", KEYS), "seed": seed}
    part = resolve(full["river"], "model.river")
    if not _fits(part, task):
        raise ModelError(_misfit(full["river"], task))
    estimator = build_estimator(full)
    if task == "multiclass" and not estimator._multiclass:
        raise ModelError(
            f"model.river: {full['river']} tells two classes apart; for more write river: "
            "multiclass.OneVsRestClassifier, params: {classifier: {river: " + full["river"] + "}}"
        )
    return full


def build_estimator(spec: Mapping[str, Any]) -> Any:
    """Return the estimator of a normalised specification, in a River pipeline where it has
    steps.
    """
    return _build(spec, spec["seed"], "model")


def takes_weight(spec: Mapping[str, Any]) -> bool:
    """Say whether the estimator itself learns by importance: its `learn_one` has a `w`."""
    part = resolve(spec["river"], "model.river")
    return "w" in inspect.signature(part.learn_one).parameters


def resolve(name: object, where: str) -> Any:
    """Return the class of River's that a dotted name stands for; only listed modules are
    imported.
    """
    module, _, kind = str(name).rpartition(".")
    if module in MODULES:
        found = getattr(_load(module, where), kind, None) if kind in _parts(module, where) else None
        if found is not None:
            return found
    else:
        _load("base", where)  # a missing library is said first
    known = [f"{each}.{part}" for each in MODULES for part in _parts(each, where)]
    near = _nearest(str(name), known)
    raise ModelError(f"{where}: {name!r} is no part of River that can be used; {near}")


def _load(module: str, where: str) -> Any:
    try:
        return importlib.import_module(f"river.{module}")
    except ModuleNotFoundError as err:
        raise ModelError(
            f"{where}: needs the library River, which is not installed ({err.name} is missing): "
            "pip install 'kaboost[river]', or take one of Kaboost's own models"
        ) from err


def _parts(module: str, where: str) -> list[str]:
    """Name the classes a module offers that can be made; River lists them in `__all__`."""
    loaded = _load(module, where)
    named = getattr(loaded, "__all__", ())
    return [name for name in named if _usable(getattr(loaded, name, None))]


def _usable(found: object) -> bool:
    return (
        inspect.isclass(found)
        and not inspect.isabstract(found)
        and found.__module__.startswith("river.")
    )


def _fits(part: Any, task: str) -> bool:
    base = importlib.import_module("river.base")
    wanted, other = (
        (base.Regressor, base.MultiTargetRegressor)
        if task == "regression"
        else (base.Classifier, base.MultiLabelClassifier)
    )
    return issubclass(part, wanted) and not issubclass(part, other)


def _misfit(name: str, task: str) -> str:
    kind = "regressor" if task == "regression" else "classifier"
    fitting = [
        f"{module}.{part}"
        for module in MODULES
        for part in _parts(module, "model.river")
        if _fits(resolve(f"{module}.{part}", "model.river"), task)
    ]
    twin = name.removesuffix("Classifier").removesuffix("Regressor") + kind.capitalize()
    near = _nearest(twin, fitting)
    return f"model.river: {name} is no {kind}, which the task {task} needs; {near}"


def _nearest(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1, 0.7)
    last = [each.split(".")[-1] for each in known]
    alone = get_close_matches(name.rpartition(".")[2], last, 1, 0.7)
    same = [each for each, word in zip(known, last, strict=True) if [word] == alone]
    found = [*same, *near][:1]
    return f"did you mean {found[0]}?" if found else "docs/river.md names those there are"


def _node(spec: Mapping[str, Any], where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Check one part with all that is below it; return it with its defaults."""
    for key in spec:
        if key not in keys:
            near = get_close_matches(str(key), keys, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(keys)}"
            raise ModelError(f"{where}.{key}: unknown key beside river; {hint}")
    part = resolve(spec["river"], f"{where}.river")
    given = spec.get("params") or {}
    if not isinstance(given, Mapping):
        raise ModelError(f"{where}.params: {given!r} is no mapping; write {{name: value}}")
    _check_names(part, given, where)
    full: dict[str, Any] = {"river": spec["river"]}
    full["params"] = {k: _value(v, f"{where}.params.{k}") for k, v in given.items()}
    if "steps" in keys:
        full["steps"] = list(_steps(spec, where))
    return full


def _steps(spec: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    for key, step in (("scale", SCALE), ("one_hot", ONE_HOT)):
        wished = spec.get(key, False)
        if not isinstance(wished, bool):
            raise ModelError(f"{where}.{key}: {wished!r} is neither true nor false; write one")
        if wished:
            yield dict(step)
    steps = spec.get("steps") or []
    if not isinstance(steps, list) or not all(map(is_river, steps)):
        raise ModelError(f"{where}.steps: {steps!r} is no list of {{river: ..., params: ...}}")
    for k, step in enumerate(steps):
        place = f"{where}.steps[{k}]"
        full = _node(step, place, ("river", "params", "on"))
        if not hasattr(resolve(step["river"], place), "transform_one"):
            raise ModelError(f"{place}.river: {step['river']} transforms nothing; take a scaler")
        if step.get("on") not in (None, *STEP_TYPES):
            raise ModelError(f"{place}.on: {step['on']!r} is not number or category; or leave out")
        yield {**full, "on": step.get("on")}


def _check_names(part: Any, given: Mapping[str, Any], where: str) -> None:
    known = _parameters(part)
    if known is None:
        return
    name = f"{part.__module__.split('.')[1]}.{part.__name__}"
    for key in given:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known) or 'none'}"
            raise ModelError(f"{where}.params.{key}: {name} has no such parameter; {hint}")
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in given:
            raise ModelError(f"{where}.params.{key}: missing; {name} cannot be made without it")


def _parameters(part: Any) -> dict[str, inspect.Parameter] | None:
    """Return what a class may be given by name; None for one that takes any name."""
    found = list(inspect.signature(part).parameters.values())
    if any(each.kind is each.VAR_KEYWORD for each in found):
        return None
    return {each.name: each for each in found if each.kind is not each.VAR_POSITIONAL}


def _value(value: Any, where: str) -> Any:
    """Check one parameter: a plain value, a list or mapping of them, or a part of River."""
    if is_river(value):
        return _node(value, where, tuple(key for key in KEYS if key != "seed"))
    if isinstance(value, Mapping):
        return {key: _value(each, f"{where}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_value(each, f"{where}[{k}]") for k, each in enumerate(value)]
    if isinstance(value, bool | int | float | str | None):
        return value
    raise ModelError(f"{where}: {value!r} is no plain value; write a number, text, list or part")


def _build(value: Any, seed: int, where: str) -> Any:
    if isinstance(value, list):
        return [_build(each, seed, f"{where}[{k}]") for k, each in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    if not is_river(value):
        return {key: _build(each, seed, f"{where}.{key}") for key, each in value.items()}
    made = _make(value, seed, where)
    steps = [_step(each, seed, f"{where}.steps[{k}]") for k, each in enumerate(value["steps"])]
    return _compose().Pipeline(*steps, made) if steps else made


def _make(node: Mapping[str, Any], seed: int, where: str) -> Any:
    part = resolve(node["river"], f"{where}.river")
    made = {k: _build(v, seed, f"{where}.params.{k}") for k, v in node["params"].items()}
    if "seed" in (_parameters(part) or {}):
        made.setdefault("seed", seed)  # a replay must come to the same model
    try:
        return part(**made)
    except RIVER_ERRORS as err:
        raise ModelError(
            f"{where}.params: {node['river']} refuses {node['params']!r} "
            f"({type(err).__name__}: {err}); River's documentation tells what it takes"
        ) from err


def _step(node: Mapping[str, Any], seed: int, where: str) -> Any:
    made = _make(node, seed, where)
    if node["on"] is None:
        return made
    compose = _compose()
    chosen, rest = STEP_TYPES[node["on"]]
    return compose.TransformerUnion(compose.SelectType(*chosen) | made, compose.SelectType(*rest))


def _compose() -> Any:
    return importlib.import_module("river.compose")
