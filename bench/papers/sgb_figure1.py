"""SGB, Figure 1: average regret against the number of learners, the depth of trees, and time.

The comparator is one batch tree of depth 15, fitted in hindsight on the same events.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import kaboost
from bench.papers import sgb_nets, systems
from bench.papers.cells import Cell, Result, Run, Scale
from bench.papers.loaders import Data, shuffled
from bench.papers.pages import Claim, Page, Plot, number, table

TITLE = "SGB, Figure 1"
ABOUT = """Hu, Sun, Venkatraman, Hebert, Bagnell, AISTATS 2017. Average regret against one batch
tree of depth 15 that is fitted in hindsight on the same events. Weak learners are trees of depth
1, 3, 5, 8 that are fitted again to all pairs so far after every 10th event (rule `sgb` over
`refit_trees` for smooth losses, `sgb_residual` for losses with kinks). l2 is .001 for Algorithm
1, .01 for Algorithm 2. SLICE cannot be had here; ABALONE stands in where its file is missing. The
paper has curves and no numbers. The last column is the regret of the default model, untouched: of
its classes as -1 and 1 under the hinge loss, of its mean under the absolute loss, without l2 for
both sides."""
SCALES = {
    "quick": Scale("quick", 400, 1, 1),
    "short": Scale("short", 1000, 1, 1),
    "full": Scale("full", 10_000, 1, 3),
}
N = 20
EVERY = 10  # events between two fits of a tree
DEPTHS = (1, 3, 5, 8)
LOSSES = {  # set: losses, smooth first
    "A9A": ("logistic", "hinge"),
    "SLICE": ("squared", "absolute"),
    "ABALONE": ("squared", "absolute"),
}
SMOOTH = ("logistic", "squared")
ETA = {"logistic": 0.4, "squared": 0.1}  # .1/beta: larger steps overshoot while trees are new
FIRST = 5  # learners over which the slope is taken


def plan(scale: Scale, folder: Path) -> list[Cell]:
    """Return a cell for every set, loss and depth."""
    other = "SLICE" if sgb_nets.here(folder, "SLICE") else "ABALONE"
    depths = DEPTHS[::2] if scale.name == "quick" else DEPTHS
    return [
        {"data": data, "loss": loss, "depth": depth, "rows": scale.rows, "seed": seed}
        for data in ("A9A", other)
        for loss in LOSSES[data]
        for seed in range(scale.seeds)
        for depth in (*depths, 0)
    ]


def l2_of(loss: str) -> float:
    """Return the weight of the penalty: none where the paper's loss has none."""
    return {"logistic": 1e-3, "hinge": 1e-2, "absolute": 1e-2}.get(loss, 0.0)


