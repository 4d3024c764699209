"""Trees grown by a second thread are those that one thread grows, at the same events."""

from __future__ import annotations

import hashlib
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
from kaboost.models.reboosted import booster as reboosted
from kaboost.models.reboosted.background import MIN_WORKER_EVENTS
from kaboost.models.reboosted.drift import COMMIT_DELAY, update_drift
from kaboost.models.reboosted.state import BACKGROUND, NUMBERS, READY

D, EVENTS, TURN = 8, 9_000, 6_000
SPEC = {"bank": {"kind": "reboosted_trees", "budget": 1000}, "loss": "logistic"}


@pytest.fixture(autouse=True)
def lent(monkeypatch):
    """Every structure that is lent to another thread, in order."""
    found = []

    class Counted(ThreadPoolExecutor):
        def submit(self, grow, k, stop):
            found.append(k)
            return super().submit(grow, k, stop)

    monkeypatch.setattr(background, "ThreadPoolExecutor", Counted)
    return found


def stream(n=EVENTS):
    """A smooth rule under a little noise, which turns round: the alarm is sounded."""
    r = np.random.default_rng(5)
    X = r.normal(size=(n, D))
    z = np.where(np.arange(n) < TURN, 1.0, -1.0) * (X[:, 0] + 0.2 * X[:, 1] * X[:, 2])
    return X, (z + 0.1 * r.normal(size=n) > 0).astype(float)


def fresh(apart=0.0):
    """The default model; trees of more ns than `apart` are grown apart."""
    booster = kaboost.build(SPEC, D)
    booster.trees.params.background_min_ns[...] = apart
    return booster


def digest(booster):
    """Of everything a checkpoint holds."""
    arrays = kaboost.to_arrays(booster)
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest()


def learn(booster, cuts, monkeypatch, processors):
    """Learn the stream in batches; return the scores."""
    monkeypatch.setattr(reboosted, "processors", lambda: processors)
    X, y = stream()
    spans = itertools.pairwise(cuts)
    return np.concatenate([kaboost.learn_many(booster, X[a:b], y[a:b]) for a, b in spans])


def test_second_thread_does_not_show(monkeypatch, lent):
    """Alone, or with another thread that is stopped at the end of every batch, wherever these end:
    the same scores and the same bytes.
    """
    alone, helped, whole = fresh(), fresh(), fresh()
    scores = learn(alone, range(0, EVENTS + 1, 100), monkeypatch, 2)
    assert lent == []
    cuts = [
        0,
        *np.cumsum(np.tile([MIN_WORKER_EVENTS, 700, 3, MIN_WORKER_EVENTS + 1, 40, 1_000], 4)),
        EVENTS,
    ]

    np.testing.assert_array_equal(learn(helped, cuts, monkeypatch, 2), scores)
    some = len(lent)
    np.testing.assert_array_equal(learn(whole, [0, EVENTS], monkeypatch, 2), scores)
    assert digest(helped) == digest(alone) == digest(whole)
    assert TURN < alone.trees.schedule.drift_at < TURN + 500
    assert set(lent[:some]) == set(lent[some:]) == {0, 1, 2, 3}
    assert min(some, len(lent) - some) > 200


def test_how_long_a_thread_takes_does_not_show(monkeypatch, lent):
    """A second thread that begins late, or tells late that it is done, holds learning up and
    changes nothing.
    """
    draws, grow = np.random.default_rng(8), reboosted._grow_in_background

    def slowly(*job):
        before, after = draws.choice([0.0, 0.0, 0.002], 2)
        time.sleep(before)
        grow(*job)
        time.sleep(after)

    expected = learn(fresh(), [0, EVENTS], monkeypatch, 1)
    monkeypatch.setattr(reboosted, "_grow", slowly)

    np.testing.assert_array_equal(learn(fresh(), [0, EVENTS], monkeypatch, 2), expected)
    assert len(lent) > 200


def test_what_is_saved_does_not_show(monkeypatch, lent):
    """Arrays taken in the midst of growing are the same whoever grows, and taking them changes
    nothing that comes later.
    """
    one, two = fresh(), fresh()
    seen = {BACKGROUND: 0, READY: 0}
    X, y = stream()
    for first in range(0, EVENTS, 500):
        part = slice(first, first + 500)
        monkeypatch.setattr(reboosted, "processors", lambda: 1)
        kaboost.learn_many(one, X[part], y[part])
        monkeypatch.setattr(reboosted, "processors", lambda: 2)
        kaboost.learn_many(two, X[part], y[part])
        for state in seen:
            seen[state] += int((two.trees.schedule.status == state).sum())
        if first % 1_000 == 0:
            assert digest(one) == digest(two)
    never = fresh()
    kaboost.learn_many(never, X, y)

    assert digest(never) == digest(one) == digest(two)
    assert sum(seen.values()) > 5


