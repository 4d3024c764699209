"""The section `score` of the settings: answers to the records of a topic."""

from collections.abc import Collection
from typing import Literal

from pydantic import Field

from kaboost.service.config.records import Events
from kaboost.service.config.section import Section, TopicName

INSTANCE = r"^[A-Za-z0-9._-]{1,100}$"


class Score(Section):
    """Answers to the records of a topic, written to `predictions.topic` by `kaboost score`."""

    topic: TopicName | None = Field(
        default=None,
        description="Topic of the records without labels, mapped as `events` says. Needed by "
        "`kaboost score`, and by nothing else.",
    )
    group_id: str | None = Field(
        default=None,
        min_length=1,
        description="Consumer group of the processes that share the partitions; "
        "`<kafka.group_id>-score` if not set.",
    )
    start_from: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where a group without committed offsets starts.",
    )
    dlq_topic: TopicName | None = Field(
        default=None,
        description="Topic of the records that have no answer; `<score.topic>.dlq` if not set.",
    )
    features: bool = Field(
        default=True,
        description="Whether answers have the features of their records, as a learner that joins "
        "labels to them needs.",
    )
    batch_records: int = Field(
        default=2_000, ge=1, le=100_000, description="Most records answered in one transaction."
    )
    instance: str | None = Field(
        default=None,
        pattern=INSTANCE,
        description="Name of this process in the group, which no other has and a restart has "
        "again; the host's name and a number that is free on it, if not set.",
    )
    metrics_host: str = Field(
        default="127.0.0.1", min_length=1, description="Address of the metrics."
    )
    metrics_port: int = Field(
        default=9465,
        ge=0,
        le=65_535,
        description="Port of the metrics; 0 for any free one, which the log names.",
    )

    @property
    def dlq(self) -> str:
        """The topic of dead letters."""
        return self.dlq_topic or f"{self.topic}.dlq"

    def group(self, learners: str) -> str:
        """Return the consumer group; `learners` is that of the learner."""
        return self.group_id or f"{learners}-score"


def check_score(
    section: Score, events: Events, *, group: str, predictions: str | None, others: Collection[str]
) -> None:
    """Refuse what `kaboost score` could not do; each message begins with its setting.

    `group` is that of the learner, `others` the topics that it has labels and dead letters on.
    """
    if section.topic is None:
        if section.dlq_topic is not None or section.group_id is not None:
            raise ValueError(
                "score.topic: is not set, so nothing is read; name the topic of the records, or "
                "leave this section out"
            )
        return
    if predictions is None:
        raise ValueError(
            "predictions.topic: is not set, and answers are written to it; name a topic"
        )
    if section.topic in (predictions, section.dlq, *others):
        raise ValueError(
            f"score.topic: {section.topic} is also that of predictions, labels or dead letters; "
            "name another"
        )
    if section.dlq in (predictions, *others):
        raise ValueError(
            f"score.dlq_topic: {section.dlq} is also that of predictions, labels or the learner's "
            "dead letters; name another"
        )
    if section.group(group) == group:
        raise ValueError(
            f"score.group_id: {group} is also kafka.group_id, whose offsets are the learner's; "
            "name another"
        )
    if events.is_mapped and events.id is None:
        raise ValueError(
            "events.id: is missing, and an answer is found by the id of its record; set its path"
        )
