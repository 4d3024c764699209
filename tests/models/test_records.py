"""Arrays of records are plain numbers in files, and records again when they are read."""

import doctest
from typing import Any, NamedTuple

import numpy as np
import pytest

from kaboost.models.reboosted.state import BUILD_NODE
from kaboost.models.state import records
from kaboost.models.state.tree import from_arrays, to_arrays, without_memory
from kaboost.models.types import ModelError


class Part(NamedTuple):
    """One array of records and one of numbers."""

    nodes: Any
    gains: Any


def part():
    """Three records, of which one has a number."""
    made = Part(np.zeros(3, BUILD_NODE), np.ones(2))
    made.nodes[1].stop = 5
    return made


def test_records_come_back():
    """Without a copy, with the fields they had; other arrays stay as they are."""
    made = part()
    arrays = to_arrays(made)
    again = from_arrays(without_memory(made), arrays)

    assert arrays["nodes"].dtype == np.int64
    assert arrays["nodes"].tolist()[1] == [0, 5, *[0] * 8]
    assert again.nodes.dtype == BUILD_NODE
    assert again.nodes[1].stop == 5
    assert np.shares_memory(again.nodes, made.nodes)
    assert arrays["gains"] is made.gains is again.gains


@pytest.mark.parametrize("shape", [(3, 9), (2, 10), (30,)])
def test_other_shapes_are_refused(shape):
    """Numbers of another shape are not read as records."""
    arrays = {**to_arrays(part()), "nodes": np.zeros(shape, np.int64)}
    with pytest.raises(ModelError, match=r"'nodes' is int64 .*, not int64 \(3, 10\)"):
        from_arrays(without_memory(part()), arrays)


def test_docstring_examples_run():
    """Those of the module."""
    failed, attempted = doctest.testmod(records)[:2]

    assert failed == 0 < attempted
