"""Secrets and private values are planted wherever they may be sent, and looked for in all that a
service writes: logs, answers, metrics, headers of dead letters, files, the audit log.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route
from typer.testing import CliRunner

from kaboost.service.cli import app
from kaboost.service.config.settings import Settings
from kaboost.service.processes.api_server import create_api
from tests.kafka.broker import Reachable
from tests.kafka.client import read
from tests.ports import free_port
from tests.service.keyfiles import bearer, write_keys
from tests.service.learning import until
from tests.service.serving import Program, running, settings
from tests.service.test_provider import provider
from tests.service.test_tokens import AUDIENCE, ISSUER, KEYS, jwks, token

SASL, KEY_PASSWORD, ADMIN_KEY = "planted-sasl-71f3", "planted-ssl-88a2", "planted-admin-key-5d20a1"
REGISTRY, HASH_KEY = "planted-registry-31c9", "planted-hash-key-90be"
PROVIDER = "planted-provider-62e1"
PRIVATE = ["jane.planted@example.com", "4929-7741-0000", "987654321.125", "Planted-Street-17"]
MAIL, CARD, NUMBER, STREET = PRIVATE
SCHEMA = {"email": "number", "card": "boolean", "amount": "number", "home.street": "number"}


def event(label: Any = 1, **more: Any) -> bytes:
    """Make an event; what is not a feature is named `id` or `headers`."""
    id_ = more.pop("id", None)
    features = {"amount": 1.0, **more}
    return json.dumps({"features": features, "label": label, "id": id_}).encode()


PLANTED = [
    event(email=MAIL),
    event(email=float(NUMBER), id="a1"),  # one that is learned
    event(card=CARD),
    event(**{"home.street": STREET}),
    event(label=MAIL, email=MAIL),
    b'{"features": {"email": "%s"}, "label": ' % MAIL.encode(),
    b'"%s"' % STREET.encode(),
    event(amount=2.0),
]


key_server = provider


@pytest.fixture(params=["drop", "hash"])
def wanted(
    request: pytest.FixtureRequest,
    broker: Reachable,
    topic: str,
    tmp_path: Path,
    key_server: tuple[str, dict[str, Any]],
) -> Settings:
    """Settings with a secret wherever there can be one."""
    url, served = key_server
    served["body"] = jwks(**KEYS)
    address = f"{url}?api_key={PROVIDER}"
    tokens = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": address, "jwks_seconds": 1.0}
    privacy = {"fields": ["email", "card", "home"], "mode": request.param}
    registry = {"url": "http://127.0.0.1:9", "basic.auth.user.info": f"user:{REGISTRY}"}
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    return settings(
        tmp_path,
        kafka=kafka | {"extra": {"sasl.password": SASL}},
        features={"schema": SCHEMA},
        events={"schema_registry": registry},
        privacy=privacy | ({"key": HASH_KEY} if request.param == "hash" else {}),
        api={"auth": {"keys": str(tmp_path / "keys"), "jwt": tokens}},
        admin={"port": free_port(), "key": ADMIN_KEY, "page": True},
        log={"level": "debug"},
    )


def sent_to(program: Program, admin: int, secrets: list[str]) -> Iterator[tuple[str, str]]:
    """Send requests with secrets in the right places and in wrong ones; yield all answers."""
    ask = program.client.request
    for secret in secrets:
        for headers in ({}, bearer(secret), bearer(secret[:-1]), {"Authorization": secret}):
            for path in (f"/model?key={secret}", "/predict", "/v2/models/kaboost", "/metrics"):
                answer = ask("GET", path, headers=headers)
                yield f"GET {path}", answer.text + str(answer.headers)
        for path in (f"/{secret}", f"/v2/models/{secret}"):
            ask("GET", path)  # the answer names the path that was sent
        for path in ("/predict", "/events", "/labels", "/v2/models/kaboost/infer"):
            answer = ask("POST", path, content=b"{", headers=bearer(secret))
            yield f"POST {path}", answer.text
        with Program.connect(admin) as client:
            for name in ("pause", "resume", "checkpoint", "promote"):
                answer = client.post(f"/admin/{name}", json={}, headers=bearer(secret))
                yield f"/admin/{name}", answer.text
            yield "/admin/audit", client.get("/admin/audit", headers=bearer(secret)).text


def pages(program: Program, wanted: Settings, key: str) -> Iterator[tuple[str, str]]:
    """Read every page, and the metrics of both ports."""
    for route in create_api(wanted).routes:
        if isinstance(route, Route) and "GET" in (route.methods or ()):
            path = route.path.replace("{model}", "kaboost").replace("{version}", "1")
            if path != "/stream":
                yield path, program.client.get(path, headers=bearer(key)).text
    with program.client.stream("GET", "/stream", headers=bearer(key)) as answer:
        yield "/stream", next(answer.iter_text())
    yield "learner", httpx.get(f"http://127.0.0.1:{wanted.metrics.port}/metrics").text


def written(wanted: Settings) -> Iterator[tuple[str, str]]:
    """Read every file that the service has written, and what commands print."""
    folder = wanted.snapshots.directory.parent
    given = {folder / name for name in ("kaboost.yaml", "keys")}
    for path in set(folder.rglob("*")) - given:
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_text(errors="replace")
    config = ["--config", str(folder / "kaboost.yaml")]
    for command in ("config show", "config check", "doctor", "audit --json", "dlq list"):
        yield command, CliRunner().invoke(app, [*command.split(), *config]).output


def test_planted_secrets_are_found_nowhere(
    wanted: Settings,
    topic: str,
    send: Callable[..., None],
    key_server: tuple[str, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys, tokens, passwords of brokers and registries, and the values of private fields."""
    folder = wanted.snapshots.directory.parent
    monkeypatch.setenv("KABOOST_KAFKA__EXTRA__SSL_KEY_PASSWORD", KEY_PASSWORD)
    key = write_keys(folder / "keys", ("all", "predict,learn,read,admin"))["all"]
    jwt = token(roles=["predict", "learn", "read", "admin"]).decode()
    secrets = [key, jwt, ADMIN_KEY, SASL, KEY_PASSWORD, REGISTRY, HASH_KEY, PROVIDER]
    send(topic, PLANTED)
    assert wanted.admin.port is not None
    with running("serve", wanted) as program:
        program.ready()

        consumed = f"consumed_total {len(PLANTED)}.0"
        until(lambda: consumed in program.client.get("/metrics", headers=bearer(key)).text)
        body = {"features": {"amount": 1.0, "email": 5.0}}
        answers = [
            program.client.post("/predict", json=body, headers=bearer(s)) for s in (key, jwt)
        ]
        assert [200, 200] == [each.status_code for each in answers]
        bad = {"features": {"email": MAIL, "card": CARD}, "label": MAIL, "id": "b1"}
        for path in ("/predict", "/events", "/labels"):  # the answers go to who has sent the values
            program.client.post(path, json=bad, headers=bearer(key))
        served = key_server[1]
        served["location"] = f"http://id.example.com/?api_key={PROVIDER}"  # from now on refused

        def is_refused() -> bool:
            program.client.post("/predict", json=body, headers=bearer(jwt))  # what asks again
            return "gives no keys" in program.client.get("/healthz/ready").text

        until(is_refused)
        shown = list(sent_to(program, wanted.admin.port, secrets))
        shown += pages(program, wanted, key)
        send(topic, [b"\x00\x00\x00\x00\x07" + MAIL.encode()])  # of a registry that is away
        until(lambda: "stalled" in program.client.get("/healthz/ready").text)
        shown += pages(program, wanted, key)
    shown += written(wanted)
    letters = read(wanted.kafka.bootstrap_servers, f"{topic}.dlq", 6, 5.0)
    shown += [(f"letter {each.offset()}", str(each.headers())) for each in letters]

    hidden = [*secrets, *(secret[:-1] for secret in secrets), jwt.rpartition(".")[2], *PRIVATE]
    found = {(name, secret) for name, text in shown for secret in hidden if secret in text}
    assert set() == found
    assert 6 == len(letters)
    names = {name for name, _ in shown}
    assert {"serve.log", "/model/records", "checkpoints/audit.jsonl", "learner"} <= names
