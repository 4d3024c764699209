"""The pictures of docs/algorithms: what boosting brings to weak learners, on events of Elec2.

`python -m bench.algorithm_plots [PAGE ...]` learns the model of each page's YAML and the same with
one weak learner, draws PAGE.svg, and writes the figures into the page. The published rules run
without the compiler: a few thousand events take less time than compiling.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import yaml
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bench.late_labels import elec2
from kaboost import Model
from kaboost.models.types import Vec

PAGES = Path(__file__).parents[1] / "docs" / "algorithms"
EVENTS, WINDOW = 6_000, 500
SECOND_HALF = slice(EVENTS // 2, EVENTS)
SIZE = (7.2, 2.6)  # inches
LARGE_LOSS = 10.0  # of a prefix, from which on the axis is logarithmic
BLUE, GREY, AMBER = "#2563eb", "#6b7280", "#d97706"
METADATA = ("Creator", "Date", "Format", "Type")  # of the SVG: left out, it differs by the day
COMPILED = {"default"}
VOTES = {"bbm", "adaboost-ol", "oza"}  # edges say more of them than the log-loss of votes
FIGURES = re.compile(r"(?<=<!-- figures -->\n).*?(?=\n\n)", re.S)


class Run(NamedTuple):
    """What came of a model: whether each prediction was wrong, losses of prefixes, edges."""

    wrong: Vec  # (EVENTS,)
    prefixes: Vec  # (N+1,)
    edges: Vec  # (N,)


def spec_of(page: Path) -> dict[str, Any]:
    """Read the model of a page's YAML; none is the default."""
    block = re.search(r"```yaml\n(.*?)```", page.read_text(), re.S)
    assert block is not None, f"{page} has no YAML"
    model: dict[str, Any] = yaml.safe_load(block[1]).get("model") or {}
    return model


def with_one_learner(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the specification with a bank of one."""
    return {**spec, "bank": {**spec["bank"], "n": 1}}


def learn(spec: dict[str, Any] | None) -> Run:
    """Learn the events in their order, each predicted before it is learned."""
    x, y = elec2()
    names = [f"x{j}" for j in range(x.shape[1])]
    model = Model("binary", spec, dict.fromkeys(names, "number"))
    rows = [dict(zip(names, row, strict=True)) for row in x[:EVENTS].tolist()]
    shares = model.learn_many(rows, y[:EVENTS])
    seen = model.booster.progress
    return Run((shares[:, 1] > 0.5) != y[:EVENTS], seen.prefix_losses, seen.edges)


def last_label() -> Vec:
    """Return where the last label is not the next one."""
    y = elec2()[1][:EVENTS]
    return np.append(True, y[1:] != y[:-1])


def curve(wrong: Vec) -> Vec:
    """Return the error of each window in per cent."""
    return 100 * wrong.reshape(-1, WINDOW).mean(axis=1)


def draw(page: Path, runs: dict[str, Vec], boosted: Run) -> None:
    """Write the picture: errors over the events, and what each weak learner adds."""
    mpl.rcParams.update({"svg.hashsalt": page.stem, "svg.fonttype": "none", "font.size": 8})
    figure = Figure(figsize=SIZE, layout="constrained")
    left, right = figure.subplots(1, 2)
    events = np.arange(WINDOW, EVENTS + 1, WINDOW)
    for (name, wrong), colour in zip(runs.items(), (BLUE, AMBER, GREY), strict=False):
        left.plot(events, curve(wrong), color=colour, label=name, linewidth=1.4)
    left.set(title="Error in windows of 500 events", xlabel="events of Elec2", ylabel="per cent")
    left.set_ylim(bottom=0)
    left.legend(frameon=False)
    if page.stem in VOTES:
        right.bar(np.arange(1, len(boosted.edges) + 1), boosted.edges, color=BLUE)
        right.set(title="Edge of each weak learner", xlabel="weak learner", ylabel="1/2 - error")
    else:
        for losses in np.atleast_2d(boosted.prefixes):  # of each structure of reboosted trees
            right.plot(losses, color=BLUE, linewidth=1.4)
        right.set(title="Loss of the first i learners", xlabel="i", ylabel="progressive loss")
        if boosted.prefixes.max() > LARGE_LOSS:
            right.set_yscale("log")
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(page.with_suffix(".svg"), metadata=dict.fromkeys(METADATA))


def sentence(runs: dict[str, Vec]) -> str:
    """Say the error of the second half in words."""
    parts = [f"{name} {100 * wrong[SECOND_HALF].mean():.1f} %" for name, wrong in runs.items()]
    return f"Error in events {EVENTS // 2:,} to {EVENTS:,}: {', '.join(parts)}."


def compare(page: Path) -> tuple[dict[str, Vec], Run]:
    """Learn what a page compares."""
    spec = spec_of(page)
    boosted = learn(spec or None)
    runs = {"boosted": boosted.wrong}
    if page.stem not in COMPILED:
        n = len(boosted.edges)
        runs = {f"{n} learners": boosted.wrong, "one": learn(with_one_learner(spec)).wrong}
    return {**runs, "last label": last_label()}, boosted


def make(page: Path) -> None:
    """Learn, draw, and write the figures into the page."""
    runs, boosted = compare(page)
    draw(page, runs, boosted)
    page.write_text(FIGURES.sub(sentence(runs), page.read_text()))


def main(names: list[str]) -> None:
    """Make the pages, each in a process of its own."""
    for page in sorted(PAGES.glob("*.md")):
        if names and page.stem not in names:
            continue
        plain = {} if page.stem in COMPILED else {"NUMBA_DISABLE_JIT": "1"}
        one = f"from bench import algorithm_plots as a; a.make(a.PAGES / {page.name!r})"
        subprocess.run([sys.executable, "-c", one], env={**os.environ, **plain}, check=True)
        print(page.stem)


if __name__ == "__main__":
    main(sys.argv[1:])
