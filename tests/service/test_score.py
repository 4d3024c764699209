"""`kaboost score`: every record has one answer, that of POST /predict."""

import json
import threading
from collections.abc import Callable
from typing import Any

from kaboost.service.config.settings import Settings
from tests.kafka.client import Letter
from tests.service.learning import until
from tests.service.scoring import (
    answers,
    committed_records,
    ids,
    record,
    records,
    scoring,
    settings_of_score,
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
