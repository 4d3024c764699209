"""The commands of the laboratory: replay, compare, tune."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kaboost.service.command_options import File, Json, Set
from kaboost.service.errors import ConfigError, Exit, NotWritten

if TYPE_CHECKING:
    from kaboost.service.lab.replay import Request
    from kaboost.service.lab.result import Result

NONE = "none"
Label = Annotated[str | None, typer.Option(help="Path of the label.")]
TaskKind = Annotated[
    str | None, typer.Option(help="binary, multiclass or regression.", metavar="TASK")
]
Id = Annotated[str | None, typer.Option("--id", help="Path of the id, or none.")]
Time = Annotated[str | None, typer.Option(help="Path of the time, or none.")]
Limit = Annotated[int | None, typer.Option(help="Most records to read.", min=1)]
Delimiter = Annotated[str | None, typer.Option(help="Between the values of a CSV file.")]


def replay(
    source: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV, Parquet, Arrow or JSON lines, also .gz or .zst; - for standard "
            "input; kafka://TOPIC?from=2026-11-01T00:00:00Z."
        ),
    ],
    label: Label = None,
    task: TaskKind = None,
    id_: Id = None,
    timestamp: Time = None,
    against: Annotated[
        str | None,
        typer.Option(help="Other models: lightgbm,river:forest.ARFClassifier.", metavar="LIST"),
    ] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option("--slice", help="A feature whose values are reported apart."),
    ] = None,
    limit: Limit = None,
    delimiter: Delimiter = None,
    report: Annotated[
        str | None,
        typer.Option(help="HTML file to write, with JSON next to it; none for neither."),
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Picture to write.")] = None,
    save: Annotated[
        Path | None, typer.Option(help="Folder to write for a service that continues.")
    ] = None,
    file: File = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Learn recorded events as a service would, and report how well that went."""
    from kaboost.service.lab.replay import Request

    options = _config_options(file, set_, (label, id_, timestamp, task))
    names = tuple(name for name in (against or "").split(",") if name)
    request = Request(source, options, names, tuple(slices or ()), limit, delimiter, save)
    path = None if report == NONE else Path(report) if report else _default_report(source)
    _replay(request, path, png, as_json=as_json)


