"""The result of a replay: figures as plain values, and ways to look at them."""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from kaboost.models.types import Vec
from kaboost.service.lab import pictures, report
from kaboost.service.lab.writing import write_text

Figures = Mapping[str, Any]  # the JSON of a replay: docs/laboratory.md


class Result:
    """What a replay measured.

    Parameters
    ----------
    figures
        Plain values, as `--json` prints them (docs/laboratory.md).
    model
        The model that has learned the events, where there is one.
    each_loss
        The model's loss of every event (B,), where it was kept.
    """

    def __init__(self, figures: Figures, model: Any = None, each_loss: Vec | None = None) -> None:
        self.figures = figures
        self.model = model
        self.each_loss = each_loss

    @property
    def loss(self) -> float:
        """The progressive loss of the model."""
        return float(self.figures["losses"]["model"])

    @property
    def losses(self) -> dict[str, float]:
        """The progressive loss of every predictor."""
        return dict(self.figures["losses"])

    @property
    def errors(self) -> dict[str, float]:
        """The progressive error of every predictor."""
        return dict(self.figures["errors"])

    @property
    def events(self) -> int:
        """How many events were learned."""
        return int(self.figures["events"])

    def __repr__(self) -> str:
        """Show the number of events and the losses."""
        losses = ", ".join(f"{name} {loss:.4f}" for name, loss in self.losses.items())
        partial = ", interrupted" if self.figures["partial"] else ""
        return f"Result({self.events:,} events, progressive loss: {losses}{partial})"

    def _repr_html_(self) -> str:
        """Show losses and errors as a table."""
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{loss:.4f}</td><td>{self.errors[name]:.4f}</td></tr>"
            for name, loss in self.losses.items()
        )
        what = escape(f"{self.events:,} events, each predicted before it was learned")
        head = "<tr><th>predictor</th><th>progressive loss</th><th>error</th></tr>"
        return f"<table><caption>{what}</caption>{head}{rows}</table>"

    def to_json(self, path: str | Path) -> None:
        """Write the figures."""
        write_text(Path(path), json.dumps(self.figures, indent=2) + "\n")

    def to_html(self, path: str | Path) -> None:
        """Write the report: one file, which needs no network."""
        write_text(Path(path), report.page(self.figures))

    def plot(self) -> Any:
        """Return a matplotlib figure of the losses over the events, and more.

        Raises
        ------
        ConfigError
            If matplotlib is not installed.
        """
        return pictures.draw(self.figures)

    def to_png(self, path: str | Path) -> None:
        """Write the picture of `plot`."""
        pictures.save(self.figures, Path(path))

    def to_frame(self) -> Any:
        """Return the curves as a pandas DataFrame: a row for each step of the stream.

        Raises
        ------
        ConfigError
            If pandas is not installed.
        """
        return pictures.frame(self.figures)
