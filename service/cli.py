"""The command line: parse flags, call the composition, print; errors become exit codes.

Parts are imported inside the commands: importing numba takes longer than `kaboost --help` may.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kaboost.service import (
    dlq_commands,
    keys_commands,
    lab_commands,
    score_command,
    status_command,
)
from kaboost.service.command_options import DEFAULT_FILE, File, Json, Set, Source, with_source
from kaboost.service.command_options import load_settings as _load
from kaboost.service.command_options import print_rows as _print
from kaboost.service.errors import ConfigError, Exit, KaboostError
from kaboost.service.steering_commands import register

if TYPE_CHECKING:
    from kaboost.service.config.settings import Settings
    from kaboost.service.onboarding.plan import Ask

log = logging.getLogger(__name__)
app = typer.Typer(
    name="kaboost",
    help="Online gradient boosting for Kafka: learn labelled events, serve POST /predict.",
    epilog="Example: kaboost serve --config kaboost.yaml",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app = typer.Typer(no_args_is_help=True, help="Show or check the configuration.")
checkpoints_app = typer.Typer(
    no_args_is_help=True, help="List, show, verify or compare checkpoint files."
)
app.add_typer(config_app, name="config")
app.add_typer(checkpoints_app, name="checkpoints")
app.add_typer(dlq_commands.app, name="dlq")
app.add_typer(keys_commands.app, name="keys")

OnGap = Annotated[
    Literal["refuse", "accept"] | None,
    typer.Option(
        help="Where the topic does not continue the state: exit with 3, or keep the model and read "
        "on from the first record there is."
    ),
]
ColdStart = Annotated[
    bool,
    typer.Option("--cold-start", help="Start a new model in a new folder; the old one is kept."),
]


Standby = Annotated[
    bool,
    typer.Option(
        "--standby", help="Lead only if elected, and take over from a leader that ends or dies."
    ),
]


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"kaboost {version('kaboost')}")
        raise typer.Exit


def import_without_numba() -> None:
    """Import the models without numba, which takes a second: the command computes nothing.

    The variable is read at this import only; it is restored for child processes.
    """
    previous = os.environ.get("NUMBA_DISABLE_JIT")
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    try:
        from kaboost.models.kernels import jit  # noqa: F401
    finally:
        if previous is None:
            del os.environ["NUMBA_DISABLE_JIT"]
        else:
            os.environ["NUMBA_DISABLE_JIT"] = previous


config_app.callback()(import_without_numba)
checkpoints_app.callback()(import_without_numba)


@app.callback()
def program(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Online gradient boosting for Kafka: learn labelled events, serve POST /predict."""


@app.command(epilog="Example: kaboost serve --config kaboost.yaml")
def serve(
    file: File = None, set_: Set = None, cold_start: ColdStart = False, on_gap: OnGap = None
) -> None:
    """Learn and serve: one learner and the API processes, supervised."""
    from kaboost.service.processes.roles import run_serve

    settings = _load(file, _with_on_gap(set_, on_gap))
    _run(settings, lambda settings: run_serve(settings, cold_start=cold_start))


@app.command(epilog="Example: kaboost learner --config kaboost.yaml")
def learner(
    file: File = None,
    set_: Set = None,
    cold_start: ColdStart = False,
    on_gap: OnGap = None,
    standby: Standby = False,
) -> None:
    """Learn: consume labelled events, publish snapshots, write checkpoints."""
    from kaboost.service.processes.roles import run_learner

    set_ = [*_with_on_gap(set_, on_gap), *(["standby.enabled=true"] if standby else [])]
    settings = _load(file, set_)
    _run(settings, lambda settings: run_learner(settings, cold_start=cold_start))


@app.command(epilog="Example: kaboost api --config kaboost.yaml --from kafka:fraud.snapshots")
def api(file: File = None, set_: Set = None, source: Source = None) -> None:
    """Serve: POST /predict from the newest snapshot."""
    import_without_numba()  # this process only supervises those that predict
    from kaboost.service.processes.roles import run_api

    _run(_load(file, with_source(set_, source)), run_api)


