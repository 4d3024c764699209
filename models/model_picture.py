"""A model as a figure of matplotlib, for notebooks: losses of prefixes, importance or edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from kaboost.models.table_model import TableModel
from kaboost.models.types import ModelError

SIZE = (9.0, 3.2)  # inches
SHOWN = 12  # features
MODEL, SERVED = "#2563eb", "#d97706"


def model_picture(model: TableModel) -> Any:
    """Return a figure: the progressive loss of every prefix, and what the model is made of.

    Raises
    ------
    ModelError
        If matplotlib is not installed, or no event was learned.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as err:
        raise ModelError(
            f"a picture of a model needs {err.name}; run pip install '.[lab]' in Kaboost's folder"
        ) from err
    progress = model.booster.progress
    if not int(progress.events):
        raise ModelError("a picture of a model needs events: none was learned")
    figure = Figure(figsize=SIZE, layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_prefixes(left, progress)
    if model.explicable:
        _draw_importance(right, model)
    else:
        _draw_edges(right, progress)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{model.task}, {int(progress.events):,} events learned", fontsize=10)
    return figure


def _draw_prefixes(axis: Any, progress: Any) -> None:
    """Draw a line for each structure, and the loss of what is served."""
    for losses in np.atleast_2d(progress.prefix_losses):
        axis.plot(losses, color=MODEL, linewidth=1.2)
    axis.axhline(progress.mean_loss, color=SERVED, linewidth=1.2, linestyle="--", label="served")
    axis.set(title="Loss of the first i learners", xlabel="i", ylabel="progressive loss")
    axis.legend(frameon=False)


def _draw_importance(axis: Any, model: TableModel) -> None:
    shares = [share for share in model.importance() if share.share > 0.0][:SHOWN][::-1]
    axis.barh([share.name for share in shares], [share.share for share in shares], color=MODEL)
    axis.set(title="Importance", xlabel="share of the variance of the score")


def _draw_edges(axis: Any, progress: Any) -> None:
    edges = np.ravel(progress.edges)
    axis.bar(np.arange(1, len(edges) + 1), edges, color=MODEL)
    axis.set(title="Edge of each weak learner", xlabel="weak learner", ylabel="edge")
