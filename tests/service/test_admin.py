"""The admin port takes commands by HTTP, from those who may; everything shows that it is paused."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient
from typer.testing import CliRunner

from kaboost.service.cli import app
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.http.admin import create_admin
from kaboost.service.http.problems import MEDIA_TYPE, TYPES
from tests.kafka.broker import Reachable
from tests.kafka.client import encode, produce
from tests.ports import free_port
from tests.service import serving
from tests.service.learning import learned, until

KEY = "a-key-of-more-than-sixteen-characters"
ROOT = Path(__file__).parents[2]


def admin_client(settings: Settings, **headers: str) -> httpx.Client:
    """Make a client of the admin port."""
    client = serving.Program.connect(settings.admin.port or 0)
    client.headers.update(headers)
    return client


def test_a_service_is_paused_and_resumed(topic: str, broker: Reachable, tmp_path: Path) -> None:
    """By HTTP with the key, and by the command line without; everything shows it meanwhile."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = serving.settings(tmp_path, kafka=kafka, admin={"port": free_port(), "key": KEY})
    event = encode(serving.ROW, 1)
    produce(broker.bootstrap, topic, [event] * 10)
    with serving.running("serve", wanted) as program:
        until(lambda: learned(wanted) == 10, serving.PATIENCE)
        program.ready()
        with admin_client(wanted, authorization=f"Bearer {KEY}") as client:
            answer = client.post("/admin/pause", json={"reason": "a release", "by": "anna"})
            produce(broker.bootstrap, topic, [event] * 10)

            assert (200, "done") == (answer.status_code, answer.json()["state"]), answer.text
            state = until(lambda: (program.probe(200) or {}).get("stale") and program.probe(200))
            assert "paused" == state["learner"]["state"]
            assert "paused by anna" in state["reason"]
            assert "(a release)" in state["reason"]
            assert program.predict()["model"]["stale"]
            assert 1.0 == program.metric("kaboost_learning_paused")
            assert 10 == learned(wanted)
            audit = client.get("/admin/audit").json()
            assert ["HTTP from 127.0.0.1"] == [entry["via"] for entry in audit]
            refused = client.post("/admin/rollback", json={"version": 999})
            assert (409, TYPES[409]) == (refused.status_code, refused.json()["type"])
        with admin_client(wanted) as stranger:
            assert 401 == stranger.post("/admin/resume").status_code
            assert 401 == stranger.get("/admin/audit").status_code

        configured = ["--config", str(tmp_path / "kaboost.yaml")]
        resumed = CliRunner().invoke(app, ["resume", *configured])
        assert (0, "learning goes on\n") == (resumed.exit_code, resumed.output)
        until(lambda: learned(wanted) == 20)
        listed = CliRunner().invoke(app, ["audit", *configured, "--json"])
        assert ["pause", "rollback", "resume"] == [e["command"] for e in json.loads(listed.output)]
        table = CliRunner().invoke(app, ["audit", *configured]).output
        assert "a release" in table
        children = program.child("learner").cmdline()
        assert KEY not in " ".join([*children, program._log.read_text()])


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/admin/pause", {"origin": "http://127.0.0.1:8000"}, b"", 403),
        ("/admin/pause", {"host": "evil.example.com"}, b"", 403),
        ("/admin/pause", {"content-type": "text/plain"}, b"{}", 415),
        ("/admin/pause", {}, b"{", 400),
        ("/admin/pause", {}, b'{"version": 3}', 422),
        ("/admin/rollback", {}, b"{}", 422),
        ("/admin/rollback", {}, b'{"version": 3, "positions": "forth"}', 422),
        ("/admin/promote", {}, b"{}", 422),
        ("/admin/promotion", {}, b"", 404),
        ("/admin/pause", {}, b"", 503),
    ],
)
def test_what_is_wrong_is_a_problem_document(
    tmp_path: Path, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    """Of a page, of a client, or of the learner, which is not there."""
    wanted = serving.settings(tmp_path, admin={"timeout_seconds": 0.1})
    client = TestClient(create_admin(wanted), "http://127.0.0.1", raise_server_exceptions=False)
    answer = client.post(path, content=body, headers=headers)

    assert (status, MEDIA_TYPE) == (answer.status_code, answer.headers["content-type"])
    assert answer.json()["detail"]
    assert 405 == client.get("/admin/pause").status_code


def test_an_unexpected_error_has_the_id_of_its_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In its header and its body."""

    def fail(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr("kaboost.service.http.admin.send", fail)
    wanted = serving.settings(tmp_path)
    client = TestClient(create_admin(wanted), "http://127.0.0.1", raise_server_exceptions=False)
    answer = client.post("/admin/pause", headers={"x-request-id": "r-1"})

    assert (500, "r-1") == (answer.status_code, answer.headers["x-request-id"])
    assert "r-1" == answer.json()["request_id"]
    assert "admin request failed" in [each.message for each in caplog.records]


@pytest.mark.parametrize(
    ("admin", "words"),
    [
        ({"port": 9465, "host": "0.0.0.0"}, "is reachable from other machines"),
        ({"port": 9465, "host": "kaboost.example.com"}, "is reachable from other machines"),
        ({"port": 9465, "key": "short"}, "shorter than 16 characters"),
        ({"port": 8000}, r"port 8000 is also api\.port"),
        ({"port": 9464}, r"port 9464 is also metrics\.port"),
    ],
)
def test_an_open_port_needs_a_key(tmp_path: Path, admin: dict[str, Any], words: str) -> None:
    """Without one it listens on this machine's own addresses alone; secrets are not shown."""
    ports = {"api": {"port": 8000}, "metrics": {"port": 9464}}
    with pytest.raises(ConfigError, match=words) as err:
        serving.settings(tmp_path, admin=admin, **ports)
    assert "short'" not in str(err.value)

    for host, key in (("::1", None), ("localhost", None), ("0.0.0.0", KEY)):
        serving.settings(tmp_path, admin={"port": 9465, "host": host, "key": key}, **ports)
    shown = CliRunner().invoke(app, ["config", "show", "--config", str(tmp_path / "kaboost.yaml")])
    assert KEY not in shown.output


def test_every_admin_route_has_its_heading(tmp_path: Path) -> None:
    """docs/endpoints.md documents them."""
    text = (ROOT / "docs" / "endpoints.md").read_text()
    routes = create_admin(serving.settings(tmp_path)).routes

    paths = {route.path for route in routes if isinstance(route, Route)}
    assert len(paths) > 4
    assert set() == {path for path in paths if not re.search(f"^### [A-Z]+ {path}$", text, re.M)}
