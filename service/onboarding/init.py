"""`kaboost init`: sample a topic or a file, plan, write the configuration, check it."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kaboost.service.config.settings import Settings, load
from kaboost.service.errors import ConfigError
from kaboost.service.events.metadata import IGNORED
from kaboost.service.onboarding.configuration import Origin, render, summary
from kaboost.service.onboarding.decoding import try_events, try_labels
from kaboost.service.onboarding.file_sample import read_file
from kaboost.service.onboarding.formats import Readable, read_records
from kaboost.service.onboarding.late_labels import join_labels
from kaboost.service.onboarding.plan import DROP, Ask, Given, Plan, make_late_plan, make_plan
from kaboost.service.onboarding.roles import written
from kaboost.service.onboarding.topic_sample import SILENT_REMEDY, RawRecord, read_first

SHOWN = 3  # records
WIDTH = 300  # characters of a record that is shown
FILE_TOPIC = "kaboost.events.v1"

Say = Callable[[str], None]


class Request(NamedTuple):
    """What the command line asks for."""

    bootstrap: str
    topic: str | None
    file: Path | None
    labels_topic: str | None
    output: Path
    force: bool
    given: Given
    records: int = 1000  # to look at
    registry: str | None = None
    events: dict[str, Any] = {}  # noqa: RUF012 # never changed; format, schema_file, message_type
    client: dict[str, str] = {}  # noqa: RUF012 # other keys of the client, such as security.protocol


def run(request: Request, ask: Ask, say: Say) -> Settings:
    """Write the configuration, and return it as it was read back.

    Raises
    ------
    ConfigError
        If something is missing, the file exists, or none of the sample can be learned.
    BrokerError
        If the broker or a topic is not there.
    """
    _check_output(request)
    raws, readable, what = _sample(request, say)
    _show(readable, what, say)
    envelope = readable.events["envelope"]
    given, label_raws = request.given, list[RawRecord]()
    if request.labels_topic is None:
        plan = make_plan(readable.records, envelope, given, ask)
    else:
        label_raws = _read_topic(request, request.labels_topic, say)
        labels = _read(request, label_raws, request.labels_topic)
        _show(labels, f"topic {request.labels_topic}", say)
        joined, id_ = join_labels(readable.records, request.labels_topic, labels, given, ask)
        plan = make_late_plan(readable.records, envelope, joined, given._replace(id=id_), ask)
    _explain(plan, say)
    topic = request.topic or FILE_TOPIC
    text = render(plan, Origin(request.bootstrap, topic, what, readable.events, request.client))
    settings = _validated(text, request.output)
    request.output.write_text(text, encoding="utf-8")
    _try(settings, raws, label_raws, say)
    say(f"\nWritten: {request.output}. Check it with")
    say(f"  kaboost doctor --config {request.output}\nand start with")
    say(f"  kaboost serve --config {request.output}")
    return settings


def _check_output(request: Request) -> None:
    """Refuse a file that could not be written, before anything is read or asked."""
    output = request.output
    folder = output.absolute().parent
    if not folder.is_dir() or output.is_dir():
        what = "is a folder" if output.is_dir() else f"there is no folder {folder}"
        raise ConfigError(f"--output {output}: {what}; name a file in a folder that exists")
    if output.exists() and not request.force:
        raise ConfigError(f"--output {output}: exists; pass --force to overwrite it")
    if not os.access(output if output.exists() else folder, os.W_OK):
        raise ConfigError(f"--output {output}: cannot be written; name a file that can")


def _sample(request: Request, say: Say) -> tuple[list[RawRecord], Readable, str]:
    if request.file is not None:
        records = [one for one in read_file(request.file, request.records) if isinstance(one, dict)]
        if not records:
            raise ConfigError(f"{request.file}: has no records; name a file with some")
        raws = [RawRecord(json.dumps(one, default=str).encode(), ()) for one in records]
        readable = read_records(raws, str(request.file), None, {"format": "json"})
        return raws, readable, f"file {request.file}"
    if request.topic is None:
        raise ConfigError("--topic: is missing; pass --topic NAME, or name a file")
    raws = _read_topic(request, request.topic, say)
    return raws, _read(request, raws, request.topic), f"topic {request.topic}"


def _read_topic(request: Request, topic: str, say: Say) -> list[RawRecord]:
    client = {**request.client, "bootstrap.servers": request.bootstrap}
    sample = read_first(client, topic, request.records)
    if not sample.records:
        raise ConfigError(f"topic {topic}: has no records; send some, then run this again")
    if silent := sample.describe_silent(topic):
        say(f"warning: {silent}: {SILENT_REMEDY}")
    return sample.records


def _read(request: Request, raws: Sequence[RawRecord], topic: str) -> Readable:
    return read_records(raws, topic, request.registry, request.events)


def _show(readable: Readable, what: str, say: Say) -> None:
    events = readable.events
    say(
        f"{what}: {len(readable.records)} records read, format {events['format']}, envelope "
        f"{events['envelope']}"
    )
    for record in readable.records[:SHOWN]:
        text = json.dumps(record, ensure_ascii=False, default=str)
        say(f"  {text if len(text) <= WIDTH else text[: WIDTH - 3] + '...'}")
    for fault in readable.faults[:SHOWN]:
        say(f"  not read: {fault}")


def _explain(plan: Plan, say: Say) -> None:
    rows = [(plan.label.name, f"label, {plan.task}", summary(plan.label))]
    if plan.id is not None:
        rows.append((plan.id.name, "id, no feature", summary(plan.id)))
    if plan.timestamp is not None:
        rows.append((plan.timestamp.name, "timestamp, no feature", summary(plan.timestamp)))
    rows += [(f.column.name, f.kind.name, summary(f.column)) for f in plan.features]
    rows += [(column.name, "ignored", reason) for column, reason in plan.ignored]
    widths = [max(len(row[k]) for row in rows) for k in (0, 1)]
    say("")
    for name, role, about in rows:
        say(f"  {name.ljust(widths[0])}  {role.ljust(widths[1])}  {about}")
    if (labels := plan.labels) is not None and (found := labels.one_sided) is not None:
        fate = "dropped" if labels.expired == DROP else f"learned as {written(labels.expired)}"
        say(
            f"note: {found.number} of {found.total} labels are {written(found.label)}; features "
            f"without a label within labels.wait are {fate} (labels.expired)"
        )
    for warning in plan.warnings:
        say(f"warning: {warning}")


def _validated(text: str, output: Path) -> Settings:
    """Read the text as the service will, before it stands under its name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / output.name
        path.write_text(text, encoding="utf-8")
        return load(path)


def _try(
    settings: Settings, raws: Sequence[RawRecord], labels: Sequence[RawRecord], say: Say
) -> None:
    trials = [("records", raws, try_events(settings, raws))]
    if labels:
        trials.append(("labels", labels, try_labels(settings, labels)))
    for what, sample, trial in trials:
        say(f"\n{trial.events} of {len(sample)} {what} can be learned with this configuration")
        for reason, count in trial.skipped.items():
            say(f"  {count} skipped: {reason}")
        for (field, action), repairs in trial.repairs.items():
            if action == IGNORED:
                say(f"  {repairs.events} whose {field} is none and ignored: {repairs.example}")
        for fault in trial.faults:
            say(f"  {fault.number} dead letters, {fault.code}: {fault.example}")
        if not trial.events:
            raise ConfigError(
                f"none of {len(sample)} {what} can be learned; correct the written file, or run "
                "this again with --label, --id or --task and --force"
            )
