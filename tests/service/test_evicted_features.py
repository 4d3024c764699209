"""Names that never mattered do not keep later features out."""

from collections.abc import Callable

import pytest

from kaboost.service.config.settings import Settings
from kaboost.service.events.new_names import HOUR_MS
from tests.kafka.broker import Reachable
from tests.kafka.client import encode, produce
from tests.service.learning import gauge, learned, learning, until
from tests.service.test_new_names import START, restored

JUNK, LATER = 60, 9_000  # events: with a new name each; of other features, more than a window
TREES = {"kind": "reboosted_trees", "max_memory": 7}


def test_later_features_come_in_though_memory_was_full(
    topic: str,
    make_settings: Callable[..., Settings],
    broker: Reachable,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In the next hour, in the place of one that no event had for a whole window."""
    features = {"schema": "auto", "max_new_per_hour": 1_000}
    settings = make_settings(topic, features=features, model={"bank": TREES})
    rows = [{"x": float(k % 7), f"user_{k}": 1.0} for k in range(JUNK)]
    rows += [{"x": float(k % 7)} for k in range(LATER)]
    produce(
        broker.bootstrap, topic, [encode(row, k % 2) for k, row in enumerate(rows)], timestamp=START
    )
    later = [encode({"x": float(k % 7), "real": k % 5 / 2}, k % 2) for k in range(50)]
    produce(broker.bootstrap, topic, later, timestamp=START + HOUR_MS)
    with learning(settings) as running:
        until(lambda: learned(settings) == len(rows) + len(later))
        evicted = gauge(settings, "kaboost_features_evicted_total")
        assert 0 == running.stop()
    kinds = restored(settings).state.model.encoder.kinds
    (full,) = (vars(r) for r in caplog.records if r.message.startswith("no room for more"))
    (made,) = (vars(r) for r in caplog.records if "make way" in r.message)

    assert full["known"] == len(kinds)
    assert (["user_0"], ["real"], 1.0) == (made["evicted"], made["added"], evicted)
    assert "number" == kinds["real"]
    assert "user_0" not in kinds
