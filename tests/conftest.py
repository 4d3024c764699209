"""What many tests share: a real broker, fresh topics, records on them, settings of a learner."""

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import hypothesis
import pytest

from kaboost.service.config.settings import Settings
from tests.kafka.broker import Broker, BrokerUnavailable, Given, Reachable
from tests.kafka.client import Letter, create_topic, produce, read_letters
from tests.kafka.registry import SchemaRegistry
from tests.long_tests import LISTED, read
from tests.service.learning import settings_for

# The product of all models runs apart and without the JIT: tests/contracts/test_contracts.py does.
collect_ignore = [] if "PRODUCT_PART" in os.environ else ["contracts/product.py"]

# The same examples on every machine, and no verdict about how fast it is.
hypothesis.settings.register_profile("kaboost", derandomize=True, deadline=None)
hypothesis.settings.load_profile("kaboost")


LONG = [test.pattern for test in read(Path(os.environ.get("LONG_TESTS", LISTED)))]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of long.txt, or of those chosen from it."""
    for item in items:
        if any(fnmatchcase(item.nodeid, pattern) for pattern in LONG):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def broker() -> Iterator[Reachable]:
    """One broker for all tests; without Java the tests fail with the remedy."""
    given = os.environ.get("KABOOST_TEST_BOOTSTRAP")
    if given:
        yield Given(given)
    else:
        yield from started()


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A broker of this test alone: it may stop and kill it."""
    yield from started()


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[SchemaRegistry]:
    """One schema registry for all tests; without Java they fail with the remedy."""
    registry = SchemaRegistry()
    try:
        registry.start()
    except BrokerUnavailable as err:
        pytest.fail(str(err), pytrace=False)
    try:
        yield registry
    finally:
        registry.close()


def started() -> Iterator[Broker]:
    """Start a broker; it is gone at the end."""
    try:
        own = Broker()
        own.start()
    except BrokerUnavailable as err:
        pytest.fail(str(err), pytrace=False)
    try:
        yield own
    finally:
        own.close()


@pytest.fixture
def make_topic(broker: Reachable) -> Callable[..., str]:
    """Create fresh topics: `make_topic(partitions=1, config={})` gives a name of its own."""
    return partial(create_topic, broker.bootstrap)


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """A fresh topic of one partition."""
    return make_topic()


@pytest.fixture
def send(broker: Reachable) -> Callable[..., None]:
    """Write records: `send(topic, values, partition=0, key=None, headers=None)`."""
    return partial(produce, broker.bootstrap)


@pytest.fixture
def dead_letters(broker: Reachable) -> Callable[..., list[Letter]]:
    """Read dead letters back: `dead_letters(topic, count, timeout)`, those of a source topic."""
    return partial(read_letters, broker.bootstrap)


@pytest.fixture
def make_settings(broker: Reachable, tmp_path: Path) -> Callable[..., Settings]:
    """Make settings of a topic, files in this test's folder: `make_settings(topic, kafka={})`."""
    return partial(settings_for, broker.bootstrap, tmp_path)
