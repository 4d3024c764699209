"""Make a plan for a configuration: what is known of records, what was given, what is asked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kaboost.service.errors import ConfigError
from kaboost.service.events.mapping import parse_path
from kaboost.service.onboarding.columns import Column, Kind, columns, guess_kind
from kaboost.service.onboarding.roles import (
    SURE,
    classes,
    guess_id,
    guess_task,
    guess_timestamp,
    is_converted,
    possible_ids,
    possible_times,
    rank_labels,
    reason_to_ignore,
    reveals,
)

Ask = Callable[[str, str | None, str], str]  # question, default, the flag that answers it
NONE = "none"  # the answer that there is no such column
TASKS = ("binary", "multiclass", "regression")
ID_QUESTION = "Id: an event whose id comes again is skipped"
TIME_QUESTION = "Time of the event"


class Given(NamedTuple):
    """What flags say; None where they say nothing."""

    label: str | None = None
    id: str | None = None
    timestamp: str | None = None
    task: str | None = None
    labels_id: str | None = None  # on the topic of labels
    labels_timestamp: str | None = None


class LabelTopic(NamedTuple):
    """The topic of labels that come later."""

    topic: str
    id: Column
    label: Column
    timestamp: Column | None
    events: dict[str, Any]  # format and envelope of its records


class Feature(NamedTuple):
    """One feature and its kind."""

    name: str
    column: Column
    kind: Kind


class Plan(NamedTuple):
    """All that a configuration says of records."""

    root: tuple[str, ...]  # where the features are
    is_standard: bool  # whether records have the form of docs/events.md, so that no paths are set
    label: Column
    task: str
    classes: list[Any] | None
    id: Column | None
    timestamp: Column | None
    features: list[Feature]
    ignored: list[tuple[Column, str]]
    warnings: list[str]
    labels: LabelTopic | None = None

    @property
    def coerce(self) -> bool:
        """Whether values have to be converted."""
        kept = any(feature.kind.coerced for feature in self.features)
        codes = any(f.kind.name == "category" and not _is_text(f.column) for f in self.features)
        return kept or codes or is_converted(self.label)


def _is_text(column: Column) -> bool:
    return all(isinstance(value, str) for value in column.present)


def find_root(records: Sequence[Mapping[str, Any]], envelope: str) -> tuple[str, ...]:
    """Return the path of the features: below `data` of a CloudEvent, or below `features`."""
    name = "data" if envelope == "cloudevents" else "features"
    inside = sum(isinstance(record.get(name), Mapping) for record in records)
    return (name,) if inside == len(records) else ()


def make_plan(records: Sequence[Mapping[str, Any]], envelope: str, given: Given, ask: Ask) -> Plan:
    """Decide what every column of records with labels is."""
    root, found = find_root(records, envelope), columns(records, ())
    if root == ("features",) and all("label" in record for record in records):
        given = given._replace(label=given.label or "label")
    id_, timestamp = _id_and_time(found, given, root, ask)
    label = choose_label(_others(found, id_, timestamp), found, given.label, ask)
    id_ = None if id_ is label else id_
    return _finish(
        Plan(root, False, label, "", None, id_, timestamp, [], [], []), found, given, ask
    )


def make_late_plan(
    records: Sequence[Mapping[str, Any]], envelope: str, labels: LabelTopic, given: Given, ask: Ask
) -> Plan:
    """Decide what every column of records is whose labels come on a topic of their own."""
    root, found = find_root(records, envelope), columns(records, ())
    id_, timestamp = _id_and_time(found, given, root, ask)
    plan = Plan(root, False, labels.label, "", None, id_, timestamp, [], [], [], labels)
    return _finish(plan, found, given, ask)


def _id_and_time(
    found: Sequence[Column], given: Given, root: tuple[str, ...], ask: Ask
) -> tuple[Column | None, Column | None]:
    outside = [one for one in found if root and one.path[: len(root)] != root]
    id_ = guess_id(outside) or guess_id(found)
    id_ = given_or_asked(found, given.id, "--id", id_, ID_QUESTION, possible_ids(found), ask)
    others = _others(found, id_)
    timestamp = guess_timestamp(outside) or guess_timestamp(others)
    times = possible_times(others)
    return id_, given_or_asked(
        others, given.timestamp, "--timestamp", timestamp, TIME_QUESTION, times, ask
    )


def given_or_asked(
    found: Sequence[Column],
    path: str | None,
    flag: str,
    guess: Column | None,
    question: str,
    candidates: Sequence[Column],
    ask: Ask,
) -> Column | None:
    """Return the column that a flag names, or the guess; without both, what is answered."""
    if path is None and guess is None and candidates:
        names = ", ".join(one.name for one in candidates[:5])
        path = ask(f"{question} (candidates: {names}; {NONE} for none)", NONE, flag)
    if path == NONE and all(one.name != NONE for one in found):
        return None
    return named(found, path, flag) or guess


def named(found: Sequence[Column], path: str | None, flag: str) -> Column | None:
    """Return the column at a path that a flag or an answer gives; None without one."""
    if path is None:
        return None
    for column in found:
        if column.path == parse_path(path) or column.name == path:
            return column
    names = ", ".join(column.name for column in found[:30])
    raise ConfigError(f"{flag} {path}: no record has it; the records have {names}")


def choose_label(
    able: Sequence[Column], found: Sequence[Column], path: str | None, ask: Ask
) -> Column:
    """Return the label: the one that is given, or the likeliest, or what is answered."""
    column = named(found, path, "--label")
    if column is not None:
        return column
    ranked = rank_labels(able)
    is_sure = bool(ranked) and ranked[0].score >= SURE
    if not ranked:
        raise ConfigError(
            "--label: no column has values of a label; pass its path, or --labels-topic where "
            "labels come on a topic of their own"
        )
    names = [guess.column.name for guess in ranked[:5]]
    question = f"Label (candidates: {', '.join(names)})"
    answer = ask(question, names[0] if is_sure else None, "--label")
    chosen = named(found, answer, "--label")
    assert chosen is not None
    return chosen


def _others(found: Sequence[Column], *taken: Column | None) -> list[Column]:
    return [column for column in found if all(column is not one for one in taken)]


def _finish(plan: Plan, found: Sequence[Column], given: Given, ask: Ask) -> Plan:
    task = given.task or ask("Task", guess_task(plan.label), "--task")
    if task not in TASKS:
        raise ConfigError(f"--task {task}: write {', '.join(TASKS)}")
    depth = len(plan.root)
    below = [one for one in found if one.path[:depth] == plan.root]
    rest = _others(below, plan.label, plan.id, plan.timestamp)
    reasons = {one.name: reason_to_ignore(one) for one in rest}
    ignored = [(one, reason) for one in rest if (reason := reasons[one.name])]
    kept = [one for one in rest if not reasons[one.name]]
    features = [Feature(_below(one, depth), one, guess_kind(one)) for one in kept]
    plan = plan._replace(
        task=task, classes=classes(plan.label, task), features=features, ignored=ignored
    )
    plan = plan._replace(warnings=list(_warnings(plan)))
    return plan._replace(is_standard=_is_standard(plan))


def _below(column: Column, depth: int) -> str:
    return column.name if not depth else ".".join(column.path[depth:])


def _warnings(plan: Plan) -> list[str]:
    found = []
    if plan.labels is None:
        missing = len(plan.label.values) - len(plan.label.present)
        if missing:
            found.append(
                f"{missing} of {len(plan.label.values)} records have no {plan.label.name}: they "
                "become dead letters; where it comes later, use --labels-topic"
            )
        found += [
            f"{f.name} has one value for each {plan.label.name}: if it is known only after the "
            "label, add it to events.ignore, or the model learns what it cannot know in time"
            for f in plan.features
            if reveals(f.column, plan.label)
        ]
    if plan.classes and plan.task == "multiclass":
        found.append(
            f"{len(plan.classes)} classes are in the sample: add others to task.labels, or set it "
            "to auto, which learns classes as they come"
        )
    return found


def _is_standard(plan: Plan) -> bool:
    """Return whether the defaults of `events` find everything."""
    usual = {"label": plan.label, "id": plan.id, "timestamp": plan.timestamp}
    return (
        plan.root == ("features",)
        and not plan.ignored
        and plan.labels is None
        and all(column is None or column.path == (name,) for name, column in usual.items())
    )
