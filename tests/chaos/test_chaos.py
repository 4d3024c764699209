"""A part of the chaos suite: `make chaos` runs all of it."""

import pytest

from tests.chaos import mutations
from tests.chaos.catalogue import SCENARIOS
from tests.chaos.scenario import SharedBroker, running
from tests.kafka.broker import Reachable

SEED = 27
SHORT = {"kill-learner": 3, "disk-slow": 1, "power-cut": 1, "two-learners-one-group": 1}


@pytest.fixture
def shared(broker: Reachable) -> SharedBroker:
    """The broker of all tests."""
    return SharedBroker(broker.bootstrap)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", SHORT)
def test_scenario(name: str, shared: SharedBroker) -> None:
    """A scenario of few rounds holds."""
    with running(SEED, SHORT[name], shared) as run:
        SCENARIOS[name].function(run)
        assert run.events > 0


@pytest.mark.timeout(240)
def test_a_broken_guarantee_is_caught(
    shared: SharedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suite can fail: a service without durable names of its files does."""
    (mutation,) = [each for each in mutations.MUTATIONS if each.name == "no_fsync_of_folders"]
    monkeypatch.setenv("CHAOS_MUTATION", mutation.name)
    with (
        running(SEED, mutation.rounds, shared) as run,
        pytest.raises(AssertionError, match="no checkpoint has survived"),
    ):
        SCENARIOS[mutation.scenario].function(run)


def test_each_scenario_and_mutation_is_described() -> None:
    """The names of mutations are those of functions, and their scenarios exist."""
    for mutation in mutations.MUTATIONS:
        assert getattr(mutations.mutants, mutation.name).__doc__
        assert mutation.scenario in SCENARIOS
    assert all(each.about.endswith(".") for each in SCENARIOS.values())
