"""The demo's output: a table that is redrawn, and lines that stay above it."""

from io import StringIO
from itertools import islice
from pathlib import Path

import pytest
from rich.console import Console

from kaboost.service.demo import producer
from kaboost.service.demo.display import Display, View
from kaboost.service.demo.scrape import Scrape
from kaboost.service.demo.story import write_exchanged
from kaboost.service.demo.traffic import TrafficStatus

NO_LEARNER_YET = View(None, 100, TrafficStatus(0, 0, 0, 0.0))
RUNNING = View(Scrape(50, 3, {"model": 0.3}, 0), 100, TrafficStatus(7, 0, 2, 0.25))
DEAD = View(None, 100, TrafficStatus(9, 0, 2, 0.25))


def shown(*views: View) -> str:
    """Show states in a terminal, with a line after each; return all output."""
    console = Console(
        file=StringIO(), force_terminal=True, force_interactive=True, width=100, color_system=None
    )
    with Display(console) as display:
        for number, view in enumerate(views):
            display.show(view)
            display.print_step(f"step {number} [bold]")
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_no_markup_and_nothing_twice() -> None:
    """A line is printed once and verbatim; redrawing the table prints no markup."""
    output = shown(NO_LEARNER_YET, RUNNING, DEAD)

    assert "[green]" not in output
    assert "[red]" not in output
    assert [1, 1, 1] == [output.count(f"step {number} [bold]") for number in range(3)]


@pytest.mark.parametrize(
    ("views", "state"),
    [((NO_LEARNER_YET,), "starting"), ((RUNNING,), "up"), ((RUNNING, DEAD), "down")],
)
def test_learner_state(views: tuple[View, ...], state: str) -> None:
    """A learner that was never seen is starting; one that was seen and is gone is down."""
    cells = [
        line.split("│")[2].strip() for line in shown(*views).splitlines() if "learner  " in line
    ]

    assert state == cells[-1]


def test_unknown_figures_are_dashes() -> None:
    """No figure is shown before it was measured."""
    output = shown(NO_LEARNER_YET)

    assert "0.000" not in output
    assert "0 of 100" not in output


def test_a_drift_is_the_same_events_with_other_labels(tmp_path: Path) -> None:
    """The file that the demo streams can be read as the data of the demo."""
    path = tmp_path / "drift.csv"
    events = list(islice(producer.rows(), 50))

    write_exchanged(path, events)

    exchanged = {"UP": "DOWN", "DOWN": "UP"}
    assert [(row, exchanged[label]) for row, label in events] == list(producer.rows(path))
