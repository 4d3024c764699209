"""The commands that steer a running learner, such as pause and rollback, and the audit log."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kaboost.service.command_options import File, Json, Set
from kaboost.service.errors import Exit

if TYPE_CHECKING:
    from kaboost.service.config.settings import Settings

Load = Callable[[Path | None, list[str] | None], "Settings"]
Print = Callable[[Sequence[Mapping[str, Any]], bool], None]
Reason = Annotated[str, typer.Option(help="Why; it is in the audit log.", metavar="TEXT")]
Later = Annotated[
    bool, typer.Option("--later", help="Do not wait: the next learner carries it out.")
]


class Given:
    """What every such command is given."""

    def __init__(self, load: Load, file: Path | None, set_: list[str] | None) -> None:
        self._load, self._file, self._set = load, file, set_

    def send(self, name: str, reason: str, later: bool, as_json: bool, **arguments: Any) -> None:
        """Send a command; print what becomes of it, and exit with 3 where it is refused."""
        from kaboost.service.admin.sending import command_line, send

        settings = self._load(self._file, self._set)
        result = send(settings, command_line(name, reason, arguments), later=later)
        typer.echo(json.dumps(result._asdict(), indent=2) if as_json else result.message)
        raise typer.Exit(Exit.DONE if result.state == "done" else Exit.REFUSED)


def register(app: typer.Typer, load: Load, show: Print) -> None:
    """Add the commands to the program."""

    @app.command(epilog='Example: kaboost pause --reason "backfill of the topic"')
    def pause(
        file: File = None, set_: Set = None, reason: Reason = "", later: Later = False,
        as_json: Json = False,
    ) -> None:  # fmt: skip
        """Pause learning until `resume`, also over restarts; predictions are served on."""
        Given(load, file, set_).send("pause", reason, later, as_json)

    @app.command(epilog="Example: kaboost resume --config kaboost.yaml")
    def resume(
        file: File = None, set_: Set = None, reason: Reason = "", later: Later = False,
        as_json: Json = False,
    ) -> None:  # fmt: skip
        """Learn on after a pause."""
        Given(load, file, set_).send("resume", reason, later, as_json)

    @app.command(epilog='Example: kaboost checkpoint --reason "before the release"')
    def checkpoint(
        file: File = None, set_: Set = None, reason: Reason = "", as_json: Json = False
    ) -> None:
        """Write a checkpoint now."""
        Given(load, file, set_).send("checkpoint", reason, False, as_json)

    _register_replacements(app, load)

    @app.command(epilog="Example: kaboost audit --json")
    def audit(file: File = None, set_: Set = None, as_json: Json = False) -> None:
        """List who has changed what of the running model, when and why; the newest last."""
        from kaboost.service.storage.audit import AuditLog

        entries = AuditLog(load(file, set_).checkpoints.folder).read()
        keys = ("time", "command", "arguments", "by", "state", "outcome")
        why = "why"  # `reason` is printed below the table otherwise
        rows = [{key: e.get(key, "") for key in keys} | {why: e.get("reason", "")} for e in entries]
        show(entries if as_json else rows, as_json)


def _register_replacements(app: typer.Typer, load: Load) -> None:
    """Add the commands that replace the model."""

    @app.command(epilog='Example: kaboost rollback 12 --positions back --reason "bad labels"')
    def rollback(
        version: Annotated[int, typer.Argument(help="Number of a kept checkpoint.", min=1)],
        positions: Annotated[
            Literal["stay", "back"],
            typer.Option(help="stay: learn on from here. back: learn the events since then again."),
        ] = "stay",
        file: File = None, set_: Set = None, reason: Reason = "", later: Later = False,
        as_json: Json = False,
    ) -> None:  # fmt: skip
        """Go on with the model of a kept checkpoint; the state of now is kept as well."""
        arguments = {"version": version, "positions": positions}
        Given(load, file, set_).send("rollback", reason, later, as_json, **arguments)

    @app.command(epilog='Example: kaboost promote deeper --reason "its loss is lower by 3 %"')
    def promote(
        candidate: Annotated[
            str, typer.Argument(help="Name of a candidate; `model` is that of the section model.")
        ],
        file: File = None, set_: Set = None, reason: Reason = "", later: Later = False,
        as_json: Json = False,
    ) -> None:  # fmt: skip
        """Serve a candidate from now on; the model of before learns on as a candidate."""
        Given(load, file, set_).send("promote", reason, later, as_json, candidate=candidate)
