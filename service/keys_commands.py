"""`kaboost keys`: make a key of the API, and list those of a file."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from kaboost.service.command_options import File, Json, Set, load_settings, print_rows
from kaboost.service.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Make and list the keys of the API.")
FILE_MODE = 0o600
KeyFile = Annotated[
    Path | None, typer.Option("--file", help="File of the keys, as api.auth.keys.", metavar="FILE")
]


@app.command("new", epilog="Example: kaboost keys new shop --roles predict,read --file keys")
def new(
    name: Annotated[str, typer.Argument(help="Whose key it is; it is in logs.")],
    roles: Annotated[
        str, typer.Option(help="Any of predict, learn, read, admin, with commas.")
    ] = "predict",
    expires: Annotated[
        str | None, typer.Option(help="Last day, in UTC: 2027-01-31.", metavar="DATE")
    ] = None,
    file: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Make a key. It is printed once; its line, with a digest only, is appended to FILE."""
    from kaboost.service.access.keys import new_key

    key, line = new_key(name, roles, expires)
    if file is not None:
        _append(file, line)
    if as_json:
        typer.echo(json.dumps({"key": key, "line": line}))
        return
    typer.echo(key)
    what = "this line was appended to" if file else "append this line to the file of"
    typer.echo(f"{what} {file or 'api.auth.keys'}:\n{line}", err=True)


@app.command("list", epilog="Example: kaboost keys list --file keys --json")
def list_(
    file: KeyFile = None, config: File = None, set_: Set = None, as_json: Json = False
) -> None:
    """List the keys of a file, by default of api.auth.keys: names, roles, ends, no keys."""
    from kaboost.service.access.keys import describe, read_keys

    path = file or load_settings(config, set_).api.auth.keys
    if path is None:
        raise ConfigError("api.auth.keys is not set: name a file with --file")
    print_rows([describe(entry) for entry in read_keys(path).values()], as_json)


def _append(file: Path, line: str) -> None:
    """Append a line, on a line of its own; a new file is readable by its owner only."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE_MODE)
        with os.fdopen(descriptor, "r+") as opened:
            text = opened.read()
            opened.write(("\n" if text and not text.endswith("\n") else "") + line + "\n")
    except (OSError, UnicodeDecodeError) as err:
        reason = getattr(err, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"--file {file}: {reason}; name a file that can be written") from err
