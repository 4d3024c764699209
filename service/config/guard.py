"""The section `guard` of the settings: when answers fall back to an earlier model."""

from pydantic import Field

from kaboost.service.config.section import Section


class Guard(Section):
    """The loss guard: answers come from the last good model while the current one is too bad."""

    margin: float | None = Field(
        default=None,
        ge=0.0,
        le=1_000.0,
        description="How much worse than the better baseline the recent loss may be, as a part of "
        "the baseline's: 0.2 for 20 %. Without it there is no guard.",
    )
    events: int = Field(
        default=2_000,
        ge=1,
        le=1_000_000_000,
        description="Events in a row with a worse loss until answers fall back, and with a better "
        "one until they are the current model's again. A snapshot is good once the loss has been "
        "for as many events after it.",
    )
