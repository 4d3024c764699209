"""When a model last noticed a change of the stream: a drift, or a shift of the labels' level."""

from __future__ import annotations

from typing import Any, NamedTuple

from kaboost.models.reboosted.classes.ensemble import ClassTrees
from kaboost.models.reboosted.ensemble import ReboostedTrees


class Alarms(NamedTuple):
    """Events at which a model noticed a change last; 0 for never."""

    drift: int = 0
    level_shift: int = 0


def alarms(booster: Any) -> Alarms:
    """Return the last alarms of reboosted trees; of several classes, the latest of any of them."""
    parts = booster.classes if hasattr(booster, "classes") else (booster,)
    found = [_alarms(part) for part in parts if isinstance(part, ReboostedTrees | ClassTrees)]
    return Alarms(*map(max, zip(*found, strict=True))) if found else Alarms()


def _alarms(booster: ReboostedTrees | ClassTrees) -> Alarms:
    drift = int(booster.trees.schedule.drift_at)
    return Alarms(max(drift, 0), max(int(booster.labels.shift[0]["moved_at"]), 0))
