"""Changes that a model takes over and goes on learning: budget, effort and memory of its trees,
and more features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaboost.models.booster import add_features, mark_categorical
from kaboost.models.features.columns import Columns
from kaboost.models.one_vs_rest import OneVsRest
from kaboost.models.reboosted.booster import ReboostedTrees
from kaboost.models.reboosted.classes.ensemble import ClassTrees
from kaboost.models.table_model import TableModel
from kaboost.models.types import ModelError

BUDGET, EFFORT, MEMORY = FREE_PARAMETERS = ("budget", "effort", "max_memory")  # of reboosted_trees


def change_bank(model: TableModel, bank: Mapping[str, Any]) -> None:
    """Give a model of reboosted trees another budget, effort or memory.

    With less memory the oldest events of its windows are forgotten, with more its windows grow
    from now on; trees and leaves stay. With more effort trees are added, empty at first; with less
    the last ones go.

    Parameters
    ----------
    model
        Changed in place.
    bank
        New values of some of `FREE_PARAMETERS`.

    Raises
    ------
    ModelError
        When the memory is too little for the model's features; then nothing changed.
    """
    spec = {**model.spec, "bank": {**model.spec["bank"], **bank}}
    if MEMORY in bank or EFFORT in bank:
        model.booster = add_features(model.booster, spec, int(model.booster.shape[0]))
    for booster in _trees(model.booster):
        booster.trees.params.budget_ns[()] = spec["bank"][BUDGET] * spec["bank"][EFFORT]
    model.spec = spec


def declare_features(model: TableModel, new: Mapping[str, str]) -> None:
    """Add declared features to a model; so far they were missing in all events.

    Raises
    ------
    ModelError
        For a bank that takes no more features, and where memory does not suffice; then nothing
        changed.
    """
    if not isinstance(model.encoder, Columns):
        kind = model.spec["bank"]["kind"]
        raise ModelError(f"bank.kind: {kind} cannot take features that come up later")
    encoder = model.encoder.with_declared(new)
    if encoder.width > int(model.booster.shape[0]):
        model.booster = add_features(model.booster, model.spec, encoder.width)
    encoder.reserved = int(model.booster.shape[0])
    model.encoder = encoder
    mark_categorical(model.booster, encoder.categorical_columns)


def _trees(booster: Any) -> list[ReboostedTrees | ClassTrees]:
    boosters = [*booster.classes, *booster.unseen] if isinstance(booster, OneVsRest) else [booster]
    return [one for one in boosters if isinstance(one, ReboostedTrees | ClassTrees)]
