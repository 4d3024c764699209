"""How late labels come, as what is learned from them depends on it."""

from __future__ import annotations

from kaboost.models.kernels.jit import inlined

MAX_LATENESS = 100.0  # labels; tuned on Elec2, 48 and 336 labels late, and on chargebacks
LATENESS_RATE = 0.01  # lowest rate of the running mean lateness, an event


@inlined
def next_lateness(mean: float, late: float, events: float) -> float:
    """Return the running mean lateness after a label that came `late` labels after its features, of
    so many events before.
    """
    return mean + max(1.0 / (events + 1.0), LATENESS_RATE) * (late - mean)
