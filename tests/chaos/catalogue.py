"""All scenarios, in the order in which they run: importing this registers them."""

from tests.chaos import (
    bad_events,
    brokers,
    clocks,
    damage,
    disks,
    endurance,
    kills,
    late_labels,
    writers,
)
from tests.chaos.scenario import SCENARIOS

FAMILIES = (kills, brokers, disks, damage, bad_events, late_labels, clocks, writers, endurance)

__all__ = ["FAMILIES", "SCENARIOS"]
