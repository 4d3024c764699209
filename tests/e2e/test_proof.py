"""Proofs on a real broker: each event once in the state over 20 kills, poison kept, predictions
never failing.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from kaboost.models.evaluation.baselines import (
    PREDICTORS,
    progressive_validation,
    record,
)
from kaboost.models.model import Model
from kaboost.models.state.tree import to_arrays
from kaboost.service.demo import producer
from kaboost.service.events.json import JsonDecoder
from kaboost.service.storage import files, snapshots
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.e2e import proof
from tests.models.naive_encoding import NaiveEncoder
from tests.naive import NaiveBooster
from tests.specs import LINEAR

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def run(broker, tmp_path_factory):
    """The one long run that every proof of this file reads."""
    return proof.Run(tmp_path_factory.mktemp("proof"), broker.bootstrap, "proof.events.v1").go()


@pytest.fixture(scope="module")
def alone(run):
    """The same events through `learn` in this process, in other batches."""
    model = Model("binary", LINEAR, producer.schema(), ["DOWN", "UP"])
    decoder = JsonDecoder(model.encoder.kinds, model.labels)
    beside = progressive_validation(model.labels)
    for first in range(0, len(run.good), 777):
        table, y, w, *_ = decoder.decode(run.good[first : first + 777])
        record(beside, model.learn(table, y, w), y, w)
    return model, beside


@pytest.fixture(scope="module")
def final(run):
    """The learner's last checkpoint."""
    restored, fallbacks = FolderCheckpointStore(run.folder / "checkpoints").restore()
    assert fallbacks == 0
    return restored


def test_every_event_is_in_the_state_once(run, alone, final):
    """After 20 kills the final arrays are those of an uninterrupted run, bit for bit."""
    model, beside = alone
    left, right = model.to_arrays(), final.state.model.to_arrays()

    assert final.state.offsets == {0: len(run.plan)}
    assert int(final.state.model.booster.progress.events) == len(run.good) == 45_312
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), name
    seen = to_arrays(beside, "validation")
    ours = to_arrays(final.state.validation, "validation")
    for name in seen:
        assert seen[name].tobytes() == ours[name].tobytes(), name
    assert seen["validation.reliability.weight"].sum() > 1000.0


def test_kills_were_real(run):
    """Each kill fell inside the stream and left events to replay; three fell into a write."""
    assert len(run.kills) >= proof.KILLS
    assert sum(kill.writing for kill in run.kills) >= proof.WRITE_KILLS
    for kill in run.kills:
        assert kill.checkpoint < kill.learned_to < len(run.plan)
        assert kill.produced < len(run.plan)
    assert run.codes == {"learner": 0, "api": 0}


def test_better_than_both_baselines(final):
    """The progressive log-loss is below that of the prior and of the last label."""
    losses = dict(zip(PREDICTORS, final.state.validation.mean_loss, strict=True))
    print({name: round(float(loss), 4) for name, loss in losses.items()})

    assert losses["model"] < losses["last_label"] < losses["prior"]
    assert losses["prior"] == pytest.approx(0.68, abs=0.01)
    assert losses["last_label"] == pytest.approx(0.415, abs=0.002)


def test_first_two_thousand_equal_the_naive_twin(run):
    """Encoder, bank, rule and loss together say what their naive twins say."""
    model = Model("binary", LINEAR, producer.schema(), ["DOWN", "UP"])
    decoder = JsonDecoder(model.encoder.kinds, model.labels)
    table, y, w, *_ = decoder.decode(run.good[:2000])
    scores = model.learn(table, y, w).scores
    encoder = NaiveEncoder(producer.schema())
    twin = NaiveBooster(model.spec, model.encoder.width, 1)
    expected = []
    for row, label in zip(run.rows[:2000], y, strict=True):
        expected.append(twin.learn(encoder.learn(row, 1.0), [2 * label - 1]))

    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        model.booster.progress.prefix_loss_sum, twin.prefix_loss_sum, rtol=1e-9
    )


def test_poison_is_kept_whole(run):
    """Each malformed event is in the dead-letter topic with its code, bytes, key and headers; no
    other is.
    """
    letters = {}
    for letter in run.dead_letters():
        letter_headers = proof.headers(letter)
        assert letter_headers["__connect.errors.topic"] == run.topic
        letters[int(letter_headers["__connect.errors.offset"])] = letter
    expected = {k: one for k, one in enumerate(run.plan) if one[1] != b"good"}

    assert letters.keys() == expected.keys()
    assert len(letters) == proof.POISON
    for k, (value, key) in expected.items():
        letter_headers = proof.headers(letters[k])
        assert letters[k].value() == value
        assert letters[k].key() == key
        assert letter_headers["trace"] == key.decode()
        assert letter_headers["kaboost.error.code"] == key.decode().rpartition("-")[0], value


def test_predictions_never_failed(run):
    """At least 50 requests a second were answered throughout, by versions that only grow."""
    seconds = run.answers[-1].at - run.answers[0].at
    versions = [answer.body["model"]["version"] for answer in run.answers]

    assert Counter(answer.status for answer in run.answers) == {200: len(run.answers)}
    assert len(run.answers) / seconds >= 50
    assert all(a <= b for a, b in pairwise(versions))
    assert len(set(versions)) >= 20
    for kill, after in pairwise([*run.kills, None]):
        until = after.version if after else max(versions)
        assert any(kill.version < v <= until for v in versions), kill


def test_predicting_changes_nothing(run):
    """100,000 predictions leave the snapshot's file untouched; so is the learner, see above."""
    before, after, answered = run.predicted
    assert answered == 100_000
    assert before == after


def test_answers_come_from_the_snapshot_they_name(run):
    """For every version that answered, one answer is reproduced exactly from its file."""
    first = {answer.body["model"]["version"]: answer for answer in reversed(run.answers)}
    for version, answer in first.items():
        path = files.numbered(run.folder / "snapshots", "snapshot", version)
        before = path.read_bytes()
        model = snapshots.load(path).model
        probabilities = model.predict_proba_one(answer.features)
        assert answer.body["probabilities"] == probabilities
        cold = answer.body["model"]["cold_start"]  # then it is the negative class
        expected = model.classes_[0] if cold else model.predict_one(answer.features)
        assert answer.body["prediction"] == expected
        assert path.read_bytes() == before
