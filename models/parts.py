"""The list of parts: every rule, bank and loss by kind."""

from __future__ import annotations

from collections.abc import Mapping

from kaboost.models.banks import ALL as ALL_BANKS
from kaboost.models.losses import LOSSES
from kaboost.models.reboosted.component import REBOOSTED_TREES
from kaboost.models.rules import ALL as ALL_RULES
from kaboost.models.types import Component


def _with_losses(rule: Component) -> Component:
    """Return the rule with the losses of its scales by name."""
    scaled = [
        kind
        for scale in rule.loss_scales
        for kind, loss in LOSSES.items()
        if loss.traits.scale == scale
    ]
    return rule._replace(losses=(*rule.losses, *scaled))


RULES: dict[str, Component] = {rule.kind: _with_losses(rule) for rule in ALL_RULES}
BANKS: dict[str, Component] = {part.kind: part for part in (*ALL_BANKS, REBOOSTED_TREES)}
PARTS: dict[str, Mapping[str, Component]] = {"rule": RULES, "bank": BANKS, "loss": LOSSES}
