"""The HTTP API: predictions, and the snapshot that they come from."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.http.predict import BatchPredictResponse
from kaboost.service.storage import files
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.service.learning import until
from tests.service.serving import (
    ROOT,
    ROW,
    SCHEMA,
    Program,
    metric,
    post,
    publish,
    refusal,
    row,
    settings,
    snapshot,
    taught,
)

Start = Callable[..., tuple[Settings, Program]]
TASKS: dict[str, dict[str, Any]] = {
    "binary": {"kind": "binary"},
    "booleans": {"kind": "binary", "labels": [False, True]},
    "words": {"kind": "multiclass", "labels": ["good", "bad", "ugly"]},
    "regression": {"kind": "regression"},
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_answers_are_the_snapshots(serve: Start, task: dict[str, Any]) -> None:
    """Every field of an answer is what the named snapshot's file says, to the last bit."""
    wanted, program = serve(task=task)
    publish(wanted, taught(wanted))
    program.ready()
    draw = np.random.default_rng(2)
    rows = [row(wanted, draw) for _ in range(20)]
    many = program.client.post("/predict", json={"instances": rows})
    answers = msgspec.json.decode(many.content, type=BatchPredictResponse)
    model = snapshot(program, answers.model.version)

    assert [model.predict_one(each) for each in rows] == [p.prediction for p in answers.predictions]
    for each, predicted in zip(rows, answers.predictions, strict=True):
        alone = program.predict(each)
        named = alone.pop("model")
        alone.pop("warnings", None)  # of a missing value; many rows lack it only where none has one
        assert msgspec.to_builtins(predicted) == alone
        assert msgspec.to_builtins(answers.model) == named
        if task["kind"] != "regression":
            shares = {model.labels.text(k): p for k, p in model.predict_proba_one(each).items()}
            assert shares == predicted.probabilities
            positive = "true" if task.get("labels") == [False, True] else "1"
            served = positive if model.labels.m == 1 else model.labels.text(predicted.prediction)
            assert shares[served] == predicted.probability


def test_forms_of_a_row_agree(api: Program) -> None:
    """A row says the same alone, bare among many, and wrapped with an id."""
    one = api.client.post("/predict", json={"features": ROW, "id": "a1"}).json()
    instances = [ROW, {"features": ROW, "id": "a1"}, {"features": ROW, "id": None}]
    many = api.client.post("/predict", json={"instances": instances}).json()
    model = one.pop("model")

    assert ("kaboost", False, False) == (model["name"], model["cold_start"], model["stale"])
    assert "a1" == one["id"]
    assert many["predictions"][1] == one
    assert many["predictions"][0] == many["predictions"][2] == {k: one[k] for k in one if k != "id"}
    assert many["model"] == model


def test_no_rows_are_answered_with_none(api: Program) -> None:
    """An empty list is a list."""
    assert [] == post(api, b'{"instances": []}').json()["predictions"]


def test_missing_is_missing(api: Program) -> None:
    """A feature that is null and one that is absent are the same, as for labelled events."""
    absent = {name: value for name, value in ROW.items() if name != "age"}

    assert api.predict(absent) == api.predict(ROW | {"age": None})


def test_feature_may_be_called_features(serve: Start) -> None:
    """Bare features with a feature of that name are told from a wrapped row by its value."""
    wanted, program = serve(features={"schema": {"features": "number"}})
    publish(wanted, taught(wanted))
    program.ready()
    bare, wrapped = {"features": 2.0}, {"features": {"features": 2.0}}
    found = program.client.post("/predict", json={"instances": [bare, wrapped]}).json()

    assert found["predictions"][0] == found["predictions"][1]


