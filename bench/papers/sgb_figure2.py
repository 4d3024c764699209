"""SGB, Figure 2: test loss against computation, from the same cells as Table 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.papers import sgb_nets
from bench.papers.cells import Run, Scale
from bench.papers.pages import Claim, Page, Plot, number, table
from bench.papers.sgb_nets import GROUP, PLAN, SETS, SEVERAL, curves, final, measure, plan

TITLE = "SGB, Figure 2"
ABOUT = f"""Hu, Sun, Venkatraman, Hebert, Bagnell, AISTATS 2017. Test loss against computation in
weak predictions (an update counts two), for SGB, gradient boosting whose nets are trained in
sequence to convergence, and the hybrid that adds {GROUP} nets at a time. The paper has curves and
no numbers, so the table has ours alone; seeds are averaged in the table, the curves are of seed
0."""
SCALES, RESULTS = sgb_nets.SCALES, "sgb_nets"
SYSTEMS = ("base", "GB", "hybrid", "SGB")
BUDGETS = (1e4, 1e5, 1e6, 1e7)


def page(run: Run, scale: Scale) -> Page:
    """Return the loss at several budgets, and the curves."""
    shown = [data for data in SETS if run.where(data=data)]
    rows, figures = [], {}
    for data in shown:
        for system in SYSTEMS:
            found = curves(run, data, system)
            if found:
                at = [number(np.mean([best(r, budget) for r in found])) for budget in BUDGETS]
                rows.append(
                    [
                        data,
                        system,
                        *at,
                        number(final(run, data, system)),
                        number(final(run, data, "default")),
                    ]
                )
                figures[f"{data}, {system}"] = final(run, data, system)
    head = [
        "data",
        "system",
        *(f"{b:.0e} units".replace("e+0", "e") for b in BUDGETS),
        "end",
        "default model, untouched",
    ]
    sizes = [
        [
            str(n),
            *(
                number(np.mean([best(r, b) for r in curves(run, "ABALONE", "SGB", n)]))
                for b in BUDGETS
            ),
        ]
        for n in SEVERAL
    ]
    text = table(head, rows) + "\n\nFigure 2f, ABALONE, SGB of several N, eta 1:\n\n"
    text += table(["N", *head[2:-2]], sizes)
    plots = [Plot("sgb_figure2", CAPTION, panels(run, shown), (9.0, 3.2))]
    return Page(text, figures, claims(run), plots)


CAPTION = (
    "Test loss against weak predictions, both axes logarithmic; the last panel has SGB of "
    "several N on ABALONE."
)


def best(result: dict[str, Any], budget: float) -> float:
    """Return the test loss at the last point within a budget."""
    within = [t for u, t in zip(result["units"], result["test"], strict=True) if u <= budget]
    return within[-1] if within else math.nan


def claims(run: Run) -> list[Claim]:
    """Return what must show of Figure 2f."""
    few, many = (
        np.mean([result["test"][-1] for result in curves(run, "ABALONE", "SGB", n)])
        for n in (3, 20)
    )
    early = [np.mean([best(r, 1e6) for r in curves(run, "ABALONE", "SGB", n)]) for n in (20, 50)]
    return [
        Claim(
            "N = 3 ends worse than N = 20 on ABALONE",
            bool(few > many),
            f"{few:.3f} against {many:.3f}",
        ),
        Claim(
            "N = 50 is slower than N = 20",
            bool(early[1] > early[0]),
            f"{early[1]:.3f} against {early[0]:.3f} at 1e6 units",
            False,
        ),
    ]


def panels(run: Run, shown: list[str]) -> Any:
    """Return the function that draws the curves."""

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(shown) + 1)
        for data, part in zip(shown, axes[:-1], strict=True):
            for k, system in enumerate(SYSTEMS):
                for result in curves(run, data, system)[:1]:
                    part.loglog(result["units"], result["test"], color=f"C{k}", label=system)
            part.set_title(data)
            part.set_xlabel("weak predictions")
        axes[0].legend()
        for n in SEVERAL:
            for result in curves(run, "ABALONE", "SGB", n)[:1]:
                axes[-1].loglog(result["units"], result["test"], label=f"N = {n}")
        axes[-1].set_title("ABALONE, SGB")
        axes[-1].legend()

    return draw


__all__ = ["ABOUT", "PLAN", "RESULTS", "SCALES", "TITLE", "measure", "page", "plan"]
