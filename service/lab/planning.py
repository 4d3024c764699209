"""The settings of a replay: those of a file, or what the first records suggest."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kaboost.service.config.settings import Settings, load
from kaboost.service.errors import ConfigError, EventError
from kaboost.service.events.formats import make_reader
from kaboost.service.events.mapping import parse_path
from kaboost.service.events.reader import Skipped
from kaboost.service.onboarding.columns import columns
from kaboost.service.onboarding.configuration import LATER_FEATURES, Origin, render
from kaboost.service.onboarding.formats import Readable, read_records
from kaboost.service.onboarding.plan import Given, Plan, hint, make_plan
from kaboost.service.onboarding.topic_sample import RawRecord

SAMPLE_RECORDS = 1000
NO_RECORDS = "has no records; name an input with a header and rows"


class ConfigOptions(NamedTuple):
    """What flags and a file set."""

    config: Path | None = None
    overrides: Mapping[str, object] = {}
    given: Given = Given()


class Planned(NamedTuple):
    """Settings, the text of their file where it was inferred, and what was noticed."""

    settings: Settings
    text: str | None
    warnings: Sequence[str]
    overrides: Mapping[str, object] = {}


def plan(
    options: ConfigOptions, name: str, raws: Sequence[RawRecord], *, is_topic: bool
) -> Planned:
    """Return the settings for some records.

    Raises
    ------
    ConfigError
        If there is no record, the label is missing, or a setting is wrong.
    """
    if not raws:
        raise ConfigError(f"{name}: {NO_RECORDS}")
    if options.config is not None:
        return _configured(options, name, raws)
    readable = read_records(raws, name, None, {} if is_topic else {"format": "json"})
    rows = [record for record in readable.records if isinstance(record, dict)]
    if not rows:
        raise ConfigError(f"{name}: no record is an object; send objects with named fields")
    made = make_plan(rows, readable.events["envelope"], options.given, _take_default)
    overrides = dict(options.overrides)
    if made.task == "multiclass":
        overrides.setdefault("task.labels", "auto")  # the sample may lack some
    kafka = {key: str(value) for key, value in overrides.items() if key.startswith("kafka.")}
    bootstrap = kafka.get("kafka.bootstrap_servers", "127.0.0.1:9092")
    topic = kafka.get("kafka.topic", "kaboost.events.v1")
    origin = Origin(bootstrap, topic, name, readable.events)
    text = render(made, origin).replace("`kaboost init`", "`kaboost replay`")
    try:
        settings = _loaded(text, overrides)
    except ConfigError:
        if not any(key.partition(".")[0] == "model" for key in overrides):
            raise
        # Only the default bank infers kinds; another one may be asked for.
        text = text.replace(LATER_FEATURES, "")
        overrides.setdefault("features.unknown", "ignore")
        settings = _loaded(text, overrides)
    return Planned(settings, text, [*_roles(made), *_worded(made.warnings)], overrides)


def _roles(made: Plan) -> list[str]:
    """Return what was taken for something else than a feature, and how to change it."""
    found = [
        (made.id, "the id of an event", "--id"),
        (made.timestamp, "the time of an event", "--timestamp"),
    ]
    return [
        f"{column.name}: is taken for {what}, and is no feature; {flag} none makes it one"
        for column, what, flag in found
        if column is not None
    ]


def _worded(warnings: Sequence[str]) -> list[str]:
    """Return the warnings of a plan that hold for a replay, which has no topic of labels, learns
    classes as they come, and counts the labels itself.
    """
    kept = [text.partition("; where it comes later")[0] for text in warnings]
    return [text for text in kept if "classes are in the sample" not in text and text[:4] != "all "]


def _loaded(text: str, overrides: Mapping[str, object]) -> Settings:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kaboost.yaml"
        path.write_text(text, encoding="utf-8")
        return load(path, overrides)


def _take_default(
    question: str, default: str | None, flag: str, check: Callable[[str], object]
) -> str:
    if default is None:
        shown = question.partition("; where labels come later")[0]
        raise ConfigError(f"{flag}: is missing; pass it. {shown}{')' * ('(' in shown)}")
    check(default)
    return default


def _configured(options: ConfigOptions, name: str, raws: Sequence[RawRecord]) -> Planned:
    overrides, given = dict(options.overrides), options.given
    for key, value in (("events.label", given.label), ("task.kind", given.task),
                       ("events.id", given.id), ("events.timestamp", given.timestamp)):  # fmt: skip
        if value is not None:
            overrides[key] = value
    settings = load(options.config, overrides)
    if settings.labels.topic is not None:
        raise ConfigError(
            "labels.topic: a replay takes labels from the events; set events.label, or replay "
            "events that have their labels"
        )
    if settings.model is not None and "river" in settings.model:
        raise ConfigError(
            f"model.river: {settings.model['river']} has no replay of its own; leave `model` out "
            f"and pass --against river:{settings.model['river']}"
        )
    _check_label(settings, _read(settings, raws), name)
    return Planned(settings, None, ())


def _read(settings: Settings, raws: Sequence[RawRecord]) -> Readable:
    """Read the sample as the settings say."""
    reader = make_reader(settings.events, settings.kafka.topic, settings.kafka.max_event_bytes)
    reader.prepare([raw.value for raw in raws])
    records: list[Any] = []
    for raw in raws:
        try:
            records.append(reader.read(raw.value, raw.headers))
        except (EventError, Skipped):
            continue  # the replay counts it
    return Readable({}, records, [])


def _check_label(settings: Settings, readable: Readable, name: str) -> None:
    """Refuse records of which none has the label."""
    rows = [record for record in readable.records if isinstance(record, dict)]
    if not rows:
        return  # the replay says why
    found, label = columns(rows, ()), settings.events.label
    if all(column.path != parse_path(label) and column.name != label for column in found):
        names = [column.name for column in found]
        raise ConfigError(
            f"events.label = {label}: no record of {name} has it; {hint(label, names)}"
        )
