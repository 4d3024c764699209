"""An event that makes learning fail is found and set aside, and the others are learned."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaboost.models.model import Model
from kaboost.service import dlq
from kaboost.service.config.settings import Settings
from kaboost.service.errors import Exit, KaboostError
from kaboost.service.kafka.letters import STACK
from kaboost.service.learner.isolation import Isolation, internal_fault
from tests.kafka.client import Letter
from tests.service.learning import (
    Rows,
    events,
    expect_state,
    gauge,
    learn_all,
    learned,
    learning,
    rows,
    saved,
    until,
)

Make = Callable[..., Settings]
Send = Callable[..., None]
POISON = 77.5
QUICK = {"extra": {"fetch.wait.max.ms": 10}}  # a restored position is read sooner


def poisoned(stream: Rows, places: list[int]) -> Rows:
    """Replace the first feature of some events by a value that learning fails at."""
    return [
        ({**features, "x": POISON + k} if k in places else features, label)
        for k, (features, label) in enumerate(stream)
    ]


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Counter[float]:
    """Let the model fail in the middle of a batch with a poisoned event; count by its value."""
    failures: Counter[float] = Counter()
    learn = Model.learn

    def broken(model: Model, table: Any, y: Any, w: Any) -> Any:
        outcome = learn(model, table, y, w)  # the state has moved when it fails
        for value in table.numbers[:, 0]:
            if value >= POISON - 1:
                failures[value] += 1
                raise ZeroDivisionError(f"a bug at {value}")
        return outcome

    monkeypatch.setattr(Model, "learn", broken)
    return failures


def test_the_event_is_set_aside_and_the_others_are_learned(
    topic: str,
    make_settings: Make,
    send: Send,
    fragile: Counter[float],
    monkeypatch: pytest.MonkeyPatch,
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """Bit for bit the state of the others; repaired, the event is replayed and learned."""
    stream = poisoned(rows(700), [137, 138, 400])
    settings = make_settings(topic, kafka=QUICK, checkpoints={"every_seconds": 3600})
    send(topic, events(stream[:500]))
    with learning(settings) as running:
        until(lambda: learned(settings) == 497)
        send(topic, events(stream[500:]))
        until(lambda: learned(settings) == 697)
        rejected = gauge(settings, 'kaboost_events_rejected_total{reason="internal"}')
        assert 0 == running.stop()
    good = [event for k, event in enumerate(stream) if k not in (137, 138, 400)]
    expect_state(settings, good)
    letters = dead_letters(topic, 3)
    texts = letters[0].texts
    monkeypatch.undo()
    dlq.replay(settings, dlq.read_letters(settings.kafka), dlq.LetterFilter(["internal"]))
    learn_all(settings, 700)

    assert [(topic, 0, k) for k in (137, 138, 400)] == [letter.origin for letter in letters]
    assert {"internal"} == {letter.code for letter in letters}
    assert events(stream)[137] == letters[0].value
    assert "a bug at 214.5" in texts["__connect.errors.exception.message"]
    assert "in broken" in texts["__connect.errors.exception.stacktrace"]
    assert "builtins.ZeroDivisionError" == texts["__connect.errors.exception.class.name"]
    assert "TASK_PUT" == texts["__connect.errors.stage"]
    assert 3.0 == rejected
    expect_state(settings, good + [stream[k] for k in (137, 138, 400)])


def test_other_dead_letters_of_the_batch_are_written_once(
    topic: str,
    make_settings: Make,
    send: Send,
    fragile: Counter[float],
    dead_letters: Callable[..., list[Letter]],
) -> None:
    """However often their batch is tried, before and after events that are set aside."""
    good = rows(12)
    values = events(poisoned(good, [2, 7]))
    values[5:5] = [b"{"]  # after the first one, before the second
    values[3:3] = [b"[]"]
    values.append(b"1")
    send(topic, values)
    settings = make_settings(topic, kafka=QUICK, checkpoints={"every_seconds": 3600})
    with learning(settings) as running:
        until(lambda: learned(settings) == 10)
        until(lambda: gauge(settings, "kaboost_consumer_lag_records") in (None, 0.0))
        assert 0 == running.stop()
    letters = dead_letters(topic, 6, timeout=2.0)

    expected = {2: "internal", 3: "schema", 6: "json", 9: "internal", 14: "schema"}
    assert sorted(expected.items()) == sorted((one.origin[2], one.code) for one in letters)
    expect_state(settings, [event for k, event in enumerate(good) if k not in (2, 7)])


def test_private_values_are_hidden_from_stacks(
    topic: str,
    make_settings: Make,
    send: Send,
    fragile: Counter[float],
    dead_letters: Callable[..., list[Letter]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An exception of our own may quote any value of the event."""
    settings = make_settings(topic, kafka=QUICK, privacy={"fields": ["x"]})
    send(topic, events(poisoned(rows(9), [4])))
    learn_all(settings, 8)
    (letter,) = dead_letters(topic, 1)
    logged = str([vars(record) for record in caplog.records])

    assert "81.5" not in str(letter.headers) + logged
    assert b"81.5" in (letter.value or b"")
    assert "ZeroDivisionError: a bug at [hidden]" in letter.texts[STACK]
    assert "[hidden]" in logged


