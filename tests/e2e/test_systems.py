"""Every published rule and bank in the live service. `make test` runs these without the compiler,
which most of their time would go to: compiled and plain leave the same bytes (tests/contracts).
"""

from __future__ import annotations

import pytest

from tests.e2e.systems import PLAIN, lives_through

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_system(name, topic, broker, send, tmp_path):
    """It learns, is killed in the middle, goes on, and serves what it learned."""
    lives_through(name, topic, broker, send, tmp_path)
