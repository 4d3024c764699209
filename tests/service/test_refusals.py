"""The HTTP API: a documented status and every fault at once, for any input whatsoever."""

import json
import socket
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from kaboost.service.config.settings import Settings
from kaboost.service.http.predict import ONE_OF_BOTH, BatchPredictResponse, PredictResponse
from tests.service.serving import (
    JSON,
    PATIENCE,
    ROW,
    SCHEMA,
    Program,
    post,
    publish,
    refusal,
    taught,
)

Start = Callable[..., tuple[Settings, Program]]


NESTED = b"[" * 100_000 + b"]" * 100_000
REFUSED: dict[str, tuple[bytes, int, set[str]]] = {
    "empty": (b"", 400, set()),
    "broken": (b'{"features": {', 400, set()),
    "two documents": (b'{"features": {}} {}', 400, set()),
    "NaN": (b'{"features": {"age": NaN}}', 400, set()),
    "Infinity": (b'{"features": {"age": -Infinity}}', 400, set()),
    "byte order mark": (b'\xef\xbb\xbf{"features": {}}', 400, set()),
    "not UTF-8": (b'{"features": {"country": "\xff"}}', 400, set()),
    "not UTF-8 where nobody looks": (b'{"features": {}, "x": "\xff"}', 400, set()),
    "UTF-16": ('{"features": {}}'.encode("utf-16"), 400, set()),
    "lone surrogate": (b'{"features": {"country": "\\ud800"}}', 400, set()),
    "surrogate as a key": (b'{"features": {"\\udfff": 1}}', 400, set()),
    "deep": (NESTED, 400, set()),
    "deep in a feature": (b'{"features": {"age": ' + NESTED[20_000:-20_000] + b"}}", 400, set()),
    "deep where nobody looks": (b'{"features":{},"x":' + NESTED[20_000:-20_000] + b"}", 400, set()),
    "null": (b"null", 422, {"#"}),
    "number": (b"1", 422, {"#"}),
    "array": (b'[{"features": {}}]', 422, {"#"}),
    "nothing asked": (b"{}", 422, {"#"}),
    "both asked": (b'{"features": {}, "instances": []}', 422, {"#"}),
    "features null": (b'{"features": null}', 422, {"#/features"}),
    "features array": (b'{"features": [1]}', 422, {"#/features"}),
    "instances object": (b'{"instances": {"age": 1}}', 422, {"#/instances"}),
    "instances null": (b'{"instances": null}', 422, {"#/instances"}),
    "instance null": (b'{"instances": [{}, null]}', 422, {"#/instances/1"}),
    "beyond floats": (b'{"features": {"age": 1e999}}', 422, {"#/features/age"}),
    "beyond the limit": (b'{"features": {"age": -1.1e308}}', 422, {"#/features/age"}),
    "digits": (b'{"features": {"age": ' + b"9" * 9_000 + b"}}", 422, {"#/features/age"}),
    "string for a number": (b'{"features": {"age": "31"}}', 422, {"#/features/age"}),
    "boolean for a number": (b'{"features": {"age": true}}', 422, {"#/features/age"}),
    "number for a boolean": (b'{"features": {"vip": 1}}', 422, {"#/features/vip"}),
    "number for a category": (b'{"features": {"country": 1.5}}', 422, {"#/features/country"}),
    "unknown": (b'{"features": {"a/b~c": 1}}', 422, {"#/features/a~1b~0c"}),
    "id": (b'{"features": {}, "id": 1.5}', 422, {"#/id"}),
    "repeated key, the first one wrong": (
        b'{"features": {"age": "x", "age": 1}}',
        422,
        {"#/features/age"},
    ),
    "repeated key of a row among several": (
        b'{"instances": [{"age": 1}, {"age": "x", "age": 1}]}',
        422,
        {"#/instances/1/age"},
    ),
    "features twice": (b'{"features": {"age": "x"}, "features": {}}', 422, {"#"}),
    "repeated key, the last one wrong": (
        b'{"features": {"age": 1, "age": "x"}}',
        422,
        {"#/features/age"},
    ),
    "all at once": (
        b'{"instances": [{"age": "x", "vip": 2}, {}, {"features": {"no": 1}, "id": []}]}',
        422,
        {
            "#/instances/0/age",
            "#/instances/0/vip",
            "#/instances/2/features/no",
            "#/instances/2/id",
        },
    ),
    "too many rows": (b'{"instances": [' + b"{}," * 100 + b"{}]}", 413, set()),
    "too many rows, one wrong": (b'{"instances": [' + b"{}," * 100 + b"1]}", 413, set()),
    "too many bytes": (b'{"features": {}}' + b" " * 200_000, 413, set()),
}


