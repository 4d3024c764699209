"""Every dead letter names a remedy: what is wrong, then what to do about it."""

import json
import re
from typing import Any

import pytest

from kaboost.models.features.labels import labels
from kaboost.service.events.json import JsonDecoder
from tests.service.test_events import REFUSED, TASKS, fault, raw

REMEDY = re.compile(r"(; |: |\? Else )(send|set|leave|raise|quote|rename|declare|free)\b")
LARGE = raw(note='"' + "x" * 200 + '"')
FAULTS = [
    *((code, value, {}) for code, values in REFUSED.items() for value in values),
    ("too_large", LARGE, {"max_bytes": 100}),
    *(("label", raw(label=label), {"task": task}) for task in TASKS for label in ("null", '"?"')),
    ("label", raw(label="1e400"), {"task": "regression"}),
]


@pytest.mark.parametrize(("code", "value", "options"), FAULTS)
def test_every_fault_has_a_remedy(code: str, value: bytes | None, options: Any) -> None:
    """A dead letter says what is wrong, then what to do about it, and is not cut before that."""
    error = fault(value, **options)

    assert error
    assert code == error.code
    assert REMEDY.search(error.message), error.message
    assert not error.message.endswith("...")


def test_a_long_message_keeps_its_remedy() -> None:
    """Values and names of any length are cut, and the remedy after them is not."""
    classes = [str(k) * 60 for k in range(9)]
    one = JsonDecoder({"n" * 200: "number"}, labels("multiclass", classes))
    features = '{"' + "n" * 200 + '": "x"}'
    found = [
        one.decode([value]).faults[0][1].message
        for value in (
            raw(label='"' + "y" * 500 + '"', features="{}"),
            raw(label=f'"{classes[0]}"', features=features),
        )
    ]

    assert all(len(message) < 310 and REMEDY.search(message) for message in found), found


def test_a_flat_record_is_told_where_to_point() -> None:
    """A record of another shape: its first keys, and the settings that name the right places."""
    flat = {"amount": 12.5, "country": "PT", **{f"column number {k} of many": 1 for k in range(9)}}
    message = str(fault(json.dumps(flat).encode()))

    assert message.startswith("features: is missing; the record has the keys amount, country, ")
    assert "and 6 more: set events.features and events.label to where they are" in message
    unlabelled = str(fault(b'{"features": {}}'))
    assert unlabelled.startswith("label: is missing; the record has the keys features: send the")
    assert "if labels come on a topic of their own, set labels.topic" in unlabelled
    assert "events.features" not in unlabelled
    assert "the record has no keys: set events.features" in str(fault(b"{}"))