def test_unknown_features_can_be_ignored(serve: Start) -> None:
    """With features.unknown: ignore an unknown feature changes no prediction, in either form of a
    row; the answer names it, and others name nothing.
    """
    wanted, program = serve(features={"schema": SCHEMA, "unknown": "ignore"})
    publish(wanted, taught(wanted))
    program.ready()
    instances = [ROW, ROW | {"new": [1]}, {"features": ROW | {"new": 1}}]
    answer = program.client.post("/predict", json={"instances": instances}).json()
    found, alone = answer["predictions"], program.predict(ROW | {"newer": None, "new": 1})

    assert found[0] == found[1] == found[2] == {name: alone[name] for name in found[0]}
    assert ["new"] == answer["ignored"]
    assert ["new", "newer"] == alone["ignored"]
    assert "ignored" not in program.predict()
    assert 4 == program.metric("kaboost_predict_features_ignored_total")


def test_not_ready_before_the_first_snapshot(
    serve: Start,
) -> None:
    """Without a snapshot the process lives but is not ready, and says when to ask again."""
    wanted, program = serve()
    until(lambda: program.probe(503))
    for answer in (
        program.client.get("/healthz/ready"),
        program.client.get("/model"),
        program.client.post("/predict", json={"features": ROW}),
    ):
        assert 503 == refusal(answer).status
        assert "1" == answer.headers["retry-after"]
    assert 200 == program.client.get("/healthz/live").status_code

    publish(wanted, taught(wanted, events=0))
    program.ready()

    assert program.predict()["model"]["cold_start"] is True


def test_not_ready_names_what_the_learner_waits_for(serve: Start) -> None:
    """A learner that lives and has published nothing has not found its broker or topic yet."""
    wanted, program = serve(kafka={"topic": "payments.v7", "bootstrap_servers": "kafka.here:9092"})

    def refused() -> dict[str, Any] | None:
        """A sign of life is no sign after some seconds, which a start may take."""
        FolderSnapshotStore(wanted.snapshots.directory).heartbeat()
        answer = program.probe(503)
        return answer if answer and "running" in answer["detail"] else None

    found = until(refused)

    assert found["detail"].endswith(
        "it publishes once it has reached the broker at kafka.here:9092 and found "
        "topic payments.v7 and the one for dead letters, see its log"
    )


def test_new_snapshot_is_served(serve: Start) -> None:
    """A published version is answered from within moments, while requests go on."""
    wanted, program = serve()
    for events in (0, 10, 20):
        version = publish(wanted, taught(wanted, events))
        program.ready()
        until(lambda version=version: program.predict()["model"]["version"] == version)
        found = program.predict()

        assert events == found["model"]["events_learned"]
        expected = snapshot(program, version).predict_one(ROW) if events else 0
        assert expected == found["prediction"]


ASK = """
import sys
from pathlib import Path
from kaboost.models import booster
from kaboost.service.config.settings import load
from kaboost.service.http.follower import Follower

def compiled():
    return {name: len(getattr(each, "signatures", [])) for name, each in vars(booster).items()}

served, _ = Follower(load(Path(sys.argv[1]))).refresh()
before = compiled()
served.codec.respond(served.codec.read(b'{"features": {}}'), served.snapshot.model, served.stamp)
print({name for name, count in compiled().items() if count > before[name]})
"""


