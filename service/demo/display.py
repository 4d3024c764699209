"""The demo's output: a live table in a terminal, a line every few seconds anywhere else."""

import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kaboost.service.demo.checks import Check
from kaboost.service.demo.scrape import Scrape
from kaboost.service.demo.traffic import TrafficStatus

RATE_SECONDS = 2.0  # over which events per second are averaged
LINE_SECONDS = 3.0  # between two lines without a terminal


class View(NamedTuple):
    """The state of the run at one moment."""

    metrics: Scrape | None  # None: no learner
    events: int  # in the whole stream
    serving: TrafficStatus


class Display:
    """Show the state of the run; without a learner its last known figures remain."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, auto_refresh=False)
        self._latest: Scrape | None = None  # None until there was a learner
        self._samples: deque[tuple[float, int]] = deque()
        self._printed_at = 0.0

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, view: View) -> None:
        """Draw one state."""
        self._latest = view.metrics or self._latest
        self._samples.append((time.monotonic(), self._latest.learned if self._latest else 0))
        while self._samples[-1][0] - self._samples[0][0] > RATE_SECONDS:
            self._samples.popleft()
        if self.console.is_terminal:
            self._live.update(self._table(view), refresh=True)
        elif self._latest and time.monotonic() - self._printed_at > LINE_SECONDS:
            self._printed_at = time.monotonic()
            self.console.print(self._line(view, self._latest), soft_wrap=True)

    def print_step(self, sentence: str) -> None:
        """Print a line that stays; in a terminal it is above the table."""
        # As Text: print's markup=False would also apply to the table, which is redrawn.
        self.console.print(Text(sentence), soft_wrap=True)

    def _rate(self) -> float:
        (begin, first), (end, last) = self._samples[0], self._samples[-1]
        return max(0, last - first) / (end - begin) if end > begin else 0.0

    def _table(self, view: View) -> Table:
        table = Table(min_width=64)
        table.add_column("learning")
        table.add_column("", justify="right")
        table.add_column("serving")
        table.add_column("", justify="right")
        for left, right in zip(self._learning(view), self._serving(view), strict=True):
            table.add_row(*left, *right)
        return table

    def _learning(self, view: View) -> list[tuple[str, str]]:
        latest = self._latest
        down = "[red]down[/]" if latest else "starting"
        return [
            ("learner", "[green]up[/]" if view.metrics else down),
            ("events learned", f"{latest.learned:,} of {view.events:,}" if latest else "-"),
            ("events per second", f"{self._rate():,.0f}" if latest else "-"),
            ("lag, events", _count(view.metrics.lag) if view.metrics else "-"),
            ("log-loss: model", _loss(latest, "model")),
            ("  last label", _loss(latest, "last_label")),
            ("  prior", _loss(latest, "prior")),
        ]

    def _serving(self, view: View) -> list[tuple[str, str]]:
        serving, latest = view.serving, self._latest
        return [
            ("POST /predict answered", f"{serving.answered:,}"),
            ("failed", f"{serving.failed}"),
            ("snapshot version", f"{serving.version}" if serving.answered else "-"),
            ("P(UP) of the latest", f"{serving.probability:.3f}" if serving.answered else "-"),
            ("learner restarts", f"{latest.restarts}" if latest else "-"),
            ("", ""),
            ("", ""),
        ]

    def _line(self, view: View, latest: Scrape) -> str:
        return (
            f"learner {'up' if view.metrics else 'down'}, "
            f"{latest.learned:,} of {view.events:,} events, {self._rate():,.0f}/s, "
            f"lag {_count(latest.lag)}, "
            f"log-loss {_loss(latest, 'model')} (last label {_loss(latest, 'last_label')}, "
            f"prior {_loss(latest, 'prior')}), snapshot {view.serving.version}, "
            f"{view.serving.answered:,} predictions, {view.serving.failed} failed"
        )


def print_checks(console: Console, checks: Sequence[Check]) -> None:
    """Print every check with its figures, and whether it held."""
    table = Table(
        title="What was promised, and what was observed", title_justify="left", min_width=64
    )
    for column in ("", "promise", "figures"):
        table.add_column(column)
    for check in checks:
        table.add_row("[green]held[/]" if check.held else "[red]NOT HELD[/]", *check[::2])
    console.print(table)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _loss(metrics: Scrape | None, predictor: str) -> str:
    return f"{metrics.losses[predictor]:.4f}" if metrics and predictor in metrics.losses else "-"
