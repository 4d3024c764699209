"""What every event format provides: records in; typed columns, faults and new features out."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from kaboost.models.features.onehot import Table
from kaboost.models.types import Vec
from kaboost.service.errors import EventError

Faults = list[tuple[int, EventError]]


class Metadata(Protocol):
    """Identify and date one event."""

    @property
    def id(self) -> str | None:
        """The producer's own name of the event."""

    @property
    def timestamp(self) -> datetime | float | None:
        """When it happened: an instant, or milliseconds since 1970; None if not stated."""


class Decoded(NamedTuple):
    """Hold what `decode` found among the first `consumed` records: B events, and faults."""

    table: Table  # features of B events
    y: Vec  # (B,) labels: numbers, or indices of classes
    w: Vec  # (B,) weights
    meta: Sequence[Metadata]  # (B,)
    faults: Faults  # the index of every record that is no event, and why
    new_features: dict[str, str]  # features to add before the next record, with their kinds
    consumed: int  # below the number of records only if there are new features
    ignored: int  # values of unknown features that were skipped


class Decoder(Protocol):
    """Decode one event format for one schema; `add_features` extends that schema."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode records in order, up to one that brings new features.

        To continue, call `add_features` or `freeze`, then pass the records from `consumed` on.
        """

    def tabulate(self, features: Sequence[Any]) -> Table:
        """Return the features of B decoded rows, grouped by kind."""

    def diagnose(self, features: object, pointer: str) -> list[tuple[str, str]]:
        """List every fault of one row's features, each with its JSON pointer."""

    def add_features(self, kinds: Mapping[str, str]) -> None:
        """Add features of inferred kinds to the schema."""

    def freeze(self) -> None:
        """Add no more features: ignore unknown ones from now on, and count them."""
