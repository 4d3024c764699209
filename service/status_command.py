"""`kaboost status`: the state of a running service in a terminal, once or until Ctrl-C."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaboost.service.command_options import DEFAULT_FILE, File, Json, Set, load_settings
from kaboost.service.errors import ConfigError, Exit, NoAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kaboost.service.config.settings import Settings

POINTS = 40  # of the curves
EVERY_SECONDS = 1.0
TIMEOUT_SECONDS = 5.0
KEY = "KABOOST_KEY"  # variable with a key of the API
BARS = "▁▂▃▄▅▆▇█"
STYLES = {"good": "bold green", "warning": "bold yellow", "bad": "bold red"}
WIDTH = 78  # of a reason
ROUNDED = 1e4  # from which on numbers are shown as whole ones

Url = Annotated[
    str | None,
    typer.Option(help="Address of the service; that of api.host and api.port otherwise."),
]
Watch = Annotated[bool, typer.Option("--watch", help="Show it every second, until Ctrl-C.")]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""

    @app.command(epilog="Example: kaboost status --watch")
    def status(
        file: File = None, set_: Set = None, url: Url = None, watch: Watch = False,
        as_json: Json = False,
    ) -> None:  # fmt: skip
        """Show what a running service does: its state, loss, rate and lag; exit 1 if it is bad."""
        from rich.console import Console
        from rich.live import Live

        address = url.rstrip("/") if url else configured_address(file, set_)
        found, points = ask(address)
        if as_json:
            typer.echo(json.dumps(found, indent=2))
        elif not watch:
            Console(highlight=False).print(render(found, points, []))
        else:
            with Live(auto_refresh=False) as live:
                watch_status(
                    address, (found, points), lambda shown: live.update(shown, refresh=True)
                )
        raise typer.Exit(Exit.NOT_HELD if found["level"] == "bad" else Exit.DONE)


def watch_status(
    address: str,
    first: tuple[dict[str, Any], list[float]],
    show: Callable[["RenderableType"], None],
) -> None:
    """Show a service again and again; one that does not answer may come back."""
    from rich.console import Group
    from rich.text import Text

    (found, points), missed = first, ""
    rates: list[float] = []
    while True:
        if not missed:
            rates = [*rates, found["events_per_second"]][-POINTS:]
        shown = render(found, points, rates)
        show(Group(Text(missed, STYLES["bad"]), shown) if missed else shown)
        time.sleep(EVERY_SECONDS)
        try:
            (found, points), missed = ask(address), ""
        except NoAnswer as err:
            missed = f"{err} (still trying; below is the last answer)"


def configured_address(file: Path | None, set_: list[str] | None) -> str:
    """Return where the service of a configuration is reached, or raise how to name one."""
    try:
        return address_of(load_settings(file, set_))
    except ConfigError as err:
        if file is not None or DEFAULT_FILE.is_file():
            raise
        raise ConfigError(
            f"which service? There is no {DEFAULT_FILE} in {Path.cwd()}: go to its folder, or pass "
            "--config FILE, or --url such as http://127.0.0.1:8000"
        ) from err


def address_of(settings: "Settings") -> str:
    """Return where the service of these settings is reached from this machine."""
    host = settings.api.host
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "http" if settings.api.tls.cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.api.port}"


def ask(address: str) -> tuple[dict[str, Any], list[float]]:
    """Return the status of a service and its last recent losses, or raise NoAnswer."""
    status = _get(f"{address}/status")
    history = _get(f"{address}/model/history?points={POINTS}")
    return status, [loss for loss in history["recent_loss"]["model"] if loss is not None]


def _request(url: str) -> urllib.request.Request:
    key = os.environ.get(KEY)
    return urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(_request(url), timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)
    except urllib.error.HTTPError as err:
        if err.code in (401, 403):
            raise NoAnswer(f"{url}: {err.code}; set {KEY} to a key with the role read") from err
        raise NoAnswer(f"{url}: {err.code} {err.reason}; see the log of the service") from err
    except (OSError, ValueError) as err:
        reason = getattr(err, "reason", err)
        raise NoAnswer(
            f"no service answers at {url}: {reason}; start it with kaboost serve, or set --url"
        ) from err


def sparkline(values: Sequence[float]) -> str:
    """Draw numbers as one line of bars, from the lowest to the highest.

    Examples
    --------
    >>> sparkline([1.0, 2.0, 8.0])
    '▁▂█'
    """
    if not values:
        return ""
    low, high = min(values), max(values)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in values)


def render(
    status: dict[str, Any], losses: Sequence[float], rates: Sequence[float]
) -> "RenderableType":
    """Return what is shown of one status: words first, then figures."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = Text(f"{status['name']}  ")
    head.append(status["state"], STYLES[status["level"]])
    head.append(f"  {status['quality']}")
    lines = [head, *([Text(status["reason"])] if status["reason"] else [])]
    if status.get("remedy"):  # a service of before has none
        lines.append(Text(f"what to do: {status['remedy']}", "dim"))
    for other in status.get("states", [])[1:]:
        if other["level"] != "good":
            line = Text("also: ").append(other["state"], STYLES[other["level"]])
            lines.append(line.append(f": {other['reason']}" if other["reason"] else ""))
    table = Table.grid(padding=(0, 2))
    table.add_row("recent loss", _number(_model(status)), sparkline(losses))
    table.add_row("events per second", _number(status["events_per_second"]), sparkline(rates))
    table.add_row("lag, records", _number(status["lag_records"]), "")
    table.add_row("events learned", _number(status["events_learned"]), _versions(status))
    rejected = status["rejections"]
    why = ": ".join(filter(None, (rejected[0]["code"], rejected[0]["reason"]))) if rejected else ""
    why = f"mostly {why}" if why else ""
    table.add_row("rejected", f"{100 * status['rejected_ratio']:.1f} %", why[:WIDTH])
    learner = status["learner"]
    if learner.get("leader"):
        table.add_row("leader epoch", _number(learner["leader_epoch"]), learner["leader"])
    for candidate in status["candidates"]:
        table.add_row(f"candidate {candidate['name']}", *_candidate(candidate))
    if status["champion"] != "model":
        lines.append(Text(f"champion: {status['champion']}"))
    return Group(*lines, table)


def _candidate(candidate: dict[str, Any]) -> tuple[str, str]:
    """Return the recent loss of a candidate, and how it compares with the champion."""
    found, words = candidate["improvement"], candidate["state"]
    if candidate["reason"]:
        words += f": {candidate['reason']}"
    elif found is not None:
        low, high = (100 * candidate[f"improvement_{end}"] for end in ("low", "high"))
        words += f": loss {'lower' if found >= 0 else 'higher'} by {abs(100 * found):.2f} %"
        words += f" ({low:.2f} to {high:.2f} %) over {candidate['compared_events']:,} events"
    return _number(candidate["recent_loss"]), words[:WIDTH]


def _model(status: dict[str, Any]) -> float | None:
    recent: float | None = status["progressive"].get("model", {}).get("recent_loss")
    return recent


def _versions(status: dict[str, Any]) -> str:
    if status["version"] is None:
        return "no snapshot yet"
    age = status["snapshot_age_seconds"]
    return f"snapshot {status['version']:,}" + ("" if age is None else f", {age:,.0f} s old")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if value < ROUNDED else f"{value:,.0f}"
