"""Keys and roles: every role against every route, a file of keys that changes, refusals."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from typer.testing import CliRunner

from kaboost.service.access import keys, watched
from kaboost.service.access.authenticator import Authenticator, check_access
from kaboost.service.access.callers import Caller
from kaboost.service.access.keys import new_key, read_keys
from kaboost.service.access.rate import RateLimit
from kaboost.service.access.roles import ADMIN, LEARN, OPEN, PREDICT, READ, RouteRoles, route_roles
from kaboost.service.cli import app
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.http.access import CALLER, AccessControl, plain_routes
from kaboost.service.http.admin import Asked, check_key, create_admin, to_command
from kaboost.service.http.problems import TYPES
from kaboost.service.processes.api_server import create_api
from tests.ports import free_port
from tests.service import serving
from tests.service.keyfiles import bearer, one_of_each_role, replace, with_keys, write_keys
from tests.service.learning import until
from tests.service.serving import (
    ROW,
    Program,
    publish,
    refusal,
    running,
    settings,
    taught,
)

KEY = "a-key-of-more-than-sixteen-characters"


class Keyed(NamedTuple):
    """A service that wants keys."""

    program: Program
    known: dict[str, str]  # a key of each role
    file: Path


# Which role each route needs, written down a second time: a change here is meant.
EXPECTED = {
    PREDICT: {"/predict"},
    LEARN: {"/events", "/labels"},
    READ: {
        *("/model", "/model/importance", "/model/history", "/model/records"),
        *("/status", "/stream", "/metrics", "/openapi.json"),
    },
    OPEN: {
        *("/", "/docs", "/health", "/healthz", "/healthz/live", "/healthz/ready"),
        *("/v2", "/v2/health/live", "/v2/health/ready"),
    },
}


def role_expected(path: str) -> str:
    """Return the role that a path needs by the table of this file."""
    if path.startswith("/admin/"):
        return ADMIN
    if path.startswith("/web/"):
        return OPEN
    if path.startswith("/v2/models/"):
        return PREDICT
    (found,) = (role for role, paths in EXPECTED.items() if path in paths)
    return found


async def reached(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer what is admitted with 204."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def example(path: str) -> str:
    """Put values into a path."""
    return path.replace("{model}", "kaboost").replace("{version}", "1")


@pytest.mark.parametrize("port", ["api", "admin"])
def test_every_role_against_every_route(tmp_path: Path, port: str) -> None:
    """A route is reached with its role and with no other; without a key only the open ones."""
    known = one_of_each_role(tmp_path / "keys")
    wanted = settings(
        tmp_path, api={"auth": with_keys(tmp_path / "keys")}, admin={"key": KEY, "page": True}
    )
    served = create_api(wanted) if port == "api" else create_admin(wanted)
    routes = [route for route in served.routes if isinstance(route, Route)]
    roles = route_roles(routes)
    client = TestClient(AccessControl(reached, Authenticator(wanted), roles, lambda _reason: None))
    callers = {role: bearer(key) for role, key in known.items()}
    nobody = [{}, bearer("no-such-key"), bearer(""), {"Authorization": known[ADMIN]}]

    assert len(routes) > (20 if port == "api" else 4)
    assert {"/predict"} & {route.path for route in routes} or port == "admin"
    for route in routes:
        role, path = role_expected(route.path), example(route.path)
        (method, *_) = sorted(route.methods or ())
        for has, headers in callers.items():
            status = 204 if role in (has, OPEN) else 403
            found = client.request(method, path, headers=headers)
            assert status == found.status_code, (has, method, path)
        for headers in nobody:
            status = 204 if role == OPEN else 401
            assert status == client.request(method, path, headers=headers).status_code, path
        for key in known.values():  # a route's pattern would match before the newline
            assert 404 == client.request(method, f"{path}%0A", headers=bearer(key)).status_code
        own = client.request(method, path, headers=bearer(KEY))
        assert (204 if role in (ADMIN, OPEN) else 403) == own.status_code, path


def test_a_route_without_a_role_is_a_bug(tmp_path: Path) -> None:
    """It is found as the application is built, with and without keys."""
    made = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    made.add_api_route("/model/new", lambda: None)

    with pytest.raises(AssertionError, match="/model/new has no line in service/access/roles"):
        route_roles(plain_routes(made.router.routes))


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """Two workers that want keys of a file, and the keys."""
    folder = tmp_path_factory.mktemp("keyed")
    known = one_of_each_role(folder / "keys")
    api = {"port": free_port(), "workers": 2, "auth": with_keys(folder / "keys")}
    wanted = settings(folder, api=api)
    publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        program.ready()
        yield Keyed(program, known, folder / "keys")


def test_a_service_wants_keys(keyed: Keyed) -> None:
    """Problem documents say why; probes need none; refusals are counted; no key is in the log."""
    program, known, _ = keyed
    body = {"features": ROW}
    ask = program.client.post

    assert 200 == ask("/predict", json=body, headers=bearer(known[PREDICT])).status_code
    for headers, status, word in (
        ({}, 401, "send Authorization: Bearer KEY"),
        (bearer("no-such-key"), 401, "the key is not one of this service"),
        (bearer(known[READ]), 403, "needs the role predict; read has read"),
    ):
        answer = ask("/predict", json=body, headers=headers)
        assert status == answer.status_code
        assert word in refusal(answer).detail
        assert (status == 401) == ("www-authenticate" in answer.headers)
    assert 401 == program.client.get("/no-such-path").status_code
    assert 404 == program.client.get("/no-such-path", headers=bearer(known[READ])).status_code
    assert 200 == program.client.head("/healthz/live").status_code
    assert 401 == program.client.head("/model").status_code
    document = program.client.get("/openapi.json", headers=bearer(known[READ])).json()
    assert [{"key": []}] == document["security"]
    text = program.client.get("/metrics", headers=bearer(known[READ])).text
    assert 1 <= sum(serving.metric(text, "kaboost_requests_refused_total", reason="no_key"))
    assert 1 == sum(serving.metric(text, "kaboost_requests_refused_total", reason="role"))
    assert program.events("request refused", client="127.0.0.1")
    for headers, status in (({}, 401), (bearer(known[READ]), 403)):
        answer = ask("/v2/models/kaboost/infer", json={}, headers=headers)
        assert (status, ["error"]) == (answer.status_code, list(answer.json()))
    assert not any(key in program._log.read_text() for key in [*known.values(), "no-such-key"])


def test_keys_are_rotated_under_load(keyed: Keyed, tmp_path: Path) -> None:
    """The new line is added, clients change over, the old one is removed: no request fails."""
    program, known, path = keyed
    original = before = path.read_text().splitlines()
    chosen, statuses, stop = [known[PREDICT]], [], threading.Event()

    def load() -> None:
        with Program.connect(program.port) as client:
            while not stop.is_set():
                answer = client.post("/predict", json={"features": ROW}, headers=bearer(chosen[0]))
                statuses.append(answer.status_code)

    def status_of(key: str) -> set[int]:
        """Ask on several new connections, so both workers are asked."""
        found = set()
        for _ in range(12):
            with Program.connect(program.port) as client:
                found.add(client.post("/predict", json={}, headers=bearer(key)).status_code)
        return found

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            old, (key, line) = chosen[0], new_key("predict", "predict")
            replace(path, *before, line)
            until(lambda key=key: status_of(key) == {422})
            chosen[0] = key
            enough = len(statuses) + 20
            until(lambda enough=enough: len(statuses) > enough)
            before = [each for each in before if not each.startswith("predict")] + [line]
            replace(path, *before)
            until(lambda old=old: status_of(old) == {401})
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        replace(path, *original)

    assert {200} == set(statuses)
    assert len(statuses) > 40


def test_a_damaged_file_changes_nothing(keyed: Keyed) -> None:
    """The keys that were read before count, the log names line and remedy; an empty one counts."""
    program, known, path = keyed
    headers = bearer(known[READ])
    original = path.read_text().splitlines()
    until(lambda: program.client.get("/model", headers=headers).status_code == 200)
    replace(path, "shop predict")

    def refused_line() -> list[dict[str, Any]]:
        assert 200 == program.client.get("/model", headers=headers).status_code
        return program.events("file not read, the earlier content counts")

    found = until(refused_line)
    assert "line 1: write `name roles digest" in found[0]["reason"]
    path.unlink()
    assert 200 == program.client.get("/model", headers=headers).status_code
    replace(path)
    until(lambda: program.client.get("/model", headers=headers).status_code == 401)
    replace(path, *original)
    until(lambda: program.client.get("/model", headers=headers).status_code == 200)


@pytest.mark.parametrize("host", ["0.0.0.0", "kaboost.example.com"])
def test_an_open_port_is_refused_without_a_word(tmp_path: Path, host: str) -> None:
    """With exit code 2 and the remedies; `none` and keys are words, loopback needs none."""
    wanted = settings(tmp_path, api={"host": host})
    file = str(tmp_path / "kaboost.yaml")
    with pytest.raises(ConfigError, match=r"api\.auth says nothing: .*write api\.auth: none"):
        check_access(wanted)
    for command in ("serve", "api"):
        done = CliRunner().invoke(app, [command, "--config", file])
        assert (2, host in done.output) == (done.exit_code, True), command
    doctor = CliRunner().invoke(app, ["doctor", "--config", file])
    assert 1 == doctor.exit_code
    with pytest.raises(SystemExit) as ended:
        serving_main(["config", "check", "--config", file])
    assert 2 == ended.value.code

    check_access(settings(tmp_path, api={"host": host, "auth": "none"}))
    one_of_each_role(tmp_path / "keys")
    check_access(settings(tmp_path, api={"host": host, "auth": with_keys(tmp_path / "keys")}))
    for own in ("127.0.0.1", "::1", "localhost"):
        check_access(settings(tmp_path, api={"host": own}))


def serving_main(arguments: list[str]) -> None:
    from kaboost.service.cli import main

    main(arguments)


def test_the_environment_says_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KABOOST_API__AUTH__REQUIRED=false over a file with keys."""
    monkeypatch.setenv("KABOOST_API__AUTH__REQUIRED", "false")
    wanted = settings(tmp_path, api={"host": "0.0.0.0", "auth": with_keys(tmp_path / "none")})

    check_access(wanted)
    assert not wanted.api.auth.is_on


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ({"required": True}, "neither api.auth.keys nor api.auth.jwt"),
        ({"jwt": {"issuer": "https://id.example.com"}}, "no audience and no jwks"),
        ({"jwt": {"jwks": "file:///etc/keys"}}, "write an https URL"),
        ({"jwt": {"jwks": "http://id.example.com/keys"}}, "write an https URL"),
        ({"jwt": {"jwks": "https://u:planted@id.example.com/keys"}}, "need no password"),
        ({"jwt": {"jwks": "https://id..example.com/keys"}}, "its host is no name"),
        ("everybody", "write none, or write below it any of required, keys"),
        ({"keyz": "a"}, "did you mean api.auth.keys"),
    ],
)
def test_settings_of_auth_are_checked(tmp_path: Path, auth: Any, words: str) -> None:
    """What would refuse everybody, or nobody, is refused with the remedy."""
    with pytest.raises(ConfigError, match=words) as refused:
        settings(tmp_path, api={"auth": auth})
    assert "planted" not in str(refused.value)


DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("shop predict", "write `name roles digest"),
        (f"shop predict {DIGEST} x y", "write `name roles digest"),
        (f"sh/op predict {DIGEST}", "name 'sh/op'"),
        (f"shop predict,write {DIGEST}", "role 'write' is not one of predict, learn"),
        ("shop predict kaboost_a-key-itself", "no digest such as sha256"),
        (f"shop kaboost_a-key-itself {DIGEST}", r"role \[hidden\] is not one of predict"),
        (f"shop predict {DIGEST} kaboost_a-key-itself", r"\[hidden\]: write expires="),
        (f"shop predict {DIGEST} expires=soon", "write expires=2027"),
        (f"shop predict {DIGEST} ends=2027-01-01", "write expires=2027"),
        ("# nothing", "it has no key; make it with `kaboost keys new`"),
    ],
)
def test_faults_of_a_file_name_line_and_remedy(tmp_path: Path, line: str, words: str) -> None:
    """At the start they are refused; a key that stands there in the clear is not repeated."""
    (tmp_path / "keys").write_text(f"\n{line}\n")
    wanted = settings(tmp_path, api={"auth": with_keys(tmp_path / "keys")})
    with pytest.raises(ConfigError, match=words) as err:
        check_access(wanted)
    assert "a-key-itself" not in str(err.value)
    assert "api.auth.keys = " in str(err.value)
    missing = settings(tmp_path, api={"auth": with_keys(tmp_path / "missing")})
    with pytest.raises(ConfigError, match=r"missing: No such file .*kaboost keys new"):
        check_access(missing)


