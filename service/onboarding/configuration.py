"""Write a plan as a commented kaboost.yaml."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kaboost.service.config.section import is_secret
from kaboost.service.config.sources import PREFIX
from kaboost.service.onboarding.columns import Column
from kaboost.service.onboarding.plan import DROP, Feature, LabelTopic, Plan
from kaboost.service.onboarding.roles import written

LATER_FEATURES = "    '*': auto  # features that come later: kinds by their first values"
EXAMPLE = 40  # characters of an example in a comment


class Origin(NamedTuple):
    """Where the records are from."""

    bootstrap: str
    topic: str
    what: str  # for the first comment
    events: dict[str, Any]  # keys of `events` that reading the records took
    client: Mapping[str, str] = {}  # keys of `kafka.extra`


def render(plan: Plan, origin: Origin) -> str:
    """Return the text of the configuration file."""
    lines = [
        f"# Written by `kaboost init` from {_comment(origin.what)}.",
        "# docs/settings.md has all settings.",
        *(f"# WARNING: {_comment(warning)}" for warning in plan.warnings),
        "kafka:",
        f"  bootstrap_servers: {_value(origin.bootstrap)}",
        f"  topic: {_value(origin.topic)}",
        *_extra(origin.client),
        "",
        *_task(plan),
        "",
        *_events(plan, origin),
        *_labels(plan, origin),
        *_features(plan.features),
    ]
    return "\n".join(lines) + "\n"


def _extra(client: Mapping[str, str]) -> Iterator[str]:
    if client:
        yield "  extra:" + " {}" * all(map(is_secret, client))
    for key, value in client.items():
        if is_secret(key):
            name = f"{PREFIX}KAFKA__EXTRA__{key.upper().replace('.', '_')}"
            yield f"    # {_comment(key)} is a secret: set {_comment(name)} (docs/security.md)"
        else:
            yield f"    {_value(key)}: {_value(value)}"


def _task(plan: Plan) -> Iterator[str]:
    yield "task:"
    yield f"  kind: {plan.task}  # {plan.label.name}: {summary(plan.label)}"
    if plan.classes is not None:
        order = "the negative class first" if plan.task == "binary" else "all classes"
        yield f"  labels: {_value(plan.classes)}  # {order}"


def _events(plan: Plan, origin: Origin) -> Iterator[str]:
    lines = [
        f"  {key}: {_value(value)}"
        for key, value in origin.events.items()
        if (key, value) not in (("format", "auto"), ("envelope", "none"))
    ]
    lines += [] if plan.is_standard else list(_paths(plan))
    if plan.coerce:
        lines.append(
            "  coerce: true  # values in text become numbers and booleans, codes categories"
        )
    if lines:
        yield from ["events:", *lines, ""]


def _paths(plan: Plan) -> Iterator[str]:
    where = path_text(plan.root) if plan.root else "*"
    note = "" if plan.root else "  # every field that is not named here"
    yield f"  features: {_value(where)}{note}"
    if plan.labels is None:
        yield f"  label: {_value(path_text(plan.label.path))}"
    if plan.id is not None:
        yield f"  id: {_value(path_text(plan.id.path))}  # an id is learned once"
    if plan.timestamp is not None:
        example = _example(plan.timestamp)
        yield f"  timestamp: {_value(path_text(plan.timestamp.path))}  # such as {example}"
    if plan.ignored:
        yield "  ignore:"
    for column, reason in plan.ignored:
        yield f"    - {_value(path_text(column.path))}  # {_comment(reason)}"


def _labels(plan: Plan, origin: Origin) -> Iterator[str]:
    labels = plan.labels
    if labels is None:
        return
    yield "labels:  # they come later, on a topic of their own"
    yield f"  topic: {_value(labels.topic)}"
    yield f"  id: {_value(path_text(labels.id.path))}  # that of {plan.id.name if plan.id else ''}"
    yield f"  label: {_value(path_text(labels.label.path))}"
    if labels.timestamp is not None:
        yield f"  timestamp: {_value(path_text(labels.timestamp.path))}"
    for key in ("format", "envelope"):
        usual = "auto" if key == "format" else "none"
        if labels.events.get(key, usual) != origin.events.get(key, usual):
            yield f"  {key}: {labels.events[key]}"
    yield "  wait: 30d  # how long features wait for their label"
    yield f"  expired: {_expired(labels)}"
    yield ""


def _expired(labels: LabelTopic) -> str:
    """Write what becomes of features without a label, and why."""
    found = labels.one_sided
    why = f"{found.number} of {found.total} labels are {written(found.label)}" if found else ""
    if labels.expired == DROP:
        hint = "or {label: 0}, if no label within `wait` means the negative class"
        return f"{DROP}  # {_comment(f'{why}; {hint}' if why else hint)}"
    value = f"{{label: {_value(labels.expired)}}}"
    meaning = f"no label within `wait` means {written(labels.expired)}"
    reason = f"{meaning}; or {DROP}, which learns nothing of it"
    return f"{value}  # {_comment(f'{why}, so {reason}' if why else reason)}"


def _features(features: list[Feature]) -> Iterator[str]:
    yield "features:"
    yield "  schema:"
    for feature in features:
        if feature.kind.name != "auto":
            note = f"; {feature.kind.reason}" if feature.kind.reason else ""
            about = f"{summary(feature.column)}{note}"
            yield f"    {_key(feature.name)}: {feature.kind.name}  # {_comment(about)}"
    yield LATER_FEATURES


def summary(column: Column) -> str:
    """Describe the values of a column in a line."""
    total, present = len(column.values), len(column.present)
    missing = f", {total - present} of {total} missing" if present < total else ""
    return f"{column.distinct} different{missing}, such as {_example(column)}"


def path_text(path: tuple[str, ...]) -> str:
    """Write a path: with dots, or as a JSON pointer where a name has a dot itself."""
    if all(name and "." not in name for name in path) and not path[0].startswith("/"):
        return ".".join(path)
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)


def _example(column: Column) -> str:
    text = _comment(json.dumps(next(iter(column.present), None), ensure_ascii=False, default=str))
    return text if len(text) <= EXAMPLE else text[: EXAMPLE - 3] + "..."


def _comment(text: str) -> str:
    """Return a text without line ends, which would end a comment."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


def _key(name: str) -> str:
    return (
        name
        if name.replace("_", "").replace(".", "").isidentifier() and not _is_word(name)
        else _value(name)
    )


def _is_word(name: str) -> bool:
    return name.lower() in ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
