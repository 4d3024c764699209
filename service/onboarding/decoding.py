"""Decode sampled records with the configured decoder, and group their faults."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kaboost.models.features.labels import labels
from kaboost.models.features.schema import parse_schema
from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError
from kaboost.service.events.decoder import Headers
from kaboost.service.events.decoders import make_decoder
from kaboost.service.events.label_records import make_label_decoder
from kaboost.service.events.metadata import RepairCounts, Repairs
from kaboost.service.onboarding.topic_sample import RawRecord


class Fault(NamedTuple):
    """Faults with one code."""

    code: str
    number: int
    example: str  # of the first, with its remedy


class Trial(NamedTuple):
    """What became of sampled records."""

    events: int
    faults: list[Fault]
    skipped: Counter[str]  # by reason
    labels: Counter[str]  # as the task has them
    ids: frozenset[str] = frozenset()
    repairs: RepairCounts = {}  # noqa: RUF012 # never changed; of ids and timestamps


def try_events(settings: Settings, raws: Sequence[RawRecord]) -> Trial:
    """Decode records of the events' topic.

    Raises
    ------
    RegistryAway
        If the schema registry does not answer.
    """
    known = labels(settings.task.kind, settings.task.labels)
    decoder = make_decoder(parse_schema(settings.features.columns), known, settings)
    values = [raw.value for raw in raws]
    decoder.prepare(values)
    faults: list[EventError] = []
    skipped: Counter[str] = Counter()
    found: list[float] = []
    ids: set[str] = set()
    repairs: RepairCounts = {}
    count = start = 0
    while start < len(values):
        decoded = decoder.decode(values[start:], _headers(raws, start))
        count += len(decoded.meta)
        faults += [error for _, error in decoded.faults]
        skipped.update(reason for _, reason in decoded.skipped)
        found += list(decoded.y)
        ids |= {str(meta.id) for meta in decoded.meta if meta.id is not None}
        _add(repairs, decoded.repairs)
        if decoded.new_features:
            decoder.add_features(decoded.new_features)
        start += decoded.consumed
    if settings.labels.topic is not None:
        found = []
    texts = Counter(str(known.decode(y)) for y in found)
    return Trial(count, _grouped(faults), skipped, texts, frozenset(ids), repairs)


def try_labels(settings: Settings, raws: Sequence[RawRecord]) -> Trial:
    """Decode records of the topic of labels that come later."""
    known = labels(settings.task.kind, settings.task.labels)
    decoder = make_label_decoder(settings, known)
    values = [raw.value for raw in raws]
    decoder.prepare(values)
    decoded = decoder.decode(values, _headers(raws, 0))
    counts = Counter(str(known.decode(one.label)) for one in decoded.labels)
    reasons = Counter(reason for _, reason in decoded.skipped)
    faults = _grouped([error for _, error in decoded.faults])
    ids = frozenset(one.id for one in decoded.labels)
    return Trial(len(decoded.labels), faults, reasons, counts, ids)


def _add(total: RepairCounts, found: Mapping[tuple[str, str], Repairs]) -> None:
    for key, (events, example) in found.items():
        before = total.get(key)
        total[key] = Repairs(events + (before.events if before else 0), example)


def _headers(raws: Sequence[RawRecord], start: int) -> Callable[[int], Headers]:
    def headers(index: int) -> Headers:
        return raws[start + index].headers

    return headers


def _grouped(faults: Sequence[EventError]) -> list[Fault]:
    first: dict[str, str] = {}
    for error in faults:
        first.setdefault(error.code, str(error))
    counts = Counter(error.code for error in faults)
    return [Fault(code, count, first[code]) for code, count in counts.most_common()]
