"""Malformed events by the thousand: random bytes, mutated events, a corpus."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from kaboost.service.storage.checkpoints import FolderCheckpointStore
from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service, read_all
from tests.chaos.traffic import MALFORMED_EVENTS
from tests.kafka.client import produce
from tests.service.faults import mutated
from tests.service.learning import until

GOOD = {"features": {"x": 0.5, "y": -1.0, "colour": "red", "flag": True}, "label": 1}
AT_ONCE = 200  # values in one example
ROUND = 2_000  # values in one round
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["x", "y", "colour", "label", "id", "é"]), inner, max_size=4
        ),
    ),
    max_leaves=8,
)


def values() -> st.SearchStrategy[bytes]:
    """Make values of records: bytes, events with bytes changed, events with fields changed."""
    good = json.dumps(GOOD).encode()
    fields = st.fixed_dictionaries({"features": TREES, "label": TREES}, optional={"id": TREES})
    columns = st.fixed_dictionaries(
        {}, optional={"x": SCALARS, "y": SCALARS, "colour": SCALARS, "flag": SCALARS, "z": SCALARS}
    )
    events = st.builds(lambda f, label: {"features": f, "label": label}, columns, SCALARS)
    trees = st.one_of(TREES, fields, events).map(lambda tree: json.dumps(tree).encode())
    return st.one_of(mutated(good), trees)


def generate(count: int, seed: int) -> Iterator[list[bytes]]:
    """Yield lists of values until there are `count`."""
    made: list[list[bytes]] = []

    @seeded(seed)
    @settings(
        max_examples=-(-count // AT_ONCE) + 5,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(values(), min_size=AT_ONCE, max_size=AT_ONCE))
    def collect(batch: list[bytes]) -> None:
        made.append(batch)

    collect()
    yield from made


@scenario(rounds=10, long=500)
def malformed_events(run: Run) -> None:
    """2,000 malformed events a round, from Hypothesis and a corpus: learned + dead = sent."""
    service = Service(run, events={"duplicates": {"window": 0}})
    with service.under_load(check=False):
        service.progress(200)
        assert service.feeder is not None
        service.feeder.stop()  # the others come behind: their order is known
        before = len(service.stream.sent)
        until(lambda: service.checkpoint == before)
        learned = _learned(service)
        total = 0
        for k in range(run.rounds):
            batch: list[bytes | None] = [*MALFORMED_EVENTS]
            for each in generate(ROUND - len(batch), run.seed + k):
                batch += each
            total += len(batch)
            produce(service.direct, service.topic, batch)
            until(lambda n=before + total: service.checkpoint == n, 300.0)
        letters = len({_offset(m) for m in read_all(service.direct, f"{service.topic}.dlq")})
        good = _learned(service) - learned
        dead = letters - len(service.stream.dead)
        run.events += total
        assert good + dead == total, f"learned {good} + dead letters {dead} of {total}"
        assert dead > total / 4
        run.notes.append(f"{dead:,} dead letters, {good:,} were good events")
        service.asker.stop()  # type: ignore[union-attr]
        service.check_predictions()
        assert not service.program.events("internal error")
        assert not service.program.events("learning failed, the event is looked for")


def _learned(service: Service) -> int:
    store = FolderCheckpointStore(service.settings.checkpoints.directory)
    return int(store.newest_header()["events_learned"])


def _offset(message: Any) -> int:
    return int(dict(message.headers())["__connect.errors.offset"])
