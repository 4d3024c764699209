"""The Open Inference Protocol v2, by Triton's client: its calls as its examples make them."""

import asyncio
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import tritonclient.http as triton
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from tritonclient.utils import InferenceServerException

from kaboost.service.config.settings import Settings
from kaboost.service.errors import RequestError
from kaboost.service.http import open_inference, tensors
from kaboost.service.http.follower import Follower, Served
from kaboost.service.http.open_inference import OpenInference
from kaboost.service.metrics import api_metrics
from tests.service.learning import until
from tests.service.serving import SCHEMA, Program, publish, running, settings, taught

Start = Callable[..., tuple[Settings, Program]]
ROWS: list[dict[str, Any]] = [
    {"age": 31.0, "vip": True, "country": "PT", "speed": 0.5},
    {"age": 44.5, "vip": False, "country": "São Tomé", "speed": None},
    {"age": None, "vip": True, "country": "DE", "speed": -1.25},
]
INPUTS = {"age": "FP64", "vip": "BOOL", "country": "BYTES", "speed": "FP64"}
DTYPES = {"FP64": np.float64, "BOOL": np.bool_, "BYTES": np.object_}
OUTPUTS = ("prediction", "score", "probability", "probabilities")


@pytest.fixture
def client(api: Program) -> Iterator[triton.InferenceServerClient]:
    """Triton's client of the API."""
    with triton.InferenceServerClient(f"127.0.0.1:{api.port}") as made:
        yield made


def inputs(
    rows: list[dict[str, Any]], *, binary: bool = True, column: bool = False
) -> list[triton.InferInput]:
    """Make the inputs of all features."""
    made = []
    for name, datatype in INPUTS.items():
        values = np.array([row[name] for row in rows], DTYPES[datatype])
        values = values.reshape(-1, 1) if column else values
        made.append(triton.InferInput(name, list(values.shape), datatype))
        made[-1].set_data_from_numpy(values, binary_data=binary)
    return made


def test_the_server_and_the_model_are_described(
    api: Program, client: triton.InferenceServerClient
) -> None:
    """Live, ready, server and model metadata; another model or version is not ready."""
    version = str(api.ready()["version"])
    metadata = client.get_model_metadata("kaboost")

    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("kaboost")
    assert client.is_model_ready("kaboost", version)
    assert not client.is_model_ready("other")
    assert not client.is_model_ready("kaboost", "999")
    assert "kaboost" == client.get_server_metadata()["name"]
    assert ("kaboost", [version]) == (metadata["name"], metadata["versions"])
    assert INPUTS == {each["name"]: each["datatype"] for each in metadata["inputs"]}
    assert list(SCHEMA) == [each["name"] for each in metadata["inputs"]]
    assert {"prediction": "INT64", "score": "FP64"}.items() <= {
        each["name"]: each["datatype"] for each in metadata["outputs"]
    }.items()


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("binary", [False, True])
def test_rows_are_predicted_as_by_predict(
    api: Program, client: triton.InferenceServerClient, binary: bool, answer: bool, column: bool
) -> None:
    """Tensors in JSON or binary, in and out; NaN is missing, for which JSON has no number."""
    rows = ROWS if binary else ROWS[:1]
    outputs = [triton.InferRequestedOutput(name, binary_data=answer) for name in OUTPUTS]
    sent = inputs(rows, binary=binary, column=column)
    found = client.infer("kaboost", sent, outputs=outputs, request_id="a1")
    wanted = api.client.post("/predict", json={"instances": rows}).json()["predictions"]

    response = found.get_response()
    assert ("a1", "kaboost") == (response["id"], response["model_name"])
    assert str(api.ready()["version"]) == response["model_version"]
    for name in OUTPUTS[:3]:
        assert [each[name] for each in wanted] == found.as_numpy(name).tolist()
    shares = [list(each["probabilities"].values()) for each in wanted]
    assert shares == found.as_numpy("probabilities").tolist()


def test_all_outputs_come_by_default(client: triton.InferenceServerClient) -> None:
    """Binary, as the client asks; features that are left out are missing."""
    found = client.infer("kaboost", inputs(ROWS)[:1])

    assert (3,) == found.as_numpy("prediction").shape
    assert (3, 2) == found.as_numpy("probabilities").shape


def test_texts_are_predicted(tmp_path: Path) -> None:
    """Labels that are texts come as BYTES; rows of a regression without probabilities."""
    for task, expected in (
        ({"kind": "multiclass", "labels": ["good", "bad", "ugly"]}, OUTPUTS),
        ({"kind": "regression"}, OUTPUTS[:2]),
    ):
        folder = tmp_path / str(task["kind"])
        folder.mkdir()
        wanted = settings(folder, task=task)
        publish(wanted, taught(wanted))
        with running("api", wanted) as program:
            program.ready()
            url = f"127.0.0.1:{program.port}"
            with triton.InferenceServerClient(url) as client:
                found = client.infer("kaboost", inputs(ROWS))
                named = [each["name"] for each in found.get_response()["outputs"]]
                first = found.as_numpy("prediction")[0]
                described = client.get_model_metadata("kaboost")["outputs"]

        assert set(expected) == set(named) == {each["name"] for each in described}
        assert isinstance(first, float) or first.decode() in task["labels"]


