"""Options that several commands of the command line have."""

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[
    Path | None,
    typer.Option("--config", envvar="KABOOST_CONFIG", help="Configuration file.", metavar="FILE"),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Set one value: kafka.topic=payments.", metavar="KEY=VALUE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
