"""The command line: reads flags, calls the composition, prints; refusals become exit codes.

Parts are imported inside the commands: numba alone costs more than `kaboost --help` may take.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaboost.service.errors import ConfigError, Exit, KaboostError

if TYPE_CHECKING:
    from kaboost.service.config.settings import Settings

Rows = Sequence[Mapping[str, Any]]
log = logging.getLogger(__name__)
app = typer.Typer(
    name="kaboost",
    help="Online gradient boosting for Kafka: labelled events teach, POST /predict answers.",
    epilog="Example: kaboost serve --config kaboost.yaml",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app = typer.Typer(no_args_is_help=True, help="Show or check the configuration.")
checkpoints_app = typer.Typer(no_args_is_help=True, help="Look at the checkpoint files.")
app.add_typer(config_app, name="config")
app.add_typer(checkpoints_app, name="checkpoints")

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
ColdStart = Annotated[
    bool,
    typer.Option("--cold-start", help="Begin a new model in a new folder; the old one stays."),
]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"kaboost {version('kaboost')}")
        raise typer.Exit


@app.callback()
def program(
    asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Online gradient boosting for Kafka: labelled events teach, POST /predict answers."""


@app.command(epilog="Example: kaboost serve --config kaboost.yaml")
def serve(file: File = None, set_: Set = None, cold_start: ColdStart = False) -> None:
    """Learn and serve: one learner and the API processes, supervised."""
    from kaboost.service.processes.roles import run_serve

    _run(_load(file, set_), lambda settings: run_serve(settings, cold_start=cold_start))


@app.command(epilog="Example: kaboost learner --config kaboost.yaml")
def learner(file: File = None, set_: Set = None, cold_start: ColdStart = False) -> None:
    """Learn: consume labelled events, publish snapshots, write checkpoints."""
    from kaboost.service.processes.roles import run_learner

    _run(_load(file, set_), lambda settings: run_learner(settings, cold_start=cold_start))


@app.command(epilog="Example: kaboost api --config kaboost.yaml --set api.port=8080")
def api(file: File = None, set_: Set = None) -> None:
    """Serve: answer POST /predict from the newest snapshot."""
    from kaboost.service.processes.roles import run_api

    _run(_load(file, set_), run_api)


@app.command(epilog="Example: kaboost demo --keep")
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running.")] = False,
    sabotage: Annotated[
        bool, typer.Option("--sabotage", help="Restart from a wrong position: must exit with 1.")
    ] = False,
) -> None:
    """Play the whole job on an embedded broker with real data, and check every claim."""
    from kaboost.service.demo import run

    raise typer.Exit(run(keep=keep, sabotage=sabotage))


@app.command(epilog="Example: kaboost models --json")
def models(
    as_json: Json = False,
    docs: Annotated[bool, typer.Option("--docs", help="Print docs/algorithms.md.")] = False,
) -> None:
    """List rules, banks and losses with their parameters, defaults and papers."""
    from kaboost.models.catalogue import page
    from kaboost.service.listings import part_rows

    if docs:
        typer.echo(page(), nl=False)
    else:
        _print(part_rows(), as_json)


@config_app.command("show", epilog="Example: kaboost config show --config kaboost.yaml --json")
def config_show(file: File = None, set_: Set = None, as_json: Json = False) -> None:
    """Print every effective value and where it came from, secrets hidden."""
    from kaboost.service.listings import setting_rows

    _print(setting_rows(_load(file, set_)), as_json)


@config_app.command("schema", epilog="Example: kaboost config schema > kaboost.schema.json")
def config_schema(as_json: Json = False) -> None:
    """Print the JSON Schema of the configuration file; it is JSON anyhow."""
    from kaboost.service.config.settings import Settings

    typer.echo(json.dumps(Settings.model_json_schema(), indent=2))


@config_app.command("check", epilog="Example: kaboost config check --config kaboost.yaml")
def config_check(file: File = None, set_: Set = None, as_json: Json = False) -> None:
    """Check the configuration; nothing is started, no broker is asked."""
    from kaboost.service.listings import check_client

    try:
        check_client(_load(file, set_))
    except ConfigError as err:
        if not as_json:
            raise
        typer.echo(json.dumps({"ok": False, "faults": str(err).splitlines()}, indent=2))
        raise typer.Exit(err.exit_code) from err
    typer.echo(json.dumps({"ok": True, "faults": []}) if as_json else "ok")


@config_app.command("docs", epilog="Example: kaboost config docs > docs/settings.md")
def config_docs() -> None:
    """Print docs/settings.md."""
    from kaboost.service.config.docs import page

    typer.echo(page(), nl=False)


@checkpoints_app.command("list", epilog="Example: kaboost checkpoints list --config kaboost.yaml")
def checkpoints_list(file: File = None, set_: Set = None, as_json: Json = False) -> None:
    """List all checkpoints, the newest first."""
    from kaboost.service.listings import checkpoint_rows

    _print(checkpoint_rows(_load(file, set_).checkpoints.directory), as_json)


@checkpoints_app.command("show", epilog="Example: kaboost checkpoints show --json")
def checkpoints_show(
    path: Annotated[Path | None, typer.Argument(help="A file; the newest if left out.")] = None,
    file: File = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Show the header and the arrays of one checkpoint."""
    from kaboost.service.listings import checkpoint_details, newest_checkpoint

    chosen = path or newest_checkpoint(_load(file, set_).checkpoints.directory)
    _print(checkpoint_details(chosen), as_json)


@checkpoints_app.command("verify", epilog="Example: kaboost checkpoints verify --config k.yaml")
def checkpoints_verify(file: File = None, set_: Set = None, as_json: Json = False) -> None:
    """Read every checkpoint wholly; exit 1 if one is damaged or there is none."""
    from kaboost.service.listings import checkpoint_rows

    rows = checkpoint_rows(_load(file, set_).checkpoints.directory)
    _print(rows, as_json)
    held = bool(rows) and all(row["state"] == "ok" for row in rows)
    raise typer.Exit(Exit.DONE if held else Exit.NOT_HELD)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; every refusal becomes one sentence and its exit code."""
    try:
        app(arguments)
    except KaboostError as err:
        print(f"kaboost: {err}", file=sys.stderr)
        sys.exit(err.exit_code)


def _load(file: Path | None, set_: list[str] | None) -> "Settings":
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


def _run(settings: "Settings", role: Callable[["Settings"], int]) -> None:
    """Run one role with its logs; what stops it is a log line like all others."""
    from kaboost.service.logs import setup

    setup(settings.log)
    try:
        code = role(settings)
    except KaboostError as err:
        log.error("stopped", extra={"exit_code": int(err.exit_code), "reason": str(err)})
        code = err.exit_code
    raise typer.Exit(code)


def _print(found: Rows, as_json: bool) -> None:
    """Print rows as JSON, or as columns under the names of the first row; reasons below them."""
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    if not found:
        typer.echo("none")
        return
    keys = [key for key in found[0] if key != "reason"]
    table = [keys, *([_cell(row[key]) for key in keys] for row in found)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
    for reason in filter(None, (row.get("reason") for row in found)):
        typer.echo(reason)


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value)


if __name__ == "__main__":
    main()
