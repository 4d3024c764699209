"""What the commands share: flags, loading of the settings, and printing of rows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaboost.service.errors import ConfigError

if TYPE_CHECKING:
    from kaboost.service.config.settings import Settings

Rows = Sequence[Mapping[str, Any]]
DEFAULT_FILE = Path("kaboost.yaml")
File = Annotated[
    Path | None,
    typer.Option("--config", envvar="KABOOST_CONFIG", help="Configuration file.", metavar="FILE"),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Set one value: kafka.topic=payments.", metavar="KEY=VALUE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Source = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Where the snapshots come from: kafka:TOPIC, s3://bucket/prefix, or a folder.",
        metavar="PLACE",
    ),
]


def with_source(set_: list[str] | None, source: str | None) -> list[str]:
    """Add the setting of the flag `--from`."""
    return [*(set_ or []), *([f"snapshots.source={source}"] if source else [])]


def load_settings(file: Path | None, set_: list[str] | None) -> "Settings":
    """Load the settings of a file and flags, without a file those of kaboost.yaml here."""
    from kaboost.service.config.settings import load

    flags: dict[str, object] = {}
    for pair in set_ or []:
        key, equals, value = pair.partition("=")
        if not equals or ("." not in key and key not in ("name", "model")):
            raise ConfigError(
                f"--set {pair}: write SECTION.KEY=VALUE, such as kafka.topic=payments"
            )
        flags[key] = value
    file = file or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
    try:
        return load(file, flags)
    except ConfigError as err:
        if file is not None:
            raise
        raise ConfigError(
            f"no configuration file: there is no {DEFAULT_FILE} in {Path.cwd()}, and neither "
            f"--config nor KABOOST_CONFIG names one\n{err}"
        ) from err


def print_rows(rows: Rows, as_json: bool) -> None:
    """Print rows as JSON, or as a table with the keys of the first row and reasons below it."""
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        typer.echo("none")
        return
    keys = [key for key in rows[0] if key != "reason"]
    table = [keys, *([_cell(row[key]) for key in keys] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
    for reason in filter(None, (row.get("reason") for row in rows)):
        typer.echo(reason)


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value)
