"""Proofs of the README's section about late labels, on a real broker and a real schema registry."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient

from kaboost.service.storage.checkpoints import Checkpoint, FolderCheckpointStore
from kaboost.service.storage.waiting import EXPIRED, JOINED, WaitingStore
from tests.e2e import chargebacks
from tests.e2e.chargebacks import DAY, T0, Record, Streams
from tests.e2e.proof import headers, read_all
from tests.kafka.broker import Broker
from tests.kafka.client import create_topic
from tests.kafka.registry import SchemaRegistry
from tests.ports import free_port
from tests.service.learning import until

PARTITIONS = 4
PATIENCE = 300.0
PLACE = ("topic", "partition", "offset")
PAYMENTS, DAYS, KILLS = 200_000, 120.0, 20


class Shop:
    """A learner with the README's settings, and what is sent to its two topics."""

    def __init__(
        self, folder: Path, broker: Broker, registry: SchemaRegistry, count: int, days: float
    ) -> None:
        self.folder = folder
        self.payments = chargebacks.payments(count, days, seed=3)
        self.topic, self.labels_topic = chargebacks.readme_topics()
        with SchemaRegistryClient({"url": registry.url}) as client:
            self.streams = Streams(self.payments, client, f"{self.topic}-value")
        for name in (self.topic, self.labels_topic):
            create_topic(broker.bootstrap, PARTITIONS, name=name)
        self.bootstrap = broker.bootstrap
        (folder / "kaboost.yaml").write_text(chargebacks.readme_settings())
        self._environment = {
            **os.environ,
            "KABOOST_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap,
            "KABOOST_EVENTS__SCHEMA_REGISTRY": f'{{"url": "{registry.url}"}}',
            "KABOOST_EVENTS__WEIGHT": "weight",
            "KABOOST_METRICS__PORT": str(free_port()),
            "KABOOST_CHECKPOINTS__EVERY_SECONDS": "1",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        self.sent = 0

    @contextmanager
    def learner(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run a learner; it is killed at the end if it runs still."""
        command = [sys.executable, "-m", "kaboost.service.cli", "learner"]
        with (self.folder / "learner.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--config", "kaboost.yaml"],
                cwd=self.folder, env=self._environment, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def send(self, since: float, end: float) -> None:
        """Send the records of both topics of some time; a label's partition is not that of its
        features.
        """
        client = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        both = [(self.topic, 0, record) for record in self.streams.features]
        both += [(self.labels_topic, 1, record) for record in self.streams.labels]
        for topic, shift, record in sorted(both, key=lambda each: each[2].time):
            if since <= record.time < end:
                partition = (record.order + shift) % PARTITIONS
                client.produce(topic, record.value, partition=partition)
                client.poll(0)
                self.sent += 1
        assert not client.flush(60)

    def checkpoint(self) -> Checkpoint | None:
        """Return the newest checkpoint."""
        return FolderCheckpointStore(self.folder / "data" / "checkpoints").restore()[0]

    def consumed(self) -> int:
        """Return how many records of both topics the newest checkpoint has."""
        found = self.checkpoint()
        if found is None:
            return 0
        late = found.state.late
        assert late is not None
        return sum(found.state.offsets.values()) + sum(late.offsets.values())

    def await_records(self, process: subprocess.Popen[bytes], count: float) -> None:
        """Wait until a checkpoint has more than so many records."""
        until(lambda: process.poll() is not None or self.consumed() > count, PATIENCE)

    def await_all(self, process: subprocess.Popen[bytes], waiting: int | None = None) -> None:
        """Wait until a checkpoint has all that was sent; with `waiting`, also nothing to expire."""

        def reached() -> bool:
            found = self.checkpoint()
            if process.poll() is not None:
                return True
            expected = {"waiting": waiting, "early": 0, "held": 0}
            rest = found is not None and found.header["labels"] == expected
            return self.consumed() == self.sent and (waiting is None or rest)

        until(reached, PATIENCE)
        assert process.poll() is None, (self.folder / "learner.log").read_text()[-3000:]

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Send a payment so late that every other one expires, and stop when they have."""
        last = self.payments[-1]
        much_later = last.time + chargebacks.WAIT + 6 * DAY
        row = {**last.row, "order_id": 10**9, "created_at": at(much_later)}
        record = Record(much_later, 0, self.streams.created(last._replace(row=row)))
        self.streams.features.append(record)
        self.send(much_later, much_later + 1.0)
        self.await_all(process, waiting=1)
        process.terminate()
        assert process.wait(60) == 0


@pytest.fixture
def shop(
    tmp_path: Path, own_broker: Broker, schema_registry: SchemaRegistry
) -> Callable[[int, float], Shop]:
    """Make a shop of so many payments in so many days: `shop(count, days)`."""
    return partial(Shop, tmp_path, own_broker, schema_registry)


def at(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC)


def expect_every_pair_once(shop: Shop) -> None:
    """Look from outside: the importances of all that was learned, the label of every payment that
    the store remembers, and the dead letters.
    """
    found = shop.checkpoint()
    assert found is not None
    late, validation = found.state.late, found.state.validation
    assert late is not None
    total = sum(payment.weight for payment in shop.payments)
    assert float(validation.weight_sum) == pytest.approx(total, rel=1e-9)
    corrections = sum(payment.form in ("corrected", "after") for payment in shop.payments)
    assert 0 <= found.state.events_learned - len(shop.payments) <= corrections
    store = WaitingStore(shop.folder / "data" / "labels" / found.header["run"], 2**24)
    store.begin(late.generation)
    since = shop.payments[-1].time - 20 * DAY  # for twice `wait` entries are remembered
    remembered = [payment for payment in shop.payments if payment.time > since]
    entries = store.find([str(payment.id) for payment in remembered])
    store.close()
    for payment, entry in zip(remembered, entries, strict=True):
        assert entry is not None, payment
        state = EXPIRED if payment.form == "missing" else JOINED
        assert (entry.state, entry.label) == (state, payment.fraud), payment
    letters = [headers(letter) for letter in read_all(shop.bootstrap, f"{shop.topic}.dlq")]
    assert {letter["kaboost.error.code"] for letter in letters} == {"label_unmatched"}
    places = {tuple(letter[f"__connect.errors.{at}"] for at in PLACE) for letter in letters}
    assert len(places) == shop.streams.unmatched  # after a kill some are written again


def test_the_readmes_lines(shop: Callable[[int, float], Shop]) -> None:
    """Its YAML as it stands learns every payment once: labels that come three weeks late, early,
    twice, corrected, after 30 days, never, or for nobody.
    """
    small = shop(3000, 40.0)
    with small.learner() as process:
        small.send(0.0, math.inf)
        small.finish(process)

    expect_every_pair_once(small)


@pytest.mark.timeout(1800)
def test_every_pair_is_learned_once_over_kills(shop: Callable[[int, float], Shop]) -> None:
    """200,000 payments and 20 times kill -9. Before the end, where labels still come, the model is
    within 1 % of one that had all labels at once.
    """
    large = shop(PAYMENTS, DAYS)
    end, draw, kills = T0 + DAYS * DAY, random.Random(8), 0
    for part in range(KILLS + 1):
        with large.learner() as process:
            since = T0 - DAY + (end - T0 + DAY) * part / (KILLS + 1)
            before = large.consumed()
            large.send(since, T0 - DAY + (end - T0 + DAY) * (part + 1) / (KILLS + 1))
            if part < KILLS:
                large.await_records(process, before + draw.random() * (large.sent - before))
                time.sleep(draw.random())
                assert process.poll() is None, "it ended by itself"
                kills += large.consumed() < large.sent
                process.kill()
                continue
            large.await_all(process)
            found = large.checkpoint()
            assert found is not None
            large.send(end, math.inf)
            large.finish(process)

    assert kills >= KILLS // 2, "of the kills so many fell inside the stream"
    expect_every_pair_once(large)
    unseen = chargebacks.payments(20_000, 10.0, seed=4)
    served = chargebacks.log_loss(found.state.model, unseen)
    best = chargebacks.log_loss(chargebacks.at_once(large.payments, until=end), unseen)
    print(f"log-loss {served:.4f}, {best:.4f} with all labels at once")
    assert served <= 1.01 * best