@app.command(epilog="Example: kaboost init --bootstrap 127.0.0.1:9092 --topic payments")
def init(
    file: Annotated[
        Path | None, typer.Argument(help="CSV, Parquet or JSON lines instead of a topic.")
    ] = None,
    bootstrap: Annotated[str, typer.Option(help="Broker, host:port.")] = "127.0.0.1:9092",
    topic: Annotated[str | None, typer.Option(help="Topic of the records.")] = None,
    labels_topic: Annotated[str | None, typer.Option(help="Topic of later labels.")] = None,
    registry: Annotated[str | None, typer.Option(help="URL of the schema registry.")] = None,
    label: Annotated[str | None, typer.Option(help="Path of the label.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Path of the id, or none.")] = None,
    timestamp: Annotated[str | None, typer.Option(help="Path of the time, or none.")] = None,
    labels_id: Annotated[str | None, typer.Option(help="Path of the id of later labels.")] = None,
    labels_timestamp: Annotated[
        str | None, typer.Option(help="Path of the time of later labels.")
    ] = None,
    expired: Annotated[
        str | None, typer.Option(help="Label of features without one, or drop.", metavar="LABEL")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="binary, multiclass or regression.", metavar="TASK")
    ] = None,
    format_: Annotated[str | None, typer.Option("--format", help="As events.format.")] = None,
    schema_file: Annotated[str | None, typer.Option(help="As events.schema_file.")] = None,
    message_type: Annotated[str | None, typer.Option(help="As events.message_type.")] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(help="One librdkafka key: security.protocol=SSL.", metavar="KEY=VALUE"),
    ] = None,
    records: Annotated[int, typer.Option(help="Most records to look at.", min=1)] = 1000,
    output: Annotated[Path, typer.Option(help="File to write.")] = DEFAULT_FILE,
    force: Annotated[bool, typer.Option("--force", help="Overwrite that file.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing, use the guesses.")] = False,
) -> None:
    """Look at a topic or a file, and write kaboost.yaml for it; nothing else is written."""
    import_without_numba()
    from kaboost.service.listings import check_keys
    from kaboost.service.onboarding.init import Request, run
    from kaboost.service.onboarding.plan import Given

    given = Given(label, id_, timestamp, task, labels_id, labels_timestamp, expired)
    events = {"format": format_, "schema_file": schema_file, "message_type": message_type}
    known = {key: value for key, value in events.items() if value is not None}
    keys = dict(_key_value(pair) for pair in client or [])
    check_keys(keys, "--client")
    request = Request(
        bootstrap, topic, file, labels_topic, output, force, given, records, registry, known, keys
    )
    run(request, _asking(yes or not sys.stdin.isatty()), typer.echo)


@app.command(epilog="Example: kaboost doctor --config kaboost.yaml")
def doctor(file: File = None, set_: Set = None, as_json: Json = False) -> None:
    """Check broker, rights, topics, records, ports, folders and disk; nothing is written."""
    import_without_numba()
    from kaboost.service.access.authenticator import check_access
    from kaboost.service.listings import check_client
    from kaboost.service.onboarding.doctor import examine
    from kaboost.service.onboarding.report import Check, line, worst

    checks: list[Check] = []
    try:
        settings = _load(file, set_)
        check_client(settings)
        check_access(settings)
        for check in examine(settings):
            checks.append(check)
            if not as_json:
                typer.echo(line(check))
    except ConfigError as err:
        checks.append(Check("configuration", "red", str(err), "correct the configuration"))
        if not as_json:
            typer.echo(line(checks[-1]))
    status = worst(checks)
    rows = [check._asdict() for check in checks]
    report = json.dumps({"status": status, "checks": rows}, indent=2)
    typer.echo(report if as_json else f"\n{status}")
    raise typer.Exit(Exit.NOT_HELD if status == "red" else Exit.DONE)


@app.command(epilog="Example: kaboost demo --keep")
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running.")] = False,
    sabotage: Annotated[
        bool, typer.Option("--sabotage", help="Restart from wrong offsets: must exit with 1.")
    ] = False,
) -> None:
    """Run everything on a mock broker with real data, and check every promise."""
    from kaboost.service.demo.run import run

    raise typer.Exit(run(keep=keep, sabotage=sabotage))


@app.command(epilog="Example: kaboost models --json")
def models(
    as_json: Json = False,
    docs: Annotated[bool, typer.Option("--docs", help="Print docs/algorithms.md.")] = False,
) -> None:
    """List rules, banks and losses with their parameters, defaults and papers."""
    import_without_numba()
    from kaboost.models.catalogue import page
    from kaboost.service.listings import part_rows

    if docs:
        typer.echo(page(), nl=False)
    else:
        _print(part_rows(), as_json)


@config_app.command("show", epilog="Example: kaboost config show --config kaboost.yaml --json")
def config_show(file: File = None, set_: Set = None, as_json: Json = False) -> None:
    """Print every effective value and its origin, secrets hidden."""
    from kaboost.service.listings import setting_rows

    _print(setting_rows(_load(file, set_)), as_json)


@config_app.command("schema", epilog="Example: kaboost config schema > kaboost.schema.json")
def config_schema(as_json: Json = False) -> None:
    """Print the JSON Schema of the configuration file; `--json` changes nothing."""
    from kaboost.service.config.settings import Settings

    typer.echo(json.dumps(Settings.model_json_schema(), indent=2))


