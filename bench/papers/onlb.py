"""What Tables 2 and 3 of ONLB share: six systems over nets of two units, by cross-validation.

A candidate of the grid is judged by its progressive error on the training folds; the best one
learns them once more and predicts the test fold, frozen.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import kaboost
from bench.papers import systems
from bench.papers.cells import Cell, Result, Run, Scale
from bench.papers.loaders import Data, shuffled, standardise
from bench.papers.systems import Spec, drawn, grid, learn, mistakes

SCALES = {
    "quick": Scale("quick", 1500, 1, 1, 4, 1000),
    "short": Scale("short", None, 3, 1, 24, 6_000),
    "full": Scale("full", None, 3, 1),
}
FOLDS = 3
HIDDEN = 2
SLOW = 0.01  # a learning rate at which the base learner is as good as the paper's
CURVES = ("MNIST", "Abalone")  # of Figure 2
POINTS = 40
SETS = ("Covtype", "Poker", "MNIST", "Abalone", "Pima", "Adult", "HIV", "Shuttle", "w8a", "wine")
SYSTEMS = ("base", "ONLB", "BBM", "OL", "OL.W", "OGB", "SGB")
PAPER = {  # errors, then the selected N, without the base learner's
    "Covtype": ((0.2401, 0.2057, 0.2242, 0.2273, 0.2313, 0.2264, 0.2128), (6, 60, 79, 59, 282, 63)),
    "Poker": (
        (0.4182, 0.0497, 0.2375, 0.1234, 0.0953, 0.3880, 0.2668),
        (52, 222, 348, 311, 320, 285),
    ),
    "MNIST": (
        (0.1105, 0.0561, 0.1029, 0.1557, 0.0830, 0.1139, 0.0655),
        (14, 66, 147, 207, 431, 131),
    ),
    "Abalone": ((0.2673, 0.2523, 0.2831, 0.2487, 0.2531, 0.2669, 0.2720), (5, 6, 12, 3, 166, 8)),
    "Pima": (
        (0.2992, 0.2795, 0.2913, 0.2952, 0.2835, 0.2874, 0.2953),
        (65, 64, 109, 141, 437, 174),
    ),
    "Adult": ((0.1523, 0.1465, 0.1530, 0.1530, 0.1526, 0.1476, 0.1586), (13, 6, 18, 17, 161, 119)),
    "HIV": ((0.1986, 0.1393, 0.1273, 0.1360, 0.1291, 0.1540, 0.1526), (6, 6, 94, 188, 32, 16)),
    "Shuttle": (
        (0.0211, 0.0024, 0.0173, 0.0061, 0.0058, 0.0133, 0.0050),
        (30, 43, 243, 108, 121, 159),
    ),
    "w8a": ((0.0189, 0.0148, 0.0158, 0.0146, 0.0167, 0.0178, 0.0155), (4, 7, 54, 42, 132, 40)),
    "wine": ((0.1979, 0.1687, 0.1921, 0.1931, 0.1931, 0.1743, 0.1833), (5, 8, 112, 91, 97, 118)),
}
NET = {"n": (2, 4, 8, 16, 32, 64, 128, 256, 500), "lr": (0.01, 0.03, 0.1, 0.3, 1.0)}
GRIDS: dict[str, list[dict[str, Any]]] = {
    "base": grid(n=(1,), lr=NET["lr"]),
    "ONLB": grid(**NET, lr_combine=(0.003, 0.01, 0.03, 0.1), spaces=(10, 20, 50, 100)),
    "BBM": grid(**NET, gamma=(0.02, 0.05, 0.1, 0.2)),
    "OL": grid(**NET),
    "OL.W": grid(**NET),
    "OGB": grid(**NET, eta=("1/N", "ln", "2 ln", "4 ln", "1"), bound=(1.0, 2.0, 4.0)),
    "SGB": grid(**NET, eta=(0.03, 0.1, 0.3, 1.0)),
}
RULES = {
    "base": "ogb_hull",
    "slow base": "ogb_hull",
    "ONLB": "latent",
    "BBM": "bbm",
    "OL": "adaboost_ol",
    "OL.W": "adaboost_ol_w",
    "OGB": "ogb_span",
    "SGB": "sgb",
}


def spec_of(system: str, candidate: dict[str, Any], seed: int) -> Spec:
    """Return the specification of a system; the base learner is a hull of one without a bound."""
    rule = {"kind": RULES[system]}
    rule |= {name: value for name, value in candidate.items() if name not in NET}
    if system in ("base", "slow base"):
        rule["bound"] = 1e6
    if system == "OGB":
        rule["eta"] = step(str(rule["eta"]), candidate["n"])
    bank = {"kind": "nets", "hidden": HIDDEN, "optimiser": "sgd"}
    bank |= {name: candidate[name] for name in NET}
    return {"rule": rule, "bank": bank, "loss": "logistic", "seed": seed}


def step(name: str, n: int) -> float:
    """Return eta of the specification's grid for OGB, between 1/N and 1."""
    factor = {"ln": 1.0, "2 ln": 2.0, "4 ln": 4.0}.get(name)
    if factor is None:
        return 1.0 / n if name == "1/N" else 1.0
    return min(1.0, max(1.0 / n, factor * math.log(n) / n))


