"""New features where memory is full take the columns of inferred ones that no longer matter."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from kaboost.models.booster import add_features, mark_categorical
from kaboost.models.features.columns import WIDTHS, Columns
from kaboost.models.features.evidence import extended, no_evidence
from kaboost.models.one_vs_rest import OneVsRest
from kaboost.models.reboosted.booster import ReboostedTrees
from kaboost.models.reboosted.component import sizes_of
from kaboost.models.reboosted.eviction import reset_columns, used_columns
from kaboost.models.table_model import TableModel
from kaboost.models.types import Ints


def evict_features(
    model: TableModel, new: Mapping[str, str], candidates: Collection[str]
) -> dict[str, str]:
    """Give new features the columns of inferred ones that no longer matter, the oldest first.

    A feature matters while a tree splits on it, or the trees' window has a code of it. A new one
    takes the place of one with as many columns, which are as if they had always been missing.

    Parameters
    ----------
    model
        Changed in place. Its events must not wait for labels: they were captured with the features
        of then.
    new
        New features and their kinds.
    candidates
        Features that may go, as no event has had a value of them for long: before a column has
        bins, the window does not tell.

    Returns
    -------
    The evicted feature of each new one that was added.
    """
    encoder = model.encoder
    if not isinstance(encoder, Columns) or not _boosters(model) or not candidates:
        return {}
    if not idle_features(model, candidates):
        return {}
    width = int(model.booster.shape[0])
    model.booster = add_features(model.booster, model.spec, width)  # ends the growing of trees
    idle, evicted, columns = idle_features(model, candidates), dict[str, str](), list[Ints]()
    for name, kind in new.items():
        fitting = (old for old in idle if WIDTHS[model.encoder.kinds[old]] == WIDTHS[kind])
        old = next(fitting, None)
        if old is not None:
            idle.remove(old)
            columns.append(_rename(model, old, name, kind))
            evicted[name] = old
    if evicted:
        shares = {"classes": model.booster.shares} if isinstance(model.booster, OneVsRest) else {}
        for one in _boosters(model):
            reset_columns(one, sizes_of({**model.spec, **shares}), np.concatenate(columns))
        mark_categorical(model.booster, model.encoder.categorical_columns)
    return evicted


def idle_features(model: TableModel, candidates: Collection[str]) -> list[str]:
    """List the candidates that are inferred and no longer matter, in order of first sight."""
    encoder = model.encoder
    assert isinstance(encoder, Columns)
    used = np.any([used_columns(one) for one in _boosters(model)], axis=0)
    retired = {name for name, _, _ in encoder.retired}
    return [
        name
        for name in encoder.schema.inferred
        if name in candidates and name not in retired and not used[_columns(encoder, name)].any()
    ]


def _rename(model: TableModel, old: str, new: str, kind: str) -> Ints:
    """Put a new feature in the place of an old one in the schema; return its columns."""
    encoder = model.encoder
    assert isinstance(encoder, Columns)
    row = encoder.schema.inferred.index(old)
    schema, before = encoder.schema, (old, encoder.kinds[old])
    pairs = [(new, kind) if pair == before else pair for pair in schema.kinds.items()]
    history = tuple((new, kind) if pair == before else pair for pair in schema.history)
    evidence = extended(encoder.evidence, len(schema.inferred))  # a copy
    for ours, fresh in zip(evidence, no_evidence(1), strict=True):
        ours[row] = fresh[0]
    renamed = encoder.with_schema(schema._replace(kinds=dict(pairs), history=history))
    made = renamed.with_evidence(evidence)
    made.reserved = encoder.reserved
    model.encoder = made
    return _columns(made, new)


def _columns(encoder: Columns, name: str) -> Ints:
    first = encoder.places[name]
    return np.arange(first, first + WIDTHS[encoder.kinds[name]])


def _boosters(model: TableModel) -> list[ReboostedTrees]:
    booster = model.booster
    several = [*booster.classes, *booster.unseen] if isinstance(booster, OneVsRest) else [booster]
    return [one for one in several if isinstance(one, ReboostedTrees)]