@pytest.mark.parametrize(("body", "status", "pointers"), REFUSED.values(), ids=REFUSED)
def test_refusals_name_every_fault(
    api: Program, body: bytes, status: int, pointers: set[str]
) -> None:
    """What cannot be answered is refused with its status and a pointer to every fault at once."""
    answer = post(api, body)
    found = refusal(answer)

    assert status == answer.status_code
    assert pointers == {fault.pointer for fault in found.errors}
    assert all(fault.detail for fault in found.errors)
    assert api.predict()


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"features": {}, "id": 1.7}', "1.7 where a string, a whole number or null belongs"),
        (b'{"instances": 17}', "17 where an array of rows belongs; send either"),
        (b"17", "17 where an object belongs: send either"),
        (b'{"features": {"age": -1e309}}', "-1e309 is beyond 1e+308; send null"),
        (b'{"features": {"age": ' + b"9" * 9_000 + b"}}", f"{'9' * 60}... is beyond 1e+308"),
        (
            b'{"features": {"age": "x"}, "features": {}}',
            "a key occurs twice, and one of its values",
        ),
        (
            b'{"features": {"agee": 3}}',
            "not in features.schema; did you mean age? Else leave it out",
        ),
        (b'{"features": {"zzz": 3}}', "not in features.schema; leave it out, or set features.unkn"),
        (b'{"feature": {"age": 3}}', f"{ONE_OF_BOTH}; received feature"),
        (b'{"features": {}, "instances": []}', f"{ONE_OF_BOTH}; received features, instances"),
        (b"{}", ONE_OF_BOTH),
        (
            b'{"instances": [{}], "id": true}',
            "true where a string, a whole number or null",
        ),
    ],
)
def test_refusals_show_the_value(api: Program, body: bytes, detail: str) -> None:
    """A fault says what was sent and what to send."""
    (fault,) = refusal(post(api, body)).errors

    assert fault.detail.startswith(detail)


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\uD83D and more"', '"\\ud83d\\ude00 \\udbff"'])
def test_half_a_surrogate_pair_is_called_that(api: Program, text: str) -> None:
    """At the end of a string too, where the decoder takes the body for cut short."""
    body = f'{{"features": {{"country": {text}}}}}'.encode()

    assert "surrogate" in post(api, body).json()["detail"]
    assert "surrogate" not in post(api, body[:-3]).json()["detail"]


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_nan_is_called_that(api: Program, constant: str) -> None:
    """Many a program writes what is missing so: the answer names it, and what to send instead."""
    told = refusal(post(api, f'{{"features": {{"age": {constant}}}}}'.encode())).detail

    assert f"not JSON: {constant} is none; send null for missing" == told


def test_an_empty_body_is_called_that(api: Program) -> None:
    """Rather than broken JSON."""
    for body in (b"", b" \n"):
        assert (
            post(api, body).json()["detail"].startswith("the body is empty: send JSON, such as {")
        )


ACCEPTED = {
    "limits": b'{"features": {"age": 1e308, "speed": -1e308}}',
    "tiny": b'{"features": {"age": 1e-999, "speed": -0.0}}',
    "repeated key": b'{"features": {"age": 1, "age": 2}}',
    "unknown keys beside features": b'{"features": {}, "timestamp": 1e999, "label": [1]}',
    "odd strings": '{"features": {"country": "\\u0000\\ud83d\\ude00é"}, "id": ""}'.encode(),
    "space": b' \n{ "instances" : [ { "features" : { } } , { } ] } \t',
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_odd_bodies_are_answered(api: Program, body: bytes) -> None:
    """What is strange but fits is predicted, and the answer is JSON with finite numbers."""
    answer = post(api, body)

    assert 200 == answer.status_code, answer.text
    assert "null" not in answer.text
    msgspec.json.decode(
        answer.content, type=BatchPredictResponse if b"instances" in body else PredictResponse
    )


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; Charset=UTF-8", 200),
        ('application/json;charset="utf-8"', 200),
        ("", 200),
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
        ("application/json; charset=utf-16", 415),
    ],
)
def test_content_types(api: Program, kind: str, status: int) -> None:
    """JSON in UTF-8 is read; another type is refused, naming what to send."""
    headers = {"Content-Type": kind} if kind else {}
    answer = api.client.post("/predict", content=b'{"features": {}}', headers=headers)

    assert status == answer.status_code
    if status == 415:
        assert "application/json" in refusal(answer).detail


def test_compressed_body_is_refused(api: Program) -> None:
    """A body that would have to be unpacked first is not."""
    assert 415 == refusal(post(api, b"\x1f\x8b", **{"Content-Encoding": "gzip"})).status


def test_endless_body_is_refused(api: Program) -> None:
    """A body that never says its length is read no further than the limit."""

    def chunks() -> Iterator[bytes]:
        yield b'{"features": {}, "x": "'
        for _ in range(100):
            yield b"x" * 10_000

    answer = api.client.post("/predict", content=chunks(), headers=JSON)

    assert 413 == refusal(answer).status


