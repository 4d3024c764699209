"""The list of parts: every rule, bank and loss by kind."""

from __future__ import annotations

from collections.abc import Mapping

from kaboost.models.banks import ALL as ALL_BANKS
from kaboost.models.losses import LOSSES
from kaboost.models.reboosted.component import REBOOSTED_TREES
from kaboost.models.rules import ALL as ALL_RULES
from kaboost.models.types import Component

RULES: dict[str, Component] = {part.kind: part for part in ALL_RULES}
BANKS: dict[str, Component] = {part.kind: part for part in (*ALL_BANKS, REBOOSTED_TREES)}
PARTS: dict[str, Mapping[str, Component]] = {"rule": RULES, "bank": BANKS, "loss": LOSSES}
