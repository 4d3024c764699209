"""JWT of an identity provider: what is accepted, every way to be refused, keys that change."""

import asyncio
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kaboost.service.access import tokens, watched
from kaboost.service.access.authenticator import Authenticator
from kaboost.service.access.callers import Caller, Denied
from kaboost.service.access.tokens import Tokens, roles_of
from kaboost.service.errors import ConfigError
from tests.service.keyfiles import bearer, one_of_each_role
from tests.service.serving import settings

ISSUER, AUDIENCE = "https://id.example.com", "kaboost"
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def private_key(kind: str) -> Private:
    """Make a key pair for RS256 or ES256."""
    return (
        rsa.generate_private_key(65537, 2048)
        if kind == "RS256"
        else ec.generate_private_key(ec.SECP256R1())
    )


KEYS = {kind: private_key(kind) for kind in ("RS256", "ES256")}
OTHER = private_key("RS256")


def jwks(**keys: Private) -> str:
    """Write the public keys as a provider does."""
    listed = []
    for name, key in keys.items():
        kind = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        algorithm = jwt.get_algorithm_by_name(kind)
        public = json.loads(algorithm.to_jwk(key.public_key()))
        listed.append(public | {"kid": name, "alg": kind, "use": "sig"})
    listed.append({"kty": "oct", "kid": "secret", "k": "c2VjcmV0"})  # of another purpose
    return json.dumps({"keys": listed})


def token(kind: str = "RS256", key: Any = None, **claims: Any) -> bytes:
    """Sign a token; a claim of None is left out."""
    whole = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "anna",
        "exp": time.time() + 600,
        "roles": ["predict", "other"],
    } | claims
    payload = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode(payload, key or KEYS[kind], kind, headers={"kid": kind}).encode()


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Tokens]:
    """Check tokens with a file of keys: `make(roles_claim="scope")`."""
    file = tmp_path / "jwks.json"
    file.write_text(jwks(**KEYS))

    def build(**options: Any) -> Tokens:
        section = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(file)} | options
        return Tokens(settings(tmp_path, api={"auth": {"jwt": section}}).api.auth.jwt)

    return build


def check(of: Tokens, sent: bytes) -> Caller:
    """Check one token."""
    return asyncio.run(of.check(sent))


@pytest.mark.parametrize("kind", KEYS)
def test_a_token_is_accepted(make: Callable[..., Tokens], kind: str) -> None:
    """Its subject and roles count; then it is known by a look-up, until the keys change."""
    of, sent = make(), token(kind, aud=["else", AUDIENCE])
    assert of.known(sent) is None
    caller = check(of, sent)

    assert ("anna", frozenset({"predict"})) == (caller.name, caller.roles)
    assert caller is of.known(sent)


def confused() -> bytes:
    """Sign with HS256 and the public key as the secret; the library refuses to."""
    pem = (
        KEYS["RS256"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    head = jwt.utils.base64url_encode(b'{"alg": "HS256", "typ": "JWT", "kid": "RS256"}')
    signed = head + b"." + token().split(b".")[1]
    signature = hmac.new(pem, signed, "sha256").digest()
    return signed + b"." + jwt.utils.base64url_encode(signature)


def unsigned() -> bytes:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600}
    return jwt.encode(claims, None, "none", {"kid": "RS256"}).encode()


REFUSED: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "expired": (lambda: token(exp=time.time() - 60), "expired", "has expired"),
    "not yet": (lambda: token(nbf=time.time() + 60), "bad_token", "not valid yet"),
    "audience": (lambda: token(aud="shop"), "bad_token", "its aud is not"),
    "issuer": (lambda: token(iss="https://evil.example.com"), "bad_token", "its iss is not"),
    "no end": (lambda: token(exp=None), "bad_token", "it needs exp, iss, aud and sub"),
    "no audience": (lambda: token(aud=None), "bad_token", "it needs exp, iss, aud and sub"),
    "no subject": (lambda: token(sub=None), "bad_token", "it needs exp, iss, aud and sub"),
    "empty subject": (lambda: token(sub=" "), "bad_token", "its sub is empty"),
    "number": (lambda: token(sub=7), "bad_token", "its sub is no text"),
    "another key": (lambda: token(key=OTHER), "bad_token", "its signature is wrong"),
    "changed": (lambda: changed(token()), "bad_token", "its signature is wrong"),
    "HS256": (confused, "bad_token", "its alg is not one of RS256, ES256"),
    "none": (unsigned, "bad_token", "its alg is not one of RS256, ES256"),
    "RS256 of EC": (lambda: mixed(), "bad_token", "the token is refused"),
    "no JWT": (lambda: b"kaboost_something", "bad_token", "neither a key nor a token"),
    "bytes": (lambda: b"\xff.\xfe.\xfd", "bad_token", "neither a key nor a token"),
    "empty": (lambda: b"", "bad_token", "neither a key nor a token"),
    "kid": (lambda: foreign(), "bad_token", "kid is not a key of"),
}