@pytest.mark.parametrize("task", [{"kind": "binary"}, {"kind": "regression"}])
def test_no_caller_waits_for_a_compiler(tmp_path: Path, task: dict[str, str]) -> None:
    """What an answer needs is compiled before a snapshot is served."""
    wanted = settings(tmp_path, task=task)
    publish(wanted, taught(wanted))
    # A process of its own: this one has answered before.
    command = [sys.executable, "-c", ASK, str(tmp_path / "kaboost.yaml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert "set()" == done.stdout.strip()


def test_damaged_snapshot_is_passed_over(serve: Start) -> None:
    """A file that cannot be read is reported once, and the version before it goes on answering."""
    wanted, program = serve()
    good = publish(wanted, taught(wanted))
    program.ready()
    broken = program.folder / "snapshots" / f"snapshot-{good + 1:012d}.safetensors"
    broken.write_bytes(b"not a snapshot")
    until(lambda: [line for line in program.log() if line["level"] == "error"])
    time.sleep(0.5)

    assert good == program.predict()["model"]["version"]
    assert 1 == len([line for line in program.log() if line["level"] == "error"])
    newer = publish(wanted, taught(wanted, 70))
    until(lambda: program.predict()["model"]["version"] == newer)


def test_bad_small_files_do_not_stop_following(serve: Start) -> None:
    """Neither an empty status nor a whole file with another header keeps news from callers."""
    wanted, program = serve()
    good = publish(wanted, taught(wanted))
    program.ready()
    folder = wanted.snapshots.directory
    (folder / ".status.json").write_bytes(b"")
    header = {"kind": "snapshot", "version": good + 1}
    files.write(files.numbered(folder, "snapshot", good + 1), {}, header)
    until(lambda: program.events("snapshot unusable", version=good + 1))

    assert good == program.predict()["model"]["version"]
    newer = publish(wanted, taught(wanted, 70))
    until(lambda: program.predict()["model"]["version"] == newer)
    assert 1 == len([line for line in program.log() if line["level"] == "error"])


def test_folder_that_cannot_be_read_is_told(serve: Start) -> None:
    """Answers go on, stale after a while, readiness says why; and it is tried on."""
    wanted, program = serve(api={"stale_after_seconds": 3_600})
    publish(wanted, taught(wanted))
    program.ready()
    status = wanted.snapshots.directory / ".status.json"
    status.mkdir()
    until(lambda: program.predict()["model"]["stale"] is True)
    reason = program.ready()["reason"]
    status.rmdir()
    until(lambda: program.predict()["model"]["stale"] is False)

    assert "IsADirectoryError" in reason
    assert "" == program.ready()["reason"]
    assert 1 == len(program.events("snapshots not followed"))


def test_the_prior_of_nothing_is_the_negative_class(serve: Start) -> None:
    """Before any event the odds are even, and nothing speaks for the positive class."""
    wanted, program = serve(task={"kind": "binary", "labels": ["stays", "leaves"]})
    publish(wanted, taught(wanted, events=0))
    program.ready()
    found = program.predict()

    assert {"stays": 0.5, "leaves": 0.5} == found["probabilities"]
    assert ("stays", True) == (found["prediction"], found["model"]["cold_start"])


def test_many_rows_do_not_hold_up_one(serve: Start) -> None:
    """While thousands of rows are predicted, single ones are answered: they do not queue up."""
    wanted, program = serve(api={"max_rows": 30_000})
    publish(wanted, taught(wanted))
    program.ready()
    body = json.dumps({"instances": [ROW] * 30_000}).encode()
    with Program.connect(program.port) as other, ThreadPoolExecutor(1) as pool:
        many = pool.submit(lambda: other.post("/predict", content=body))
        answered = 0
        while not many.done():
            program.predict()
            answered += 1

    assert 200 == many.result().status_code
    assert answered > 3


def test_diverged_model_is_not_served_as_numbers(
    serve: Start,
) -> None:
    """A model whose weights are no numbers answers 503 with the reason, not null."""
    wanted, program = serve()
    model = taught(wanted)
    arrays = {name: array.copy() for name, array in model.to_arrays().items()}
    for name, array in arrays.items():
        if name.startswith("rule."):
            array[...] = np.nan
    publish(wanted, Model.from_arrays(model.describe(), arrays))
    program.ready()
    answer = program.client.post("/predict", json={"features": ROW})

    assert "diverged" in refusal(answer).detail
    assert 503 == answer.status_code


def test_stale_without_a_sign_of_the_learner(
    serve: Start,
) -> None:
    """Answers say `stale` when the learner gave no sign for the configured time."""
    wanted, program = serve(api={"stale_after_seconds": 1.0})
    publish(wanted, taught(wanted))
    program.ready()
    until(lambda: program.predict()["model"]["stale"] is True)

    assert program.ready()["stale"] is True
    FolderSnapshotStore(wanted.snapshots.directory).heartbeat()
    until(lambda: program.predict()["model"]["stale"] is False)


def test_stale_when_the_learner_has_stopped(
    serve: Start,
) -> None:
    """A learner that is down for good makes answers stale at once, and readiness says why."""
    wanted, program = serve(api={"stale_after_seconds": 3_600})
    publish(wanted, taught(wanted))
    program.ready()
    FolderSnapshotStore(wanted.snapshots.directory).write_status(
        "stopped", 3, "a gap in the offsets"
    )
    until(lambda: program.predict()["model"]["stale"] is True)
    learner = program.ready()["learner"]

    assert ("stopped", 3) == (learner["state"], learner["exit_code"])
    assert "a gap in the offsets" == learner["reason"]


def test_model_describes_what_answers(api: Program) -> None:
    """GET /model tells specification, features, losses beside the baselines, edges and offsets."""
    found = api.client.get("/model").json()
    model = snapshot(api, found["version"])

    assert model.spec == found["specification"]
    assert SCHEMA == found["features"]
    assert [0, 1] == found["labels"]
    assert {"0": 60} == found["offsets"]
    assert ["model", "prior", "last_label"] == list(found["progressive"])
    assert 0.5 == found["progressive"]["model"]["loss"]
    assert model.booster.progress.prefix_losses.tolist() == found["prefix_losses"]
    assert model.booster.progress.edges.tolist() == found["edges"]


def test_model_before_any_event_has_no_figures(
    serve: Start,
) -> None:
    """What nothing was seen of is null, for JSON knows no NaN."""
    wanted, program = serve()
    publish(wanted, taught(wanted, events=0))
    program.ready()
    found = program.client.get("/model").json()

    assert {None} == set(found["prefix_losses"])


def test_every_request_has_an_id(api: Program) -> None:
    """A caller's own if it is valid, else one that is made; also in problem documents."""
    headers = {"X-Request-ID": "r-1", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    assert "r-1" == post(api, b'{"features": {}}', **headers).headers["x-request-id"]
    refused = post(api, b"", **headers)
    assert "r-1" == refused.headers["x-request-id"] == refused.json()["request_id"]

    sent = ["", "a b", "x" * 129, '"', "é"]
    made = [post(api, b"{}", **{"X-Request-ID": each.encode()}) for each in sent]
    found = {answer.headers["x-request-id"] for answer in made}
    assert found == {answer.json()["request_id"] for answer in made}
    assert len(sent) == len(found)
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in found)


def test_metrics_count_every_request(serve: Start) -> None:
    """Rows, refusals, durations are counted by route and status; unknown paths share a series."""
    wanted, program = serve()
    publish(wanted, taught(wanted))
    program.ready()
    for _ in range(3):
        program.predict()
    program.client.post("/predict", json={"instances": [ROW] * 5})
    post(program, b"{}")
    post(program, b"nonsense")
    program.client.get("/predict")
    for path in ("/a", "/b"):
        program.client.get(path)
    model = "/v2/models/{model}/versions/{version}/ready"
    for name in ("kaboost", "other", "other%0A"):
        program.client.get(model.format(model=name, version=7))
    text = program.client.get("/metrics").text

    def count(name: str, **labels: str) -> float:
        return sum(metric(text, name, **labels))

    def requests(route: str, status: int) -> float:
        labels = {"http_route": route, "http_response_status_code": str(status)}
        return count("http_server_request_duration_seconds_count", **labels)

    assert 1 == count("kaboost_build_info")
    assert 8 == count("kaboost_predictions_total")
    assert 6 == count("kaboost_predict_duration_seconds_count")
    assert [1, 1, 1] == [
        count("kaboost_predict_errors_total", status=s) for s in ("400", "405", "422")
    ]
    assert [4, 1, 1] == [requests("/predict", status) for status in (200, 400, 405)]
    assert 2 == requests("", 404)
    assert 3 == requests(model, 404)
    assert 0 < count("http_server_request_duration_seconds_sum", http_route="/predict") < 10
