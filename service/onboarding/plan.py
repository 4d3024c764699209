"""Make a plan for a configuration: what is known of records, what was given, what is asked."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from kaboost.service.errors import ConfigError
from kaboost.service.events.mapping import parse_path
from kaboost.service.events.metadata import read_id
from kaboost.service.onboarding.columns import (
    Column,
    Kind,
    as_number,
    columns,
    guess_kind,
    is_time_value,
)
from kaboost.service.onboarding.roles import (
    SURE,
    OneSided,
    both_classes,
    classes,
    find_one_sided,
    guess_id,
    guess_task,
    guess_timestamp,
    is_converted,
    only_class,
    possible_ids,
    possible_times,
    rank_labels,
    reason_to_ignore,
    reveals,
    written,
)

Check = Callable[[str], object]  # raises ConfigError for an answer that cannot be
# The question, its default, the flag that answers it, and the check of an answer.
Ask = Callable[[str, str | None, str, Check], str]
NONE = "none"  # the answer that there is no such column
TASKS = ("binary", "multiclass", "regression")
ID_QUESTION = "Id: an event whose id comes again is skipped"
TIME_QUESTION = "Time of the event"
DROP = "drop"  # features without a label within `labels.wait`
LATER = "where labels come later on a topic of their own, pass --labels-topic"


class Given(NamedTuple):
    """What flags say; None where they say nothing."""

    label: str | None = None
    id: str | None = None
    timestamp: str | None = None
    task: str | None = None
    labels_id: str | None = None  # on the topic of labels
    labels_timestamp: str | None = None
    expired: str | None = None  # drop, or the label of features whose label never comes


class Question(NamedTuple):
    """What is asked for a column, where no flag names it and it cannot be guessed."""

    flag: str
    text: str
    guess: Column | None
    candidates: Sequence[Column]
    refuse: Callable[[Column], str | None]  # why a column cannot be it


class LabelTopic(NamedTuple):
    """The topic of labels that come later."""

    topic: str
    id: Column
    label: Column
    timestamp: Column | None
    events: dict[str, Any]  # format and envelope of its records
    warnings: tuple[str, ...] = ()
    expired: Any = DROP  # or the label of features whose label never comes
    one_sided: OneSided | None = None


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
    plan = _finish(plan, found, given, ask)
    if (only := only_class(plan.label, plan.task)) is not None:
        plan, given = _name_other_class(plan, only, given, ask)
    one_sided = find_one_sided(plan.label, plan.task, plan.classes)
    expired = _choose_expired(plan, one_sided, given.expired, ask)
    return plan._replace(labels=labels._replace(expired=expired, one_sided=one_sided))


def _name_other_class(plan: Plan, only: Any, given: Given, ask: Ask) -> tuple[Plan, Given]:
    """Name the class that no label has, which features without a label are of."""

    def check(answer: str) -> None:
        if not answer or answer == str(only):
            raise ConfigError(f"--expired {answer}: write {DROP}, or the class other than {only}")

    number = len(plan.label.present)
    question = (
        f"all {number} labels are {only}: what is the other class, that of features without a "
        f"label (or {DROP}, if labels of it come too)"
    )
    answer = given.expired or ask(question, None, "--expired", check)
    check(answer)
    if answer == DROP:
        what = f"all {number} labels are {only}: write the other class into task.labels, where "
        warnings = [*plan.warnings, f"{what}not_{only} is in its place"]
        return plan._replace(warnings=warnings), given._replace(expired=DROP)
    number_of = as_number(answer) if isinstance(only, int | float) else None
    other: Any = answer if number_of is None else number_of
    other = int(other) if isinstance(other, float) and other.is_integer() else other
    return plan._replace(classes=both_classes(only, other)), given._replace(expired=str(other))


def _choose_expired(plan: Plan, one_sided: OneSided | None, given: str | None, ask: Ask) -> Any:
    """Return the label of features whose label never comes, or `drop`.

    Where nearly all labels are positive, those of the negative class never come.
    """
    if plan.task == "regression":
        return DROP if given in (None, DROP) else _number(given)
    known = {str(label).lower(): label for label in plan.classes or (0, 1)}
    if plan.classes is None:
        known |= {"false": False, "true": True}

    def check(answer: str) -> None:
        if answer != DROP and answer.lower() not in known:
            raise ConfigError(f"--expired {answer}: write {DROP}, or one of {', '.join(known)}")

    if given is None:
        positive = (plan.classes or (0, 1))[-1]
        if one_sided is None or one_sided.label != positive:
            return DROP
        question = (
            f"{one_sided.number} of {one_sided.total} labels are {written(one_sided.label)}: what "
            f"is the label of features without one ({', '.join(known)}, or {DROP})"
        )
        given = ask(question, written(one_sided.other), "--expired", check)
    check(given)
    return given if given == DROP else known[given.lower()]


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError as err:
        raise ConfigError(f"--expired {text}: write {DROP}, or a number") from err


def _id_and_time(
    found: Sequence[Column], given: Given, root: tuple[str, ...], ask: Ask
) -> tuple[Column | None, Column | None]:
    outside = [one for one in found if root and one.path[: len(root)] != root]
    id_ = guess_id(outside) or guess_id(found)
    question = Question("--id", ID_QUESTION, id_, possible_ids(found), refuse_id)
    id_ = given_or_asked(found, given.id, question, ask)
    others = _others(found, id_)
    timestamp = guess_timestamp(outside) or guess_timestamp(others)
    times = possible_times(others)
    question = Question("--timestamp", TIME_QUESTION, timestamp, times, refuse_time)
    return id_, given_or_asked(others, given.timestamp, question, ask)


def given_or_asked(
    found: Sequence[Column], path: str | None, question: Question, ask: Ask
) -> Column | None:
    """Return the column that a flag names, or the guess; without both, what is answered."""
    flag = question.flag

    def check(answer: str) -> Column | None:
        if answer == NONE and all(one.name != NONE for one in found):
            return None
        column = named(found, answer, flag)
        if column is not None and (reason := question.refuse(column)) is not None:
            raise ConfigError(f"{flag} {answer}: {reason}")
        return column

    if path is None and question.guess is None and question.candidates:
        names = ", ".join(one.name for one in question.candidates[:5])
        text = f"{question.text} (candidates: {names}; {NONE} for none)"
        path = ask(text, NONE, flag, check)
    return question.guess if path is None else check(path)


def refuse_time(column: Column) -> str | None:
    """Return why most values of a column are no times; None if they are."""
    wrong = [value for value in column.present if not is_time_value(value)]
    if 2 * len(wrong) <= len(column.present):
        return None
    return (
        f"{wrong[0]!r} is no time; name a field with RFC 3339 or numbers since 1970, or {NONE}, "
        "which takes the times of the records"
    )


def refuse_id(column: Column) -> str | None:
    """Return why most values of a column are no ids; None if they are."""
    wrong = [value for value in column.present if read_id(value) is None]
    if 2 * len(wrong) <= len(column.present):
        return None
    return f"{wrong[0]!r} is no id; name a field with text or whole numbers, or {NONE}"


def named(found: Sequence[Column], path: str | None, flag: str) -> Column | None:
    """Return the column at a path that a flag or an answer gives; None without one."""
    if path is None:
        return None
    for column in found:
        if column.path == parse_path(path) or column.name == path:
            return column
    raise ConfigError(f"{flag} {path}: no record has it; {hint(path, [c.name for c in found])}")


def hint(name: str, known: Sequence[str]) -> str:
    """Name what was probably meant, and what there is."""
    lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), lower, 3)
    meant = " or ".join(repr(lower[each]) for each in near)
    have = f"the records have {', '.join(known[:30])}{', ..' if len(known) > 30 else ''}"
    return f"did you mean {meant}? {have}" if meant else have


def choose_label(
    able: Sequence[Column],
    found: Sequence[Column],
    path: str | None,
    ask: Ask,
    *,
    topic: str | None = None,
) -> Column:
    """Return the label: the one that is given, or the likeliest, or what is answered.

    Parameters
    ----------
    able
        Columns that may be the label.
    found
        All columns.
    path, ask
        The path that a flag gives, and how to ask for one.
    topic
        That of the labels, if they have their own: there one value may be all that comes.
    """
    column = named(found, path, "--label")
    if column is not None:
        return column
    ranked = rank_labels(able, constant=topic is not None)
    is_sure = bool(ranked) and ranked[0].score >= SURE
    if not ranked:
        where = "" if topic is None else f" of {topic}"
        remedy = f"pass its path; {LATER}" if topic is None else "pass its path"
        raise ConfigError(f"--label: no column{where} has values of a label; {remedy}")
    names = [guess.column.name for guess in ranked[:5]]
    hint = f"; {LATER}" if topic is None and not is_sure else ""
    question = f"Label (candidates: {', '.join(names)}{hint})"
    answer = ask(
        question,
        names[0] if is_sure else None,
        "--label",
        lambda text: named(found, text, "--label"),
    )
    chosen = named(found, answer, "--label")
    assert chosen is not None
    return chosen


def _others(found: Sequence[Column], *taken: Column | None) -> list[Column]:
    return [column for column in found if all(column is not one for one in taken)]


def _finish(plan: Plan, found: Sequence[Column], given: Given, ask: Ask) -> Plan:
    task = given.task or ask("Task", guess_task(plan.label), "--task", _check_task)
    _check_task(task)
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


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise ConfigError(f"--task {task}: write {', '.join(TASKS)}")


def _below(column: Column, depth: int) -> str:
    return column.name if not depth else ".".join(column.path[depth:])


def _warnings(plan: Plan) -> list[str]:
    found = [] if plan.labels is None else list(plan.labels.warnings)
    one_sided = find_one_sided(plan.label, plan.task, plan.classes)
    if one_sided and one_sided.number == one_sided.total and plan.labels is None:
        found.append(
            f"all {one_sided.total} labels are {written(one_sided.label)}: a model learns nothing "
            f"from one class; see whether {plan.label.name} is the label"
        )
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
