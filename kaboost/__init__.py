"""Kaboost: online gradient boosting as a library and as a Kafka service.

Names load when they are first used, so that `import kaboost` compiles nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaboost.models.adapters.to_sklearn import Classifier, Regressor
    from kaboost.models.batch import fit
    from kaboost.models.booster import Booster, learn_many, predict_many, predictions, prefixes_many
    from kaboost.models.build import build, from_arrays, serving_arrays, to_arrays
    from kaboost.models.explain.interface import explain_many
    from kaboost.models.losses import LOSSES
    from kaboost.models.model import Model
    from kaboost.models.parts import BANKS, RULES
    from kaboost.models.reboosted.explain import export_trees
    from kaboost.models.spec import normalise_spec
    from kaboost.models.types import ModelError
    from kaboost.service.lab.library import replay
    from kaboost.service.lab.result import Result

_MODULES = {  # module below kaboost: its public names
    "models.adapters.to_sklearn": ("Classifier", "Regressor"),
    "models.batch": ("fit",),
    "models.booster": ("Booster", "learn_many", "predict_many", "predictions", "prefixes_many"),
    "models.build": ("build", "from_arrays", "serving_arrays", "to_arrays"),
    "models.explain.interface": ("explain_many",),
    "models.losses": ("LOSSES",),
    "models.model": ("Model",),
    "models.parts": ("BANKS", "RULES"),
    "models.reboosted.explain": ("export_trees",),
    "models.spec": ("normalise_spec",),
    "models.types": ("ModelError",),
    "service.lab.library": ("replay",),
    "service.lab.result": ("Result",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = [
    "BANKS",
    "LOSSES",
    "RULES",
    "Booster",
    "Classifier",
    "Model",
    "ModelError",
    "Regressor",
    "Result",
    "build",
    "explain_many",
    "export_trees",
    "fit",
    "from_arrays",
    "learn_many",
    "normalise_spec",
    "predict_many",
    "predictions",
    "prefixes_many",
    "replay",
    "serving_arrays",
    "to_arrays",
]


def __getattr__(name: str) -> Any:
    """Load a public name, or the version, when it is first used."""
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("kaboost")
    elif name in _MODULE_OF:
        value = getattr(_load(f"kaboost.{_MODULE_OF[name]}", name), name)
    else:
        raise AttributeError(f"module 'kaboost' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _load(module: str, name: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as err:
        if (err.name or "").split(".")[0] != "sklearn":
            raise
        raise _load("kaboost.models.types", name).ModelError(
            f"kaboost.{name}: needs scikit-learn, which is not installed; "
            "pip install '.[scikit-learn]'"
        ) from err
