"""Online boosting as arithmetic: banks of weak learners, boosting rules, losses, the encoder, and
the model of all four.

NumPy, Numba and safetensors' bytes; nothing here knows Kafka, HTTP, clocks or logs.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba

if TYPE_CHECKING:
    from models.adapters.scikit import Classifier, Regressor


def _cache_folder() -> str:
    """Return numba's cache folder for exactly these sources.

    Numba watches only the file of the outermost kernel; an edit in a verb it calls would be missed,
    and a stale kernel run. A folder named by the hash of every source file here makes each edit a
    miss (docs/adr/0007).
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return str(base / "kaboost" / f"kernels-{digest.hexdigest()[:16]}")


if "NUMBA_CACHE_DIR" not in os.environ:
    numba.config.CACHE_DIR = _cache_folder()  # type: ignore[attr-defined]

from models.booster import (  # noqa: E402 (the cache folder must be set before any kernel is defined)
    Booster,
    learn_many,
    predict_many,
    predictions,
    prefixes_many,
)
from models.build import (  # noqa: E402
    BANKS,
    RULES,
    build,
    from_arrays,
    normalise_spec,
    serving_arrays,
    to_arrays,
)
from models.explain import explain_many  # noqa: E402
from models.fit import fit  # noqa: E402
from models.losses import LOSSES  # noqa: E402
from models.model import Model  # noqa: E402
from models.reboosted_explain import export_trees  # noqa: E402
from models.types import ModelError  # noqa: E402

__all__ = [
    "BANKS",
    "LOSSES",
    "RULES",
    "Booster",
    "Classifier",
    "Model",
    "ModelError",
    "Regressor",
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
    "serving_arrays",
    "to_arrays",
]


def __getattr__(name: str) -> Any:
    """Load the scikit-learn estimators when they are first asked for, and never before."""
    if name not in ("Classifier", "Regressor"):
        raise AttributeError(f"module 'models' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module("models.adapters.scikit"), name)
    except ModuleNotFoundError as err:
        if (err.name or "").split(".")[0] != "sklearn":
            raise
        raise ModelError(
            f"models.{name}: needs scikit-learn, which is not installed; "
            "pip install 'kaboost[scikit-learn]'"
        ) from err
