"""The section `features` of the settings: names and kinds, and what becomes of other names."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from kaboost.models.features.schema import AUTO, KINDS, WILDCARD, kind_hint, parse_schema
from kaboost.service.config.section import Section


def _kind(value: object) -> object:
    """Refuse an unknown kind before the schema is validated: so the message names the feature."""
    if value not in (*KINDS, AUTO) or not isinstance(value, str):
        raise ValueError(f"should be one of {', '.join(map(repr, KINDS))}{kind_hint(value)}")
    return value


Kind = Annotated[
    Literal["number", "category", "boolean", "datetime", "text", "auto"], BeforeValidator(_kind)
]


class Features(Section):
    """The features of an event."""

    columns: dict[str, Kind] = Field(
        default={"*": "auto"},
        alias="schema",
        min_length=1,
        description="Name and kind of every feature. `'*': auto` stands for all others: their "
        "kinds are inferred from their first values. `schema: auto` and `features: auto` are short "
        "for it.",
    )
    max_new_per_event: int = Field(
        default=300,
        ge=1,
        le=1_000_000,
        description="Most names of one event that become features at once, where kinds are "
        "inferred. Others do once they have come in 20 events.",
    )
    max_new_per_hour: int = Field(
        default=50,
        ge=0,
        le=1_000_000,
        description="Most names that become features at once in an hour of the records' time, "
        "after the first event with features; and most inferred features with few values, unless "
        "more others are known. Unless it is set, it is 0 where `kafka.topic` is "
        "`predictions.topic`: a misspelt name of a request would be a feature for good.",
    )
    unknown: Literal["refuse", "ignore"] = Field(
        default="refuse",
        description="How an event with unknown features is treated: rejected, or learned without "
        "them. With `'*': auto` no feature is unknown.",
    )

    aliases: dict[str, Annotated[str, Field(min_length=1, max_length=200)] | None] = Field(
        default_factory=dict,
        description="New names of features that a model has learned, old name to new one, so that "
        "it goes on without a cold start; null drops one of a declared schema. They apply once: "
        "events have the new names.",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _expand_auto(cls, value: object) -> object:
        return {WILDCARD: AUTO} if value == AUTO else value

    @field_validator("aliases")
    @classmethod
    def _check_aliases(
        cls, value: dict[str, str | None], info: ValidationInfo
    ) -> dict[str, str | None]:
        """Refuse aliases that say two things of one name."""
        new = [name for name in value.values() if name is not None]
        for name in value:
            if name in info.data.get("columns", {}):
                raise ValueError(f"{name} is also in features.schema: remove it there or here")
            if name in new:
                raise ValueError(f"{name} is an old name and a new one: name the last one only")
        if len(set(new)) < len(new):
            raise ValueError("two old names have one new name: features cannot be merged")
        return value

    @field_validator("columns")
    @classmethod
    def _check_schema(cls, value: dict[str, str]) -> dict[str, str]:
        parse_schema(value)
        return value