def test_a_key_expires(tmp_path: Path) -> None:
    """At the end of its last day in UTC, and says so; others go on."""
    key, line = new_key("shop", "predict", "2026-01-31")
    (entry,) = read_keys(written(tmp_path, line)).values()
    wanted = settings(tmp_path, api={"auth": with_keys(tmp_path / "keys")})
    roles = route_roles([])
    counted: list[str] = []
    client = TestClient(AccessControl(reached, Authenticator(wanted), roles, counted.append))

    assert 1_769_904_000.0 == entry.expires  # 2026-02-01T00:00:00Z
    answer = client.get("/any", headers=bearer(key))
    assert (401, ["expired"]) == (answer.status_code, counted)
    assert "has expired" in answer.json()["detail"]


def written(folder: Path, *lines: str) -> Path:
    """Write a file of keys."""
    replace(folder / "keys", *lines)
    return folder / "keys"


def test_the_rate_of_a_key_is_limited(tmp_path: Path) -> None:
    """As many at once as in a second, then 429 with Retry-After; each key by itself."""
    known = write_keys(tmp_path / "keys", ("shop", "read"), ("batch", "read"))
    auth = with_keys(tmp_path / "keys", max_requests_per_second=0.01)
    wanted = settings(tmp_path, api={"auth": auth})
    client = TestClient(
        AccessControl(
            reached,
            Authenticator(wanted),
            RouteRoles({"/any": READ, "/v2/any": READ}, []),
            lambda _: None,
        )
    )

    for name in known:
        first, second = (client.get("/any", headers=bearer(known[name])) for _ in range(2))
        assert (204, 429) == (first.status_code, second.status_code)
        assert 95 <= int(second.headers["retry-after"]) <= 100
        assert TYPES[429] == second.json()["type"]
        third = client.get("/v2/any", headers=bearer(known[name]))
        assert (429, ["error"]) == (third.status_code, list(third.json()))