@config_app.command("check", epilog="Example: kaboost config check --config kaboost.yaml")
def config_check(file: File = None, set_: Set = None, as_json: Json = False) -> None:
    """Check the configuration without starting anything or contacting a broker."""
    from kaboost.service.access.authenticator import check_access
    from kaboost.service.events.decoders import check_formats
    from kaboost.service.learner.slice_losses import check_slices
    from kaboost.service.listings import check_client

    try:
        settings = _load(file, set_)
        check_client(settings)
        check_access(settings)
        check_formats(settings)
        check_slices(settings)
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

    _print(checkpoint_rows(_load(file, set_)), as_json)


@checkpoints_app.command("show", epilog="Example: kaboost checkpoints show --json")
def checkpoints_show(
    path: Annotated[Path | None, typer.Argument(help="A file; the newest by default.")] = None,
    file: File = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Show the header and the arrays of one checkpoint."""
    from kaboost.service.listings import checkpoint_details, chosen_checkpoint
    from kaboost.service.storage.stores import readable_folder

    if path is not None and path.exists():
        _print(checkpoint_details(path), as_json)
        return
    settings = _load(file, set_)
    with readable_folder(settings.checkpoints) as folder:
        _print(checkpoint_details(chosen_checkpoint(folder, settings, path)), as_json)


@checkpoints_app.command("diff", epilog="Example: kaboost checkpoints diff OLD NEW")
def checkpoints_diff(
    before: Annotated[Path | None, typer.Argument(help="The older file.")] = None,
    after: Annotated[Path | None, typer.Argument(help="The newer file.")] = None,
    file: File = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Compare two checkpoints, by default the two newest."""
    from kaboost.service.checkpoint_diff import diff_rows
    from kaboost.service.listings import chosen_checkpoint, last_two
    from kaboost.service.storage.stores import readable_folder

    if before is not None and after is None:
        raise ConfigError(f"checkpoints diff {before}: name two files, or none")
    settings = _load(file, set_)
    with readable_folder(settings.checkpoints) as folder:
        if before is None or after is None:
            before, after = last_two(folder, settings)
        pair = (chosen_checkpoint(folder, settings, path) for path in (before, after))
        _print(diff_rows(*pair), as_json)


@checkpoints_app.command("verify", epilog="Example: kaboost checkpoints verify --config k.yaml")
def checkpoints_verify(file: File = None, set_: Set = None, as_json: Json = False) -> None:
    """Read every checkpoint completely; exit 1 if one is damaged or there is none."""
    from kaboost.service.listings import checkpoint_rows

    rows = checkpoint_rows(_load(file, set_))
    _print(rows, as_json)
    all_ok = bool(rows) and all(row["state"] == "ok" for row in rows)
    raise typer.Exit(Exit.DONE if all_ok else Exit.NOT_HELD)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; every error becomes a message and its exit code."""
    try:
        app(arguments)
    except KaboostError as err:
        print(f"kaboost: {err}", file=sys.stderr)
        sys.exit(err.exit_code)


def _with_on_gap(set_: list[str] | None, on_gap: str | None) -> list[str]:
    return [*(set_ or []), *([f"kafka.on_gap={on_gap}"] if on_gap else [])]


def _load_without_numba(file: Path | None, set_: list[str] | None) -> "Settings":
    import_without_numba()
    return _load(file, set_)


register(app, _load_without_numba, _print)
lab_commands.register(app)
status_command.register(app)


def _key_value(pair: str) -> tuple[str, str]:
    key, equals, value = pair.partition("=")
    if not equals:
        raise ConfigError(f"--client {pair}: write KEY=VALUE, such as security.protocol=SSL")
    return key, value


def _asking(silent: bool) -> "Ask":
    """Ask at the terminal until the answer can be, or take the defaults and refuse without one."""

    def ask(question: str, default: str | None, flag: str, check: Callable[[str], object]) -> str:
        while not silent:
            answer = str(typer.prompt(question, default=default))
            try:
                check(answer)
            except ConfigError as err:
                typer.echo(err)
            else:
                return answer
        if default is None:
            raise ConfigError(f"{flag}: cannot be guessed; pass it. {question}")
        return default

    return ask


def _run(settings: "Settings", role: Callable[["Settings"], int]) -> None:
    """Run one role; an error that stops it is logged like everything else."""
    from kaboost.service.logs import setup

    setup(settings.log, private=bool(settings.privacy.fields))
    try:
        code = role(settings)
    except KaboostError as err:
        log.error("stopped", extra={"exit_code": int(err.exit_code), "reason": str(err)})
        code = err.exit_code
    raise typer.Exit(code)


score_command.register(app, _run)


if __name__ == "__main__":
    main()