def age(**changed: Any) -> dict[str, Any]:
    """Make an input, with what is wrong about it."""
    return {"name": "age", "shape": [1], "datatype": "FP64", "data": [1]} | changed


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({}, "missing required field `inputs`"),
    ({"inputs": []}, "#/inputs: there is none"),
    ({"inputs": [age(data=None)]}, "does not hold the 0 values"),
    ({"inputs": [age(shape=[2])]}, "does not hold the 1 values"),
    ({"inputs": [age(shape=[])]}, "#/inputs/0/shape"),
    ({"inputs": [age(shape=[1, 2], data=[1, 2])]}, "an input is one feature"),
    ({"inputs": [age(shape=[1, 1, 1])]}, "an input is one feature"),
    ({"inputs": [age()], "outputs": [{"name": "score"}] * 2}, "score comes twice; ask for it once"),
    ({"inputs": [age(datatype="FP63")]}, '"FP63" is not one of BOOL'),
    ({"inputs": [age(datatype="BYTES", data=["x"])]}, 'input age, row 0: "x" where a number'),
    (
        {"inputs": [age(name="agee")]},
        '#/inputs/0/name: "agee" is not in features.schema; did you mean age?',
    ),
    ({"inputs": [age(data=[[[1]]])]}, "input age, row 0"),
    ({"inputs": [age(), age()]}, "age comes twice"),
    ({"inputs": [age(), age(name="speed", shape=[2], data=[1, 2])]}, "as many values of each"),
    ({"inputs": [age()], "outputs": [{"name": "loss"}]}, 'no output "loss"; there are prediction'),
    ({"inputs": [age(parameters={"binary_data_size": 8})]}, "its 8 bytes are not FP64"),
]


@pytest.mark.parametrize(("body", "words"), FAULTS)
def test_faults_are_those_of_the_protocol(api: Program, body: dict[str, Any], words: str) -> None:
    """An object with `error`, which names input and row, value and remedy."""
    answer = api.client.post("/v2/models/kaboost/infer", json=body)

    assert 422 == answer.status_code, answer.text
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "length"),
    [(b"{", None), (b"{}", "9"), (b"{}", "9" * 5_000), (b"{}", "-1"), (b"\xff", None)],
)
def test_what_is_not_json_is_400(api: Program, content: bytes, length: str | None) -> None:
    """Also a JSON part that is longer than the body."""
    headers = {"inference-header-content-length": length} if length else {}
    answer = api.client.post("/v2/models/kaboost/infer", content=content, headers=headers)

    assert 400 == answer.status_code
    assert answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v2/none", 404), ("DELETE", "/v2", 405), ("POST", "/v2/models/kaboost", 405)],
)
def test_what_is_not_served_is_an_error_of_the_protocol(
    api: Program, method: str, path: str, status: int
) -> None:
    """Also where the framework refuses."""
    answer = api.client.request(method, path)

    assert (status, ["error"]) == (answer.status_code, list(answer.json()))


def test_the_client_reports_errors(client: triton.InferenceServerClient) -> None:
    """Of another model, and of a value that does not fit."""
    with pytest.raises(InferenceServerException, match="there is no model 'other'"):
        client.infer("other", inputs(ROWS))
    with pytest.raises(InferenceServerException, match="version 999 is not served"):
        client.infer("kaboost", inputs(ROWS), model_version="999")


def test_nothing_is_ready_before_a_model(serve: Start) -> None:
    """503 with Retry-After; live it is."""
    _, program = serve()
    until(lambda: program.probe(503))
    answer = program.client.get("/v2/health/ready")

    assert (503, "1") == (answer.status_code, answer.headers["retry-after"])
    assert 200 == program.client.get("/v2/health/live").status_code


@pytest.fixture
def infer(tmp_path: Path) -> Callable[..., Response]:
    """Infer in this process, with the usual limits: `infer(body, binary, unknown="ignore")`."""

    def ask(body: dict[str, Any], binary: bytes = b"", unknown: str = "refuse") -> Response:
        folder = tmp_path / unknown
        folder.mkdir(exist_ok=True)
        wanted = settings(folder, features={"schema": SCHEMA, "unknown": unknown})
        publish(wanted, taught(wanted))
        follower = Follower(wanted)
        follower._poll()
        served = follower.current()
        assert served is not None
        metrics = api_metrics(CollectorRegistry())

        async def current() -> Served:
            raise AssertionError("is not asked")

        text = msgspec.json.encode(body)
        made = OpenInference(wanted, current, current, metrics)
        return made._infer(served, text + binary, str(len(text)))

    return ask


def blob(name: str, rows: int, datatype: str = "BOOL") -> dict[str, Any]:
    """Make a binary input of one byte a row."""
    sent = {"binary_data_size": rows}
    return {"name": name, "shape": [rows], "datatype": datatype, "parameters": sent}


LONG = "x" * 4_000_000


