"""Settings of records: how events are read from them, labels that come later, predictions."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from kaboost.service.config.section import Duration, Folder, Section, TopicName, is_secret

Envelope = Literal["none", "debezium", "cloudevents"]
Client = dict[str, bool | int | float | str | SecretStr]


def _path(value: str) -> str:
    if not value or (not value.startswith("/") and "" in value.split(".")):
        raise ValueError(
            "is not a path; write names with dots between, such as outcome.is_fraud, or a JSON "
            "pointer, such as /outcome/is_fraud"
        )
    return value


Path_ = Annotated[str, AfterValidator(_path)]
FORMAT = (
    "`json`, `avro`, `protobuf`, `json_schema`, `msgpack`, or the name of an entry point of the "
    "group `kaboost.formats`. `auto`: a record with a schema registry's frame by that schema, "
    "any other as JSON."
)
REGISTRY = (
    "Client of the schema registry: `url`, and any other key of confluent-kafka's "
    "SchemaRegistryClient, such as basic.auth.user.info."
)


class Duplicates(Section):
    """Events that come twice."""

    window: int = Field(
        default=100_000,
        ge=0,
        le=10_000_000,
        description="An event whose id is among the last so many learned ones is skipped and "
        "counted; 0 learns it again.",
    )


class Events(Section):
    """How events are read from records: by default from JSON as docs/events.md describes."""

    format: str = Field(default="auto", min_length=1, description=FORMAT)
    schema_registry: Client | None = Field(default=None, description=REGISTRY)
    schema_file: str | None = Field(
        default=None,
        description="File with the schema of records without a registry's frame: an Avro schema, a "
        "JSON Schema, or a Protobuf descriptor set (protoc --include_imports "
        "--descriptor_set_out=FILE).",
    )
    message_type: str | None = Field(
        default=None,
        description="Full name of the Protobuf message, such as shop.Order; required for protobuf.",
    )
    envelope: Envelope = Field(
        default="none",
        description="What is around the record: `debezium` (payload.after; deletes and tombstones "
        "are skipped and counted) or `cloudevents` (structured and binary).",
    )
    features: Literal["*"] | Path_ | dict[str, Path_] = Field(
        default="*",
        description="`*`: every field that is not named below; the path of an object: its fields; "
        "or name and path of every feature. Nested objects become names with dots.",
    )
    label: Path_ = Field(
        default="label", description="Path of the label: names with dots, or a JSON pointer."
    )
    id: Path_ | None = Field(default=None, description="Path of the id: text or a whole number.")
    timestamp: Path_ | None = Field(
        default=None,
        description="Path of the time: RFC 3339, or milliseconds since 1970; the record's time if "
        "not set.",
    )
    weight: Path_ | None = Field(
        default=None, description="Path of the importance, a number >= 0; 1 if not set."
    )
    ignore: list[Path_] = Field(
        default_factory=list, description="Paths that are no features, with all below them."
    )
    coerce: bool = Field(
        default=False,
        description="Convert text to the schema's number or boolean (`'12.5'`, `'1,5'`, `'true'`, "
        "`'yes'`), 0 and 1 to its boolean, and infer kinds from what texts read as.",
    )
    duplicates: Duplicates = Field(
        default_factory=Duplicates,
        description="`window`: an event whose id is among the last so many is skipped and counted.",
    )
    max_influence_per_key: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Largest share that events of one record key may have of the weight of about "
        "the last 1,000 events; what is more counts less, down to nothing. 0.05 is a good limit "
        "where clients are keys and may send wrong labels. Not with labels.topic.",
    )

    @property
    def is_mapped(self) -> bool:
        """Whether paths are set; else the record is the envelope of docs/events.md."""
        paths = {"features", "label", "id", "timestamp", "weight", "ignore"}
        return bool(paths & self.model_fields_set)

    @property
    def reads_predictions(self) -> bool:
        """Whether the records of `predictions.topic` are events by these settings."""
        paths = not self.is_mapped or (self.features, self.id) == ("features", "id")
        return paths and self.envelope == "none" and self.format in ("auto", "json")

    @field_validator("schema_registry")
    @classmethod
    def _check_registry(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        return hide_secrets(value)


STORE = ("directory", "max_memory", "max_waiting")  # settings that may stand without a topic


class Labels(Section):
    """Labels on a topic of their own, for features that wait for them."""

    topic: TopicName | None = Field(
        default=None,
        description="Topic of the labels; not set: an event brings its label.",
    )
    id: Path_ = Field(default="id", description="Path of the id, that of the features.")
    label: Path_ = Field(default="label", description="Path of the label.")
    timestamp: Path_ | None = Field(
        default=None, description="Path of the label's time; the record's time if not set."
    )
    weight: Path_ | None = Field(
        default=None, description="Path of the importance; that of the features if not set."
    )
    format: str | None = Field(
        default=None, description="As events.format, which is also the default."
    )
    envelope: Envelope | None = Field(
        default=None, description="As events.envelope, which is also the default."
    )
    wait: Duration = Field(
        default=30 * 86_400.0,
        description="How long features wait for their label, by the time of events: a number and "
        "a unit, s, m, h or d, such as 30d.",
    )
    expired: Literal["drop"] | dict[Literal["label"], bool | int | float | str] = Field(
        default="drop",
        description="What becomes of features without a label within `wait`: `drop`, or "
        "`{label: 0}`, which learns this label.",
    )
    early: Duration = Field(
        default=600.0,
        description="How long a label waits for its features, by the time of events; at most "
        "`wait`.",
    )
    max_waiting: int = Field(
        default=10_000_000,
        ge=1,
        le=1_000_000_000,
        description="Most features that wait; beyond it the oldest expire.",
    )
    max_memory: int = Field(
        default=64 * 1024 * 1024,
        ge=1024 * 1024,
        description="Bytes of memory for those that wait; the others are on disk only.",
    )
    directory: Folder = Field(
        default=Path("data/labels"), description="Folder of the features that wait."
    )

    @model_validator(mode="after")
    def _require_topic(self) -> Self:
        """Refuse what has no effect because labels come with their events."""
        if self.topic is None and self.model_fields_set - {*STORE, "topic"}:
            raise ValueError(
                "labels.topic: is not set, so labels come with their events; name the topic "
                "of the labels, or leave this section out"
            )
        return self


class Predictions(Section):
    """Predictions written to a topic."""

    topic: TopicName | None = Field(
        default=None,
        description="Topic of the answers of `POST /predict` to rows that have an id: id, "
        "features, prediction, version. Not set: none are written.",
    )
    max_pending: int = Field(
        default=10_000,
        ge=1,
        le=10_000_000,
        description="Most predictions that the broker has not confirmed; further ones are dropped "
        "and counted.",
    )


def check_late_labels(
    section: Labels, events: Events, taken: Collection[str], encode: Callable[[Any], object]
) -> None:
    """Refuse what the learner of late labels could not do; each message begins with its setting.

    `taken` are the topics of events and of dead letters, `encode` raises for a label of no class.
    """
    if section.topic in taken:
        raise ValueError(
            f"labels.topic: {section.topic} is also that of events or dead letters; name another"
        )
    if events.is_mapped and events.id is None:
        raise ValueError(
            "events.id: is missing, and features wait for their label by it; set its path"
        )
    if "early" in section.model_fields_set and section.early > section.wait:
        raise ValueError(
            "labels.early: is longer than labels.wait; a label that came first would wait longer "
            "than features do: write less, or raise labels.wait"
        )
    if section.expired != "drop":
        try:
            encode(section.expired.get("label"))
        except ValueError as err:
            reason = str(err).removeprefix("label: ")
            raise ValueError(f"labels.expired.label: {reason}") from err


def check_predictions(
    predictions: Predictions, labels: Labels, events: Events, topic: str, dlq: str
) -> None:
    """Refuse a topic of predictions that is read as something else.

    `topic` and `dlq` are those of the events and of dead letters.
    """
    name = predictions.topic
    if name is None:
        return
    if name in (dlq, labels.topic):
        raise ValueError(
            f"predictions.topic: {name} is also that of labels or dead letters; name another"
        )
    if name == topic and labels.topic is None:
        raise ValueError(
            f"predictions.topic: {name} is also kafka.topic, and predictions have no label: set "
            "labels.topic, or name another"
        )
    if name == topic and not events.reads_predictions:
        raise ValueError(
            f"predictions.topic: {name} is also kafka.topic, and predictions are JSON with id and "
            "features: leave format, envelope and paths out of events, or name another"
        )


def reveal_secrets(client: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the values of a client's keys, as they were written."""
    if client is None:
        return None
    return {k: v.get_secret_value() if isinstance(v, SecretStr) else v for k, v in client.items()}


def hide_secrets(client: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Wrap the values of keys that hold secrets."""
    if client is None:
        return None
    if not client.get("url"):
        raise ValueError("url is missing; write url: http://host:8081")
    return {
        k: SecretStr(str(v)) if is_secret(k) and not isinstance(v, SecretStr) else v
        for k, v in client.items()
    }
