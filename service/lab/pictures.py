"""Curves of a replay as a picture of matplotlib, or as a DataFrame of pandas."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaboost.service.errors import ConfigError
from kaboost.service.lab.extras import missing_extra
from kaboost.service.lab.writing import write

COLOURS = ("#2563eb", "#9ca3af", "#f59e0b", "#059669", "#db2777", "#7c3aed", "#0891b2")
SIZE = (11.0, 7.5)
DPI = 110


def draw(figures: Mapping[str, Any]) -> Any:
    """Return a figure: loss over events, gain, loss over N, reliability or intervals.

    Raises
    ------
    ConfigError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as err:
        raise missing_extra("a picture", "lab", err) from err
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots(2, 2)
    _draw_losses(axes[0, 0], figures)
    _draw_gain(axes[0, 1], figures)
    _draw_prefixes(axes[1, 0], figures)
    _draw_calibration(axes[1, 1], figures)
    unfinished = " (interrupted)" if figures["partial"] else ""
    figure.suptitle(f"{figures['input']}: {figures['events']:,} events{unfinished}")
    return figure


def save(figures: Mapping[str, Any], path: Path) -> None:
    """Write the picture as PNG."""
    figure = draw(figures)
    write(path, lambda file: figure.savefig(file, format="png", dpi=DPI))


def frame(figures: Mapping[str, Any]) -> Any:
    """Return the curves as a DataFrame."""
    try:
        import pandas
    except ImportError as err:
        raise ConfigError(f"a frame needs {err.name}; run pip install pandas") from err
    return pandas.DataFrame(dict(figures["curve"])).set_index("events")


def _predictors(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, COLOURS[k % len(COLOURS)]) for k, name in enumerate(figures["losses"])]


def _draw_losses(axis: Any, figures: Mapping[str, Any]) -> None:
    for name, colour in _predictors(figures):
        values = figures["curve"].get(f"loss {name}")
        axis.plot(figures["curve"]["events"], values, color=colour, label=name, linewidth=1.2)
    axis.set(title="Loss over the events", xlabel="events", ylabel=figures["loss_unit"])
    for alarm in figures["alarms"]:
        if alarm["kind"] == "drift":
            axis.axvline(alarm["event"], color="#dc2626", linewidth=0.8, linestyle=":")
    axis.legend(frameon=False)


def _draw_gain(axis: Any, figures: Mapping[str, Any]) -> None:
    running = figures["running"]
    for name, colour in _predictors(figures)[1:]:
        pairs = zip(running[f"loss {name}"], running["loss model"], strict=True)
        gains = [None if a is None or b is None or not a else 1.0 - b / a for a, b in pairs]
        axis.plot(figures["curve"]["events"], gains, color=colour, label=f"over {name}")
    axis.axhline(0.0, color="#9ca3af", linewidth=0.8)
    axis.set(title="Gain in loss so far", xlabel="events", ylabel="part of the loss")
    axis.legend(frameon=False)


def _draw_prefixes(axis: Any, figures: Mapping[str, Any]) -> None:
    for k, losses in enumerate(figures["prefixes"]):
        axis.plot(range(len(losses)), losses, label=f"structure {k + 1}", linewidth=1.2)
    axis.set(title="Loss over N", xlabel="weak learners", ylabel="loss")
    if figures["prefixes"]:
        axis.legend(frameon=False)


def _draw_calibration(axis: Any, figures: Mapping[str, Any]) -> None:
    rows = figures["reliability"]
    if rows:
        x, y = "mean_predicted", "observed_fraction"
        axis.set(title="Reliability", xlabel="mean predicted probability", ylabel="observed")
    else:
        rows, x, y = figures["intervals"], "level", "coverage"
        axis.set(title="Coverage of intervals", xlabel="level", ylabel="coverage")
    axis.plot([0, 1], [0, 1], color="#9ca3af", linewidth=0.8)
    axis.plot([row[x] for row in rows], [row[y] for row in rows], "o-", color=COLOURS[0])