@pytest.mark.parametrize(
    ("body", "binary", "words"),
    [
        ({"inputs": [blob("vip", 8_000_000)]}, bytes(8_000_000), "8000000 rows, api.max_rows is"),
        ({"inputs": [blob(LONG, 10_000)]}, bytes(10_000), "is not in features.schema"),
        ({"inputs": [blob("vip", 1, LONG)]}, bytes(1), "is not one of BOOL"),
        ({"inputs": [blob("vip", 1)], "outputs": [{"name": LONG}]}, bytes(1), "there is no output"),
        ({"inputs": [blob("vip", 1)], "outputs": [{"name": "x"}] * 500_000}, bytes(1), "x comes"),
        ({"inputs": [blob("vip", 1) | {"shape": [1] * 4_000_000}]}, bytes(1), "send [rows]"),
        ({"inputs": [blob("vip", 4)]}, bytes(4_000_000), "bytes follow the JSON"),
    ],
)
def test_a_large_request_is_refused_before_it_is_unpacked(
    infer: Callable[..., Response], body: dict[str, Any], binary: bytes, words: str
) -> None:
    """One of 8 MB takes no more than some hundred bytes for each of its own, and a short error."""
    infer({"inputs": [blob("vip", 1)]}, bytes(1))  # compiles what the first one does
    tracemalloc.start()
    with pytest.raises((RequestError, HTTPException)) as refused:
        infer(body, binary)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    shown = str(getattr(refused.value, "detail", None) or getattr(refused.value, "errors", ""))
    assert words in shown
    assert len(shown) < 1_000
    assert peak < 250_000_000


def test_an_ignored_input_is_not_repeated_for_each_row(infer: Callable[..., Response]) -> None:
    """A long name of it comes once, not 10,000 times."""
    inputs = [blob("vip", 10_000), blob(LONG, 10_000)]
    infer({"inputs": [blob("vip", 1)]}, bytes(1), unknown="ignore")
    tracemalloc.start()
    answer = infer({"inputs": inputs}, bytes(20_000), unknown="ignore")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert 10_000 == len(msgspec.json.decode(answer.body)["outputs"][0]["data"])
    assert peak < 250_000_000


def test_many_rows_are_predicted_in_parts(
    infer: Callable[..., Response], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same result, and the row of the request in errors."""
    columns = [age(shape=[5], data=[1, 2, 3, 4, 5]), age(name="speed", shape=[5], data=[5] * 5)]
    whole = msgspec.json.decode(infer({"inputs": columns}).body)
    monkeypatch.setattr(open_inference, "CHUNK_VALUES", 4)

    parts = msgspec.json.decode(infer({"inputs": columns}).body)
    assert whole["outputs"] == parts["outputs"]
    columns[1]["data"] = [5, 5, 5, "x", 5]
    with pytest.raises(RequestError) as refused:
        infer({"inputs": columns})
    assert "input speed, row 3" == refused.value.errors[0][0]


def test_no_rows_have_all_outputs(infer: Callable[..., Response]) -> None:
    """As a client's empty batch expects them; the one that it asks for is there."""
    empty = [age(shape=[0], data=[])]
    asked = {"inputs": empty, "outputs": [{"name": "probability"}, {"name": "probabilities"}]}
    outputs = msgspec.json.decode(infer(asked).body)["outputs"]

    assert [("probability", [0], []), ("probabilities", [0, 2], [])] == [
        (each["name"], each["shape"], each["data"]) for each in outputs
    ]


def test_few_requests_are_inferred_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes up to 250 MB: the others wait."""
    running, most, lock = 0, 0, threading.Lock()

    def infer(*_: object) -> Response:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)  # long enough for others to begin, if they may
        with lock:
            running -= 1
        return Response()

    async def nothing(*_: object) -> Any:
        return b""

    made = OpenInference(settings(tmp_path), nothing, nothing, api_metrics(CollectorRegistry()))
    monkeypatch.setattr(open_inference, "read_body", nothing)
    monkeypatch.setattr(made, "_check", lambda *_: None)
    monkeypatch.setattr(made, "_infer", infer)

    async def ask() -> None:
        requests = [Request({"type": "http", "headers": []}) for _ in range(8)]
        await asyncio.gather(*map(made.infer, requests))

    asyncio.run(ask())
    assert open_inference.MOST_AT_ONCE == most


def test_binary_texts_are_checked() -> None:
    """Every cut of a tensor of texts is refused, none is read beyond its end."""
    whole = tensors.pack("BYTES", ["ab", "é"])
    sent = tensors.Parameters(binary_data_size=len(whole))
    made = tensors.Input("x", [2], "BYTES", parameters=sent)
    assert {"x": ["ab", "é"]} == tensors.read_columns([made], whole)

    for cut in range(len(whole)):
        sent = tensors.Parameters(binary_data_size=cut)
        with pytest.raises(RequestError):
            tensors.read_columns([tensors.Input("x", [2], "BYTES", parameters=sent)], whole[:cut])
    with pytest.raises(RequestError, match="bytes follow the JSON"):
        tensors.read_columns([made], whole + b"x")
