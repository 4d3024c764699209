"""The specification `model: {river: ...}`: names of River's classes with plain parameters, checked
and built.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from kaboost.models.types import ModelError

# Only these modules are imported. `base` and `utils` have no estimators; `active` predicts pairs;
# `steps` replaces `compose`; `multioutput` predicts several labels.
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
# The types of the values that a step transforms, and of those that pass unchanged.
STEP_TYPES: dict[str, tuple[tuple[type, ...], tuple[type, ...]]] = {
    "number": ((float,), (str, int)),
    "category": ((str,), (float, int)),
}
SCALE = {"river": "preprocessing.StandardScaler", "params": {}, "on": "number"}
ONE_HOT = {"river": "preprocessing.OneHotEncoder", "params": {}, "on": "category"}
RIVER_ERRORS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError)


def is_river(spec: object) -> bool:
    """Return whether a specification is of a River model."""
    return isinstance(spec, Mapping) and "river" in spec


def normalise_spec(spec: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the specification with every default filled in: all steps, and the seed.

    Parameters
    ----------
    spec
        `river`: module and class, such as `forest.ARFClassifier`; `params`: plain values, or nested
        specifications; `steps`: transformers before it; `scale`, `one_hot`: shortcuts for the two
        most common steps; `seed`: for every class that takes one, 1 by default.
    task
        `regression`, `binary` or `multiclass`.

    Raises
    ------
    ModelError
        For an unknown key, name or parameter, and where River is not installed.

    Examples
    --------
    >>> full = normalise_spec({"river": "linear_model.LogisticRegression", "scale": True}, "binary")
    >>> full["steps"]
    [{'river': 'preprocessing.StandardScaler', 'params': {}, 'on': 'number'}]
    """
    seed = spec.get("seed", SEED)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ModelError(f"model.seed: {seed!r} is not a whole number; give one, such as 1")
    full = {**_node(spec, "model", KEYS), "seed": seed}
    part = resolve(full["river"], "model.river")
    if not _fits(part, task):
        raise ModelError(_misfit(full["river"], task))
    estimator = build_estimator(full)
    if task == "multiclass" and not estimator._multiclass:
        raise ModelError(
            f"model.river: {full['river']} supports two classes; for more write river: "
            "multiclass.OneVsRestClassifier, params: {classifier: {river: " + full["river"] + "}}"
        )
    return full


def build_estimator(spec: Mapping[str, Any]) -> Any:
    """Return the estimator of a normalised specification, in a River pipeline where it has
    steps.
    """
    return _build(spec, spec["seed"], "model")


def takes_weight(spec: Mapping[str, Any]) -> bool:
    """Return whether the estimator takes importances: its `learn_one` has a `w`."""
    part = resolve(spec["river"], "model.river")
    return "w" in inspect.signature(part.learn_one).parameters


def resolve(name: object, where: str) -> Any:
    """Return River's class of a dotted name; only modules in MODULES are imported.

    Raises
    ------
    ModelError
        For an unknown name, and where River is not installed.
    """
    module, _, kind = str(name).rpartition(".")
    if module in MODULES:
        part = getattr(_load(module, where), kind, None) if kind in _parts(module, where) else None
        if part is not None:
            return part
    else:
        _load("base", where)  # reports a missing library first
    known = [f"{module}.{part}" for module in MODULES for part in _parts(module, where)]
    near = _nearest(str(name), known)
    raise ModelError(f"{where}: {name!r} is not a usable part of River; {near}")


def _load(module: str, where: str) -> Any:
    try:
        return importlib.import_module(f"river.{module}")
    except ModuleNotFoundError as err:
        raise ModelError(
            f"{where}: needs the library River, which is not installed ({err.name} is missing): "
            "pip install 'kaboost[river]', or take a Kaboost model"
        ) from err


def _parts(module: str, where: str) -> list[str]:
    """Return the names of a module's concrete classes; River lists them in `__all__`."""
    loaded = _load(module, where)
    named = getattr(loaded, "__all__", ())
    return [name for name in named if _usable(getattr(loaded, name, None))]


