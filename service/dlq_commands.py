"""The commands `kaboost dlq`: list, show and replay dead letters."""

import json
from typing import Annotated

import typer

from kaboost.service.command_options import File, Json, Set, load_settings, print_rows
from kaboost.service.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="List, show or replay dead letters.")
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="Only those with reason=CODE, from=TOPIC[PARTITION]@OFFSET, since=TIME, until=TIME.",
        metavar="KEY=VALUE",
    ),
]


@app.command("list", epilog="Example: kaboost dlq list --filter reason=feature_type")
def list_(
    filters: Filters = None, file: File = None, set_: Set = None, as_json: Json = False
) -> None:
    """Count the dead letters by reason, with the newest of each."""
    from kaboost.service import dlq

    wanted = dlq.LetterFilter.parse(filters or [])
    print_rows(dlq.group(dlq.read_letters(load_settings(file, set_).kafka), wanted), as_json)


@app.command("show", epilog="Example: kaboost dlq show 'payments.v1[0]@17'")
def show(
    place: Annotated[
        str, typer.Argument(help="Of the record or its dead letter: topic[partition]@offset.")
    ],
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show the record although privacy.fields is set.")
    ] = False,
    file: File = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter: reason, remedy, headers, and the record's key and value."""
    from kaboost.service import dlq
    from kaboost.service.kafka.letters import Origin

    wanted = Origin.parse(place)
    if wanted is None:
        raise ConfigError(f"{place}: write topic[partition]@offset, such as payments.v1[0]@17")
    settings = load_settings(file, set_)
    letter = dlq.find(dlq.read_letters(settings.kafka), wanted)
    if letter is None:
        raise ConfigError(
            f"{place}: there is no dead letter of it in {settings.kafka.dlq}; `kaboost dlq list` "
            "counts those that are there"
        )
    print_rows(dlq.describe(letter, reveal=reveal or not settings.privacy.fields), as_json)


@app.command("replay", epilog="Example: kaboost dlq replay --filter reason=label --dry-run")
def replay(
    filters: Filters = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    file: File = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Write the records of dead letters to their topic again; each is learned at most once."""
    from kaboost.service import dlq

    settings, wanted = load_settings(file, set_), dlq.LetterFilter.parse(filters or [])
    done = dlq.replay(settings, dlq.read_letters(settings.kafka), wanted, dry_run=dry_run)
    report = {"dry_run": dry_run, **done._asdict()}
    if as_json:
        typer.echo(json.dumps(report, indent=2))
        return
    verb = "would be replayed" if dry_run else "replayed"
    codes = ", ".join(f"{code} {count}" for code, count in done.by_code.items())
    typer.echo(f"{done.replayed} {verb}" + (f" ({codes})" if codes else ""))
    typer.echo(f"{done.repeated} repeated, {done.filtered} filtered, {done.foreign} foreign")