def measure(cell: Cell, folder: Path) -> Result:
    """Return mean losses of every prefix, and the comparator's, at several times; of the default
    model where the depth is 0.
    """
    data = shuffled(folder, cell["data"], cell["rows"], cell["seed"])
    loss, times = cell["loss"], [len(data.y) // k for k in (8, 4, 2, 1)]
    if cell["depth"] == 0:
        own, best = default(loss, data), hindsight(loss, data.X, data.y, 0.0)
        return {"times": times[-1:], "losses": [[own]], "best": [best]}
    rule: dict[str, Any] = {"kind": "sgb_residual"}
    if loss in SMOOTH:
        rule = {"kind": "sgb", "eta": ETA[loss]}
    bank = {"kind": "refit_trees", "n": N, "depth": cell["depth"], "every": EVERY}
    bank["capacity"] = len(data.y)
    spec = {"rule": rule, "bank": bank, "loss": {"kind": loss, "l2": l2_of(loss)}}
    booster, begin, losses = kaboost.build(spec, data.X.shape[1]), 0, []
    for end in times:
        kaboost.learn_many(booster, data.X[begin:end], data.y[begin:end])
        losses.append(np.round(booster.progress.prefix_losses, 6).tolist())
        begin = end
    best = [hindsight(loss, data.X[:end], data.y[:end], l2_of(loss)) for end in times]
    return {"times": times, "losses": losses, "best": best}


def default(loss: str, data: Data) -> float:
    """Return the default model's mean progressive loss."""
    task = "binary" if loss in ("logistic", "hinge") else "regression"
    p = systems.default_progressive(task, data, data.y)[0]
    if loss == "logistic":
        p = np.clip(p, 1e-15, 1 - 1e-15)
        return value(loss, np.log(p / (1 - p)), data.y, 0.0)
    return value(loss, np.where(p >= 0.5, 1.0, -1.0) if loss == "hinge" else p, data.y, 0.0)


def value(loss: str, s: np.ndarray, y: np.ndarray, l2: float) -> float:
    """Return the mean loss of scores."""
    u = np.where(y > 0, 1.0, -1.0)
    each = {
        "logistic": lambda: np.logaddexp(0.0, -u * s),
        "hinge": lambda: np.maximum(0.0, 1.0 - u * s),
        "squared": lambda: 0.5 * (s - y) ** 2,
        "absolute": lambda: abs(s - y),
    }[loss]()
    return float(np.mean(each + l2 * s**2))


def hindsight(loss: str, X: np.ndarray, y: np.ndarray, l2: float) -> float:
    """Return the mean loss of a batch tree on the events that it was fitted to."""
    if loss in ("squared", "absolute"):
        tree = DecisionTreeRegressor(max_depth=15, random_state=0).fit(X, y)
    else:
        tree = DecisionTreeClassifier(max_depth=15, random_state=0).fit(X, y)
    leaves, s = tree.apply(X), np.empty(len(y))
    for leaf in np.unique(leaves):
        inside = leaves == leaf
        labels = y[inside]
        positive = float((labels > 0).sum())
        s[inside] = {
            "logistic": math.log((positive + 0.5) / (len(labels) - positive + 0.5)),
            "hinge": 1.0 if 2.0 * positive >= len(labels) else -1.0,
            "squared": float(labels.mean()),
            "absolute": float(np.median(labels)),
        }[loss]
    return value(loss, s, y, l2)


def regrets(run: Run, data: str, loss: str, depth: int, at: int = -1) -> np.ndarray:
    """Return the mean regret of every prefix at one of the times."""
    found = run.where(data=data, loss=loss, depth=depth)
    return np.mean([np.array(r["losses"][at]) - r["best"][at] for _, r in found], axis=0)


def slope(regret: np.ndarray, start: int) -> float:
    """Return the slope of ln regret over the first learners; nan where a regret is not positive."""
    part = regret[start : start + FIRST + 1]
    if not (part > 0.0).all():
        return math.nan
    return float(np.polyfit(np.arange(len(part)), np.log(part), 1)[0])


def page(run: Run, scale: Scale) -> Page:
    """Return regrets and slopes, and the curves."""
    pairs = list(dict.fromkeys((c["data"], c["loss"]) for c, _ in run.pairs))
    depths = sorted({c["depth"] for c, _ in run.pairs} - {0})
    rows, figures, claims = [], {}, []
    for data, loss in pairs:
        start = 0 if loss in SMOOTH else 1  # prefix 0 and 1 of Algorithm 2 are both y0
        own = {d: regrets(run, data, loss, d) for d in depths}
        slopes = {d: slope(own[d], start) for d in depths}
        cells = [f"{number(own[d][-1])} ({number(slopes[d], 3)})" for d in depths]
        rows.append(
            [
                f"{data}, {loss}",
                number(own[depths[0]][0]),
                *cells,
                number(regrets(run, data, loss, 0)[-1]),
            ]
        )
        figures |= {f"{data}, {loss}, depth {d}": float(own[d][-1]) for d in depths}
        claims += ordered(f"{data}, {loss}", own, slopes, loss in SMOOTH)
    head = ["set and loss", "N = 0", *(f"depth {d}" for d in depths), "default model, untouched"]
    text = f"Regret at N = {N} and the last event; in brackets the slope of its logarithm over\n"
    text += f"the first {FIRST} learners:\n\n"
    plots = [Plot("sgb_figure1", CAPTION, panels(run, pairs, depths), (9.0, 5.0))]
    return Page(text + table(head, rows), figures, claims, plots)


CAPTION = (
    f"Upper row: regret against N at the last event. Lower row: regret of N = {N} against events."
)


def ordered(
    name: str, own: dict[int, np.ndarray], slopes: dict[int, float], smooth: bool
) -> list[Claim]:
    """Return the claims about one set and loss."""
    falls = [slopes[d] for d in own]
    measured = ", ".join(f"depth {d} {number(s, 3)}" for d, s in slopes.items())
    deeper = all(b < a for a, b in pairwise(falls))
    first = Claim(
        f"{name}: regret falls from the first learner on at every depth",
        all(s < 0 for s in falls),
        f"slopes {measured}",
        smooth,
    )
    second = Claim(
        f"{name}: it falls faster with every step in depth", deeper, f"slopes {measured}", False
    )
    ends = next(iter(own)), list(own)[-1]
    third = Claim(
        f"{name}: depth {ends[1]} has a steeper slope than depth {ends[0]}",
        slopes[ends[1]] < slopes[ends[0]],
        f"{number(slopes[ends[1]], 3)} against {number(slopes[ends[0]], 3)}",
        smooth,
    )
    return [first, third, second]


def panels(run: Run, pairs: list[tuple[str, str]], depths: list[int]) -> Any:
    """Return the function that draws regrets."""

    def draw(figure: Any) -> None:
        axes = figure.subplots(2, len(pairs))
        for (data, loss), upper, lower in zip(pairs, axes[0], axes[1], strict=True):
            for depth in depths:
                upper.semilogy(
                    np.maximum(regrets(run, data, loss, depth), 1e-4), label=f"depth {depth}"
                )
                times = run.where(data=data, loss=loss, depth=depth)[0][1]["times"]
                ends = [regrets(run, data, loss, depth, k)[-1] for k in range(len(times))]
                lower.semilogy(times, np.maximum(ends, 1e-4), marker=".")
            upper.set_title(f"{data}, {loss}")
            upper.set_xlabel("N")
            lower.set_xlabel("events")
        axes[0][0].legend()

    return draw
