"""Checks of the records: the schema registry, the first records decoded, their labels."""

from collections.abc import Callable, Sequence
from typing import Any

from kaboost.service.config.records import reveal_secrets
from kaboost.service.config.settings import Settings
from kaboost.service.errors import KaboostError
from kaboost.service.onboarding.decoding import Trial, try_events, try_labels
from kaboost.service.onboarding.report import Check, Status, split_remedy
from kaboost.service.onboarding.topic_sample import SILENT_REMEDY, RawRecord, read_first

RECORDS = 100
REGISTRY_SECONDS = 5


def check_registry(settings: Settings) -> list[Check]:
    """Ask the schema registry for its subjects, if one is set."""
    keys = reveal_secrets(settings.events.schema_registry)
    if keys is None:
        return []
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as err:
        remedy = "run pip install 'kaboost[avro]'"
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
    checks = _check_topic(settings, "records", settings.kafka.topic, try_events)
    if settings.labels.topic is not None:
        checks += _check_topic(settings, "label records", settings.labels.topic, try_labels)
    return checks


def _check_topic(
    settings: Settings,
    what: str,
    topic: str,
    attempt: Callable[[Settings, Sequence[RawRecord]], Trial],
) -> list[Check]:
    try:
        sample = read_first(settings.kafka.client(), topic, RECORDS)
        if not sample.records:
            return [Check(what, "yellow", f"{topic} has no records", "send records to it")]
        trial = attempt(settings, sample.records)
    except KaboostError as err:
        return [Check(what, "red", *split_remedy(str(err), "correct the configuration"))]
    checks = [_summary(what, topic, len(sample.records), trial)]
    if silent := sample.describe_silent(topic):
        checks.append(Check(f"{what} not read", "yellow", silent, SILENT_REMEDY))
    checks += [_fault(what, trial, code, count, text) for code, count, text in trial.faults]
    if attempt is try_labels or settings.labels.topic is None:
        checks.append(_labels(settings, trial))
    return checks


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
            return Check("labels", "yellow", "all have one value", "check events.label")
        status: Status = "green" if number else "yellow"
        return Check(
            "labels", status, f"{number} different", "" if number else "send labelled records"
        )
    counts = ", ".join(f"{label}: {count}" for label, count in trial.labels.most_common(10))
    if len(trial.labels) > 1:
        return Check("labels", "green", counts)
    remedy = "a model learns nothing from one class: check task.labels and events.label"
    return Check("labels", "yellow", counts or "none", remedy)
