"""All scenarios, in the order in which they run: importing this registers them."""

from tests.chaos import (
    bad_events,
    brokers,
    clocks,
    damage,
    disks,
    endurance,
    kills,
    writers,
)
from tests.chaos.scenario import SCENARIOS

FAMILIES = (kills, brokers, disks, damage, bad_events, clocks, writers, endurance)

__all__ = ["FAMILIES", "SCENARIOS"]