def _usable(value: object) -> bool:
    return (
        inspect.isclass(value)
        and not inspect.isabstract(value)
        and value.__module__.startswith("river.")
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
    return f"model.river: {name} is not a {kind}, which the task {task} needs; {near}"


def _nearest(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1, 0.7)
    last = [path.split(".")[-1] for path in known]
    alone = get_close_matches(name.rpartition(".")[2], last, 1, 0.7)
    same = [path for path, word in zip(known, last, strict=True) if [word] == alone]
    best = [*same, *near][:1]
    return f"did you mean {best[0]}?" if best else "docs/river.md lists them"


def _node(spec: Mapping[str, Any], where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return one part with its defaults, after checks of it and all nested parts."""
    for key in spec:
        if key not in keys:
            near = get_close_matches(str(key), keys, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(keys)}"
            raise ModelError(f"{where}.{key}: unknown key next to river; {hint}")
    part = resolve(spec["river"], f"{where}.river")
    params = spec.get("params") or {}
    if not isinstance(params, Mapping):
        raise ModelError(f"{where}.params: {params!r} is not a mapping; write {{name: value}}")
    _check_names(part, params, where)
    full: dict[str, Any] = {"river": spec["river"]}
    full["params"] = {k: _value(v, f"{where}.params.{k}") for k, v in params.items()}
    if "steps" in keys:
        full["steps"] = list(_steps(spec, where))
    return full


def _steps(spec: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    for key, step in (("scale", SCALE), ("one_hot", ONE_HOT)):
        enabled = spec.get(key, False)
        if not isinstance(enabled, bool):
            raise ModelError(f"{where}.{key}: {enabled!r} is not true or false; write one of them")
        if enabled:
            yield dict(step)
    steps = spec.get("steps") or []
    if not isinstance(steps, list) or not all(map(is_river, steps)):
        raise ModelError(f"{where}.steps: {steps!r} is not a list of {{river: ..., params: ...}}")
    for k, step in enumerate(steps):
        place = f"{where}.steps[{k}]"
        full = _node(step, place, ("river", "params", "on"))
        if not hasattr(resolve(step["river"], place), "transform_one"):
            raise ModelError(
                f"{place}.river: {step['river']} is not a transformer; take one, such as a scaler"
            )
        if step.get("on") not in (None, *STEP_TYPES):
            raise ModelError(
                f"{place}.on: {step['on']!r} is not number or category; or leave it out"
            )
        yield {**full, "on": step.get("on")}


def _check_names(part: Any, params: Mapping[str, Any], where: str) -> None:
    known = _parameters(part)
    if known is None:
        return
    name = f"{part.__module__.split('.')[1]}.{part.__name__}"
    for key in params:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known) or 'none'}"
            raise ModelError(f"{where}.params.{key}: {name} has no such parameter; {hint}")
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in params:
            raise ModelError(f"{where}.params.{key}: missing; {name} needs it")


def _parameters(part: Any) -> dict[str, inspect.Parameter] | None:
    """Return the parameters of a class by name; None for a class that takes any name."""
    parameters = list(inspect.signature(part).parameters.values())
    if any(param.kind is param.VAR_KEYWORD for param in parameters):
        return None
    return {param.name: param for param in parameters if param.kind is not param.VAR_POSITIONAL}


def _value(value: Any, where: str) -> Any:
    """Return one parameter after checks: a plain value, a list or mapping, or a part of River."""
    if is_river(value):
        return _node(value, where, tuple(key for key in KEYS if key != "seed"))
    if isinstance(value, Mapping):
        return {key: _value(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value(item, f"{where}[{k}]") for k, item in enumerate(value)]
    if isinstance(value, bool | int | float | str | None):
        return value
    raise ModelError(f"{where}: {value!r} is not a plain value; write a number, text, list or part")


def _build(value: Any, seed: int, where: str) -> Any:
    if isinstance(value, list):
        return [_build(item, seed, f"{where}[{k}]") for k, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    if not is_river(value):
        return {key: _build(item, seed, f"{where}.{key}") for key, item in value.items()}
    made = _make(value, seed, where)
    steps = [_step(step, seed, f"{where}.steps[{k}]") for k, step in enumerate(value["steps"])]
    return _compose().Pipeline(*steps, made) if steps else made


def _make(node: Mapping[str, Any], seed: int, where: str) -> Any:
    part = resolve(node["river"], f"{where}.river")
    made = {k: _build(v, seed, f"{where}.params.{k}") for k, v in node["params"].items()}
    if "seed" in (_parameters(part) or {}):
        made.setdefault("seed", seed)  # a replay must give the same model
    try:
        return part(**made)
    except RIVER_ERRORS as err:
        raise ModelError(
            f"{where}.params: {node['river']} refuses {node['params']!r} "
            f"({type(err).__name__}: {err}); see its parameters in River's documentation"
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
