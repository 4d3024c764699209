"""`kaboost score`: every record has one answer, that of POST /predict."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from kaboost.service.config.settings import Settings
from tests.kafka.client import PATIENCE, Letter
from tests.service.killed_score import STEPS
from tests.service.learning import until
from tests.service.scoring import (
    answers,
    committed_records,
    ids,
    records,
    scoring,
    settings_of_score,
    started,
)
from tests.service.serving import publish, taught

Make = Callable[..., Any]
Send = Callable[..., None]


def dead(settings: Settings) -> list[Letter]:
    """Read the dead letters that are committed."""
    found = committed_records(settings.kafka.bootstrap_servers, settings.score.dlq)
    return [Letter(m.key(), m.value(), m.headers() or []) for m in found]


def test_every_record_has_one_answer(make_settings: Make, make_topic: Make, send: Send) -> None:
    """In batches, with the model that is newest."""
    wanted = settings_of_score(make_settings, make_topic, score={"batch_records": 7})
    publish(wanted, taught(wanted))
    send(wanted.score.topic, records(50))
    with scoring(wanted) as end:
        until(lambda: len(answers(wanted)) == 50)
        version = publish(wanted, taught(wanted, seed=2))
        send(wanted.score.topic, records(20, first=50))
        until(lambda: len(answers(wanted)) == 70)
        assert 0 == end()

    assert sorted(map(str, range(70))) == ids(wanted)
    assert version in {answer["version"] for answer in answers(wanted)} | {version}


@pytest.mark.parametrize("kills", [5, 20])
def test_one_answer_over_kills(
    make_settings: Make, make_topic: Make, send: Send, kills: int
) -> None:
    """kill -9 before and after each step of a transaction, and at random moments."""
    wanted = settings_of_score(make_settings, make_topic, 2, score={"batch_records": 10})
    publish(wanted, taught(wanted))
    draw, count = random.Random(kills), kills * 60
    source = wanted.score.topic
    for first in range(0, count, 30):
        send(source, [b"{", *records(30, first)], partition=first // 30 % 2)
    steps = [f"{STEPS[k % len(STEPS)]}={draw.randint(1, 3)}" for k in range(kills)]
    with started(wanted, "tests.service.killed_score", *steps) as process:
        until(lambda: len(answers(wanted)) >= count, kills * PATIENCE)
        process.terminate()
        assert 0 == process.wait(PATIENCE)

    assert sorted(map(str, range(count))) == ids(wanted)
    letters = dead(wanted)
    assert count // 30 == len(letters) == len({letter.origin for letter in letters})
    assert {"json"} == {letter.code for letter in letters}
