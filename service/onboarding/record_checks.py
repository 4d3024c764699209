"""Checks of the records: the schema registry, the first records decoded, their labels."""

from collections.abc import Callable, Sequence
from typing import Any

from kaboost.models.features.labels import labels
from kaboost.service.config.records import reveal_secrets
from kaboost.service.config.settings import Settings
from kaboost.service.errors import KaboostError
from kaboost.service.events.metadata import IGNORED
from kaboost.service.onboarding.decoding import Trial, try_events, try_labels
from kaboost.service.onboarding.report import Check, Status, split_remedy
from kaboost.service.onboarding.roles import ONE_SIDED
from kaboost.service.onboarding.topic_sample import SILENT_REMEDY, RawRecord, read_first

RECORDS = 100
LATE_RECORDS = 1000  # where labels come later: few of the first ones belong to the first features
REGISTRY_SECONDS = 5


def check_registry(settings: Settings) -> list[Check]:
    """Ask the schema registry for its subjects, if one is set."""
    keys = reveal_secrets(settings.events.schema_registry)
    if keys is None:
        return []
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as err:
        remedy = "run pip install '.[avro]'"
        return [Check("schema registry", "red", f"{err.name} is not installed", remedy)]
    try:
        conf: Any = {"timeout": REGISTRY_SECONDS, "max.retries": 0, **keys}
        with SchemaRegistryClient(conf) as client:
            subjects = client.get_subjects()
    except Exception as err:  # of httpx, TLS, OAuth and the client itself
        remedy = "start it, or correct events.schema_registry"
        return [Check("schema registry", "red", f"{keys['url']}: {err}", remedy)]
    return [Check("schema registry", "green", f"{keys['url']}: {len(subjects)} subjects")]


def check_records(settings: Settings) -> list[Check]:
    """Decode the first records of the topics as the learner will."""
    checks, trial = _check_topic(settings, "records", settings.kafka.topic, try_events)
    if settings.labels.topic is None:
        return [*checks, _labels(settings, trial)] if trial else checks
    more, late = _check_topic(settings, "label records", settings.labels.topic, try_labels)
    checks += more
    if late:
        checks.append(_late_labels(settings, late))
    if trial and late and trial.ids and late.ids:
        checks.append(_join(trial, late))
    return checks


def _check_topic(
    settings: Settings,
    what: str,
    topic: str,
    attempt: Callable[[Settings, Sequence[RawRecord]], Trial],
) -> tuple[list[Check], Trial | None]:
    count = RECORDS if settings.labels.topic is None else LATE_RECORDS
    try:
        sample = read_first(settings.kafka.client(), topic, count)
        if not sample.records:
            return [Check(what, "yellow", f"{topic} has no records", "send records to it")], None
        trial = attempt(settings, sample.records)
    except KaboostError as err:
        return [Check(what, "red", *split_remedy(str(err), "correct the configuration"))], None
    checks = [_summary(what, topic, len(sample.records), trial)]
    if silent := sample.describe_silent(topic):
        checks.append(Check(f"{what} not read", "yellow", silent, SILENT_REMEDY))
    checks += [_fault(what, trial, code, count, text) for code, count, text in trial.faults]
    checks += [
        _repair(field, repairs.events, repairs.example)
        for (field, action), repairs in trial.repairs.items()
        if action == IGNORED
    ]
    return checks, trial


def _repair(field: str, count: int, example: str) -> Check:
    what = {"id": "no id", "timestamp": "no time"}[field]
    detail = f"{count} are {what} and are ignored, such as {example}"
    return Check(f"events.{field}", "yellow", detail, f"set events.{field} to another path")


def _join(trial: Trial, late: Trial) -> Check:
    """Look whether labels have the ids of features."""
    shared = len(trial.ids & late.ids)
    detail = f"{shared} of {len(late.ids)} label ids are among the ids of {len(trial.ids)} features"
    if shared:
        return Check("labels.id", "green", detail)
    remedy = (
        "see whether events.id and labels.id name the same thing; where labels come much later, "
        "the first of them may be of features that the topic no longer has"
    )
    return Check("labels.id", "yellow", detail, remedy)


def _late_labels(settings: Settings, trial: Trial) -> Check:
    """Look at the classes of later labels, together with that of features without one."""
    task, expired = settings.task, settings.labels.expired
    if task.kind == "regression" or not trial.labels:
        return _labels(settings, trial)
    known = labels(task.kind, task.labels)
    total = sum(trial.labels.values())
    counts = _counts(trial)
    most, number = trial.labels.most_common(1)[0]
    if expired != "drop":
        other = str(known.decode(known.encode(expired["label"])))
        detail = f"{counts}; features without one within labels.wait are learned as {other}"
        if {other} != set(trial.labels):
            return Check("labels", "green", detail)
        remedy = "set labels.expired to {label: the other class}, or check labels.label"
        return Check("labels", "yellow", detail, remedy)
    is_positive = task.kind == "binary" and most == str(known.classes[1])
    if number < total and not (is_positive and number >= ONE_SIDED * total):
        return Check("labels", "green", counts)
    other = next(str(label) for label in known.classes if str(label) != most)
    detail = f"{counts}, and features without a label within labels.wait are dropped"
    remedy = (
        f"set labels.expired: {{label: {other}}}, if no label means {other}; otherwise check "
        "labels.label and task.labels: of one class nothing is learned"
    )
    return Check("labels", "yellow", detail, remedy)


def _counts(trial: Trial) -> str:
    return ", ".join(f"{label}: {count}" for label, count in trial.labels.most_common(10))


def _summary(what: str, topic: str, count: int, trial: Trial) -> Check:
    skipped = sum(trial.skipped.values())
    detail = f"{trial.events} of the first {count} of {topic} can be learned"
    detail += f", {skipped} are skipped ({', '.join(trial.skipped)})" if skipped else ""
    if trial.events:
        return Check(what, "green", detail)
    if trial.faults:
        return Check(what, "red", detail, "see the faults below")
    return Check(what, "yellow", detail, "send records that are events")


def _fault(what: str, trial: Trial, code: str, count: int, text: str) -> Check:
    status: Status = "yellow" if trial.events >= count else "red"
    detail, remedy = split_remedy(text, "correct the producer, or the section events")
    return Check(f"{what} rejected: {code}", status, f"{count}, such as: {detail}", remedy)


def _labels(settings: Settings, trial: Trial) -> Check:
    if settings.task.kind == "regression":
        number = len(trial.labels)
        if number == 1:
            return Check("labels", "yellow", "all have one value", f"check {_label_key(settings)}")
        status: Status = "green" if number else "yellow"
        return Check(
            "labels", status, f"{number} different", "" if number else "send labelled records"
        )
    counts = _counts(trial)
    if len(trial.labels) > 1:
        return Check("labels", "green", counts)
    remedy = f"a model learns nothing from one class: check task.labels and {_label_key(settings)}"
    return Check("labels", "yellow", counts or "none", remedy)


def _label_key(settings: Settings) -> str:
    return "events.label" if settings.labels.topic is None else "labels.label"
