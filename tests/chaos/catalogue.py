"""All scenarios, in the order in which they run: importing this registers them."""

from tests.chaos import kills
from tests.chaos.scenario import SCENARIOS

__all__ = ["SCENARIOS", "kills"]
