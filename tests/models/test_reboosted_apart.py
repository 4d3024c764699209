"""Trees grown by a worker thread are those that one thread grows, at the same events."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kaboost
from kaboost.models.reboosted import background
from kaboost.models.reboosted import learn as learning
from kaboost.models.reboosted.config import MIN_WORKER_EVENTS
from kaboost.models.reboosted.drift import COMMIT_DELAY, update_drift
from kaboost.models.reboosted.state import BACKGROUND, NUMBERS, READY
from tests.boosters import state_digest
from tests.models.number_streams import reversed_product

D, EVENTS, TURN = 8, 9_000, 6_000
SPEC = {"bank": {"kind": "reboosted_trees", "budget": 1000}, "loss": "logistic"}


@pytest.fixture(autouse=True)
def submitted(monkeypatch):
    """Every structure that is submitted to the worker, in order."""
    found = []

    class Counted(ThreadPoolExecutor):
        def submit(self, grow, k, stop):
            found.append(k)
            return super().submit(grow, k, stop)

    monkeypatch.setattr(background, "ThreadPoolExecutor", Counted)
    return found


def fresh(min_ns=0.0):
    """The default model; trees of at least `min_ns` are grown in the background."""
    booster = kaboost.build(SPEC, D)
    booster.trees.params.background_min_ns[...] = min_ns
    return booster


def learn(booster, cuts, monkeypatch, processors):
    """Learn the stream in batches; return the scores."""
    monkeypatch.setattr(learning, "processors", lambda: processors)
    X, y = reversed_product(EVENTS, TURN, D)
    spans = itertools.pairwise(cuts)
    return np.concatenate([kaboost.learn_many(booster, X[a:b], y[a:b]) for a, b in spans])


def test_results_do_not_depend_on_the_worker(monkeypatch, submitted):
    """Without a worker, or with one that is stopped at the end of every batch, wherever these end:
    the same scores and the same bytes.
    """
    alone, worked, whole = fresh(), fresh(), fresh()
    scores = learn(alone, range(0, EVENTS + 1, 100), monkeypatch, 2)
    assert submitted == []
    cuts = [
        0,
        *np.cumsum(np.tile([MIN_WORKER_EVENTS, 700, 3, MIN_WORKER_EVENTS + 1, 40, 1_000], 4)),
        EVENTS,
    ]

    np.testing.assert_array_equal(learn(worked, cuts, monkeypatch, 2), scores)
    some = len(submitted)
    np.testing.assert_array_equal(learn(whole, [0, EVENTS], monkeypatch, 2), scores)
    assert state_digest(worked) == state_digest(alone) == state_digest(whole)
    assert TURN < alone.trees.schedule.drift_at < TURN + 500
    assert set(submitted[:some]) == set(submitted[some:]) == {0, 1, 2, 3}
    assert min(some, len(submitted) - some) > 200


def test_results_do_not_depend_on_the_time_it_takes(monkeypatch, submitted):
    """A worker that starts or ends late delays learning and changes nothing."""
    draws, grow = np.random.default_rng(8), learning.grow_in_background

    def slowly(*job):
        before, after = draws.choice([0.0, 0.0, 0.002], 2)
        time.sleep(before)
        grow(*job)
        time.sleep(after)

    expected = learn(fresh(), [0, EVENTS], monkeypatch, 1)
    monkeypatch.setattr(learning, "grow_in_background", slowly)

    np.testing.assert_array_equal(learn(fresh(), [0, EVENTS], monkeypatch, 2), expected)
    assert len(submitted) > 200


def test_saved_state_does_not_depend_on_the_worker(monkeypatch, submitted):
    """Arrays taken while trees grow are the same with a worker, and taking them changes nothing
    that comes later.
    """
    one, two = fresh(), fresh()
    seen = {BACKGROUND: 0, READY: 0}
    X, y = reversed_product(EVENTS, TURN, D)
    for first in range(0, EVENTS, 500):
        part = slice(first, first + 500)
        monkeypatch.setattr(learning, "processors", lambda: 1)
        kaboost.learn_many(one, X[part], y[part])
        monkeypatch.setattr(learning, "processors", lambda: 2)
        kaboost.learn_many(two, X[part], y[part])
        for state in seen:
            seen[state] += int((two.trees.schedule.status == state).sum())
        if first % 1_000 == 0:
            assert state_digest(one) == state_digest(two)
    never = fresh()
    kaboost.learn_many(never, X, y)

    assert state_digest(never) == state_digest(one) == state_digest(two)
    assert sum(seen.values()) > 5


def test_nothing_moves_between_batches(monkeypatch, submitted):
    """A batch ends with its thread: afterwards no array changes by itself."""
    booster = fresh()
    X, y = reversed_product(EVENTS, TURN, D)
    monkeypatch.setattr(learning, "processors", lambda: 2)
    kaboost.learn_many(booster, X[:3_000], y[:3_000])
    before = booster.builds[1].cursor.copy(), booster.trees.window.prefix.copy()
    time.sleep(0.05)

    assert len(submitted) > 50
    assert not [one for one in threading.enumerate() if one.name.startswith("kaboost-trees")]
    np.testing.assert_array_equal(booster.builds[1].cursor, before[0])
    np.testing.assert_array_equal(booster.trees.window.prefix, before[1])


def test_a_failure_of_the_worker_is_raised(monkeypatch):
    """Learning does not wait forever for a tree that no thread grows."""

    def fail(*_):
        raise MemoryError("no memory for a tree")

    monkeypatch.setattr(learning, "processors", lambda: 2)
    monkeypatch.setattr(learning, "grow_in_background", fail)
    X, y = reversed_product(EVENTS, TURN, D)
    with pytest.raises(MemoryError, match="no memory for a tree"):
        kaboost.learn_many(fresh(), X, y)


@pytest.mark.parametrize("after", [0, 3])
def test_without_a_thread_the_batch_goes_on(monkeypatch, submitted, after):
    """At the end of the interpreter, or where the system has no thread left, nothing is lost."""

    class Refusing(background.ThreadPoolExecutor):
        def submit(self, grow, k, stop):
            if len(submitted) >= after:
                raise RuntimeError("can't start new thread")
            return super().submit(grow, k, stop)

    expected = learn(fresh(), [0, EVENTS], monkeypatch, 1)
    monkeypatch.setattr(background, "ThreadPoolExecutor", Refusing)

    np.testing.assert_array_equal(learn(fresh(), [0, EVENTS], monkeypatch, 2), expected)
    assert len(submitted) == after


def test_an_interrupted_batch_is_learned_to_its_end(monkeypatch, submitted):
    """Ctrl-C between two calls of the kernel leaves no half batch."""
    expected, booster, learned = fresh(), fresh(), learning.learn_events
    learn(expected, [0, EVENTS], monkeypatch, 1)
    calls = []

    def interrupted(*args):
        learned(*args)
        calls.append(None)
        if len(calls) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(learning, "learn_events", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learn(booster, [0, EVENTS], monkeypatch, 2)
    monkeypatch.setattr(learning, "learn_events", learned)

    assert booster.trees.schedule.time == EVENTS
    assert state_digest(booster) == state_digest(expected)


def test_a_thread_at_the_end_of_a_program_learns_on():
    """After the end of the main thread no thread can be started."""
    program = (
        "import threading, time, numpy as np, kaboost\n"
        "from kaboost.models.reboosted import learn\n"
        "learn.processors = lambda: 2\n"
        "from tests.models.test_reboosted_apart import D, EVENTS, TURN, fresh, reversed_product\n"
        "X, y = reversed_product(EVENTS, TURN, D)\n"
        "booster = fresh()\n"
        "def late():\n"
        "    threading.main_thread().join()\n"
        "    kaboost.learn_many(booster, X, y)\n"
        "    print(int(booster.trees.schedule.time))\n"
        "threading.Thread(target=late).start()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout.strip() == str(EVENTS), done.stderr


def test_only_long_work_is_submitted(monkeypatch, submitted):
    """Trees of less than a millisecond are committed as soon as they are grown."""
    learn(fresh(min_ns=1e6), [0, EVENTS], monkeypatch, 2)

    assert set(submitted) <= {0, 1}


def test_a_drift_hastens_commits():
    """Trees started before a drift do not delay those started after it."""
    schedule = fresh().trees.schedule
    schedule.commit_at[:] = 3_030, 9_000, 9_000, 2_000
    schedule.earliest_commit[2] = 5_000
    schedule.loss_statistics[:] = 0.1, 0.1, 0.01
    t = 3_000
    while schedule.drift_at == 0:
        update_drift(schedule, 3.0, t, NUMBERS)
        t += 1

    assert 3_000 < t < 3_030
    assert schedule.commit_at.tolist() == [3_030, t - 1 + COMMIT_DELAY, 5_000, 2_000]


def test_drift_after_a_constant() -> None:
    """Losses that were all equal have no variance: the first others still count."""
    schedule = fresh().trees.schedule
    for t in range(3_000):
        update_drift(schedule, 0.0, t, NUMBERS)
    for t in range(3_000, 3_010):
        update_drift(schedule, 0.5, t, NUMBERS)

    assert 3_000 < schedule.drift_at < 3_010


def test_learning_nothing_runs_the_kernel(monkeypatch):
    """A service compiles the kernel beforehand by learning no events."""
    ran = []
    learn = learning.learn_events
    monkeypatch.setattr(learning, "learn_events", lambda *args: ran.append(args) or learn(*args))
    booster = fresh()
    X, y = reversed_product(2, TURN, D)
    scores = kaboost.learn_many(booster, X[:0], y[:0])

    assert (0, 1) == scores.shape
    assert 1 == len(ran)
    assert 0 == booster.progress.events