def test_a_bucket_fills_with_time() -> None:
    """Five in a second at once, then one every fifth of a second."""
    now = [0.0]
    limit = RateLimit(5.0, lambda: now[0])

    assert [0.0] * 5 == [limit.wait_of("a") for _ in range(5)]
    assert 0.2 == pytest.approx(limit.wait_of("a"))
    assert 0.0 == limit.wait_of("b")
    now[0] = 0.21
    assert 0.0 == limit.wait_of("a")
    assert 0.19 == pytest.approx(limit.wait_of("a"))


def test_the_admin_port_takes_roles(tmp_path: Path) -> None:
    """Its own key, and keys with the role admin; the audit log has the name of the key."""
    known = one_of_each_role(tmp_path / "keys")
    api = {"auth": with_keys(tmp_path / "keys")}
    for admin in ({"key": KEY}, {}):
        wanted = settings(tmp_path, api=api, admin={"timeout_seconds": 0.1, **admin})
        client = TestClient(create_admin(wanted), "http://127.0.0.1")
        accepted = [known[ADMIN], *admin.values()]

        assert [200] * len(accepted) == [
            client.get("/admin/audit", headers=bearer(key)).status_code for key in accepted
        ]
        assert 403 == client.get("/admin/audit", headers=bearer(known[READ])).status_code
        assert 401 == client.get("/admin/audit").status_code
        page = bearer(known[ADMIN]) | {"origin": "http://127.0.0.1:8000"}
        assert 403 == client.get("/admin/audit", headers=page).status_code
    assert 503 == client.post("/admin/pause", headers=bearer(known[ADMIN])).status_code


