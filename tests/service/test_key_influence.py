"""No key of records has more than its share in what is learned, over restarts as well."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.key_influence import MEMORY, KeyInfluence
from tests.kafka.client import encode
from tests.service.learning import SCHEMA, gauge, learned, learning, rows, settings_for, until
from tests.specs import LINEAR

Make = Callable[..., Settings]
Send = Callable[..., None]
LIMIT = 0.01  # ten of about the last thousand events


def naive(keys: list[Any], w: list[float], limit: float) -> list[float]:
    """Sum up all events before, each time."""
    found: list[float] = []
    counted: list[tuple[Any, float]] = []  # of positive weight
    decay = 1.0 - 1.0 / MEMORY
    for key, weight in zip(keys, w, strict=True):
        if weight == 0.0:
            found.append(0.0)
            continue
        own = [(k, x) for k, (one, x) in enumerate(counted) if one == key]
        before = [decay ** (len(counted) - k) * x for k, x in own]
        given = [x for x in w[: len(found) + 1] if x > 0.0]
        ages = decay ** np.arange(len(given))[::-1]
        mean = float(ages @ given / ages.sum())
        allowed = min(weight, max(0.0, limit * MEMORY * mean - sum(before)))
        found.append(weight if key is None else allowed)
        counted.append((key, found[-1]))
    return found


def test_weights_are_those_of_a_naive_sum() -> None:
    """In batches or not, over a restart or not; events without a key keep theirs."""
    draw = np.random.default_rng(2)
    keys = [None if k > 7 else f"k{k}".encode() for k in draw.integers(0, 9, 1_500)]
    w = draw.choice([0.0, 0.5, 1.0, 3.0], 1_500)
    influence, found = KeyInfluence(0.05), []
    for first in range(0, 1_500, 300):
        part = slice(first, first + 300)
        found.append(influence.weigh(keys[part], w[part]))
        influence = KeyInfluence.from_arrays(influence.to_arrays()).limited_to(0.05)

    np.testing.assert_allclose(np.concatenate(found), naive(keys, w.tolist(), 0.05), atol=1e-9)


def test_states_share_nothing() -> None:
    """Each begins with the same empty default, and goes on alone."""
    shared = KeyInfluence()
    one, other = shared.limited_to(LIMIT), shared.limited_to(LIMIT)
    one.weigh([b"a"] * 20, np.ones(20))

    assert [1.0] == other.weigh([b"a"], np.ones(1)).tolist()
    again = one.limited_to(2.0 * LIMIT)
    assert one.weigh([b"a"], np.ones(1))[0] < again.weigh([b"a"], np.ones(1))[0]


def test_rare_keys_are_forgotten() -> None:
    """A million keys take no more than those of the last some thousand events."""
    influence = KeyInfluence(0.05)
    for first in range(0, 30_000, 1_000):
        influence.weigh([b"%d" % k for k in range(first, first + 1_000)], np.ones(1_000))

    assert influence.to_arrays()["influence.keys"].size < 9_000
    assert {} == influence.limited_to(None).to_arrays()


def test_a_loud_key_teaches_its_share(topic: str, make_settings: Make, send: Send) -> None:
    """The state is that of the same events with the reduced weights; a restart changes nothing."""
    settings = make_settings(topic, events={"max_influence_per_key": LIMIT})
    quiet, loud = rows(60), [(x, 1 - y) for x, y in rows(60, seed=2)]
    with learning(settings) as running:
        send(topic, [encode(*one) for one in loud[:30]], key=b"loud")
        until(lambda: learned(settings) == 30)
        until(lambda: gauge(settings, "kaboost_influence_limited_total") == 20.0)
        assert 0 == running.stop()
    with learning(settings) as running:
        send(topic, [encode(*one) for one in loud[30:]], key=b"loud")
        send(topic, [encode(*one) for one in quiet])
        until(lambda: learned(settings) == 120)
        assert 0 == running.stop()

    twin = Model("binary", LINEAR, SCHEMA)
    stream = [*loud, *quiet]
    keys = [b"loud"] * 60 + [None] * 60
    w = KeyInfluence(LIMIT).weigh(keys, np.ones(120))
    twin.learn_many([x for x, _ in stream], [y for _, y in stream], w)
    checkpoint, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    assert checkpoint is not None
    for name, array in twin.to_arrays().items():
        np.testing.assert_array_equal(array, checkpoint.state.model.to_arrays()[name], name)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"labels": {"topic": "l", "id": "i"}}, "needs labels in the events"),
        ({"model": {"river": "linear_model.LogisticRegression"}}, "knows no weights"),
    ],
)
def test_it_is_refused_where_weights_have_no_place(
    tmp_path: Path, sections: dict[str, Any], words: str
) -> None:
    """Labels that come later, and River models."""
    events = {"max_influence_per_key": LIMIT}
    with pytest.raises(ConfigError, match=words):
        settings_for("127.0.0.1:1", tmp_path, "t", events=events, **sections)
