"""ONLB, Figures 3 to 6: correlations of latent spaces and how much each is used, on MNIST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import kaboost
from bench.papers import onlb, systems
from bench.papers.cells import Cell, Result, Run, Scale
from bench.papers.loaders import Data
from bench.papers.pages import Claim, Page, Plot, number, table
from kaboost.models.rules.latent import correlations, importances

TITLE = "ONLB, latent spaces (Figures 3 to 6)"
ABOUT = """Frery, Habrard, Sebban, Caelen, He-Guelton, IDA 2018. One training fold of MNIST (5 to
9 against 0 to 4), P = 100 spaces, nets of 2 against nets of 500 units: correlations C of the
spaces' weights over the learners after training, and importance Omega on the other fold, frozen.
The paper has pictures, and in words: about uncorrelated with 2 units; with 500 the used spaces
correlate at about .75 and the uncorrelated ones are unused."""
SCALES = {
    "quick": Scale("quick", 900, 1, 1),
    "short": Scale("short", 6000, 1, 1),
    "full": Scale("full", None, 1, 1),
}
SPACES, LEARNERS, HELD = 100, 20, 2000
HIDDEN = (2, 500)
RATE = {2: 0.3, 500: 0.03}  # 250 times as many units move the output further


def plan(scale: Scale, folder: Path) -> list[Cell]:
    """Return a cell for both sizes of nets, and the default model's."""
    sizes = (2, 50) if scale.name == "quick" else HIDDEN
    spaces = 40 if scale.name == "quick" else SPACES
    cells: list[Cell] = [{"rows": scale.rows, "hidden": h, "spaces": spaces} for h in sizes]
    return [*cells, {"rows": scale.rows, "hidden": 0}]


def measure(cell: Cell, folder: Path) -> Result:
    """Return correlations (in hundredths), importances, and the test error."""
    train, test = onlb.folds(folder, "MNIST", cell["rows"], 0)
    if cell["hidden"] == 0:
        answers = systems.default_frozen("binary", train, test)
        return {"error": float(np.mean(answers != test.y))}
    rate = RATE.get(cell["hidden"], 0.1)
    bank = {"kind": "nets", "n": LEARNERS, "hidden": cell["hidden"], "optimiser": "sgd", "lr": rate}
    rule = {"kind": "latent", "spaces": cell["spaces"], "lr_combine": 0.03}
    spec = {"rule": rule, "bank": bank, "loss": "logistic"}
    booster, _ = systems.learn(spec, train.X, train.y)
    C, omega = correlations(booster.rule), held_out(booster, test)
    wrong = systems.mistakes(kaboost.predict_many(booster, test.X)[:, 0], test.y)
    return {
        "error": float(wrong.mean()),
        "omega": np.round(omega, 5).tolist(),
        "C": np.round(100 * C).astype(int).tolist(),
    }


def held_out(booster: Any, test: Data) -> np.ndarray:
    """Return the importance of every space over held-out events, which move no weight."""
    rule = booster.rule._replace(rate=0.0, power=np.zeros_like(booster.rule.power))
    rule = rule._replace(weight=np.zeros(()))
    bank = booster.bank._replace(lr=0.0)
    part = slice(0, HELD)
    kaboost.learn_many(booster._replace(rule=rule, bank=bank), test.X[part], test.y[part])
    return np.asarray(importances(rule))


def page(run: Run, scale: Scale) -> Page:
    """Return what the figures say in numbers, and the figures."""
    default = run.where(hidden=0)[0][1]["error"]
    nets = [(cell["hidden"], result) for cell, result in run.pairs if cell["hidden"]]
    rows, figures, found = [], {}, {}
    for hidden, result in nets:
        C, omega = matrix(result), np.array(result["omega"])
        apart, used = mean_correlation(C), weighted_correlation(C, omega)
        share = np.sort(omega)[::-1].cumsum() / omega.sum()
        half = int(np.searchsorted(share, 0.5)) + 1
        found[hidden] = used
        rows.append(
            [
                str(hidden),
                number(apart, 3),
                number(used, 3),
                str(half),
                number(result["error"]),
                number(default),
            ]
        )
        figures |= {f"{hidden} units, mean |C|": apart, f"{hidden} units, error": result["error"]}
    head = [
        "hidden units",
        "mean &#124;C&#124; of pairs",
        "weighted by Omega",
        "spaces with half of Omega",
        "test error",
    ]
    text = table([*head, "default model, untouched"], rows)
    small, large = (found[hidden] for hidden, _ in nets)
    claims = [
        Claim(
            "used spaces over large nets correlate (weighted mean above .5; the paper: about .75)",
            large > 0.5,
            f"{large:.3f}; {small:.3f} with 2 units, {chance():.3f} between random rows",
            False,
        ),
        Claim(
            "spaces over nets of 2 units are nearly uncorrelated (mean |C| below .3)",
            rows_below(figures),
            f"{figures['2 units, mean |C|']:.3f}",
        ),
    ]
    return Page(text, figures, claims, [Plot("onlb_latent", CAPTION, pictures(nets), (8.0, 6.0))])


CAPTION = (
    "Left: correlations of the 40 most important spaces, in order of importance (blue -1, "
    "red 1). Right: importance of a space against its mean correlation with the others."
)


def chance() -> float:
    """Return the mean |correlation| of independent normal rows of weights, roughly."""
    return float(np.sqrt(2.0 / (np.pi * (LEARNERS - 1))))


def rows_below(figures: dict[str, float]) -> bool:
    """Return whether spaces over small nets are nearly uncorrelated."""
    return figures["2 units, mean |C|"] < 0.3


def matrix(result: Result) -> np.ndarray:
    """Return C with zeros on its diagonal."""
    C = np.array(result["C"]) / 100.0
    np.fill_diagonal(C, 0.0)
    return C


def mean_correlation(C: np.ndarray) -> float:
    """Return the mean |C| of pairs."""
    return float(abs(C).sum() / (len(C) * (len(C) - 1)))


def weighted_correlation(C: np.ndarray, omega: np.ndarray) -> float:
    """Return the mean |C| of pairs, weighted by the importance of both."""
    weights = np.outer(omega, omega)
    np.fill_diagonal(weights, 0.0)
    return float((weights * abs(C)).sum() / weights.sum())


def pictures(nets: list[tuple[int, Result]]) -> Any:
    """Return the function that draws both figures for both sizes."""

    def draw(figure: Any) -> None:
        axes = figure.subplots(len(nets), 2)
        for (hidden, result), (left, right) in zip(nets, axes, strict=True):
            C, omega = matrix(result), np.array(result["omega"])
            order = np.argsort(-omega)[:40]
            left.imshow(
                C[np.ix_(order, order)], cmap="coolwarm", vmin=-1, vmax=1, interpolation="none"
            )
            left.set_title(f"C, {hidden} units")
            right.scatter(C.sum(axis=0) / (len(C) - 1), omega, s=6)
            right.set_xlabel("mean correlation")
            right.set_ylabel("Omega")

    return draw
