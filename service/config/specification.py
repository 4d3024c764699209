"""Specifications of models in the settings: filled in, and refused where the learner would."""

from collections.abc import Mapping
from typing import Any

from kaboost.models.adapters import river_spec
from kaboost.models.build import check, check_open
from kaboost.models.features.columns import reserved_width
from kaboost.models.spec import normalise_spec
from kaboost.models.table_model import encoder_of
from kaboost.service.config.features import Features
from kaboost.service.config.task import Task


def check_spec(spec: dict[str, Any] | None, task: Task, features: Features | None) -> None:
    """Refuse a specification that the learner would refuse later."""
    full = specify(spec, task.kind)
    if features is not None:
        width, known = encoder_of(full)(features.columns).width, task.known_labels
        check(spec, width or reserved_width(0), known.m, task=task.kind)
        if known.is_open:
            check_open(full)


def specify(model: Mapping[str, Any] | None, task: str) -> dict[str, Any]:
    """Normalise a model specification, of Kaboost or of River."""
    if river_spec.is_river(model):
        return river_spec.normalise_spec(model or {}, task)
    return normalise_spec(model, task)
