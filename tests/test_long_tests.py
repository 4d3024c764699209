"""Long tests run where their files changed, and each of them at some commit."""

from collections.abc import Iterable

import pytest

from tests import long_tests
from tests.long_tests import ALL, MODELS, LongTest, changed, choose, read

TESTS = [LongTest(f"tests/models/test_{k}.py::*", 10.0 * (k + 1)) for k in range(10)]


def test_the_list_is_read() -> None:
    """Every line has a pattern of its own and what its tests cost."""
    listed = read()

    assert len({test.pattern for test in listed}) == len(listed) > 40
    assert all(test.seconds > 0 for test in listed)


def test_what_passed_with_the_same_files_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the service says nothing about tests of models."""
    tests = [LongTest("tests/models/test_a.py::*", 1.0), LongTest("tests/e2e/test_b.py::*", 1.0)]
    passed = {tests[0].pattern: "models 1", tests[1].pattern: "all 1"}

    def run_at(models: str, everything: str) -> list[LongTest]:
        digests = {MODELS: models, ALL: everything}
        monkeypatch.setattr(long_tests, "digests", lambda: digests)
        return changed(tests, passed)

    assert run_at("models 1", "all 1") == []
    assert run_at("models 1", "all 2") == [tests[1]]
    assert run_at("models 2", "all 2") == tests
    assert changed(tests, {}) == tests


def seeds(count: int) -> Iterable[str]:
    return map(str, range(count))


def test_as_many_run_as_there_is_time_for() -> None:
    """Every one that fits is chosen with some seed, and no choice takes longer than asked."""
    choices = [choose(TESTS, 50.0, seed) for seed in seeds(100)]

    assert all(sum(test.seconds for test in choice) <= 50.0 for choice in choices)
    assert {test for choice in choices for test in choice} == set(TESTS[:5])
    assert choose(TESTS, 50.0, "a") == choose(TESTS, 50.0, "a")