def changed(sent: bytes) -> bytes:
    """Give a token more roles without signing it again."""
    head, _, signature = sent.split(b".")
    _, body, _ = token(roles=["admin"]).split(b".")
    return b".".join((head, body, signature))


def mixed() -> bytes:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600}
    return jwt.encode(claims, KEYS["RS256"], "RS256", {"kid": "ES256"}).encode()


def foreign() -> bytes:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600}
    return jwt.encode(claims, OTHER, "RS256", {"kid": "no-such"}).encode()


@pytest.mark.parametrize("name", REFUSED)
def test_a_token_is_refused(make: Callable[..., Tokens], name: str) -> None:
    """With the reason in one word and in a sentence, which repeats nothing of the token."""
    sent, reason, words = REFUSED[name][0](), *REFUSED[name][1:]
    of = make()
    with pytest.raises(Denied) as refused:
        check(of, sent)

    assert (401, reason) == (refused.value.status, refused.value.reason)
    assert words in refused.value.detail
    assert of.known(sent) is None


def test_a_known_token_expires(make: Callable[..., Tokens], tmp_path: Path) -> None:
    """Also while it is remembered."""
    make()
    section = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(tmp_path / "jwks.json")}
    authenticator = Authenticator(settings(tmp_path, api={"auth": {"jwt": section}}))
    sent = token()
    headers = [(b"authorization", b"Bearer " + sent)]
    assert authenticator._tokens is not None
    assert "anna" == asyncio.run(authenticator.admit(headers, "predict")).name
    authenticator._tokens._known[sent] = Caller("anna", frozenset({"predict"}), time.time() - 1)

    with pytest.raises(Denied, match="has expired"):
        asyncio.run(authenticator.admit(headers, "predict"))


def test_keys_and_tokens_may_be_used_together(tmp_path: Path) -> None:
    """A key of the file is no token, and the other way round."""
    known = one_of_each_role(tmp_path / "keys")
    (tmp_path / "jwks.json").write_text(jwks(**KEYS))
    section = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(tmp_path / "jwks.json")}
    auth = {"keys": str(tmp_path / "keys"), "jwt": section}
    authenticator = Authenticator(settings(tmp_path, api={"auth": auth}))

    def caller(sent: str) -> str:
        headers = [(k.lower().encode(), v.encode()) for k, v in bearer(sent).items()]
        return asyncio.run(authenticator.admit(headers, None)).name

    assert ["learn", "anna"] == [caller(known["learn"]), caller(token().decode())]
    with pytest.raises(Denied, match="neither a key nor a token"):
        caller("kaboost_other")


def test_the_file_of_keys_changes(
    make: Callable[..., Tokens], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that was taken back is no key at once, also for tokens that were good before."""
    monkeypatch.setattr(watched, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(watched, "SETTLED_SECONDS", 0.0)
    of, sent = make(), token()
    check(of, sent)
    (tmp_path / "jwks.json").write_text(jwks(ES256=KEYS["ES256"], new=OTHER))

    of.known(sent)
    assert of.known(sent) is None
    with pytest.raises(Denied, match="kid is not a key"):
        check(of, sent)
    assert "anna" == check(of, token("ES256")).name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json", r"no JWKS \(JSONDecodeError\)"),
        ("{}", r"no JWKS \(KeyError\)"),
        ('{"keys": []}', "no RSA or EC key"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "no RSA or EC key"),
        ('{"keys": [{"kty": "RSA", "n": 1}]}', r"no JWKS \("),
    ],
)
def test_a_damaged_key_set_is_refused(
    make: Callable[..., Tokens], tmp_path: Path, text: str, words: str
) -> None:
    """At the start, with its place and what it must be."""
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(ConfigError, match=words):
        make(jwks=str(tmp_path / "broken.json"))
    with pytest.raises(ConfigError, match="No such file"):
        make(jwks=str(tmp_path / "missing.json"))


@pytest.mark.parametrize(
    ("claims", "path", "expected"),
    [
        ({"roles": ["predict", "boss", 3]}, "roles", {"predict"}),
        ({"scope": "openid read learn"}, "scope", {"read", "learn"}),
        ({"realm_access": {"roles": ["admin"]}}, "realm_access.roles", {"admin"}),
        (
            {"https://kaboost.example.com/roles": ["read"]},
            "https://kaboost.example.com/roles",
            {"read"},
        ),
        ({"roles": {"predict": True}}, "roles", set()),
        ({}, "realm_access.roles", set()),
    ],
)
def test_roles_are_found(claims: dict[str, Any], path: str, expected: set[str]) -> None:
    """In a list or a text, at the top or in objects; other words are no roles."""
    assert expected == roles_of(claims, path)


def test_without_the_extra_it_is_named(
    make: Callable[..., Tokens], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names what to install."""
    monkeypatch.setattr(tokens, "jwt", None)
    with pytest.raises(ConfigError, match=r"pip install 'kaboost\[auth\]'"):
        make()
