"""Paged by an alert: the heading of the page alone tells which of five faults it is."""

import itertools
import json
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from kaboost.service.config.settings import Settings
from tests.browser import browser, opened
from tests.kafka.broker import Broker
from tests.kafka.client import create_topic
from tests.service.learning import until
from tests.service.serving import Program, running, settings

SCHEMA = {"amount": "number", "age": "number", "country": "category"}
EVENTS, PAUSE_SECONDS = 20, 0.05  # of a burst, and between two
LEARNED = 4_000  # events before the first fault
COMPILED_SECONDS = 240.0  # at the first start of this machine
PATIENCE_MS = 60_000
RECORD = """() => {
  const word = document.getElementById("word");
  window.headings = [word.textContent];
  new MutationObserver(() => {
    if (window.headings.at(-1) !== word.textContent) window.headings.push(word.textContent);
  }).observe(word, { childList: true, characterData: true, subtree: true });
}"""


class Shop(threading.Thread):
    """Payments and their labels, with a fault that a test sets."""

    def __init__(self, bootstrap: str, payments: str, labels: str) -> None:
        super().__init__(daemon=True)
        self.fault = ""
        self.has_drifted = False
        self._topics = payments, labels
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._ended = threading.Event()
        self._draw = random.Random(1)
        self.sent = 0
        self._owed: list[tuple[str, bytes]] = []  # labels that are late

    def run(self) -> None:
        while not self._ended.wait(PAUSE_SECONDS):
            self.send(EVENTS)

    def send(self, count: int) -> None:
        """Send some payments, and their labels."""
        for _ in range(count):
            self._send(f"p{self.sent}", self.fault)
            self.sent += 1
        if self.fault != "no labels":
            for id_, value in self._owed:
                self._producer.produce(self._topics[1], value, id_)
            self._owed = []
        self._producer.flush()

    def finish(self) -> None:
        """Send no more."""
        self._ended.set()
        self.join()
        del self._producer  # else it logs that the broker has gone

    def _send(self, id_: str, fault: str) -> None:
        draw = self._draw
        amount, age = draw.uniform(5.0, 100.0), draw.gauss(40.0, 10.0)
        country = draw.choice(["PT", "DE", "FR"])
        is_fraud = (amount > 50.0) != (self.has_drifted and age > 40.0)
        features: dict[str, Any] = {"amount": amount, "age": age, "country": country}
        if fault == "missing" and draw.random() < 0.6:
            features["amount"] = None
        elif fault == "unit":
            features["amount"] = 100.0 * amount
        elif fault == "poison" and draw.random() < 0.3:
            features["age"] = "old"
        payment = {"id": id_, "features": features}
        self._producer.produce(self._topics[0], json.dumps(payment).encode(), id_)
        label = json.dumps({"id": id_, "label": int(is_fraud)}).encode()
        if features["age"] != "old":
            self._owed.append((id_, label))


@pytest.fixture
def wanted(tmp_path: Path, broker: Broker) -> Settings:
    """Settings of the default model, with labels that come on their own topic."""
    payments, labels = (create_topic(broker.bootstrap) for _ in range(2))
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": payments, "group_id": payments}
    late = {"topic": labels, "id": "id", "label": "label", "directory": str(tmp_path / "labels")}
    return settings(tmp_path, model={}, kafka=kafka, labels=late, features={"schema": SCHEMA})


@contextmanager
def selling(settings: Settings) -> Iterator[Shop]:
    """Run a shop that has sold for a while."""
    shop = Shop(settings.kafka.bootstrap_servers, settings.kafka.topic, str(settings.labels.topic))
    shop.send(LEARNED)
    shop.start()
    yield shop
    shop.finish()


class Heading:
    """What somebody reads who looks at the top of the page only."""

    def __init__(self, page: Page) -> None:
        self._page = page
        page.evaluate(RECORD)

    def shows(self, word: str, level: str, *texts: str) -> None:
        """Expect a heading, its colour, and words below it."""
        expect(self._page.locator("#word")).to_have_text(word, timeout=PATIENCE_MS)
        expect(self._page.locator("#state")).to_have_class(level)
        for text in texts:
            expect(self._page.locator("#reason")).to_contain_text(re.compile(text))

    def seen(self) -> list[str]:
        """Return the headings since the last call, each change once."""
        seen: list[str] = self._page.evaluate("() => window.headings.splice(0)")
        self._page.evaluate(
            "() => window.headings.push(document.getElementById('word').textContent)"
        )
        return [each for each in seen if each != "No response"]  # of a machine with much to do


@pytest.mark.timeout(500)
def test_the_heading_tells_the_fault(wanted: Settings) -> None:
    """A broken feature, a changed unit, no labels, poison, drift, a frozen and a dead learner: each
    by its heading, and between them all is well; nothing comes and goes.
    """
    with running("serve", wanted) as program, selling(wanted) as shop, browser() as chromium:
        until(lambda: program.events_learned() >= shop.sent - EVENTS, COMPILED_SECONDS)
        with opened(chromium, str(program.client.base_url)) as page:
            heading = Heading(page)
            heading.shows("Learning", "good")
            find_faults_of_the_stream(shop, heading)
            find_faults_of_the_learner(program, heading)


def find_faults_of_the_stream(shop: Shop, heading: Heading) -> None:
    heading.seen()
    shop.has_drifted = True
    heading.shows("The relation has changed", "warning", "Drift alarm at event [0-9,]+; loss")
    heading.shows("Learning", "good", "Recovered from a change of the relation")
    assert ["Learning", "The relation has changed", "Learning"] == heading.seen()

    follows: set[str] = set()  # what a fault causes: its heading may come first, or last longer

    def with_fault(fault: str, word: str, level: str, *texts: str) -> None:
        heading.seen()
        shop.fault = fault
        heading.shows(word, level, *texts)
        shop.fault = ""
        heading.shows("Learning", "good")
        seen = [each for each in heading.seen() if each not in follows]
        assert ["Learning", word, "Learning"] == [each for each, _ in itertools.groupby(seen)]

    with_fault("poison", "Some records are rejected", "warning", "code feature_type", "dlq")
    # First: of the backlog a longer pause is usual.
    follows.update(("Waiting for labels", "Labels are late"))
    with_fault("no labels", "Labels have stopped", "bad", "No label since .* wait for their label")
    follows.add("The relation has changed")
    missing = "Feature amount is missing in [0-9]+ % of events since .*; usually 0 %"
    with_fault("missing", "A feature is broken", "warning", missing)
    unit = "Feature amount is about [0-9]+ times what it was"
    with_fault("unit", "A feature is broken", "warning", unit)


def find_faults_of_the_learner(program: Program, heading: Heading) -> None:
    learner = program.child("learner")
    learner.suspend()
    on = "redictions are answered from snapshot"
    heading.shows("Learner gives no sign of life", "bad", on)
    learner.resume()
    heading.shows("Learning", "good")
    heading.seen()
    learner.kill()
    heading.shows("Learner restarting", "bad", "SIGKILL", on)
    heading.shows("Learning", "good")
