"""What one sees: a table that moves in a terminal, a line now and then anywhere else."""

import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kaboost.service.demo.claims import Claim
from kaboost.service.demo.gauges import Gauges
from kaboost.service.demo.traffic import Glance

SPAN = 2.0  # seconds over which events per second are counted
LINE_EVERY = 3.0  # seconds between two lines where there is no terminal


class View(NamedTuple):
    """One moment of the run."""

    gauges: Gauges | None  # None: no learner
    events: int  # in the whole stream
    serving: Glance


class Screen:
    """Show moments as they come; a learner that is gone leaves its last figures standing."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, auto_refresh=False)
        self._known: Gauges | None = None  # None until there was a learner
        self._track: deque[tuple[float, int]] = deque()
        self._said = 0.0

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
        """Draw one moment."""
        self._known = view.gauges or self._known
        self._track.append((time.monotonic(), self._known.learned if self._known else 0))
        while self._track[-1][0] - self._track[0][0] > SPAN:
            self._track.popleft()
        if self.console.is_terminal:
            self._live.update(self._table(view), refresh=True)
        elif self._known and time.monotonic() - self._said > LINE_EVERY:
            self._said = time.monotonic()
            self.console.print(self._line(view, self._known), soft_wrap=True)

    def say(self, sentence: str) -> None:
        """Say something that stays; in a terminal it stands above the table."""
        # As Text: print's markup=False would hold for the table, which is drawn again, as well.
        self.console.print(Text(sentence), soft_wrap=True)

    def _rate(self) -> float:
        (begin, first), (end, last) = self._track[0], self._track[-1]
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
        known = self._known
        down = "[red]down[/]" if known else "starting"
        return [
            ("learner", "[green]up[/]" if view.gauges else down),
            ("events learned", f"{known.learned:,} of {view.events:,}" if known else "-"),
            ("events per second", f"{self._rate():,.0f}" if known else "-"),
            ("lag, events", _count(view.gauges.lag) if view.gauges else "-"),
            ("log-loss: model", _loss(known, "model")),
            ("  last label", _loss(known, "last_label")),
            ("  prior", _loss(known, "prior")),
        ]

    def _serving(self, view: View) -> list[tuple[str, str]]:
        serving, known = view.serving, self._known
        return [
            ("POST /predict answered", f"{serving.answered:,}"),
            ("failed", f"{serving.failed}"),
            ("snapshot version", f"{serving.version}" if serving.answered else "-"),
            ("P(UP) of the latest", f"{serving.probability:.3f}" if serving.answered else "-"),
            ("learner restarts", f"{known.restarts}" if known else "-"),
            ("", ""),
            ("", ""),
        ]

    def _line(self, view: View, known: Gauges) -> str:
        return (
            f"learner {'up' if view.gauges else 'down'}, "
            f"{known.learned:,} of {view.events:,} events, {self._rate():,.0f}/s, "
            f"lag {_count(known.lag)}, "
            f"log-loss {_loss(known, 'model')} (last label {_loss(known, 'last_label')}, "
            f"prior {_loss(known, 'prior')}), snapshot {view.serving.version}, "
            f"{view.serving.answered:,} predictions, {view.serving.failed} failed"
        )


def verdict(console: Console, claims: Sequence[Claim]) -> None:
    """Print every claim with its figures, and whether it held."""
    table = Table(title="What was claimed, and what was found", title_justify="left", min_width=64)
    for column in ("", "claim", "figures"):
        table.add_column(column)
    for claim in claims:
        table.add_row("[green]held[/]" if claim.held else "[red]NOT HELD[/]", *claim[::2])
    console.print(table)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _loss(gauges: Gauges | None, predictor: str) -> str:
    return f"{gauges.losses[predictor]:.4f}" if gauges and predictor in gauges.losses else "-"
