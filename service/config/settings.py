"""One frozen settings class: every setting typed, bounded and described, read once at the start."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
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
from kaboost.models.build import check
from kaboost.models.features.columns import reserved_width
from kaboost.models.features.labels import labels
from kaboost.models.features.schema import AUTO, KINDS, WILDCARD, kind_hint, parse_schema
from kaboost.models.spec import normalise_spec
from kaboost.models.table_model import encoder_of
from kaboost.service.config.messages import advise
from kaboost.service.config.sources import PREFIX, Leaf, flatten, read
from kaboost.service.errors import ConfigError

SECRET = re.compile(
    r"password|passphrase|secret|credential|token(?!\.endpoint)|key\.pem$|ssl\.key$|oauthbearer\.config"
)
# What the consumer must set by itself for each event to count exactly once.
RESERVED = {
    "bootstrap.servers": "set kafka.bootstrap_servers",
    "metadata.broker.list": "set kafka.bootstrap_servers",
    "group.id": "set kafka.group_id",
    "auto.offset.reset": "set kafka.start_from",
    "enable.auto.commit": "leave it out: offsets are committed after each durable checkpoint",
    "enable.auto.offset.store": "leave it out: offsets live in the checkpoint",
    "enable.partition.eof": "leave it out",
}
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Port = Annotated[int, Field(ge=1, le=65_535)]


def _kind(given: object) -> object:
    """Refuse what is no kind, before the whole schema is looked at: the feature is named then."""
    if given not in (*KINDS, AUTO) or not isinstance(given, str):
        raise ValueError(f"should be one of {', '.join(map(repr, KINDS))}{kind_hint(given)}")
    return given


Kind = Annotated[
    Literal["number", "category", "boolean", "datetime", "text", "auto"], BeforeValidator(_kind)
]
BROKER = re.compile(
    r"((PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?(\[[\w:.%]+\]|[^\s:/\[\]]+)(:(?P<port>\d{1,5}))?",
    re.I,
)


def _folder(given: Path) -> Path:
    with suppress(OSError):  # who may not look is told when it is written to
        if given.exists() and not given.is_dir():
            raise ValueError("is no folder; name one, or a place where one can be made")
    return given


Folder = Annotated[Path, AfterValidator(_folder)]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class Section(BaseModel):
    """A part of the settings that cannot change and knows all its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Kafka(Section):
    """Where the labelled events come from."""

    bootstrap_servers: str = Field(
        default="127.0.0.1:9092",
        min_length=1,
        description="Brokers to ask first, host:port,host:port.",
    )
    topic: TopicName = Field(
        default="kaboost.events.v1", description="Topic of the labelled events."
    )
    group_id: str = Field(
        default="kaboost",
        min_length=1,
        description="Group under which offsets are committed, for lag tools only.",
    )
    dlq_topic: TopicName | None = Field(
        default=None, description="Topic of the dead letters; `<topic>.dlq` where it is not set."
    )
    create_dlq: bool = Field(
        default=True,
        description="Create the dead-letter topic when it is missing; false relies on the broker "
        "to create it at the first record.",
    )
    start_from: str = Field(
        default="earliest",
        description="First position without a checkpoint: `earliest`, `latest` or an RFC 3339 "
        "timestamp such as 2026-11-20T10:00:00Z.",
    )
    topic_timeout: Seconds = Field(
        default=60.0, description="Seconds to wait for a missing topic before exit 4."
    )
    broker_timeout: Seconds = Field(
        default=60.0, description="Seconds to wait for an unreachable broker before exit 4."
    )
    batch_events: int = Field(
        default=2_000, ge=1, le=100_000, description="Events learned in one call at most."
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
        """Name the dead-letter topic."""
        return self.dlq_topic or f"{self.topic}.dlq"

    @property
    def start_ms(self) -> int | None:
        """Give `start_from` in milliseconds since 1970, None for earliest and latest."""
        if self.start_from in ("earliest", "latest"):
            return None
        return int(datetime.fromisoformat(self.start_from).timestamp() * 1000)

    def client(self) -> dict[str, str]:
        """Spell out a confluent-kafka client's configuration, secrets revealed."""
        return {"bootstrap.servers": self.bootstrap_servers} | {
            key: _spell(value) for key, value in self.extra.items()
        }

    @field_validator("bootstrap_servers")
    @classmethod
    def _addresses(cls, value: str) -> str:
        for each in map(str.strip, value.split(",")):
            found = BROKER.fullmatch(each)
            if not found or not 1 <= int(found["port"] or 9092) <= 65_535:
                raise ValueError(f"{each!r} is no broker's address; write host:port")
        return value

    @field_validator("start_from")
    @classmethod
    def _start(cls, value: str) -> str:
        if value in ("earliest", "latest"):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as err:
            raise ValueError("write earliest, latest or an RFC 3339 timestamp") from err
        if moment.tzinfo is None:
            raise ValueError("the timestamp needs its offset: end it with Z or +01:00")
        return value

    @field_validator("extra")
    @classmethod
    def _extra(cls, extra: dict[str, Any]) -> dict[str, Any]:
        for key in extra:
            if key in RESERVED:
                raise ValueError(f"{key} is not for kafka.extra: {RESERVED[key]}")
        return {
            key: SecretStr(_spell(value)) if is_secret(key) else value
            for key, value in extra.items()
        }

    @field_validator("dlq_topic")
    @classmethod
    def _no_loop(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and value == info.data.get("topic"):
            raise ValueError("is kafka.topic itself, dead letters would come back: name another")
        return value


class Task(Section):
    """What is predicted."""

    kind: Literal["regression", "binary", "multiclass"] = Field(description="What a label is.")
    labels: list[bool | int | float | str] | None = Field(
        default=None,
        validate_default=True,
        description="The classes; of a binary task the negative one first (0 and 1, or false and "
        "true, where it is not set). Required for multiclass, not for regression.",
    )

    @field_validator("labels")
    @classmethod
    def _fits(cls, value: list[Any] | None, info: ValidationInfo) -> list[Any] | None:
        if "kind" in info.data:
            labels(info.data["kind"], value)
        return value


class Features(Section):
    """What an event is described by."""

    columns: dict[str, Kind] = Field(
        default={"*": "auto"},
        alias="schema",
        min_length=1,
        description="Every feature's name and kind. `'*': auto` stands for those not named: their "
        "kinds are inferred from their first values. The word `auto` alone is short for it, and so "
        "is `features: auto`.",
    )
    unknown: Literal["refuse", "ignore"] = Field(
        default="refuse",
        description="What happens to an event with a feature the schema does not know; where "
        "features may join, `'*': auto`, none is refused.",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _in_words(cls, value: object) -> object:
        return {WILDCARD: AUTO} if value == AUTO else value

    @field_validator("columns")
    @classmethod
    def _known(cls, value: dict[str, str]) -> dict[str, str]:
        parse_schema(value)
        return value


class Snapshots(Section):
    """How predictions follow learning."""

    directory: Folder = Field(
        default=Path("data/snapshots"), description="Folder of the snapshot files."
    )
    every_events: int = Field(
        default=100_000, ge=1, description="Publish after so many events at most."
    )
    every_seconds: Seconds = Field(
        default=1.0, description="Publish after so many seconds at most."
    )
    keep: int = Field(default=10, ge=1, le=100_000, description="Newest files that are kept.")


class Checkpoints(Section):
    """How learning survives a crash."""

    directory: Folder = Field(
        default=Path("data/checkpoints"), description="Folder of the checkpoint files."
    )
    every_events: int = Field(
        default=1_000_000, ge=1, description="Write one after so many events at most."
    )
    every_seconds: Seconds = Field(
        default=10.0, description="Write one after so many seconds at most."
    )
    keep: int = Field(
        default=3,
        ge=1,
        le=100_000,
        description="Newest files that are kept; with 1 a damaged file has none before it.",
    )


class Api(Section):
    """The HTTP door."""

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on; 0.0.0.0 for every one.",
    )
    port: int = Field(
        default=8000, ge=0, le=65_535, description="Port to listen on; 0 for any free one."
    )
    workers: int = Field(default=1, ge=1, le=256, description="Processes that answer.")
    max_body_bytes: int = Field(
        default=8 * 1024 * 1024, ge=1, le=1_000_000_000, description="Larger requests get a 413."
    )
    max_rows: int = Field(
        default=10_000, ge=1, le=10_000_000, description="Instances of one request."
    )
    timeout_seconds: Seconds = Field(
        default=10.0,
        description="Seconds the body of a request may take to arrive, and at the end the requests "
        "in flight to be finished.",
    )
    stale_after_seconds: Seconds = Field(
        default=30.0, description="Seconds without a sign of the learner until answers say `stale`."
    )


class Metrics(Section):
    """The learner's own metrics port."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: Port = Field(default=9464, description="Port to listen on.")


class Log(Section):
    """What the program says on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least level that is written."
    )
    format: Literal["json", "text"] = Field(
        default="json", description="One JSON object a line, or text."
    )


class Settings(BaseSettings):
    """Everything that can be set: `load` merges file, secrets, environment and flags into it."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
    )

    name: str = Field(
        default="kaboost", min_length=1, max_length=200, description="The model's name in answers."
    )
    kafka: Kafka = Field(default_factory=Kafka)
    task: Task
    features: Features = Field(default_factory=Features)
    model: dict[str, Any] | None = Field(
        default=None,
        validate_default=True,
        description="Rule, bank, loss and seed, the default of the task where it is not set; "
        "`kaboost models` lists kinds and parameters. Or `river` and `params`: a model of the "
        "library River, which has no checkpoint; docs/river.md tells of it.",
    )
    snapshots: Snapshots = Field(default_factory=Snapshots)
    checkpoints: Checkpoints = Field(default_factory=Checkpoints)
    api: Api = Field(default_factory=Api)
    metrics: Metrics = Field(default_factory=Metrics)
    log: Log = Field(default_factory=Log)
    _origins: dict[Leaf, str] = PrivateAttr(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Whether the model is one that only lives in the process that learns it."""
        return river_spec.is_river(self.model)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,
        **more: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what is given: `load` has merged the sources and knows every origin."""
        return (init_settings,)

    @field_validator("features", mode="before")
    @classmethod
    def _in_a_word(cls, value: object) -> object:
        return {} if value == AUTO else value

    @field_validator("model")
    @classmethod
    def _allowed(cls, value: dict[str, Any] | None, info: ValidationInfo) -> dict[str, Any] | None:
        if "task" not in info.data:
            return value
        task, features = info.data["task"], info.data.get("features")
        if river_spec.is_river(value) and features is not None:
            RiverModel(task.kind, value, features.columns, task.labels).rehearse()
        else:
            specify(value, task.kind)
            if features is not None:  # what the theory forbids is known now, not by the learner
                width = encoder_of(normalise_spec(value, task.kind))(features.columns).width
                width, m = width or reserved_width(0), labels(task.kind, task.labels).m
                check(value, width, m, task=task.kind)
        return value

    @field_validator("metrics")
    @classmethod
    def _apart(cls, value: Metrics, info: ValidationInfo) -> Metrics:
        """Refuse one port for two doors; where the roles run apart nobody needs it either."""
        api = info.data.get("api")
        if api is not None and value.port == api.port:
            hosts = {host.replace("localhost", "127.0.0.1") for host in (api.host, value.host)}
            if len(hosts) == 1 or hosts & {"0.0.0.0", "::"}:
                raise ValueError(f"port {value.port} is api.port as well; give one of them another")
        return value


def load(path: Path | None, overrides: Mapping[str, object] | None = None) -> Settings:
    """Read the configuration; flags go before environment, secrets, file and defaults."""
    merged = read(Settings, path, overrides or {})
    try:
        settings = Settings(**{"task": {}, "features": {}, **merged.tree()})
    except ValidationError as err:
        raise ConfigError(advise(err, Settings, merged, is_hidden)) from err
    settings._origins.update(merged.origins)
    return settings


def specify(model: Mapping[str, Any] | None, task: str) -> dict[str, Any]:
    """Spell out the model, of whichever kind it is."""
    if river_spec.is_river(model):
        return river_spec.normalise_spec(model or {}, task)
    return normalise_spec(model, task)


def is_secret(key: str) -> bool:
    """Say whether a librdkafka key holds something to hide."""
    return SECRET.search(key.lower()) is not None


def is_hidden(path: Leaf) -> bool:
    """Say whether a setting's value is a secret or a mapping that may hold one."""
    extra = ("kafka", "extra")
    return path == extra[: len(path)] or (path[:2] == extra and is_secret(".".join(path[2:])))


def values(settings: Settings) -> dict[Leaf, Any]:
    """List every effective value leaf by leaf, secrets hidden, the model spelled out."""
    tree = settings.model_dump(mode="json", by_alias=True)
    tree["model"] = specify(settings.model, settings.task.kind)
    return dict(flatten(tree))


def origins(settings: Settings) -> dict[Leaf, str]:
    """Say of every effective value where it came from."""
    return {path: _origin(settings._origins, path) for path in values(settings)}


def _origin(known: Mapping[Leaf, str], path: Leaf) -> str:
    return next((known[path[:n]] for n in range(len(path), 0, -1) if path[:n] in known), "default")


def _spell(value: bool | int | float | str | SecretStr) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value).lower() if isinstance(value, bool) else str(value)
