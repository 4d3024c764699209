"""What every event format provides: records in; typed columns, faults and new features out."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from kaboost.models.features.labels import Label, Labels
from kaboost.models.features.onehot import Table
from kaboost.models.features.schema import Schema
from kaboost.models.types import Vec
from kaboost.service.errors import EventError
from kaboost.service.events.metadata import Repairs
from kaboost.service.events.new_names import NewNames

DUPLICATE = "duplicate"  # reason of a skipped event: its id was learned before
NO_ID = "is missing; features wait for their label by it: send one, or set events.id to its path"

Faults = list[tuple[int, EventError]]
Headers = Sequence[tuple[str, bytes | str | None]]  # of one record


def no_headers(index: int) -> Headers:
    """Return the headers of records that have none."""
    return ()


class Metadata(Protocol):
    """Identify and date one event."""

    @property
    def id(self) -> str | int | None:
        """The producer's name of the event."""

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
    consumed: int  # below the number of records before new features or a new class, and before a
    # value that may correct an inferred kind, which is counted when all before it is learned
    ignored: int  # values of unknown features that were skipped
    skipped: Sequence[
        tuple[int, str]
    ] = ()  # the index of every record that teaches nothing, and why
    repairs: Mapping[tuple[str, str], Repairs] = {}  # of ids and timestamps, see `metadata`
    new_class: Label | None = None  # to add before the next record


class Decoder(Protocol):
    """Decode one event format for one schema; `add_features` extends that schema."""

    def decode(
        self,
        values: Sequence[bytes | None],
        headers: Callable[[int], Headers] = no_headers,
        is_new: Callable[[str], bool] | None = None,
    ) -> Decoded:
        """Decode records in order, up to one that brings new features or a new class.

        To continue, call `add_features` or `freeze` for new features, `follow_labels` for a new
        class, and `follow` with the schema of a model that has learned the events; then pass the
        records from `consumed` on.

        Parameters
        ----------
        values
            The values of the records.
        headers
            Returns the headers of one of them, for the formats that read them.
        is_new
            Returns whether an id comes for the first time, and notes it; events whose id does not
            are skipped.
        """

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch what decoding these takes; raise RegistryAway if it is not there now."""

    def plain(self, value: bytes | None, headers: Headers) -> object:
        """Return a record as plain values with all that it brings, or raise an EventError."""

    def tabulate(self, features: Sequence[Any]) -> Table:
        """Return the features of B decoded rows, grouped by kind."""

    def diagnose(self, features: object, pointer: str) -> list[tuple[str, str]]:
        """List every fault of one row's features, each with its JSON pointer."""

    def add_features(self, kinds: Mapping[str, str]) -> None:
        """Add features of inferred kinds to the schema."""

    def follow(self, schema: Schema) -> None:
        """Take the schema of the model, which has learned what was decoded so far."""

    def limit_names(self, names: NewNames) -> None:
        """Ask before names that nobody declared become features."""

    def follow_labels(self, labels: Labels) -> None:
        """Take the labels of the model, to which a class was added, or to which none can be."""

    def freeze(self) -> None:
        """Add no more features: ignore unknown ones from now on, and count them."""
