"""Labels on a topic of their own, and a learner that is killed: what became of all features."""

import json
import signal

from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service, pause, read_all
from tests.chaos.traffic import MALFORMED_EVENTS
from tests.kafka.client import create_topic, produce
from tests.service.learning import rows, until
from tests.service.serving import PATIENCE
from tests.service.test_late_labels import T0, feature_record

SHARE = 300  # features of one round
WAIT = 1_000.0  # seconds by the records' times until features expire


@scenario(rounds=4, long=100)
def late_labels(run: Run) -> None:
    """kill -9 of a learner of late labels: each feature is joined, expires, or waits."""
    labels_topic = create_topic(run.bootstrap)
    service = Service(
        run,
        events={"id": "order", "timestamp": "at"},
        labels={
            "topic": labels_topic,
            "id": "order",
            "label": "result",
            "timestamp": "at",
            "wait": f"{WAIT:g}s",
            "directory": str(run.folder / "labels"),
        },
    )
    sent = {"features": 0, "labels": 0, "dead": 0, "duplicates": 0}
    service.start("learner")
    try:
        for k in range(run.rounds):
            _send_round(run, service, labels_topic, k, sent)
            pause(run, 0.0, 1.0)
            service.program.process.kill()
            service.program.process.wait()
            service.program.client.close()
            service.start("learner")
        last = T0 + run.rounds * SHARE + 10 * WAIT  # everything before it expires
        produce(service.direct, service.topic, [feature_record(10**9, rows(1)[0][0], last)])
        produce(service.direct, labels_topic, [_label(10**9 + 1, 1, last)])
        until(lambda: service.checkpoint == service.end_of_topic(), PATIENCE)
        until(lambda: _waiting(service) == 1, PATIENCE)  # the last one
        assert service.program.end(signal.SIGTERM) == 0
        _check(run, service, sent)
    finally:
        service.program.close()


def _send_round(run: Run, service: Service, labels: str, k: int, sent: dict[str, int]) -> None:
    """Write features, some malformed and some twice, and labels for about two thirds of them."""
    first, made = k * SHARE, rows(SHARE, seed=run.seed + k)
    values: list[bytes | None] = []
    answers = []
    for n, (features, label) in enumerate(made, first):
        record = feature_record(n, features, T0 + n)
        values.append(record)
        if run.draw.random() < 0.03:
            values.append(record)
            sent["duplicates"] += 1
        if run.draw.random() < 0.03:
            values.append(run.draw.choice(MALFORMED_EVENTS))
            sent["dead"] += 1
        if run.draw.random() < 0.66:
            answers.append(_label(n, label, T0 + n + 5.0))
    produce(service.direct, service.topic, values)
    produce(service.direct, labels, answers)
    sent["features"] += len(made)
    sent["labels"] += len(answers)
    run.events += len(values) + len(answers)


def _label(number: int, label: int, time: float) -> bytes:
    return json.dumps({"order": number, "result": label, "at": int(time * 1000)}).encode()


def _waiting(service: Service) -> int:
    store = FolderCheckpointStore(service.settings.checkpoints.directory)
    return int(store.newest_header().get("labels", {}).get("waiting", -1))


def _check(run: Run, service: Service, sent: dict[str, int]) -> None:
    checkpoint, damaged = FolderCheckpointStore(service.settings.checkpoints.directory).restore()
    assert checkpoint is not None
    assert damaged == 0
    late = checkpoint.state.late
    assert late is not None
    counts = late.counts
    assert counts.joined == sent["labels"], f"joined {counts.joined} of {sent['labels']} labels"
    assert checkpoint.header["events_learned"] == sent["labels"]
    expired = sent["features"] - sent["labels"]
    assert counts.expired == expired, f"expired {counts.expired} of {expired}"
    total = service.end_of_topic()
    parts = (counts.joined, counts.expired, 1, sent["dead"], sent["duplicates"])
    assert sum(parts) == total, f"{parts} of {total}"
    letters = {
        dict(letter.headers())["__connect.errors.offset"]
        for letter in read_all(service.direct, f"{service.topic}.dlq")
        if dict(letter.headers())["__connect.errors.topic"].decode() == service.topic
    }
    assert len(letters) == sent["dead"], f"{len(letters)} dead letters of {sent['dead']}"
    run.notes.append(f"joined {counts.joined:,}, expired {counts.expired:,}")
