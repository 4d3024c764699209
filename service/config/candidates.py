"""The sections `candidates` and `promotion`: models that learn next to the one that is served."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from kaboost.models.adapters import river_spec
from kaboost.models.losses import LOSSES
from kaboost.service.config.section import Section
from kaboost.service.config.specification import specify

MODEL = "model"  # the name among the candidates of what the section `model` describes
MOST = 8  # candidates
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
PARTS = ("rule", "bank", "loss")
MULTICLASS = "multiclass"

Candidates = dict[str, dict[str, Any]]


class Promotion(Section):
    """When a candidate is better than the champion, the model that is served, and what happens."""

    automatic: bool = Field(
        default=False,
        description="Whether a candidate that is better becomes the champion by itself; otherwise "
        "by `kaboost promote` only.",
    )
    margin: float = Field(
        default=0.01,
        ge=0.0,
        lt=1.0,
        description="How much lower the candidate's progressive loss must be, as a part of the "
        "champion's: 0.01 for 1 %.",
    )
    confidence: float = Field(
        default=0.95,
        ge=0.5,
        lt=1.0,
        description="Probability that a candidate which is not better by the margin is not taken "
        "for better in one round of comparison, of 8 times `after` events.",
    )
    after: int = Field(
        default=10_000,
        ge=100,
        le=100_000_000,
        description="Events that a model learns before it is compared, and that are compared until "
        "the first decision; the next ones come after 2, 4 and 8 times as many, then a new round "
        "begins.",
    )


def merge(model: Mapping[str, Any] | None, changes: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the specification of a candidate: that of `model`, with the changes over it.

    A part of another kind replaces that of the model, parameters of the same kind go over it.
    Parameters without a kind are of the model's kind, also where that is a default.

    Examples
    --------
    >>> merge({"rule": "sgb", "bank": {"kind": "linear", "n": 20}}, {"bank": {"n": 40}}, "binary")
    {'rule': 'sgb', 'bank': {'kind': 'linear', 'n': 40}}
    >>> merge({"bank": {"kind": "linear", "n": 20}}, {"bank": "stumps"}, "binary")
    {'bank': 'stumps'}
    >>> merge(None, {"bank": {"effort": 2.0}}, "binary")
    {'bank': {'kind': 'reboosted_trees', 'effort': 2.0}}
    """
    whole = dict(model or {})
    for key, value in changes.items():
        before = whole.get(key)
        before = {"kind": before} if key in PARTS and isinstance(before, str) else before
        whole[key] = value
        if key in PARTS and before is None and isinstance(value, Mapping) and "kind" not in value:
            full = specify(model, task)
            whole[key] = {"kind": full[key]["kind"], **value}
            if MULTICLASS in full:
                whole.setdefault(MULTICLASS, full[MULTICLASS])
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            kind = before.get("kind")
            whole[key] = {**before, **value} if value.get("kind", kind) == kind else value
    return whole


def check_names(candidates: Mapping[str, Any]) -> None:
    """Raise ValueError for a name that cannot be one, and for too many."""
    for name in candidates:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of a candidate: write a-z, 0-9, - and _, at most 64 of them"
            )
        if name == MODEL:
            raise ValueError(f"{MODEL!r} is the name of the section model: choose another name")
    if len(candidates) > MOST:
        raise ValueError(
            f"has {len(candidates)} candidates, each of which costs as much as a model: at most "
            f"{MOST}"
        )


def check_surroundings(model: Mapping[str, Any] | None, labels: Any) -> None:
    """Raise ValueError where no candidate can learn: with a River model, and with late labels."""
    if river_spec.is_river(model):
        raise ValueError("a River model has no candidates; leave candidates out")
    if labels is not None and labels.topic is not None:
        raise ValueError(
            "candidates need labels in the events: features that wait for labels.topic are stored "
            "as the served model has encoded them; leave candidates or labels.topic out"
        )


def check_comparable(model: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Raise ValueError where the losses of two full specifications do not compare."""
    ours, theirs = (each["loss"]["kind"] for each in (model, spec))
    traits = [LOSSES[kind].traits for kind in (ours, theirs)]
    known = [(each.probabilistic, each.lowest_label) for each in traits]
    if known[0] != known[1]:
        raise ValueError(
            f"loss.kind: {theirs} cannot be compared with {ours} of the model: one of them has no "
            "probabilities, or takes other labels; take a loss like that of the model"
        )


def specifications(
    model: Mapping[str, Any] | None, candidates: Candidates, task: str
) -> dict[str, dict[str, Any] | None]:
    """Return the specifications of all models by name, that of the section `model` first."""
    return {
        MODEL: dict(model) if model is not None else None,
        **{name: merge(model, changes, task) for name, changes in candidates.items()},
    }
