"""OGB: relative improvement over the same base learner, tuned alike, on 14 public data sets."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bench.papers import systems
from bench.papers.cells import Cell, Result, Run, Scale
from bench.papers.loaders import Data, first, shuffled, standardise
from bench.papers.onlb import step
from bench.papers.pages import Claim, Page, Plot, both, number, table
from bench.papers.systems import drawn, grid, learn

TITLE = "OGB, relative improvement"
ABOUT = """Beygelzimer, Hazan, Kale, Luo, Online Gradient Boosting, NIPS 2015. Squared loss, one
pass: learning rate, N and eta are chosen by the progressive loss of the first half, the second
half is reported. Relative improvement (L_base - L_boost) / L_base over the same base learner,
tuned alike. The paper's 14 sets are not named; these 14 are ours. Labels are mapped to [-1, 1] by
the smallest and the largest; classes are -1 and 1. Streams keep their order, other sets are
shuffled. Boosters fit greedily (A.1). Every cell: the paper / ours."""
SCALES = {
    "quick": Scale("quick", 1000, 1, 1, 30),
    "short": Scale("short", 10_000, 1, 1),
    "full": Scale("full", None, 1, 1),
}
STREAMS = ("Trump approval", "Chick weights", "Bikes", "Elec2")
OTHERS = (
    "ABALONE",
    "Wine quality",
    "Bananas",
    "Phishing",
    "Pima",
    "A9A",
    "w8a",
    "Covtype",
    "Shuttle",
    "HIV",
)
SETS = (*STREAMS, *OTHERS)
QUICK_SETS = ("Trump approval", "Elec2", "ABALONE", "Bananas", "Pima", "Covtype")
RATES = {
    "SGD": (0.03, 0.1, 0.3, 0.5, 1.0),
    "stumps": (0.01, 0.03, 0.1, 0.3),
    "nets": (0.01, 0.03, 0.1, 0.3, 1.0),
}
BANKS: dict[str, dict[str, Any]] = {
    "SGD": {"kind": "linear", "step": "nag"},
    "stumps": {"kind": "stumps"},
    "nets": {"kind": "nets", "hidden": 10, "optimiser": "sgd"},
}
SIZES, ETAS = (4, 16, 64), ("1/N", "ln", "2 ln", "4 ln", "1")
PAPER = {  # mean of span and hull, median of span and hull, in percent
    "SGD": (1.65, 1.33, 0.03, 0.29),
    "stumps": (20.22, 15.9, 10.45, 13.69),
    "nets": (7.88, 0.72, 0.72, 0.33),
}
NAMES = {
    "SGD": "SGD (VW's default linear learner)",
    "stumps": "regression stumps",
    "nets": "neural nets (10 sigmoid units)",
}


def plan(scale: Scale, folder: Path) -> list[Cell]:
    """Return a cell for every set, base learner and algorithm, and for the default model."""
    sets = QUICK_SETS if scale.name == "quick" else SETS
    one = {"rows": scale.rows, "draws": scale.draws}
    cells: list[Cell] = []
    for data in sets:
        cells += [
            {**one, "data": data, "base": base, "rule": rule}
            for base in BANKS
            for rule in ("base", "span", "hull")
        ]
        cells.append({"rows": scale.rows, "data": data, "base": "default", "rule": "default"})
    return cells


def points(base: str, rule: str) -> list[dict[str, Any]]:
    """Return the grid of an algorithm over a base learner."""
    if rule == "base":
        return grid(lr=RATES[base], n=(1,))
    if rule == "hull":
        return grid(lr=RATES[base], n=SIZES)
    return grid(lr=RATES[base], n=SIZES, eta=ETAS)


def prepared(folder: Path, name: str, rows: int | None) -> tuple[Data, np.ndarray]:
    """Return a data set and its labels in [-1, 1]."""
    data = (first if name in STREAMS else shuffled)(folder, name, rows)
    low, high = data.y.min(), data.y.max()
    return data, (2.0 * data.y - low - high) / (high - low)


def measure(cell: Cell, folder: Path) -> Result:
    """Return the loss on the second half of the candidate that was best on the first."""
    data, y = prepared(folder, cell["data"], cell["rows"])
    half = len(y) // 2
    if cell["rule"] == "default":
        answers = systems.default_progressive("regression", data, y)[0]
        return {"loss": float(0.5 * np.mean((answers - y)[half:] ** 2))}
    X = standardise(data.X)[0] if data.dense else data.X
    found = []
    for candidate in drawn(points(cell["base"], cell["rule"]), cell["draws"], 0):
        rule: dict[str, Any] = {"kind": "ogb_span" if cell["rule"] == "span" else "ogb_hull"}
        if cell["rule"] == "span":
            rule["eta"] = step(candidate["eta"], candidate["n"])
        rule["labels"] = "given"
        bank = {**BANKS[cell["base"]], "n": candidate["n"], "lr": candidate["lr"]}
        errors = (learn({"rule": rule, "bank": bank, "loss": "squared"}, X, y)[1] - y) ** 2
        found.append(
            (0.5 * float(errors[:half].mean()), 0.5 * float(errors[half:].mean()), candidate)
        )
    found = [each for each in found if math.isfinite(each[0])]
    tuned, loss, candidate = min(found, key=lambda each: each[0])
    return {"first": tuned, "loss": loss, "candidate": candidate}


def gain(run: Run, data: str, base: str, rule: str) -> float:
    """Return the relative improvement in percent."""
    own, other = (
        run.where(data=data, base=b, rule=r)[0][1]["loss"]
        for b, r in ((base, "base"), (base if rule != "default" else "default", rule))
    )
    return 100.0 * (own - other) / own if own > 0.0 else 0.0


def page(run: Run, scale: Scale) -> Page:
    """Return the paper's table next to ours, and the sets one by one."""
    sets = list(dict.fromkeys(c["data"] for c, _ in run.pairs))
    rows, figures, claims, wins = [], {}, [], 0
    for base in BANKS:
        gains = {r: [gain(run, d, base, r) for d in sets] for r in ("span", "hull", "default")}
        ours = [f(gains[r]) for f in (np.mean, np.median) for r in ("span", "hull")]
        cells = [both(p, float(o), 2) for p, o in zip(PAPER[base], ours, strict=True)]
        rows.append(
            [
                NAMES[base],
                *cells,
                " and ".join(number(float(f(gains["default"])), 2) for f in (np.mean, np.median)),
            ]
        )
        figures |= {f"{base}, median of {r}": float(np.median(gains[r])) / 100.0 for r in gains}
        better = sum(g > 0 for g in gains["span"])
        text = f"Algorithm 1 improves {NAMES[base]} on most sets"
        claims.append(
            Claim(text, 2 * better > len(sets), f"{better} of {len(sets)}", base == "stumps")
        )
    for data in sets:
        losses = [r["loss"] for c, r in run.where(data=data) if c["base"] != "default"]
        wins += run.where(data=data, base="default")[0][1]["loss"] <= min(losses)
    text = "the default model has the lowest loss on every set"
    claims.append(Claim(text, wins == len(sets), f"{wins} of {len(sets)}", False))
    head = ["base learner, percent", "mean, Alg. 1 (span)", "mean, Alg. 2 (hull)", "median, Alg. 1"]
    head += ["median, Alg. 2", "default, untouched: mean, median"]
    detail = [
        [
            d,
            *(f"{gain(run, d, b, 'span'):.1f}, {gain(run, d, b, 'hull'):.1f}" for b in BANKS),
            f"{gain(run, d, 'nets', 'default'):.1f}",
        ]
        for d in sets
    ]
    names = ["set", *(f"{b}: span, hull" for b in BANKS), "default model against nets"]
    text = f"{table(head, rows)}\n\nSet by set, percent:\n\n{table(names, detail)}"
    return Page(text, figures, claims, [Plot("ogb_table", CAPTION, bars(run, sets), (9.0, 4.0))])


CAPTION = (
    "Relative improvement over the base learner, percent, cut at -20: Algorithm 1, "
    "Algorithm 2, and the default model."
)


def bars(run: Run, sets: list[str]) -> Any:
    """Return the function that draws improvements."""

    def draw(figure: Any) -> None:
        for base, axes in zip(BANKS, figure.subplots(1, len(BANKS), sharey=True), strict=True):
            for k, rule in enumerate(("span", "hull", "default")):
                gains = np.maximum([gain(run, d, base, rule) for d in sets], -20.0)
                axes.barh(np.arange(len(sets)) + 0.27 * (1 - k), gains, 0.27, label=rule)
            axes.set_title(NAMES[base])
            axes.set_yticks(range(len(sets)), sets)
        axes.legend()

    return draw