def test_a_failure_that_does_not_come_again_loses_nothing(
    topic: str, make_settings: Make, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried again, the batch is learned."""
    learn, failures = Model.learn, iter([MemoryError("once")])

    def once(model: Model, table: Any, y: Any, w: Any) -> Any:
        outcome = learn(model, table, y, w)
        if len(y):
            for error in failures:
                learn(model, table, y, w)  # the state is wrong now
                raise error
        return outcome

    monkeypatch.setattr(Model, "learn", once)
    stream = rows(300)
    send(topic, events(stream))
    settings = make_settings(topic)
    learn_all(settings, 300)

    expect_state(settings, stream)


def test_three_in_a_row_stop_the_learner(
    topic: str, make_settings: Make, send: Send, fragile: Counter[float]
) -> None:
    """Then the fault is not theirs; what was learned before is written, and nothing is passed."""
    stream = poisoned(rows(60), [40, 41, 42, 43])
    send(topic, events(stream))
    settings = make_settings(topic, kafka=QUICK, checkpoints={"every_seconds": 3600})
    with learning(settings) as running, pytest.raises(KaboostError) as err:
        running.wait()

    assert Exit.INTERNAL == err.value.exit_code
    place = f"{topic}[0]@"
    assert f"internal error at {place}40, {place}41, {place}42, one after the other" in str(
        err.value
    )
    assert "ZeroDivisionError('a bug at 119.5')" in str(err.value)
    assert {0: 42} == saved(settings)
    assert 40 == learned(settings)
    expect_state(settings, stream[:40])
    assert POISON + 43 not in fragile or fragile[POISON + 40] > 0


def test_two_in_a_row_and_one_later_do_not(
    topic: str, make_settings: Make, send: Send, fragile: Counter[float]
) -> None:
    """An event that is learned between two of them ends the row."""
    places = [5, 6, 8, 9]
    stream = poisoned(rows(20), places)
    send(topic, events(stream))
    settings = make_settings(topic, kafka=QUICK)
    learn_all(settings, 16)

    expect_state(settings, [event for k, event in enumerate(stream) if k not in places])


@given(st.sets(st.integers(0, 40), max_size=6), st.integers(1, 41), st.integers(0, 10))
def test_any_events_are_found(bad: set[int], usual: int, stored: int) -> None:
    """Whatever batches there are, and however old the checkpoint is."""
    isolation, learned_, aside, position, checkpoint = Isolation(), [], [], 0, 0
    runs = [{k, k + 1, k + 2} <= bad for k in range(40)]
    for _ in range(3_000):
        offsets = {("t", 0): position}
        if isolation.is_before_suspects(offsets) and position >= stored:
            checkpoint = position
        limit = isolation.batch_limit(offsets, usual)
        batch = [Record(k) for k in range(position, min(41, position + limit))]
        if not batch:
            break
        for part, culprit in isolation.parts(batch):
            failing = [one for one in part if one.offset() in bad]
            if failing:
                isolation.note_failure(part, {("t", 0): 41}, ValueError("x"), str)
                position = checkpoint
                learned_ = [k for k in learned_ if k < checkpoint]
                break
            isolation.note_success(part, len(part))
            learned_ += [one.offset() for one in part]
            if culprit is not None:
                if id(culprit) not in isolation.handled(batch):
                    aside.append(culprit.offset())
                isolation.note_success([culprit], 0)
            position = (culprit or part[-1]).offset() + 1
        else:
            isolation.end({("t", 0): position})
        if isolation.must_stop:
            break

    assert isolation.must_stop == any(runs)
    if not any(runs):
        assert sorted(bad) == sorted(aside)
        assert sorted(set(range(41)) - bad) == learned_


class Record:
    """A record of which only the place counts."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


def test_a_stack_holds_no_values() -> None:
    """Its message is concealed; the frames are places in the code."""
    try:
        raise ValueError("could not read secret")
    except ValueError as err:
        fault = internal_fault(err, lambda text: text.replace("secret", "[hidden]"))

    assert "secret" not in fault.stack.replace('"could not read secret"', "")
    assert "learning failed, ValueError: could not read [hidden]" in fault.message
    assert "builtins.ValueError" == fault.raised
