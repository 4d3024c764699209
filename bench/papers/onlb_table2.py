"""ONLB, Table 2: errors of six online boosters and their base learner on ten data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.papers import onlb
from bench.papers.cells import Cell, Run, Scale
from bench.papers.onlb import PAPER, SETS, SYSTEMS, mean_error, measure
from bench.papers.pages import Claim, Page, Plot, both, number, table

TITLE = "ONLB, Table 2"
ABOUT = """Frery, Habrard, Sebban, Caelen, He-Guelton, Online Non-Linear Gradient Boosting in
Multi-Latent Spaces, IDA 2018. Errors on test folds, frozen, mean over folds; every base learner
is a net of two sigmoid units trained by SGD. Every cell: the paper / ours."""
SCALES, RESULTS = onlb.SCALES, "onlb"
COLOURS = {name: f"C{k}" for k, name in enumerate((*SYSTEMS, "default"))}


def plan(scale: Scale, folder: Path) -> list[Cell]:
    """Return the cells in which candidates are compared."""
    return onlb.search_plan(scale, folder)


def follow(run: Run, scale: Scale) -> list[Cell]:
    """Return the cells of the test folds."""
    return onlb.test_plan(run, scale)


def page(run: Run, scale: Scale) -> Page:
    """Return errors next to the paper's."""
    rows, figures, wins = [], {}, {"base": 0, "all": 0, "best": 0}
    for data in SETS:
        ours = [mean_error(run, data, system) for system in SYSTEMS]
        default = mean_error(run, data, "default")
        figures |= {
            f"{data}, {s}": e for s, e in zip((*SYSTEMS, "default"), [*ours, default], strict=True)
        }
        cells = [both(p, o) for p, o in zip(PAPER[data][0], ours, strict=True)]
        rows.append([data, *cells, number(default)])
        wins["base"] += ours[1] < ours[0]
        wins["best"] += ours[1] <= min(ours)
        wins["all"] += default <= min(ours)
    claims = claims_of(run, wins, scale)
    text = table(["data", *SYSTEMS, "default model, untouched"], rows)
    return Page(text, figures, claims, [Plot("onlb_figure2", CAPTION, curves(run), (8.0, 3.6))])


def claims_of(run: Run, wins: dict[str, int], scale: Scale) -> list[Claim]:
    """Return what must show."""
    slow = sum(mean_error(run, d, "ONLB") < mean_error(run, d, "slow base") for d in SETS)
    claims = [
        Claim(
            "ONLB beats its base learner on 10 of 10 sets",
            wins["base"] == 10,
            of(wins["base"]),
            False,
        ),
        Claim(
            f"ONLB beats a base learner of learning rate {onlb.SLOW}, not chosen, on 10 of 10 sets",
            slow == 10,
            of(slow),
            False,
        ),
        Claim(
            "ONLB is the best of the published systems on most sets (the paper: 6 of 10)",
            wins["best"] > 5,
            of(wins["best"]),
            False,
        ),
        Claim(
            "the default model is the best on 10 of 10 sets",
            wins["all"] == 10,
            of(wins["all"]),
            False,
        ),
    ]
    if scale.name == "quick":
        text = f"even on few rows ONLB beats its base learner on {QUICK_WINS} sets"
        claims.append(Claim(text, wins["base"] >= QUICK_WINS, of(wins["base"])))
    return claims


def of(count: int) -> str:
    """Return a count in words."""
    return f"{count} of {len(SETS)}"


QUICK_WINS = 5
CAPTION = (
    "Figure 2 of the paper: progressive error of the selected candidates on the first "
    "training folds."
)


def curves(run: Run) -> Any:
    """Return the function that draws progressive errors."""

    def draw(figure: Any) -> None:
        for data, axes in zip(onlb.CURVES, figure.subplots(1, 2), strict=True):
            for system in SYSTEMS:
                for _, result in onlb.tests(run).where(data=data, system=system, fold=0):
                    axes.plot(
                        result["events"], result["curve"], label=system, color=COLOURS[system]
                    )
            axes.set_title(data)
            axes.set_xlabel("events")
            axes.set_xscale("log")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")

    return draw


__all__ = ["ABOUT", "RESULTS", "SCALES", "TITLE", "follow", "measure", "page", "plan"]
