"""Kaboost: online gradient boosting as a library and as a Kafka service.

Names load when they are first used, so that `import kaboost` compiles and reads nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaboost.models.adapters.to_sklearn import Classifier as Classifier
    from kaboost.models.adapters.to_sklearn import Regressor as Regressor
    from kaboost.models.batch import fit as fit
    from kaboost.models.booster import Booster as Booster
    from kaboost.models.booster import learn_many as learn_many
    from kaboost.models.booster import predict_many as predict_many
    from kaboost.models.booster import predictions as predictions
    from kaboost.models.booster import prefixes_many as prefixes_many
    from kaboost.models.build import build as build
    from kaboost.models.build import from_arrays as from_arrays
    from kaboost.models.build import serving_arrays as serving_arrays
    from kaboost.models.build import to_arrays as to_arrays
    from kaboost.models.explain.interface import explain_many as explain_many
    from kaboost.models.losses import LOSSES as LOSSES
    from kaboost.models.model import Model as Model
    from kaboost.models.parts import BANKS as BANKS
    from kaboost.models.parts import RULES as RULES
    from kaboost.models.reboosted.explain import export_trees as export_trees
    from kaboost.models.spec import normalise_spec as normalise_spec
    from kaboost.models.types import ModelError as ModelError

_HOMES = {
    "adapters.to_sklearn": ("Classifier", "Regressor"),
    "batch": ("fit",),
    "booster": ("Booster", "learn_many", "predict_many", "predictions", "prefixes_many"),
    "build": ("build", "from_arrays", "serving_arrays", "to_arrays"),
    "explain.interface": ("explain_many",),
    "losses": ("LOSSES",),
    "model": ("Model",),
    "parts": ("BANKS", "RULES"),
    "reboosted.explain": ("export_trees",),
    "spec": ("normalise_spec",),
    "types": ("ModelError",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Load a public name, or the version, when it is first used."""
    if name == "__version__":
        return version("kaboost")
    if name not in _HOME:
        raise AttributeError(f"module 'kaboost' has no attribute {name!r}")
    if name in ("Classifier", "Regressor"):
        return _estimator(name)
    value = globals()[name] = getattr(import_module(f"kaboost.models.{_HOME[name]}"), name)
    return value


def _estimator(name: str) -> Any:
    try:
        return getattr(import_module("kaboost.models.adapters.to_sklearn"), name)
    except ModuleNotFoundError as err:
        if (err.name or "").split(".")[0] != "sklearn":
            raise
        from kaboost.models.types import ModelError

        raise ModelError(
            f"kaboost.{name}: needs scikit-learn, which is not installed; "
            "pip install 'kaboost[scikit-learn]'"
        ) from err
