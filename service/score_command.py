"""The command `kaboost score`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from kaboost.service.command_options import File, Set, load_settings

if TYPE_CHECKING:
    from kaboost.service.config.settings import Settings

Run = Callable[["Settings", Callable[["Settings"], int]], None]


def register(app: typer.Typer, run: Run) -> None:
    """Add the command to the program; `run` runs a role with its logs and exit codes."""

    @app.command(epilog="Example: kaboost score --set score.topic=payments --set score.features=0")
    def score(file: File = None, set_: Set = None) -> None:
        """Answer the records of a topic, each exactly once, from the newest snapshot."""
        from kaboost.service.processes.score_role import run_score

        run(load_settings(file, set_), run_score)
