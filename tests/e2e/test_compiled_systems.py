"""The systems in the live service whose arithmetic wants a compiler, and one that is small."""

from __future__ import annotations

import pytest

from tests.e2e.systems import COMPILED, lives_through


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_system(name, topic, broker, send, tmp_path):
    """It learns, is killed in the middle, goes on, and serves what it learned."""
    lives_through(name, topic, broker, send, tmp_path)