def test_slow_body_is_refused(api: Program) -> None:
    """A body that does not come within api.timeout_seconds is given up, and the caller told."""
    with socket.create_connection(("127.0.0.1", api.port), PATIENCE) as line:
        line.sendall(
            b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 16\r\n\r\n{"
        )
        begin = time.monotonic()
        answer = line.makefile("rb").read()

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - begin >= 0.9


@pytest.mark.parametrize(
    "raw",
    [
        b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n",
        b"BREW /predict HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /predict%ff%00 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"GET //evil.example/%2e%2e/etc HTTP/1.1\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
    ],
)
def test_odd_requests_do_no_harm(api: Program, raw: bytes) -> None:
    """A request that is hardly HTTP is refused by someone, never with a 5xx."""
    with socket.create_connection(("127.0.0.1", api.port), PATIENCE) as line:
        line.sendall(raw)
        line.shutdown(socket.SHUT_WR)
        answer = line.makefile("rb").read()

    assert answer.split(b" ")[1][:1] == b"4" if answer else True
    assert api.predict()


def test_caller_who_leaves_does_no_harm(api: Program) -> None:
    """A caller that hangs up in the middle of its body is forgotten without a word."""
    before = len(api.log())
    with socket.create_connection(("127.0.0.1", api.port), PATIENCE) as line:
        line.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
    time.sleep(0.3)

    assert api.predict()
    assert before == len(api.log())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/predict", 405),
        ("PUT", "/predict", 405),
        ("OPTIONS", "/predict", 405),
        ("POST", "/model", 405),
        ("POST", "/predict/", 404),
        ("GET", "/nothing", 404),
        ("GET", "/redoc", 404),
    ],
)
def test_other_paths_and_methods(api: Program, method: str, path: str, status: int) -> None:
    """What is not there is a problem document as well, never a redirect."""
    answer = api.client.request(method, path)

    assert status == refusal(answer).status
    assert path == refusal(answer).instance
    assert ("allow" in answer.headers) is (status == 405)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/predict", {"POST"}),
        ("HEAD", "/predict", {"POST"}),
        ("POST", "/healthz/ready", {"GET", "HEAD"}),
        ("POST", "/docs", {"GET", "HEAD"}),
        ("POST", "/openapi.json", {"GET", "HEAD"}),
    ],
)
def test_allow_names_what_works(api: Program, method: str, path: str, allowed: set[str]) -> None:
    """Where the method is wrong, the header lists each right one once, HEAD beside GET."""
    answer = api.client.request(method, path)

    assert 405 == answer.status_code
    told = f"the path does not allow {method}, but {' and '.join(sorted(allowed))}"
    assert method == "HEAD" or told == refusal(answer).detail
    assert sorted(allowed) == sorted(answer.headers["allow"].split(", "))


@pytest.mark.parametrize("path", ["/healthz/live", "/healthz/ready", "/model", "/metrics", "/"])
def test_head_is_get_without_a_body(api: Program, path: str) -> None:
    """A probe that sends HEAD gets the status of GET."""
    answer = api.client.head(path)

    assert 200 == answer.status_code
    assert b"" == answer.content
    assert api.predict()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=2),
)
NAMES = st.sampled_from([*SCHEMA, "features", "id", "", "a/b"]) | st.text(max_size=3)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)
ROWS = OBJECTS | st.fixed_dictionaries({"features": OBJECTS | VALUES, "id": VALUES}) | VALUES
REQUESTS = st.one_of(
    ROWS,
    st.fixed_dictionaries({"instances": st.lists(ROWS, max_size=4) | VALUES}),
    st.fixed_dictionaries({"features": OBJECTS, "instances": st.lists(ROWS, max_size=2)}),
)


@given(request=REQUESTS)
@effort(max_examples=400)
def test_any_json_is_answered(api: Program, request: object) -> None:
    """Whatever JSON is sent, or nearly JSON, the status is 200, 400 or 422, and never a 500."""
    body = json.dumps(request, ensure_ascii=True).encode()
    answer = post(api, body)

    assert answer.status_code in {200, 400, 422}, (body, answer.text)
    if answer.status_code == 200:
        assert "predictions" in answer.json() or "prediction" in answer.json()
    else:
        assert bool(refusal(answer).errors) is (answer.status_code == 422)


@given(body=st.binary(max_size=60), cut=st.integers(0, 60), at=st.integers(0, 60))
@effort(max_examples=200)
def test_any_bytes_are_answered(api: Program, body: bytes, cut: int, at: int) -> None:
    """A good body with bytes cut out or put in is answered or refused, never a 500."""
    good = json.dumps({"features": ROW}).encode()
    answer = post(api, good[:at] + body + good[at + cut :])

    assert answer.status_code in {200, 400, 422}, answer.text


def test_faults_beyond_count_are_counted(serve: Start) -> None:
    """The answer to millions of faults stays small, and says how many there were."""
    wanted, program = serve()
    publish(wanted, taught(wanted))
    program.ready()
    answer = program.client.post("/predict", json={"instances": [{"no": 1}] * 9_000})

    assert 1_000 == len(refusal(answer).errors)
    assert "9000 faults" in refusal(answer).detail