def search_plan(scale: Scale, folder: Path) -> list[Cell]:
    """Return the cells in which candidates are compared: a fold's in one, or one for every N."""
    cells: list[Cell] = []
    for data in SETS:
        for fold in range(scale.folds):
            for k, system in enumerate(SYSTEMS):
                points = drawn(GRIDS[system], scale.draws, 100 * fold + k)
                one = {"data": data, "system": system, "fold": fold, "draws": scale.draws}
                one["search_rows"] = scale.search_rows
                sizes = sorted({p["n"] for p in points}) if scale.draws is None else [None]
                cells += [{**one, "n": n} for n in sizes]
    return cells


def test_plan(run: Run, scale: Scale) -> list[Cell]:
    """Return the cells in which the chosen candidates and the default model are tested."""
    best: dict[tuple[str, str, int], tuple[float, dict[str, Any]]] = {}
    for cell, result in run.pairs:
        place = cell["data"], cell["system"], cell["fold"]
        if place not in best or result["error"] < best[place][0]:
            best[place] = result["error"], result["candidate"]
    cells: list[Cell] = [
        {"data": d, "system": s, "fold": f, "rows": scale.rows, "candidate": candidate}
        for (d, s, f), (_, candidate) in best.items()
    ]
    for one in [{"data": d, "fold": f} for d in SETS for f in range(scale.folds)]:
        fixed = {"slow base": {"n": 1, "lr": SLOW}, "default": {}}
        cells += [
            {**one, "system": system, "rows": scale.rows, "candidate": candidate}
            for system, candidate in fixed.items()
        ]
    return cells


def measure(cell: Cell, folder: Path) -> Result:
    """Return the best candidate's progressive error, or the error on the test fold."""
    searches = cell.get("search_rows")
    rows = (
        2 * searches if searches else cell.get("rows")
    )  # the first two thirds of these are learned
    train, test = folds(folder, cell["data"], rows, cell["fold"])
    if cell["system"] == "default":
        answers = systems.default_frozen("binary", train, test)
        return {"error": float(np.mean(answers != test.y))}
    X, other = standardise(train.X, test.X) if train.dense else (train.X, test.X)
    if "candidate" in cell:
        return tested(cell, X, train.y, other, test.y)
    part = slice(0, searches)
    points = drawn(
        GRIDS[cell["system"]], cell["draws"], 100 * cell["fold"] + SYSTEMS.index(cell["system"])
    )
    found = []
    for candidate in points:
        if cell["n"] in (None, candidate["n"]):
            spec = spec_of(cell["system"], candidate, cell["fold"])
            error = mistakes(learn(spec, X[part], train.y[part])[1], train.y[part]).mean()
            found.append((float(error), candidate))
    error, candidate = min(found, key=lambda pair: pair[0])
    return {"error": error, "candidate": candidate}


def tested(
    cell: Cell, X: np.ndarray, y: np.ndarray, other: np.ndarray, labels: np.ndarray
) -> Result:
    """Learn the training folds and predict the test fold, frozen."""
    spec = spec_of(cell["system"], cell["candidate"], cell["fold"])
    booster, scores = learn(spec, X, y)
    wrong = mistakes(scores, y)
    result = {
        "error": float(mistakes(kaboost.predict_many(booster, other)[:, 0], labels).mean()),
        "progressive": float(wrong.mean()),
    }
    if cell["data"] in CURVES and cell["fold"] == 0:
        ends = np.unique(np.geomspace(50, len(y), POINTS).astype(int))
        result["events"] = ends.tolist()
        result["curve"] = np.round(np.cumsum(wrong)[ends - 1] / ends, 5).tolist()
    return result


def folds(folder: Path, name: str, rows: int | None, fold: int) -> tuple[Data, Data]:
    """Return the two training folds and the test fold of one of three; the order is random."""
    data = shuffled(folder, name, rows)
    inside = np.arange(len(data.y)) % FOLDS == fold
    return data.rows(np.flatnonzero(~inside)), data.rows(np.flatnonzero(inside))


def tests(run: Run) -> Run:
    """Return the cells of test folds."""
    return Run([pair for pair in run.pairs if "candidate" in pair[0]], run.seconds)


def mean_error(run: Run, data: str, system: str) -> float:
    """Return the mean error on the test folds."""
    found = tests(run).where(data=data, system=system)
    return float(np.mean([r["error"] for _, r in found])) if found else math.nan


def mean_learners(run: Run, data: str, system: str) -> float:
    """Return the mean of the selected numbers of learners."""
    found = tests(run).where(data=data, system=system)
    return float(np.mean([c["candidate"]["n"] for c, _ in found])) if found else math.nan
