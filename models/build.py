"""Build a booster from a specification, or from arrays; refuse combinations that the theory
forbids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kaboost.models.banks.copies import Copies
from kaboost.models.banks.linear.averaged import averaged
from kaboost.models.booster import Booster, quiesce
from kaboost.models.evaluation.progress import progress
from kaboost.models.one_vs_rest import SHARED_TREES, OneVsRest, one_vs_rest, open_one_vs_rest
from kaboost.models.parts import BANKS, PARTS, RULES
from kaboost.models.reboosted import explain as explain  # registers explanations of its trees
from kaboost.models.reboosted.booster import ReboostedTrees, reboosted_trees
from kaboost.models.reboosted.classes import booster as class_booster  # registers its verbs
from kaboost.models.reboosted.classes import changes as class_changes  # registers its changes
from kaboost.models.reboosted.classes import explain as class_explain  # and its explanations
from kaboost.models.reboosted.classes.ensemble import ClassTrees, class_trees
from kaboost.models.spec import TREES, check_integer, make_loss, normalise_spec
from kaboost.models.state import tree
from kaboost.models.state.tree import Arrays
from kaboost.models.types import BuildContext, LossTraits, ModelError, to_python
from kaboost.models.verbs import sequential

AnyBooster = Booster | OneVsRest | ReboostedTrees | ClassTrees
REGISTERED = (class_booster, class_changes, class_explain)


def build(
    spec: Mapping[str, Any] | None, d: int, m: int = 1, *, task: str | None = None
) -> AnyBooster:
    """Return a new booster; with `multiclass: one_vs_rest` a binary one for every class.

    Parameters
    ----------
    spec
        Rule, bank, loss and seed as in `kaboost.yaml`; None is the default model of the task.
    d
        Number of features.
    m
        Number of outputs: 1, or the number of classes for softmax and one_vs_rest.
    task
        `regression`, `binary` or `multiclass`; needed where the specification names no loss.

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
        check_integer(name, to_python(count), 1, 2**31)
    wrapper = full.pop("multiclass", None)
    if wrapper == SHARED_TREES:
        return _class_trees(full, [d, m], m, closed=True)
    if wrapper:
        # All classes start from the same seed: a class equals the binary booster.
        full["classes"] = m
        return one_vs_rest([_build(full, d, 1) for _ in range(m)], d)
    return _build(full, d, m)


def _class_trees(
    full: dict[str, Any], shape: list[int], shares: int, *, closed: bool
) -> ClassTrees:
    """Return trees of classes, with memory planned for `shares` of them."""
    if shares < 2:
        raise ModelError(
            f"m: {SHARED_TREES} needs two classes or more, not {shares}; leave multiclass out"
        )
    full |= {"classes": shares, "columns": shares}
    setting, _ = _rule(full, shape[0], 1)
    return class_trees(full, setting.loss, np.array(shape, np.int64), closed=closed)


def build_open(spec: Mapping[str, Any], d: int, shares: int) -> OneVsRest | ClassTrees:
    """Return boosters without a class, which learn classes as they come.

    Parameters
    ----------
    spec
        A filled-in specification of several classes.
    d, shares
        Number of features, and of boosters that share the memory.

    Raises
    ------
    ModelError
        For a specification without a booster for every class, and as for `build`.

    Examples
    --------
    >>> spec = {"rule": "sgb", "bank": "linear", "loss": "logistic", "multiclass": "one_vs_rest"}
    >>> build_open(spec, d=3, shares=4).outputs
    0
    """
    return _build_open(spec, (d, 0, shares), full=False)


def _build_open(
    spec: Mapping[str, Any], shape: tuple[int, int, int], *, full: bool
) -> OneVsRest | ClassTrees:
    d, C, shares = shape
    given = normalise_spec(spec)
    check_open(given)
    if given.pop("multiclass") == SHARED_TREES:
        return _class_trees(given, [d, C, shares], shares, closed=full)
    given["classes"] = shares
    boosters = [_build(given, d, 1) for _ in range(C + (not full))]
    return open_one_vs_rest(boosters, d, shares, full=full)


def check_open(spec: Mapping[str, Any]) -> None:
    """Raise ModelError for a filled-in specification that cannot learn classes as they come."""
    if spec.get("multiclass") is None:
        raise ModelError(
            "task.labels: auto needs a model with a booster for every class, which this one has "
            "not; write multiclass: one_vs_rest in it with a binary loss, leave model out, or list "
            "the labels"
        )


