"""The models that the settings describe: that of the section `model`, and the candidates."""

from typing import Any

from kaboost.models.model import Model
from kaboost.service.config.candidates import MODEL, specifications
from kaboost.service.config.settings import Settings


def describe_models(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return what `Model.describe` returns of every configured model by name, without building it.

    Raises
    ------
    ModelError
        For a model that cannot be built.
    """
    task, columns = settings.task, settings.features.columns
    specs = specifications(settings.model, settings.candidates, task.kind)
    return {
        name: Model.describe_new(task.kind, spec, columns, task.labels, task.max_classes)
        for name, spec in specs.items()
    }


def make_model(settings: Settings, name: str = MODEL) -> Model:
    """Return a new model by its name, or raise ModelError."""
    task, columns = settings.task, settings.features.columns
    spec = specifications(settings.model, settings.candidates, task.kind)[name]
    return Model(task.kind, spec, columns, task.labels, task.max_classes)
