"""Web pages of other origins: only those that are named, also where keys are needed."""

from pathlib import Path

import pytest
from starlette.middleware.cors import CORSMiddleware
from starlette.testclient import TestClient

from kaboost.service.errors import ConfigError
from kaboost.service.processes.api_server import create_api
from tests.service.keyfiles import bearer, one_of_each_role, with_keys
from tests.service.serving import settings

SHOP, OTHER = "https://shop.example.com", "https://evil.example.com"
ALLOWED = "access-control-allow-origin"


def test_named_origins_are_admitted(tmp_path: Path) -> None:
    """A browser asks first, without the key; refusals can be read by the page as well."""
    known = one_of_each_role(tmp_path / "keys")
    api = {"cors_origins": [SHOP], "auth": with_keys(tmp_path / "keys")}
    client = TestClient(create_api(settings(tmp_path, api=api)))

    def ask(origin: str) -> dict[str, str]:
        headers = {
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        return dict(client.options("/predict", headers=headers).headers)

    assert SHOP == ask(SHOP)[ALLOWED]
    assert "authorization" in ask(SHOP)["access-control-allow-headers"]
    assert ALLOWED not in ask(OTHER)
    for headers, status in ((bearer(known["read"]), 200), ({}, 401)):
        answer = client.get("/status", headers={"origin": SHOP, **headers})
        assert (status, SHOP) == (answer.status_code, answer.headers[ALLOWED])
        assert "access-control-allow-credentials" not in answer.headers
    assert ALLOWED not in client.get("/healthz/live", headers={"origin": OTHER}).headers


def test_by_default_there_is_none(tmp_path: Path) -> None:
    """No middleware, no work."""
    made = create_api(settings(tmp_path))

    assert CORSMiddleware not in {each.cls for each in made.user_middleware}


@pytest.mark.parametrize("origin", ["shop.example.com", "https://shop.example.com/", "null", ""])
def test_other_texts_are_refused(tmp_path: Path, origin: str) -> None:
    """With the form of an origin."""
    with pytest.raises(ConfigError, match="is no origin: write scheme and host"):
        settings(tmp_path, api={"cors_origins": [origin]})
