"""The section `task`: what is predicted, and its labels."""

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from kaboost.models.features.labels import MAX_CLASSES, MAX_CLASSES_RANGE, Labels, labels
from kaboost.service.config.section import Section


class Task(Section):
    """What is predicted."""

    kind: Literal["regression", "binary", "multiclass"] = Field(description="What a label is.")
    labels: list[bool | int | float | str] | Literal["auto"] | None = Field(
        default=None,
        validate_default=True,
        description="The classes; of a binary task the negative one first (0 and 1, or false and "
        "true, if not set). Required for multiclass, not for regression. `auto`, for multiclass: "
        "classes are learned as they come (docs/events.md).",
    )
    max_classes: int = Field(
        default=MAX_CLASSES,
        ge=MAX_CLASSES_RANGE[0],
        le=MAX_CLASSES_RANGE[1],
        description="Most classes that `labels: auto` learns; an event of a further one is a dead "
        "letter.",
    )

    @field_validator("labels")
    @classmethod
    def _check_labels(
        cls, value: list[Any] | str | None, info: ValidationInfo
    ) -> list[Any] | str | None:
        if "kind" in info.data:
            labels(info.data["kind"], value)
        return value

    @property
    def known_labels(self) -> Labels:
        """The labels that are known before any event."""
        return labels(self.kind, self.labels, self.max_classes)
