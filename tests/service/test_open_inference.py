"""The Open Inference Protocol v2, by Triton's client: its calls as its examples make them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from kaboost.service.config.settings import Settings
from kaboost.service.errors import RequestError
from kaboost.service.http import tensors
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
    ({"inputs": [age(datatype="FP63")]}, "'FP63' is not one of BOOL"),
    ({"inputs": [age(datatype="BYTES", data=["x"])]}, 'input age, row 0: "x" where a number'),
    ({"inputs": [age(name="agee")]}, "input agee, row 0: not in features.schema"),
    ({"inputs": [age(data=[[[1]]])]}, "input age, row 0"),
    ({"inputs": [age(), age()]}, "age comes twice"),
    ({"inputs": [age(), age(name="speed", shape=[2], data=[1, 2])]}, "as many values of each"),
    ({"inputs": [age()], "outputs": [{"name": "loss"}]}, "no output 'loss'; there are prediction"),
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
    [(b"{", None), (b"{}", "9"), (b"{}", "-1"), (b"\xff", None)],
)
def test_what_is_not_json_is_400(api: Program, content: bytes, length: str | None) -> None:
    """Also a JSON part that is longer than the body."""
    headers = {"inference-header-content-length": length} if length else {}
    answer = api.client.post("/v2/models/kaboost/infer", content=content, headers=headers)

    assert 400 == answer.status_code
    assert answer.json()["error"]


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


def test_binary_texts_are_checked() -> None:
    """Every cut of a tensor of texts is refused, none is read beyond its end."""
    whole = tensors.pack("BYTES", ["ab", "é"])
    sent = tensors.Parameters(binary_data_size=len(whole))
    made = tensors.Input("x", [2], "BYTES", parameters=sent)
    assert ({"x": ["ab", "é"]}, 2) == tensors.read_columns([made], whole)

    for cut in range(len(whole)):
        sent = tensors.Parameters(binary_data_size=cut)
        with pytest.raises(RequestError):
            tensors.read_columns([tensors.Input("x", [2], "BYTES", parameters=sent)], whole[:cut])
    with pytest.raises(RequestError, match="bytes follow the JSON"):
        tensors.read_columns([made], whole + b"x")
