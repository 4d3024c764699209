"""The frozen settings class: every setting typed, bounded and described; read once at the start."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kaboost.models.adapters import river_spec
from kaboost.models.adapters.from_river import RiverModel
from kaboost.models.features.schema import AUTO
from kaboost.service.config.access import without_secrets
from kaboost.service.config.admin import Admin
from kaboost.service.config.api import Api
from kaboost.service.config.candidates import (
    Candidates,
    Promotion,
    check_comparable,
    check_names,
    check_surroundings,
    merge,
)
from kaboost.service.config.features import Features
from kaboost.service.config.guard import Guard
from kaboost.service.config.messages import describe_errors
from kaboost.service.config.monitoring import Log, Metrics, Otel
from kaboost.service.config.privacy import Privacy
from kaboost.service.config.records import (
    Events,
    Labels,
    Predictions,
    check_late_labels,
    check_predictions,
)
from kaboost.service.config.score import Score, check_score
from kaboost.service.config.section import Seconds, Section, TopicName, is_secret, to_text
from kaboost.service.config.sources import PREFIX, Leaf, flatten, read
from kaboost.service.config.specification import check_spec, specify
from kaboost.service.config.standby import Standby
from kaboost.service.config.stores import Checkpoints, Snapshots
from kaboost.service.config.task import Task
from kaboost.service.errors import ConfigError

# Keys that the learner sets itself, so that each event counts exactly once.
RESERVED = {
    "bootstrap.servers": "set kafka.bootstrap_servers",
    "metadata.broker.list": "set kafka.bootstrap_servers",
    "group.id": "set kafka.group_id",
    "auto.offset.reset": "set kafka.start_from",
    "enable.auto.commit": "leave it out: offsets are committed after each durable checkpoint",
    "enable.auto.offset.store": "leave it out: offsets are stored in the checkpoint",
    "enable.partition.eof": "leave it out",
}


BROKER = re.compile(
    r"((PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?(\[[\w:.%]+\]|[^\s:/\[\]]+)(:(?P<port>\d{1,5}))?",
    re.I,
)


class Kafka(Section):
    """Where the labelled events come from."""

    bootstrap_servers: str = Field(
        default="127.0.0.1:9092",
        min_length=1,
        description="Brokers to connect to first: host:port,host:port, or a list of them.",
    )
    topic: TopicName = Field(
        default="kaboost.events.v1", description="Topic of the labelled events."
    )
    group_id: str = Field(
        default="kaboost",
        min_length=1,
        description="Consumer group of the committed offsets, for lag tools only.",
    )
    dlq_topic: TopicName | None = Field(
        default=None, description="Topic of the dead letters; `<topic>.dlq` if not set."
    )
    create_dlq: bool = Field(
        default=True,
        description="Create the dead-letter topic if it is missing; false relies on the broker to "
        "create it at the first record.",
    )
    start_from: str = Field(
        default="earliest",
        description="Where to start without a checkpoint: `earliest`, `latest` or an RFC 3339 "
        "timestamp such as 2026-11-20T10:00:00Z.",
    )
    on_gap: Literal["refuse", "accept"] = Field(
        default="refuse",
        description="What to do where the topic does not continue the state: events between were "
        "deleted, the topic was created again or is on another cluster, or its log was truncated. "
        "`refuse` ends with exit 3; `accept` keeps the model and reads on from the first record "
        "that is there.",
    )
    topic_timeout: Seconds = Field(
        default=60.0, description="Seconds to wait for a missing topic before exit 4."
    )
    broker_timeout: Seconds = Field(
        default=60.0, description="Seconds to wait for an unreachable broker before exit 4."
    )
    batch_events: int = Field(
        default=2_000, ge=1, le=100_000, description="Most events learned in one call."
    )
    max_event_bytes: int = Field(
        default=1_000_000, ge=1, le=100_000_000, description="Larger events become dead letters."
    )
    dlq_timeout: Seconds = Field(
        default=5.0,
        description="Seconds to wait for a dead letter to be written before learning pauses.",
    )
    extra: dict[str, bool | int | float | str | SecretStr] = Field(
        default_factory=dict,
        description="Any other librdkafka key, such as security.protocol; values of keys that "
        "look like secrets are never shown.",
    )

    @property
    def dlq(self) -> str:
        """Return the name of the dead-letter topic."""
        return self.dlq_topic or f"{self.topic}.dlq"

    @property
    def start_ms(self) -> int | None:
        """Return `start_from` in milliseconds since 1970, None for earliest and latest."""
        if self.start_from in ("earliest", "latest"):
            return None
        return int(datetime.fromisoformat(self.start_from).timestamp() * 1000)

    def client(self) -> dict[str, str]:
        """Return the configuration of a confluent-kafka client, secrets revealed."""
        return {"bootstrap.servers": self.bootstrap_servers} | {
            key: to_text(value) for key, value in self.extra.items()
        }

    @field_validator("bootstrap_servers", mode="before")
    @classmethod
    def _join(cls, value: object) -> object:
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return ",".join(value) if is_list else value  # type: ignore[arg-type] # a list of str

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_addresses(cls, value: str) -> str:
        for address in map(str.strip, value.split(",")):
            match = BROKER.fullmatch(address)
            if not match or not 1 <= int(match["port"] or 9092) <= 65_535:
                raise ValueError(f"{address!r} is no broker address; write host:port")
        return value

    @field_validator("start_from")
    @classmethod
    def _check_start(cls, value: str) -> str:
        if value in ("earliest", "latest"):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as err:
            raise ValueError("write earliest, latest or an RFC 3339 timestamp") from err
        if moment.tzinfo is None:
            raise ValueError("the timestamp needs a UTC offset: end it with Z or +01:00")
        return value

    @field_validator("extra")
    @classmethod
    def _check_extra(cls, extra: dict[str, Any]) -> dict[str, Any]:
        for key in extra:
            if key in RESERVED:
                raise ValueError(f"{key} is not allowed in kafka.extra: {RESERVED[key]}")
        return {
            key: SecretStr(to_text(value)) if is_secret(key) else value
            for key, value in extra.items()
        }

    @field_validator("dlq_topic")
    @classmethod
    def _check_dlq(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and value == info.data.get("topic"):
            raise ValueError(
                "is kafka.topic itself, so dead letters would be read again: name another topic"
            )
        return value


class Settings(BaseSettings):
    """All settings; `load` merges file, secrets, environment and flags into them."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
    )

    name: str = Field(
        default="kaboost",
        min_length=1,
        max_length=200,
        description="The model's name in responses.",
    )
    kafka: Kafka = Field(default_factory=Kafka)
    task: Task
    features: Features = Field(default_factory=Features)
    events: Events = Field(default_factory=Events)
    labels: Labels = Field(default_factory=Labels)
    predictions: Predictions = Field(default_factory=Predictions)
    score: Score = Field(default_factory=Score)
    standby: Standby = Field(default_factory=Standby)
    model: dict[str, Any] | None = Field(
        default=None,
        validate_default=True,
        description="Rule, bank, loss and seed; the task's default if not set. `kaboost models` "
        "lists kinds and parameters. Or `river` and `params`: a model of the library River, which "
        "has no checkpoints (docs/river.md).",
    )
    candidates: Candidates = Field(
        default_factory=dict,
        validate_default=True,
        description="Models that learn the same events next to the one that is served, by name: "
        "what differs from `model` (docs/challengers.md). At most 8; `kaboost promote` serves one.",
    )
    promotion: Promotion = Field(default_factory=Promotion)
    snapshots: Snapshots = Field(default_factory=Snapshots)
    checkpoints: Checkpoints = Field(default_factory=Checkpoints)
    guard: Guard = Field(default_factory=Guard)
    api: Api = Field(default_factory=Api)
    metrics: Metrics = Field(default_factory=Metrics)
    admin: Admin = Field(default_factory=Admin)
    log: Log = Field(default_factory=Log)
    otel: Otel = Field(default_factory=Otel)
    privacy: Privacy = Field(default_factory=Privacy)
    _origins: dict[Leaf, str] = PrivateAttr(default_factory=dict)

    @property
    def new_names_per_hour(self) -> int:
        """How many new names become features at once in an hour; those of requests are on trial."""
        is_set = "max_new_per_hour" in self.features.model_fields_set
        reads_predictions = self.kafka.topic == self.predictions.topic
        return 0 if reads_predictions and not is_set else self.features.max_new_per_hour

    @property
    def is_live(self) -> bool:
        """Whether the model is a River model, which exists only in the process that learns it."""
        return river_spec.is_river(self.model)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,
        **more: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only the arguments: `load` has merged the sources and knows every origin."""
        return (init_settings,)

    @field_validator("features", mode="before")
    @classmethod
    def _expand_auto(cls, value: object) -> object:
        return {} if value == AUTO else value

    @field_validator("model")
    @classmethod
    def _check_model(
        cls, value: dict[str, Any] | None, info: ValidationInfo
    ) -> dict[str, Any] | None:
        if "task" not in info.data:
            return value
        task, features = info.data["task"], info.data.get("features")
        late = info.data.get("labels")
        if river_spec.is_river(value) and late is not None and late.topic is not None:
            raise ValueError(
                "a River model cannot wait for labels.topic; leave it out, send labels in events"
            )
        events = info.data.get("events")
        if river_spec.is_river(value) and events and events.max_influence_per_key is not None:
            raise ValueError(
                "a River model knows no weights, so leave events.max_influence_per_key out"
            )
        if river_spec.is_river(value) and features is not None:
            RiverModel(task.kind, value, features.columns, task.labels).rehearse()
        else:
            check_spec(value, task, features)
        return value

    @field_validator("candidates")
    @classmethod
    def _check_candidates(cls, value: Candidates, info: ValidationInfo) -> Candidates:
        """Refuse what could not learn next to the model."""
        if not value or "task" not in info.data or "model" not in info.data:
            return value
        check_names(value)
        task, model = info.data["task"], info.data["model"]
        check_surroundings(model, info.data.get("labels"))
        for name, changes in value.items():
            try:
                spec = merge(model, changes, task.kind)
                check_spec(spec, task, info.data.get("features"))
                check_comparable(*(specify(each, task.kind) for each in (model, spec)))
            except ValueError as err:
                raise ValueError(f"{name}: {err}") from err
        return value

    @field_validator("guard")
    @classmethod
    def _check_guard(cls, value: Guard, info: ValidationInfo) -> Guard:
        if value.margin is not None and river_spec.is_river(info.data.get("model")):
            raise ValueError("a River model has no snapshots to fall back to; leave guard out")
        return value

    @field_validator("labels")
    @classmethod
    def _check_late_labels(cls, value: Labels, info: ValidationInfo) -> Labels:
        """Refuse what the learner of late labels could not do."""
        kafka, task, events = (info.data.get(key) for key in ("kafka", "task", "events"))
        if value.topic is None or kafka is None or task is None or events is None:
            return value
        if events.max_influence_per_key is not None:
            raise ValueError(
                "events.max_influence_per_key needs labels in the events; leave one of both out"
            )
        known = task.known_labels

        def encode(label: Any) -> object:
            return known.encode(label) if known.new_class(label) is None else None

        check_late_labels(value, events, (kafka.topic, kafka.dlq), encode)
        return value

    @field_validator("predictions")
    @classmethod
    def _check_predictions(cls, value: Predictions, info: ValidationInfo) -> Predictions:
        """Refuse a topic of predictions that is read as something else."""
        kafka, labels_, events = (info.data.get(key) for key in ("kafka", "labels", "events"))
        if kafka is not None and labels_ is not None and events is not None:
            check_predictions(value, labels_, events, kafka.topic, kafka.dlq)
        return value

    @field_validator("snapshots")
    @classmethod
    def _check_publish(cls, value: Snapshots, info: ValidationInfo) -> Snapshots:
        """Refuse to publish a River model, and topics that are something else."""
        if value.publish and river_spec.is_river(info.data.get("model")):
            raise ValueError("a River model has no snapshots; leave publish out")
        kafka = info.data.get("kafka")
        for topic in (kafka.topic, kafka.dlq) if kafka else ():
            if f"kafka:{topic}" in value.publish:
                raise ValueError(f"publish: topic {topic} has other records; name another topic")
        return value

    @field_validator("score")
    @classmethod
    def _check_score(cls, value: Score, info: ValidationInfo) -> Score:
        """Refuse topics of `kaboost score` that are read or written as something else."""
        kafka, events, labels, predictions = map(
            info.data.get, ("kafka", "events", "labels", "predictions")
        )
        if kafka and events and labels and predictions:
            others = [name for name in (kafka.dlq, labels.topic) if name]
            topic, group = predictions.topic, kafka.group_id
            check_score(value, events, group=group, predictions=topic, others=others)
        return value

    @field_validator("checkpoints")
    @classmethod
    def _check_store(cls, value: Checkpoints, info: ValidationInfo) -> Checkpoints:
        """Refuse an object store for a River model, which has no checkpoints."""
        if isinstance(value.directory, str) and river_spec.is_river(info.data.get("model")):
            raise ValueError("a River model has no checkpoints to store; name a folder")
        return value

    @field_validator("metrics", "admin")
    @classmethod
    def _check_ports(cls, value: Metrics | Admin, info: ValidationInfo) -> Metrics | Admin:
        """Refuse one port for two purposes, also if they are on different machines."""
        for name in ("api", "metrics"):
            other = info.data.get(name)
            if other is not None and value.port == other.port != 0:
                hosts = {
                    host.replace("localhost", "127.0.0.1") for host in (other.host, value.host)
                }
                if len(hosts) == 1 or hosts & {"0.0.0.0", "::"}:
                    raise ValueError(f"port {value.port} is also {name}.port; change one of them")
        return value


def load(path: Path | None, overrides: Mapping[str, object] | None = None) -> Settings:
    """Read the configuration; flags override environment, secrets, file and defaults."""
    merged = read(Settings, path, overrides or {})
    try:
        settings = Settings(**{"task": {}, "features": {}, **merged.tree()})
    except ValidationError as err:
        raise ConfigError(describe_errors(err, Settings, merged, is_hidden)) from err
    settings._origins.update(merged.origins)
    return settings


JWKS = ("api", "auth", "jwt", "jwks")  # an address may have a key in its query


def is_hidden(path: Leaf) -> bool:
    """Whether a setting's value is a secret or a mapping that may contain one."""
    if path == ("privacy", "key"):
        return True
    if path in (("admin",), ("admin", "key")) or path == JWKS[: len(path)]:
        return True
    return any(
        path == extra[: len(path)] or (path[:2] == extra and is_secret(".".join(path[2:])))
        for extra in (("kafka", "extra"), ("checkpoints", "options"), ("snapshots", "options"))
    )


def values(settings: Settings) -> dict[Leaf, Any]:
    """List every effective value by leaf: secrets hidden, the model normalised."""
    tree = settings.model_dump(mode="json", by_alias=True)
    tree["model"] = specify(settings.model, settings.task.kind)
    jwks = settings.api.auth.jwt.jwks
    if jwks is not None and "://" in jwks:
        tree["api"]["auth"]["jwt"]["jwks"] = without_secrets(jwks)
    return dict(flatten(tree))


def origins(settings: Settings) -> dict[Leaf, str]:
    """Return the origin of every effective value."""
    return {path: _origin(settings._origins, path) for path in values(settings)}


def _origin(known: Mapping[Leaf, str], path: Leaf) -> str:
    return next((known[path[:n]] for n in range(len(path), 0, -1) if path[:n] in known), "default")