def compare(
    configs: Annotated[
        list[Path], typer.Argument(help="Configurations; the others against the first.")
    ],
    on: Annotated[str, typer.Option(help="A file or kafka://TOPIC, as for replay.")],
    label: Label = None,
    task: TaskKind = None,
    id_: Id = None,
    timestamp: Time = None,
    limit: Limit = None,
    delimiter: Delimiter = None,
    report: Annotated[
        str | None, typer.Option(help="HTML file to write, with JSON next to it, or none.")
    ] = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Learn the same events with several configurations; report paired differences."""
    from kaboost.service.lab.replay import Request

    options = _config_options(None, set_, (label, id_, timestamp, task))
    request = Request(on, options, (), (), limit, delimiter)
    path = None if report == NONE else Path(report) if report else Path("comparison.html")
    _compare(configs, request, path, as_json=as_json)


def tune(
    source: Annotated[str, typer.Argument(help="A file, as for replay.")],
    label: Label = None,
    task: TaskKind = None,
    id_: Id = None,
    timestamp: Time = None,
    space: Annotated[
        Path | None, typer.Option(help="YAML file: a setting, and its values or range.")
    ] = None,
    candidates: Annotated[int, typer.Option(help="How many are drawn.", min=1)] = 16,
    strategy: Annotated[
        Literal["random", "halving"],
        typer.Option(help="All candidates on all records, or ever fewer on ever more."),
    ] = "random",
    jobs: Annotated[int | None, typer.Option(help="Processes at once; all cores.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 1,
    folder: Annotated[Path, typer.Option(help="Of the trials: a killed study goes on.")] = Path(
        "tuning"
    ),
    output: Annotated[Path, typer.Option(help="Configuration to write.")] = Path("tuned.yaml"),
    limit: Limit = None,
    delimiter: Delimiter = None,
    file: File = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Try settings on the same events; the lowest progressive loss wins, and is written."""
    from kaboost.service.lab.display import show_tuning, trials_meter
    from kaboost.service.lab.space import DEFAULT_SPACE, read_space
    from kaboost.service.lab.tuning import TuneRequest, tune

    check_output(output)
    if source == "-" or "://" in source:
        raise ConfigError(f"{source}: is read more than once; save it to a file")
    options = _config_options(file, set_, (label, id_, timestamp, task))
    chosen = DEFAULT_SPACE if space is None else read_space(space)
    request = TuneRequest(
        source, options, chosen, folder, candidates, strategy, jobs, seed, limit, delimiter
    )
    try:
        with trials_meter(quiet=as_json) as progress:
            figures = tune(request, progress)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; the same command goes on with the trials of {folder}", err=True)
        raise typer.Exit(Exit.INTERRUPTED) from None
    _write_study(figures, folder, output)
    if as_json:
        typer.echo(json.dumps(figures, indent=2))
    else:
        show_tuning(figures, output)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(epilog="Example: kaboost replay payments.csv --label fraud")(replay)
    app.command(epilog="Example: kaboost tune payments.csv --label fraud --strategy halving")(tune)
    app.command(epilog="Example: kaboost compare small.yaml large.yaml --on payments.parquet")(
        compare
    )


def _write_study(figures: dict[str, Any], folder: Path, output: Path) -> None:
    """Write the figures of a study, and the configuration of its winner."""
    from kaboost.service.lab.tuning import winning_text
    from kaboost.service.lab.writing import write_text

    write_text(folder / "tuning.json", json.dumps(figures, indent=2) + "\n")
    write_text(output, winning_text(folder, figures["best"]["settings"]))


def _compare(
    configs: list[Path], request: "Request", report: Path | None, *, as_json: bool
) -> None:
    """Compare, print, then write the files."""
    from kaboost.service.lab.comparison import compare
    from kaboost.service.lab.display import meters, show_comparison
    from kaboost.service.lab.report import comparison_page
    from kaboost.service.lab.writing import write_text

    check_output(report)
    with meters(quiet=as_json) as progress:
        figures, _ = compare(configs, request, progress)
    if as_json:
        typer.echo(json.dumps(figures, indent=2))
    else:
        show_comparison(figures)
    if report is not None:
        write_text(report, comparison_page(figures))
        write_text(report.with_suffix(".json"), json.dumps(figures, indent=2) + "\n")
        if not as_json:
            typer.echo(f"written: {report}, {report.with_suffix('.json')}")
    if figures["partial"]:
        raise typer.Exit(Exit.INTERRUPTED)


def _replay(request: "Request", report: Path | None, png: Path | None, *, as_json: bool) -> None:
    """Replay, print, then write the files: what cannot be written is printed already."""
    from kaboost.service.lab.display import meter, show_replay
    from kaboost.service.lab.replay import replay
    from kaboost.service.lab.saving import how_to_serve

    for path in (report, png):
        check_output(path)
    with meter("learning", quiet=as_json) as progress:
        result = replay(request, progress)
    if as_json:
        typer.echo(json.dumps(result.figures, indent=2))
    else:
        show_replay(result.figures)
    _write_files(result, report, png, None if as_json else typer.echo)
    if request.save is not None and not as_json:
        typer.echo(f"continue as a service: {how_to_serve(request.save, request.options.config)}")
    if result.figures["partial"]:
        raise typer.Exit(Exit.INTERRUPTED)


def _write_files(
    result: "Result", report: Path | None, png: Path | None, say: Callable[[str], Any] | None
) -> None:
    """Write every file that can be; the first failure ends the command after that."""
    written, failure = [], None
    jobs = [(report, result.to_html), (report and report.with_suffix(".json"), result.to_json)]
    for path, write in [*jobs, (png, result.to_png)]:
        if path is None:
            continue
        try:
            write(path)
            written.append(str(path))
        except NotWritten as err:
            failure = failure or err
    if written and say is not None:
        say(f"written: {', '.join(written)}")
    if failure is not None:
        raise failure


def check_output(path: Path | None) -> None:
    """Refuse a file that cannot be written, before anything is learned."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        why = "is a folder" if path.is_dir() else f"there is no folder {path.absolute().parent}"
        raise ConfigError(f"{path}: {why}; name a file in a folder that exists")


def _default_report(source: str) -> Path:
    """Name the report by its input, in the working directory."""
    name = source.partition("://")[2].partition("?")[0] if "://" in source else source
    stem = Path(name).name.split(".")[0] or "kaboost"
    return Path(f"{'stdin' if source == '-' else stem}.replay.html")


def _config_options(
    file: Path | None, set_: list[str] | None, given: tuple[str | None, ...]
) -> Any:
    """Return what flags say of the settings."""
    from kaboost.service.lab.planning import ConfigOptions
    from kaboost.service.onboarding.plan import Given

    overrides: dict[str, object] = {}
    for pair in set_ or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(
                f"--set {pair}: write SECTION.KEY=VALUE, such as kafka.topic=payments"
            )
        overrides[key] = value
    label, id_, timestamp, task = given
    return ConfigOptions(file, overrides, Given(label, id_, timestamp, task))
