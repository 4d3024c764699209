"""Many values at once are decoded as each of them alone."""

from typing import Any

import pytest

from kaboost.service.errors import EventError
from tests.service.test_events import TASKS, decoder, raw


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("others", [0, 1, 150])
def test_a_batch_decodes_as_its_values_do(task: str, others: int) -> None:
    """Labels as few write them, null ones, and faults anywhere: each value alone gives the same."""
    texts = [
        "null",
        "0",
        "1",
        "1.0",
        "2",
        "0.5",
        "true",
        "false",
        '"fraud"',
        '"3"',
        str(2**63),
        "{",
    ]
    values: list[bytes | None] = [raw(label=text) for text in texts for _ in range(3)]
    values += [None, b"\xff", raw(label="1", more='"\\ud800"'), b'{"features": {}\n, "label": 1}']
    usual = {"named": '"fraud"', "regression": "1.5", "halves": "0.5", "large": "5", "mixed": "2"}
    good = raw(label=usual.get(task, "true" if task == "booleans" else "1"))
    values = [each for value in values for each in (value, *[good] * others)]
    batch = decoder(task).decode(values)

    expected, wrong = [], []
    for index, value in enumerate(values):
        try:
            expected.append(decoder(task)._decode_one(value, 0))
        except EventError as err:
            wrong.append((index, err.code, str(err)))
    assert wrong == [(index, err.code, str(err)) for index, err in batch.faults]
    pairs: list[tuple[Any, Any]] = list(zip(expected, batch.meta, strict=True))
    assert all((type(a.label), a.label) == (type(b.label), b.label) for a, b in pairs)
    assert len(expected) == len(batch.y) == len(batch.w) == len(batch.table.numbers)
