"""ONLB, Table 1: the ten data sets, as the paper describes them and as they are here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.papers import systems
from bench.papers.cells import Cell, Result, Run, Scale
from bench.papers.loaders import load, shuffled
from bench.papers.onlb import SETS
from bench.papers.pages import Page, number, table

TITLE = "ONLB, Table 1"
ABOUT = """Frery, Habrard, Sebban, Caelen, He-Guelton, IDA 2018. Every cell: the paper / ours.
The last column is the progressive error of the default model, untouched, in random order on the
rows that were run; Table 2 has its error on test folds."""
SCALES = {
    "quick": Scale("quick", 1000, 1, 1),
    "short": Scale("short", 10_000, 1, 1),
    "full": Scale("full", None, 1, 1),
}
PAPER = {  # examples, share of positives, features
    "Covtype": (581_012, 0.512, 54),
    "Poker": (1_025_010, 0.4988, 10),
    "MNIST": (70_000, 0.49, 718),
    "Abalone": (4_177, 0.49, 8),
    "Pima": (767, 0.349, 8),
    "Adult": (42_842, 0.239, 14),
    "HIV": (6_590, 0.133, 8),
    "Shuttle": (58_000, 0.214, 9),
    "w8a": (64_000, 0.03, 300),
    "wine": (6_497, 0.2064, 12),
}


def plan(scale: Scale, folder: Path) -> list[Cell]:
    """Return a cell for every data set."""
    return [{"data": data, "rows": scale.rows} for data in SETS]


def measure(cell: Cell, folder: Path) -> Result:
    """Return sizes, and the default model's progressive error."""
    whole, data = load(folder, cell["data"]), shuffled(folder, cell["data"], cell["rows"])
    wrong = (systems.default_progressive("binary", data, data.y)[0] >= 0.5) != (data.y > 0)
    sizes = {"rows": len(whole.y), "features": whole.frame.shape[1], "inputs": whole.X.shape[1]}
    return {**sizes, "positives": float(whole.y.mean()), "default": float(np.mean(wrong))}


def page(run: Run, scale: Scale) -> Page:
    """Return the sizes next to the paper's."""
    rows, figures = [], {}
    for cell, ours in run.pairs:
        n, share, features = PAPER[cell["data"]]
        inputs = f" ({ours['inputs']} inputs)" if ours["inputs"] != ours["features"] else ""
        rows.append(
            [
                cell["data"],
                f"{n:,} / {ours['rows']:,}",
                f"{share:.1%} / {ours['positives']:.1%}",
                f"{features} / {ours['features']}{inputs}",
                number(ours["default"]),
            ]
        )
        figures[f"{cell['data']}, positives"] = ours["positives"]
        figures[f"{cell['data']}, default"] = ours["default"]
    head = ["data", "examples", "positives", "features", "default model, untouched"]
    return Page(table(head, rows), figures)