def test_nothing_moves_between_batches(monkeypatch, lent):
    """A batch ends with its thread: afterwards no array changes by itself."""
    booster = fresh()
    X, y = stream()
    monkeypatch.setattr(reboosted, "processors", lambda: 2)
    kaboost.learn_many(booster, X[:3_000], y[:3_000])
    before = booster.builds[1].cursor.copy(), booster.trees.window.prefix.copy()
    time.sleep(0.05)

    assert len(lent) > 50
    assert not [one for one in threading.enumerate() if one.name.startswith("kaboost-trees")]
    np.testing.assert_array_equal(booster.builds[1].cursor, before[0])
    np.testing.assert_array_equal(booster.trees.window.prefix, before[1])


def test_what_fails_in_the_second_thread_is_heard(monkeypatch):
    """Learning does not wait for ever for a tree that nobody grows."""

    def fail(*_):
        raise MemoryError("no room for a tree")

    monkeypatch.setattr(reboosted, "processors", lambda: 2)
    monkeypatch.setattr(reboosted, "_grow", fail)
    X, y = stream()
    with pytest.raises(MemoryError, match="no room for a tree"):
        kaboost.learn_many(fresh(), X, y)


@pytest.mark.parametrize("after", [0, 3])
def test_without_a_thread_the_batch_goes_on(monkeypatch, lent, after):
    """At the end of the interpreter, or of what threads the system gives, nothing is lost."""

    class Refusing(background.ThreadPoolExecutor):
        def submit(self, grow, k, stop):
            if len(lent) >= after:
                raise RuntimeError("can't start new thread")
            return super().submit(grow, k, stop)

    expected = learn(fresh(), [0, EVENTS], monkeypatch, 1)
    monkeypatch.setattr(background, "ThreadPoolExecutor", Refusing)

    np.testing.assert_array_equal(learn(fresh(), [0, EVENTS], monkeypatch, 2), expected)
    assert len(lent) == after


def test_an_interrupted_batch_is_learned_to_its_end(monkeypatch, lent):
    """Ctrl-C between two calls of the kernel leaves no half batch."""
    expected, booster, learned = fresh(), fresh(), reboosted._learn
    learn(expected, [0, EVENTS], monkeypatch, 1)
    calls = []

    def interrupted(*args):
        learned(*args)
        calls.append(None)
        if len(calls) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(reboosted, "_learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learn(booster, [0, EVENTS], monkeypatch, 2)
    monkeypatch.setattr(reboosted, "_learn", learned)

    assert booster.trees.schedule.time == EVENTS
    assert digest(booster) == digest(expected)


def test_a_thread_at_the_end_of_a_program_learns_on():
    """Where the main thread is through, no thread can be started any more."""
    program = (
        "import threading, time, numpy as np, kaboost\n"
        "from kaboost.models.reboosted import booster as reboosted\n"
        "reboosted.processors = lambda: 2\n"
        "from tests.models.test_reboosted_apart import fresh, stream\n"
        "X, y = stream()\n"
        "booster = fresh()\n"
        "def late():\n"
        "    threading.main_thread().join()\n"
        "    kaboost.learn_many(booster, X, y)\n"
        "    print(int(booster.trees.schedule.time))\n"
        "threading.Thread(target=late).start()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout.strip() == str(EVENTS), done.stderr


def test_only_long_work_is_lent(monkeypatch, lent):
    """Trees of less than a millisecond take their places as soon as they are grown."""
    learn(fresh(apart=1e6), [0, EVENTS], monkeypatch, 2)

    assert set(lent) <= {0, 1}


def test_alarm_hastens():
    """Trees begun before an alarm do not keep those of after it waiting."""
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


def test_alarm_after_a_constant() -> None:
    """Losses that were all one have no spread: the first others are heard all the same."""
    schedule = fresh().trees.schedule
    for t in range(3_000):
        update_drift(schedule, 0.0, t, NUMBERS)
    for t in range(3_000, 3_010):
        update_drift(schedule, 0.5, t, NUMBERS)

    assert 3_000 < schedule.drift_at < 3_010


def test_learning_nothing_runs_the_kernel(monkeypatch):
    """A service learns no events before the first: what it waits for then is compiled there."""
    ran = []
    learn = reboosted._learn
    monkeypatch.setattr(reboosted, "_learn", lambda *args: ran.append(args) or learn(*args))
    booster = fresh()
    X, y = stream(2)
    scores = kaboost.learn_many(booster, X[:0], y[:0])

    assert (0, 1) == scores.shape
    assert 1 == len(ran)
    assert 0 == booster.progress.events