def test_a_file_that_was_not_read_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A chmod changes neither its time nor its size."""
    monkeypatch.setattr(watched, "SETTLED_SECONDS", 0.0)
    path, denied = written(tmp_path, new_key("old", "read")[1]), [False]

    def read() -> str:
        if denied[0]:
            raise ConfigError("Permission denied")
        return path.read_text()

    file = watched.WatchedFile([path], read)
    denied[0] = True
    replace(path, new_key("new", "read")[1])
    file.look()
    assert file.value.startswith("old")
    denied[0] = False
    file.look()
    assert file.value.startswith("new")


def test_commands_check_the_role_themselves() -> None:
    """Also where a request has come past the table of routes."""
    for role in (PREDICT, LEARN, READ):
        with pytest.raises(HTTPException, match="commands need the role admin"):
            check_key(request_of("shop", role), Settings.model_construct())
    check_key(request_of("shop", ADMIN), Settings.model_construct())


def test_the_name_of_a_key_is_always_recorded() -> None:
    """What the client writes into `by` stands next to it."""
    shop, asked = request_of("shop", ADMIN), Asked(by="page")

    assert "shop" == to_command(shop, "pause", Asked()).by
    assert "shop (page)" == to_command(shop, "pause", asked).by
    assert "page" == to_command(Request({"type": "http"}), "pause", asked).by


def request_of(name: str, role: str) -> Request:
    """Make a request of an admitted caller."""
    return Request({"type": "http", CALLER: Caller(name, frozenset((role,)))})


def test_keys_are_made_and_listed(tmp_path: Path) -> None:
    """The key is printed once; the file has its digest, for its owner only."""
    path = tmp_path / "keys"
    path.write_text("# ours")
    run = CliRunner().invoke
    made = run(app, ["keys", "new", "shop", "--roles", "predict,read", "--file", str(path)])
    again = run(app, ["keys", "new", "batch", "--expires", "2020-01-31", "--file", str(path)])
    listed = run(app, ["keys", "list", "--file", str(path), "--json"])
    only = run(app, ["keys", "new", "other", "--json", "--file", str(tmp_path / "other")])

    key = made.stdout.strip()
    assert (0, 0, 0, 0) == (made.exit_code, again.exit_code, listed.exit_code, only.exit_code)
    assert key.startswith(keys.PREFIX)
    assert key not in path.read_text()
    assert ["shop", "batch"] == [entry.name for entry in read_keys(path).values()]
    assert keys.digest_of(key.encode()) in read_keys(path)
    assert '"state": "expired"' in listed.output
    assert 0o600 == (tmp_path / "other").stat().st_mode & 0o777
    bad = run(app, ["keys", "new", "shop", "--roles", "write"])
    assert "role 'write' is not one of" in str(bad.exception)


def test_status_uses_a_key(keyed: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kaboost status` sends KABOOST_KEY, and names it when it is missing."""
    program, known, _ = keyed
    url = f"http://127.0.0.1:{program.port}"
    without = CliRunner().invoke(app, ["status", "--url", url, "--json"])
    monkeypatch.setenv("KABOOST_KEY", known[READ])
    shown = CliRunner().invoke(app, ["status", "--url", url, "--json"])

    assert "set KABOOST_KEY to a key with the role read" in str(without.exception)
    assert '"events_learned": 60' in shown.output


def test_without_keys_nothing_is_in_the_way(tmp_path: Path) -> None:
    """On loopback no middleware is there: no work per request."""
    made = create_api(settings(tmp_path, api={"port": free_port()}))
    installed = {middleware.cls for middleware in made.user_middleware}

    assert AccessControl not in installed
    assert httpx.codes.OK == TestClient(made).get("/healthz/live").status_code
