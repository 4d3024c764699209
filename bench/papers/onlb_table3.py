"""ONLB, Table 3: how many weak learners the search chose, from the same cells as Table 2."""

from __future__ import annotations

import numpy as np

from bench.papers import onlb
from bench.papers.cells import Run, Scale
from bench.papers.onlb import PAPER, SETS, SYSTEMS, mean_learners, measure
from bench.papers.onlb_table2 import follow, plan
from bench.papers.pages import Claim, Page, both, table

TITLE = "ONLB, Table 3"
ABOUT = """Frery, Habrard, Sebban, Caelen, He-Guelton, IDA 2018. The number of weak learners N of
the candidate with the lowest progressive error, mean over folds. Every cell: the paper / ours.
Our N is one of 2, 4, 8, 16, 32, 64, 128, 256, 500; the paper's grid is not known."""
SCALES, RESULTS = onlb.SCALES, "onlb"
CHOSEN = SYSTEMS[1:]


def page(run: Run, scale: Scale) -> Page:
    """Return the selected numbers next to the paper's."""
    rows = []
    ours = np.array([[mean_learners(run, data, system) for system in CHOSEN] for data in SETS])
    paper = np.array([PAPER[data][1] for data in SETS], float)
    for k, data in enumerate(SETS):
        rows.append(
            [
                data,
                *(both(p, o, 0) for p, o in zip(paper[k], ours[k], strict=True)),
                "none to choose",
            ]
        )
    means = ours.mean(axis=0)
    pairs = zip(paper.mean(axis=0), means, strict=True)
    rows.append(["average", *(both(p, o, 0) for p, o in pairs), "none to choose"])
    figures = {f"average, {s}": float(v) for s, v in zip(CHOSEN, means, strict=True)}
    text = "ONLB needs the fewest learners on average"
    measured = ", ".join(f"{s} {v:.0f}" for s, v in zip(CHOSEN, means, strict=True))
    claims = [Claim(text, bool(means[0] == means.min()), measured, False)]
    return Page(table(["data", *CHOSEN, "default model, untouched"], rows), figures, claims)


__all__ = ["ABOUT", "RESULTS", "SCALES", "TITLE", "follow", "measure", "page", "plan"]
