"""The section `standby` of the settings: learners that take turns."""

from pydantic import Field

from kaboost.service.config.section import Section, TopicName


class Standby(Section):
    """Several learners of one model, of which one leads and the others can take over at once."""

    enabled: bool = Field(
        default=False,
        description="Whether this learner leads only if it is elected, and stands by otherwise: "
        "the flag `--standby` of `kaboost learner` (docs/standby.md).",
    )
    topic: TopicName | None = Field(
        default=None,
        description="Topic of one partition, without records, whose reader leads; "
        "`<kafka.topic>.leader` if not set. It is created if it is missing.",
    )
    session_seconds: float = Field(
        default=6.0,
        ge=1.0,
        le=300.0,
        description="Seconds without a sign of life after which the broker takes the leader for "
        "dead; within the broker's group.min.session.timeout.ms, 6 s by default.",
    )
    follow_seconds: float = Field(
        default=2.0,
        ge=0.1,
        le=3_600.0,
        description="Seconds between two polls of a standby for a newer checkpoint.",
    )
