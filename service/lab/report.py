"""The report of a replay or a comparison: one HTML file that needs no network."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

VENDOR = "vendor"


def page(figures: Mapping[str, Any]) -> str:
    """Return the report of a replay."""
    return _page("report.html", figures)


def comparison_page(figures: Mapping[str, Any]) -> str:
    """Return the report of a comparison."""
    return _page("comparison.html", figures)


def _page(name: str, figures: Mapping[str, Any]) -> str:
    vendor = files("kaboost.service.http") / "web" / VENDOR
    parts = {
        "/*STYLE*/": _text("report.css"),
        "/*UPLOT_CSS*/": (vendor / "uPlot.css").read_text("utf-8"),
        "/*UPLOT*/": (vendor / "uPlot.js").read_text("utf-8"),
        "/*CHARTS*/": _text("charts.js"),
        # Within a script element nothing may look like its end.
        "/*FIGURES*/": json.dumps(figures, allow_nan=False).replace("<", "\\u003c"),
    }
    text = _text(name)
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


@cache
def _text(name: str) -> str:
    return (files("kaboost.service.lab") / "web" / name).read_text("utf-8")
