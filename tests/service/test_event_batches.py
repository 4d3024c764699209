"""Many values at once are decoded as each of them alone."""

import pytest

from kaboost.service.errors import EventError
from tests.service.test_events import TASKS, decoder, raw


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("others", [0, 1, 150])
def test_a_batch_decodes_as_its_values_do(task: str, others: int) -> None:
    """Labels as few write them, null ones, and faults anywhere: `decode` says each the same."""
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
    events, found = decoder(task).decode_many(values)

    expected, wrong = [], []
    for index, value in enumerate(values):
        try:
            expected.append(decoder(task).decode(value))
        except EventError as err:
            wrong.append((index, err.code, str(err)))
    assert wrong == [(index, err.code, str(err)) for index, err in found]
    assert [e.label for e in expected] == [e.label for e in events]
    assert all(type(a.label) is type(b.label) for a, b in zip(expected, events, strict=True))
    decoder(task).tabulate(events)
