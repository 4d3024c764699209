"""Predict now, label later: HTTP clients alone, with the topics that they never see."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kaboost.service.config.settings import Settings
from tests.kafka.broker import Reachable
from tests.kafka.client import read
from tests.ports import free_port
from tests.service.learning import learned, rows, until

Make = Callable[..., Settings]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Settings], httpx.Client]]:
    """Run `kaboost serve` with settings; the client waits until it is ready."""
    started: list[subprocess.Popen[bytes]] = []
    clients: list[httpx.Client] = []

    def run(settings: Settings) -> httpx.Client:
        command = [sys.executable, "-m", "kaboost.service.cli", "serve", "--config"]
        started.append(subprocess.Popen([*command, str(tmp_path / "kaboost.json")]))
        client = httpx.Client(base_url=f"http://127.0.0.1:{settings.api.port}", timeout=30.0)
        clients.append(client)
        until(lambda: is_ready(client))
        return client

    yield run
    for client in clients:
        client.close()
    for process in started:
        process.terminate()
        process.wait(60)


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz/ready").status_code == 200
    except httpx.TransportError:
        time.sleep(0.1)
        return False


def ok(response: httpx.Response, status: int = 200) -> Any:
    assert status == response.status_code, response.text
    return response.json()


def test_predict_now_label_later(
    make_topic: Callable[..., str], make_settings: Make, serve: Callable[[Settings], httpx.Client],
    broker: Reachable,
) -> None:  # fmt: skip
    """The answers are the features that wait; labels come by HTTP; each pair is learned once."""
    topic = make_topic()
    settings = make_settings(
        topic,
        predictions={"topic": topic},
        labels={"topic": make_topic(), "label": "result"},
        api={"port": free_port()},
    )
    client, stream = serve(settings), rows(40)
    scores = []
    for k, (features, _) in enumerate(stream):
        answer = ok(client.post("/predict", json={"features": features, "id": f"r{k}"}))
        assert f"r{k}" == answer["id"]
        scores.append(answer["score"])
    ok(client.post("/predict", json={"features": stream[0][0]}))  # no id: not written
    labels = [{"id": f"r{k}", "result": label} for k, (_, label) in enumerate(stream)]
    written = ok(client.post("/labels", json=labels), 202)["records"]

    assert list(range(40)) == [record["offset"] for record in written]
    until(lambda: learned(settings) == 40)
    records = [json.loads(message.value() or b"") for message in read(broker.bootstrap, topic, 40)]
    assert [f"r{k}" for k in range(40)] == [record["id"] for record in records]
    assert stream[0][0].items() <= records[0]["features"].items()
    assert {"prediction", "score", "version", "timestamp"} <= records[0].keys()
    assert scores == [record["score"] for record in records]
    until(lambda: client.get("/model").json()["events_learned"] == 40)


def test_a_new_model_learns_from_predictions(
    make_topic: Callable[..., str], make_settings: Make, serve: Callable[[Settings], httpx.Client]
) -> None:
    """Features that no model knows are learned from the topic of predictions."""
    topic = make_topic()
    settings = make_settings(
        topic,
        features={"schema": {"*": "auto"}},
        model={},
        predictions={"topic": topic},
        labels={"topic": make_topic()},
        api={"port": free_port()},
    )
    client, stream = serve(settings), rows(30)
    for k, (features, _) in enumerate(stream):
        answer = ok(client.post("/predict", json={"features": features, "id": k}))
        assert sorted(features)[0] in answer["warnings"][0]
    ok(client.post("/labels", json=[{"id": k, "label": y} for k, (_, y) in enumerate(stream)]), 202)
    until(lambda: client.get("/model").json()["events_learned"] == 30)
    assert stream[0][0].keys() == client.get("/model").json()["features"].keys()

    misspelt = {"id": "odd", "features": {**stream[0][0], "colur": "red"}}
    answer = ok(client.post("/predict", json=misspelt))
    assert ['"colur" is not a feature; did you mean colour?'] == answer["warnings"]
    ok(client.post("/labels", json=[{"id": "odd", "label": 1}]), 202)
    until(lambda: client.get("/model").json()["events_learned"] == 31)
    assert stream[0][0].keys() == client.get("/model").json()["features"].keys()


def test_events_by_http_are_learned(
    make_topic: Callable[..., str], make_settings: Make, serve: Callable[[Settings], httpx.Client]
) -> None:
    """Records as they are, valid or refused as a whole; the same record can be predicted."""
    settings = make_settings(
        make_topic(), events={"id": "order", "label": "result"}, api={"port": free_port()}
    )
    client, stream = serve(settings), rows(20)
    records = [{"order": k, "result": label, **x} for k, (x, label) in enumerate(stream)]

    assert 20 == len(ok(client.post("/events", json=records), 202)["records"])
    ok(client.post("/events", json=records[0]), 202)  # a retry: learned once
    until(lambda: client.get("/model").json()["events_learned"] == 20)  # what is served
    refused = ok(client.post("/events", json=[records[0], {**records[1], "x": "one"}]), 422)
    assert "#/1" == refused["errors"][0]["pointer"]
    assert 404 == client.post("/labels", json={"id": 1}).status_code
    by_record = ok(client.post("/predict", json={"record": without_label(records[3])}))
    by_features = ok(client.post("/predict", json={"features": stream[3][0], "id": "3"}))
    assert by_features["score"] == by_record["score"]
    assert "3" == by_record["id"]
    many = ok(client.post("/predict", json={"instances": [{"record": records[3]}]}))
    assert by_record["score"] == many["predictions"][0]["score"]
    both = client.post("/predict", json={"record": records[3], "features": {}})
    assert 422 == both.status_code
    missing = client.post("/predict", json={"record": [1]})
    assert "#/record" == ok(missing, 422)["errors"][0]["pointer"]


def without_label(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "result"}
