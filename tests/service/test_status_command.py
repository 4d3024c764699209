"""`kaboost status`: what it prints of a service, and its exit codes."""

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console
from typer.testing import CliRunner

from kaboost.service import status_command
from kaboost.service.cli import app
from kaboost.service.config.api import Api
from kaboost.service.errors import ConfigError, NoAnswer
from kaboost.service.status_command import address_of, ask, render, sparkline, watch_status
from tests.ports import free_port
from tests.service.serving import Program


def status(*flags: str) -> tuple[int, str]:
    """Run the command; return its exit code and output."""
    done = CliRunner().invoke(app, ["status", *flags])
    return done.exit_code, done.output


def test_it_shows_a_service(api: Program) -> None:
    """In words and figures, or as the report of the endpoint; 1 as its learner does not run."""
    url = str(api.client.base_url)
    code, text = status("--url", url)
    as_json, report = status("--url", url, "--json")
    configured, _ = status("--config", str(api.folder / "kaboost.yaml"), "--json")
    found = json.loads(report)

    assert "events learned" in text
    assert "recent loss" in text
    assert found["state"] in text
    assert set(api.client.get("/status").json()) == set(found)
    assert 60 == found["events_learned"]
    assert {int(found["level"] == "bad")} == {code, as_json, configured}


def test_nothing_answers() -> None:
    """The address and the remedy are named."""
    done = CliRunner().invoke(app, ["status", "--url", f"http://127.0.0.1:{free_port()}"])
    error, text = done.exception, str(done.exception)

    assert isinstance(error, NoAnswer)
    assert 1 == error.exit_code
    assert "no service answers at http://127.0.0.1:" in text
    assert "start it with kaboost serve, or set --url" in text


def test_outside_of_the_folder_of_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks which service, and for nothing that only a service needs."""
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, ["status"]).exception

    assert isinstance(error, ConfigError)
    assert f"which service? There is no kaboost.yaml in {tmp_path}" in str(error)
    assert "--url such as http://127.0.0.1:8000" in str(error)
    assert "\n" not in str(error)


def test_all_that_is_so_is_printed(api: Program) -> None:
    """The remedy of the heading, and what else is wrong."""
    found, points = ask(str(api.client.base_url))
    states = [
        {"state": "labels have stopped", "level": "bad", "reason": "no label", "remedy": "look"},
        {
            "state": "a feature is broken",
            "level": "warning",
            "reason": "x is missing",
            "remedy": "",
        },
        {"state": "learning", "level": "good", "reason": "", "remedy": ""},
    ]
    text = printed(render(found | states[0] | {"states": states}, points, []))

    assert "labels have stopped" in text
    assert "what to do: look" in text
    assert "also: a feature is broken: x is missing" in text
    assert "also: learning" not in text
    of_before = {key: value for key, value in found.items() if key not in ("states", "remedy")}
    assert "recent loss" in printed(render(of_before, points, []))


def test_watching_goes_on_after_a_missed_answer(
    api: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was known stays, with a line above that nothing answers now."""
    url = str(api.client.base_url)
    answer = ask(url)
    answers: list[Any] = [NoAnswer("no service answers"), answer, KeyboardInterrupt()]
    monkeypatch.setattr(status_command, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(status_command, "ask", Mock(side_effect=answers))
    shown: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        watch_status(url, answer, lambda what: shown.append(printed(what)))

    first, missed, again = shown
    assert "events learned" in missed
    assert "no service answers" in missed
    assert "no service answers" not in first + again


def test_what_is_not_known_is_left_out(api: Program) -> None:
    """The age of a snapshot with a damaged time; a reason that is not shown."""
    found, points = ask(str(api.client.base_url))
    rejection = {"code": "label", "records": 1, "recent_records": 2, "reason": ""}
    text = printed(
        render(found | {"snapshot_age_seconds": None, "rejections": [rejection]}, points, [])
    )

    assert f"snapshot {found['version']}" in text
    assert "s old" not in text
    assert "mostly label\n" in re.sub(" +\n", "\n", text)


def test_it_names_the_leader(api: Program) -> None:
    """Where learners take turns."""
    found, points = ask(str(api.client.base_url))
    assert "leader" not in printed(render(found, points, []))
    found["learner"] |= {"leader": "process 12 on one", "leader_epoch": 3}

    assert re.search(r"leader epoch +3 +process 12 on one", printed(render(found, points, [])))


def printed(shown: Any) -> str:
    """What a terminal shows of it."""
    console = Console(width=120)
    with console.capture() as capture:
        console.print(shown)
    return capture.get()


def test_addresses_are_reachable(api: Program) -> None:
    """An address for all is none that can be asked."""
    from kaboost.service.config.settings import load

    settings = load(api.folder / "kaboost.yaml")
    for host, expected in {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.items():
        changed = settings.model_copy(update={"api": Api(host=host, port=8000)})
        assert f"http://{expected}:8000" == address_of(changed)


def test_sparklines_of_odd_values() -> None:
    """None, one, and equal values."""
    assert ["", "▁", "▁▁▁"] == [sparkline(values) for values in ([], [3.0], [2.0] * 3)]
