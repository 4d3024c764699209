"""What the laboratory's commands show in a terminal: progress on stderr, tables on stdout."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

SHOWN_NOTES = 8
SHOWN_ROWS = 10
LINE_SECONDS = 10.0  # between two lines without a terminal
WHOLE = 1000  # units of the progress bar


class Meter:
    """Report the progress of one pass over the events."""

    def __init__(self, progress: Progress, task: TaskID, console: Console) -> None:
        self._progress, self._task, self._console = progress, task, console
        self._began = self._printed = time.monotonic()

    def __call__(self, events: int, fraction: float | None) -> None:
        """Show how many events were learned, and which part was read."""
        rate = events / max(time.monotonic() - self._began, 1e-9)
        self.show(f"{events:,} events, {rate:,.0f}/s", fraction)

    def show(self, about: str, fraction: float | None) -> None:
        """Show a line and which part is done."""
        now = time.monotonic()
        done = None if fraction is None else min(fraction, 1.0) * WHOLE
        total = None if fraction is None else WHOLE
        self._progress.update(self._task, completed=done, total=total, about=about)
        if not self._console.is_terminal and now - self._printed > LINE_SECONDS:
            self._printed = now
            part = "" if fraction is None else f", {100 * fraction:.0f} %"
            self._console.print(f"{about}{part}", highlight=False)


@contextmanager
def trials_meter(*, quiet: bool = False) -> Iterator[Callable[[int, int, float | None], None]]:
    """Show how many trials are done, and the lowest loss so far."""
    with meters(quiet=quiet) as add:
        bar = add("tuning")

        def report(done: int, total: int, lowest: float | None) -> None:
            known = "" if lowest is None else f", lowest loss {_number(lowest)}"
            bar.show(f"{done} of {total} trials{known}", done / max(total, 1))

        yield report


@contextmanager
def meter(what: str, *, quiet: bool = False) -> Iterator[Meter]:
    """Show a progress bar with rate and remaining time while events are learned."""
    with meters(quiet=quiet) as add:
        yield add(what)


@contextmanager
def meters(*, quiet: bool = False) -> Iterator[Callable[[str], Meter]]:
    """Show a progress bar for each of several passes."""
    console = Console(stderr=True, quiet=quiet)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[about]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with progress:
        yield lambda what: Meter(
            progress, progress.add_task(what, total=None, about="compiling and reading"), console
        )


def show_replay(figures: Mapping[str, Any]) -> None:
    """Print the losses, what was rejected, and what was noticed."""
    console = Console()
    rate = figures["events_per_second"]
    speed = f", {rate:,.0f} events/s" if rate else ""
    console.print(
        f"{figures['input']}: {figures['events']:,} events of {figures['records']:,} records"
        f"{speed}{', INTERRUPTED' if figures['partial'] else ''}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    table = Table(box=None, pad_edge=False)
    for name in ("predictor", "progressive loss", "error", "loss saved by Kaboost"):
        table.add_column(name, justify="left" if name == "predictor" else "right")
    losses, errors = figures["losses"], figures["errors"]
    for name in losses:
        saved = "" if name == "model" else _saved(losses["model"], losses[name])
        table.add_row(name, _number(losses[name]), _number(errors[name]), saved)
    console.print(table)
    for reason, count in figures["rejected"].items():
        example = figures["examples"].get(reason, "")
        _line(console, f"rejected: {count:,} {reason}, such as: {example}")
    for reason, count in figures["skipped"].items():
        _line(console, f"skipped: {count:,} {reason}")
    drifts = [alarm["event"] for alarm in figures["alarms"] if alarm["kind"] == "drift"]
    if drifts:
        places = ", ".join(f"{event:,}" for event in drifts[:5])
        _line(console, f"drift alarms: {len(drifts)}, at event {places}")
    for note in figures["notes"][:SHOWN_NOTES]:
        _line(console, f"note: {note}")


def show_comparison(figures: Mapping[str, Any]) -> None:
    """Print the table of a comparison."""
    partial = ", INTERRUPTED" if figures["partial"] else ""
    console = Console()
    _line(console, f"{figures['input']}: the same {figures['events']:,} events{partial}")
    show_rows(figures["rows"])
    _line(
        console,
        f"differences from {figures['rows'][0]['configuration']} with their "
        f"{100 * figures['level']:.0f} % intervals: block bootstrap, blocks of "
        f"{figures['block_events']} events, {figures['draws']:,} draws",
    )


def show_tuning(figures: Mapping[str, Any], output: object) -> None:
    """Print the best candidates, and what the best one brings over the default."""
    console = Console()
    keys = ("candidate", "loss", "error", "events", "events_per_second")
    known = [row for row in figures["rows"] if "loss" in row][:SHOWN_ROWS]
    show_rows([{key: row[key] for key in keys} for row in known])
    for each in figures["failed"][:SHOWN_NOTES]:
        _line(console, f"failed: {each['candidate']}: {each['fault']}")
    default, best, gain = figures["default"], figures["best"], figures["gain"]
    if not best["settings"]:
        _line(console, f"no candidate is better than the default, loss {default['loss']:.4f}")
        return
    saved = 100 * (1 - best["loss"] / default["loss"]) if default["loss"] else 0.0
    text = f"tuning brings {saved:.1f} % of the loss: {default['loss']:.4f} to {best['loss']:.4f}"
    if gain is not None:
        text += f", difference {gain['difference']:.4f}"
        if gain["high"] is None:
            text += ", of too few events for an interval"
        else:
            text += f" ({gain['low']:.4f} .. {gain['high']:.4f})"
        if gain["high"] is not None and gain["high"] >= 0.0:
            text += ", which may be chance"
    _line(console, f"{text}; the best of several is a little too good on its own events")
    _line(console, f"written: {output}")


def show_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a table; numbers to the right."""
    table = Table(box=None, pad_edge=False)
    for name in rows[0] if rows else ():
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console().print(table)


def _line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True, highlight=False)


def _cell(value: Any) -> Text:
    if isinstance(value, float):
        return Text(_number(value))
    return Text("–" if value is None else str(value))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}" if abs(value) >= 1000 else f"{value:.4f}"


def _saved(model: float | None, other: float | None) -> str:
    if model is None or not other:
        return "–"
    return f"{100 * (1 - model / other):.1f} %"
