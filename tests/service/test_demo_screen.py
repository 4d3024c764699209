"""The demo's screen: a table that is drawn again and again, sentences that stay above it."""

from io import StringIO

import pytest
from rich.console import Console

from kaboost.service.demo.gauges import Gauges
from kaboost.service.demo.screen import Screen, View
from kaboost.service.demo.traffic import Glance

NOTHING = View(None, 100, Glance(0, 0, 0, 0.0))
RUNNING = View(Gauges(50, 3, {"model": 0.3}, 0), 100, Glance(7, 0, 2, 0.25))
DEAD = View(None, 100, Glance(9, 0, 2, 0.25))


def shown(*views: View) -> str:
    """Show moments in a terminal, with a sentence after each; give all that was written."""
    console = Console(
        file=StringIO(), force_terminal=True, force_interactive=True, width=100, color_system=None
    )
    with Screen(console) as screen:
        for number, view in enumerate(views):
            screen.show(view)
            screen.say(f"scene {number} [bold]")
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_no_markup_and_nothing_twice() -> None:
    """A sentence stands as it is, once; the table drawn again under it is no markup."""
    told = shown(NOTHING, RUNNING, DEAD)

    assert "[green]" not in told
    assert "[red]" not in told
    assert [1, 1, 1] == [told.count(f"scene {number} [bold]") for number in range(3)]


@pytest.mark.parametrize(
    ("views", "state"), [((NOTHING,), "starting"), ((RUNNING,), "up"), ((RUNNING, DEAD), "down")]
)
def test_learner_state(views: tuple[View, ...], state: str) -> None:
    """Before the first sign of a learner it is starting; only one that was there is down."""
    cells = [
        line.split("│")[2].strip() for line in shown(*views).splitlines() if "learner  " in line
    ]

    assert state == cells[-1]


def test_nothing_known_is_a_dash() -> None:
    """No figure is shown that nobody has measured."""
    told = shown(NOTHING)

    assert "0.000" not in told
    assert "0 of 100" not in told