def check(spec: Mapping[str, Any] | None, d: int, m: int = 1, *, task: str | None = None) -> None:
    """Raise what `build` would raise, without allocating the bank; parameters as for `build`.

    Raises
    ------
    ModelError
        As for `build`, and for a rule that only `fit` can train.
    """
    full = normalise_spec(spec, task)
    wrapper = full.pop("multiclass", None)
    if wrapper == SHARED_TREES:
        full["columns"] = m
    if wrapper:
        full["classes"], m = m, 1
    _, rule = _rule(full, d, m)
    sequential(rule)  # raises for the rules of kaboost.models.batch


def _rule(full: Mapping[str, Any], d: int, m: int) -> tuple[BuildContext, Any]:
    _check_pair(full, d, m)
    setting = BuildContext(
        full, make_loss(full["loss"]), _traits(full), BANKS[full["bank"]["kind"]], d, m
    )
    return setting, RULES[full["rule"]["kind"]].make(full["rule"], setting)


def _traits(full: Mapping[str, Any]) -> LossTraits:
    return PARTS["loss"][full["loss"]["kind"]].traits


def _build(full: Mapping[str, Any], d: int, m: int) -> Booster | ReboostedTrees:
    setting, rule = _rule(full, d, m)
    part = setting.bank
    if part.kind == TREES:
        return reboosted_trees(full, setting.loss, d)
    bank = part.make(full["bank"], d, m, full["seed"])
    if full["rule"].get("averaged") or full["rule"].get("avg_halflife"):
        bank = averaged(bank, full["rule"]["avg_halflife"])
    if getattr(rule, "identical_learners", False):
        bank = Copies(part.make({**full["bank"], "n": 1}, d, m, full["seed"]))
    return Booster(bank, rule, setting.loss, progress(setting.learners), np.array([d, m], np.int64))


def _check_pair(full: Mapping[str, Any], d: int, m: int) -> None:
    rule, loss = full["rule"]["kind"], full["loss"]["kind"]
    fixed = RULES[rule].losses
    if fixed and loss not in fixed:
        wrapped = ", with multiclass: one_vs_rest" if _traits(full).task == "multiclass" else ""
        raise ModelError(
            f"loss: {rule} supports only certain losses; take {' or '.join(fixed)}{wrapped}, "
            f"not {loss}"
        )
    context = {**full, "d": d, "m": m, "traits": _traits(full)}
    for word in (
        "rule",
        "loss",
        "bank",
    ):  # in this order: the loss has a better reason than a default bank
        reason = PARTS[word][full[word]["kind"]].reject_reason(context)
        if reason:
            raise ModelError(f"{word}: {reason}")


def to_arrays(booster: AnyBooster) -> Arrays:
    """Return every array of the booster by its dotted name, such as "bank.w"; no copy.

    Scalars are arrays without axes. The same events give the same bytes, whatever the batches and
    threads.
    """
    quiesce(booster)
    return tree.to_arrays(booster)


def serving_arrays(booster: AnyBooster) -> Arrays:
    """Return the arrays that predictions read, by dotted name; no copy."""
    return tree.to_arrays(booster, serving=True)


def from_arrays(spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> AnyBooster:
    """Return the booster of `spec` over these arrays, without copies.

    Over read-only arrays it can only predict.

    Arrays that only learning reads may be missing; then the booster can only predict.

    Raises
    ------
    ModelError
        An array is missing, or has another type or shape than the specification requires.
    """
    if "shape" not in arrays or arrays["shape"].shape not in ((2,), (3,)):
        raise ModelError("arrays: 'shape' is missing; these are not a booster's arrays")
    shape = tuple(map(int, arrays["shape"]))
    text = json.dumps(normalise_spec(spec), sort_keys=True, default=to_python)
    full = not any(name.startswith("unseen.") for name in arrays)
    if "sums.means" in arrays:
        full = len(arrays["sums.means"]) == shape[1]
    return tree.from_arrays(_template(text, shape, full), arrays)


@lru_cache(maxsize=8)
def _template(spec: str, shape: tuple[int, ...], full: bool) -> AnyBooster:
    """Return a booster whose arrays have types and shapes but no memory.

    Otherwise a reader would allocate a whole window of events with every snapshot.
    """
    given, (d, m, *shares) = json.loads(spec), shape
    made = _build_open(given, (d, m, shares[0]), full=full) if shares else build(given, d, m)
    template: AnyBooster = tree.without_memory(made)
    return template
