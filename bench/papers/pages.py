"""Pages of docs/experiments: the paper's table next to ours, claims, plots, and what differs."""

from __future__ import annotations

import datetime
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.papers.cells import Run, Scale

BANDS = Path(__file__).parent / "bands.json"
DIFFERS = "## Where ours differs"
WIDTH = 120


class Claim(NamedTuple):
    """Something that must show, and whether it does."""

    text: str
    holds: bool
    measured: str
    quick: bool = True  # whether the quick form fails where it does not hold


class Plot(NamedTuple):
    """A picture: its name, what it shows, and the function that draws it on a figure."""

    name: str
    caption: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (7.0, 4.0)  # inches


class Page(NamedTuple):
    """What a table shows."""

    text: str  # Markdown
    figures: dict[str, float]  # that have bands
    claims: list[Claim] = []  # noqa: RUF012
    plots: list[Plot] = []  # noqa: RUF012


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def number(value: float | None, digits: int = 4) -> str:
    """Return a number without the zero before its point; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    text = f"{value:.{digits}f}" if abs(value) < 1e5 else f"{value:.3g}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def both(paper: float | None, ours: float | None, digits: int = 4) -> str:
    """Return the paper's number and ours."""
    return f"{number(paper, digits)} / {number(ours, digits)}"


def wrapped(text: str) -> str:
    """Return a paragraph in lines of the docs' width."""
    return textwrap.fill(" ".join(text.split()), WIDTH)


def claim_lines(claims: Iterable[Claim]) -> str:
    """Return a list of claims with what was measured."""
    return "\n".join(
        textwrap.fill(
            f"- **{'holds' if each.holds else 'does not hold'}**: {each.text} ({each.measured})",
            WIDTH,
            subsequent_indent="  ",
        )
        for each in claims
    )


def extent(scale: Scale) -> str:
    """Describe a scale in words."""
    rows = "all rows" if scale.rows is None else f"at most {scale.rows:,} rows a set"
    words = [f"scale {scale.name}", rows, f"{scale.folds} folds or splits", f"{scale.seeds} seeds"]
    if scale.draws is not None:
        words.append(f"{scale.draws} candidates of a grid, drawn at random")
    if scale.search_rows is not None:
        words.append(f"compared on at most {scale.search_rows:,} rows")
    return ", ".join(words)


def write(
    folder: Path, name: str, title: str, about: str, page: Page, scale: Scale, run: Run
) -> Path:
    """Write a page and its plots; the section about differences is kept from the page before."""
    target = folder / f"{name}.md"
    before = target.read_text() if target.exists() else ""
    kept = before[before.find(DIFFERS) :] if DIFFERS in before else f"{DIFFERS}\n\nNot written.\n"
    option = "" if scale.name == "full" else f" --scale {scale.name}"
    facts = (
        f"{datetime.date.today()}, {extent(scale)}; seeds 0 to {scale.seeds - 1}. "
        f"{len(run.pairs)} cells, {duration(run.seconds)} of computation."
    )
    parts = [
        f"# {title}",
        wrapped(about),
        f"    python -m bench.papers {name} --data FOLDER{option}",
        wrapped(facts),
        page.text,
    ]
    if page.claims:
        parts += ["## What must show", claim_lines(page.claims)]
    for plot in page.plots:
        draw(plot, folder / f"{plot.name}.svg")
        parts.append(f"![{title}]({plot.name}.svg)\n\n{wrapped(plot.caption)}")
    target.write_text("\n\n".join([*parts, kept.rstrip()]) + "\n")
    return target


def duration(seconds: float) -> str:
    """Return a time in words."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def draw(plot: Plot, file: Path) -> None:
    """Draw a plot as SVG, the same bytes each time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    with mpl.rc_context({"svg.hashsalt": plot.name, "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=plot.size, layout="constrained")
        plot.draw(figure)
        for axes in figure.axes:
            axes.minorticks_off()  # on logarithmic axes they take most of the file
            if axes.get_yscale() == "log":  # powers of ten are too few for less than a decade
                axes.yaxis.set_major_locator(MaxNLocator(5))
                axes.yaxis.set_major_formatter(ScalarFormatter())
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r' d="[^"]*"', _rounded, file.read_text())
    file.write_text(re.sub(r" +$", "", text, flags=re.M))


def _rounded(path: re.Match[str]) -> str:
    """Return a path with hundredths of a point, which are enough."""
    return re.sub(r"(\d+\.\d{2})\d+", r"\1", path[0])


def outside(name: str, page: Page) -> list[str]:
    """Return a line for every figure outside its band, or without one, and every claim of the quick
    form that does not hold.
    """
    bands = json.loads(BANDS.read_text()).get(name, {}) if BANDS.exists() else {}
    lines = [
        f"{each} has a band and was not measured" for each in bands if each not in page.figures
    ]
    for each, value in page.figures.items():
        low, high = bands.get(each, (math.nan, math.nan))
        if not low <= value <= high:
            lines.append(f"{each} is {value:.5g}, outside {low:.5g} to {high:.5g}")
    return lines + [
        f"does not hold: {c.text} ({c.measured})" for c in page.claims if c.quick and not c.holds
    ]


def write_bands(name: str, page: Page) -> None:
    """Write the bands of a table around what was measured: a tenth, and at least .01, to each side
    of a share, a fifth of other figures.
    """
    bands = json.loads(BANDS.read_text()) if BANDS.exists() else {}
    bands[name] = {
        each: [float(f"{value - margin(value):.4g}"), float(f"{value + margin(value):.4g}")]
        for each, value in page.figures.items()
    }
    text = json.dumps(bands, indent=1, sort_keys=True)
    BANDS.write_text(re.sub(r"\[\s+(\S+),\s+(\S+)\s+\]", r"[\1, \2]", text) + "\n")


def margin(value: float) -> float:
    """Return how far a figure may move to each side."""
    return max(0.01, 0.1 * abs(value)) if abs(value) <= 1.0 else 0.2 * abs(value)
