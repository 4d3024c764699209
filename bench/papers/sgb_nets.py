"""What Table 1 and Figure 2 of SGB share: cells of base, GB, SGB and the hybrid on each set."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bench.papers import nets, systems
from bench.papers.cells import Cell, Result, Run, Scale
from bench.papers.loaders import Missing, find, split, standardise

SCALES = {
    "quick": Scale("quick", 1000, 1, 1),
    "short": Scale("short", None, 1, 5),
    "full": Scale("full", None, 1, 5),
}
SETS = ("ABALONE", "YEAR", "SLICE", "A9A", "MNIST")
FILES = {"YEAR": "YearPredictionMSD.txt", "SLICE": "slice_localization_data.csv"}
FIRST_PASS = 3  # index of the point at its end
GROUP = 4  # learners that the hybrid adds at a time
SEVERAL = (3, 8, 20, 50)  # of Figure 2f
L2 = 1e-3
MNIST_ROWS, MNIST_PASSES = 3_000, 5  # of the short form, with one seed and one eta
PLAN: dict[str, dict[str, Any]] = {  # N, the grid of eta, passes, the bank
    "ABALONE": {"n": 20, "eta": (0.3, 1.0), "passes": 300, "bank": {"kind": "nets", "hidden": 1}},
    "YEAR": {"n": 20, "eta": (0.3, 1.0), "passes": 10, "bank": {"kind": "nets", "hidden": 10}},
    "SLICE": {
        "n": 20,
        "eta": (0.3, 1.0),
        "passes": 30,
        "bank": {"kind": "nets", "hidden": 10, "activation": "leaky_relu"},
    },
    "A9A": {"n": 8, "eta": (1.0, 4.0), "passes": 10, "bank": {"kind": "nets", "hidden": 1}},
    "MNIST": {"n": 8, "eta": (1.0, 2.0), "passes": 10, "bank": {"kind": "conv"}},
}
QUICK_PASSES = {"ABALONE": 100, "A9A": 10, "MNIST": 1}


def here(folder: Path, name: str) -> bool:
    """Return whether the file of a data set is there."""
    if name not in FILES:
        return True
    try:
        find(folder, FILES[name], f"{FILES[name]}.gz")
    except Missing:
        return False
    return True


def plan(scale: Scale, folder: Path) -> list[Cell]:
    """Return the cells of every data set whose file is there."""
    cells: list[Cell] = []
    quick = scale.name == "quick"
    for data in filter(lambda name: here(folder, name), SETS):
        chosen = PLAN[data]
        passes = QUICK_PASSES.get(data, 2) if quick else chosen["passes"]
        slow = scale.name == "short" and data == "MNIST"
        passes = MNIST_PASSES if slow else passes
        for seed in range(1 if slow else scale.seeds):
            one = {"data": data, "rows": MNIST_ROWS if slow else scale.rows, "seed": seed}
            if quick and data == "MNIST":
                one["rows"] = scale.rows // 2  # type: ignore[operator]
            cells.append({**one, "system": "base", "n": 1, "eta": 1.0, "passes": passes})
            cells.append({**one, "system": "default"})
            for eta in chosen["eta"][-1:] if quick or slow else chosen["eta"]:
                each = {**one, "n": chosen["n"], "eta": eta}
                cells.append({**each, "system": "SGB", "passes": passes})
                if not (data == "MNIST" and (quick or slow)):  # convolutions take long to converge
                    cells += [{**each, "system": "GB"}, {**each, "system": "hybrid"}]
            if data == "ABALONE":
                more = {**one, "system": "SGB", "eta": 1.0, "passes": passes}
                cells += [{**more, "n": n} for n in SEVERAL if n != chosen["n"]]
    return cells


def task_of(folder: Path, cell: Cell) -> nets.Task:
    """Return the rows and the loss of a data set."""
    name = "MNIST digits" if cell["data"] == "MNIST" else cell["data"]
    train, test = split(folder, name, cell["rows"], cell["seed"])
    X, other = standardise(train.X, test.X) if train.dense else (train.X, test.X)
    loss: Any = "squared"
    if cell["data"] == "A9A":
        loss = {"kind": "logistic", "l2": L2}
    elif cell["data"] == "MNIST":
        loss = "softmax"
    outputs = 10 if cell["data"] == "MNIST" else 1
    return nets.Task(X, train.y, other, test.y, loss, PLAN[cell["data"]]["bank"], outputs)


def measure(cell: Cell, folder: Path) -> Result:
    """Return the test loss against the cost, or the default model's test loss."""
    if cell["system"] == "default":
        return {"test": [default(cell, folder)]}
    task = task_of(folder, cell)
    given = task, cell["n"], cell["eta"], cell["seed"]
    if cell["system"] == "GB":
        return nets.in_sequence(*given)
    if cell["system"] == "hybrid":
        return nets.in_groups(*given, GROUP)
    return nets.stream(*given, cell["passes"])


def default(cell: Cell, folder: Path) -> float:
    """Return the default model's test loss after one pass over the training rows."""
    name = "MNIST digits" if cell["data"] == "MNIST" else cell["data"]
    train, test = split(folder, name, cell["rows"], cell["seed"])
    kind = {"A9A": "binary", "MNIST": "multiclass"}.get(cell["data"], "regression")
    answers = systems.default_frozen(kind, train, test, 10)
    if kind == "regression":
        return float(0.5 * np.mean((answers - test.y) ** 2))
    return float(np.mean(answers != test.y))


def chosen_eta(run: Run, data: str, system: str) -> float:
    """Return the eta with the lowest loss, progressive in the first pass of SGB, else of training
    at the end; test rows have no part in it.
    """
    losses: dict[float, list[float]] = {}
    for cell, result in run.where(data=data, system=system, n=PLAN[data]["n"]):
        at = FIRST_PASS if system == "SGB" else -1
        losses.setdefault(cell["eta"], []).append(result["train"][at])
    return min(losses, key=lambda eta: np.mean(losses[eta]), default=math.nan)


def curves(run: Run, data: str, system: str, n: int | None = None) -> list[Result]:
    """Return the results of the chosen eta, one for each seed."""
    if system in ("base", "default"):
        return [result for _, result in run.where(data=data, system=system)]
    eta = chosen_eta(run, data, system) if n is None else 1.0
    size = PLAN[data]["n"] if n is None else n
    return [r for _, r in run.where(data=data, system=system, n=size, eta=eta)]


def final(run: Run, data: str, system: str) -> float:
    """Return the mean of the last test losses."""
    found = [result["test"][-1] for result in curves(run, data, system)]
    return float(np.mean(found)) if found else math.nan


def cost_to(result: Result, level: float) -> float:
    """Return the units after which a curve is at this loss or below for the first time."""
    reached = [u for u, t in zip(result["units"], result["test"], strict=True) if t <= level]
    return reached[0] if reached else math.nan
