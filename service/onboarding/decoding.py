"""Decode sampled records with the configured decoder, and group their faults."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

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
    known = settings.task.known_labels
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
        if decoded.new_class is not None:
            known = known.with_class(decoded.new_class)
            decoder.follow_labels(known)
        start += decoded.consumed
    if settings.labels.topic is not None:
        found = []
    texts = Counter(str(known.decode(y)) for y in found)
    return Trial(count, _grouped(faults), skipped, texts, frozenset(ids), repairs)


def try_labels(settings: Settings, raws: Sequence[RawRecord]) -> Trial:
    """Decode records of the topic of labels that come later."""
    known = settings.task.known_labels
    decoder = make_label_decoder(settings, known)
    values = [raw.value for raw in raws]
    decoder.prepare(values)
    faults: list[EventError] = []
    skipped: Counter[str] = Counter()
    found: list[float] = []
    ids: set[str] = set()
    start = 0
    while start < len(values):
        decoded = decoder.decode(values[start:], _headers(raws, start))
        found += [one.label for one in decoded.labels]
        ids |= {one.id for one in decoded.labels}
        faults += [error for _, error in decoded.faults]
        skipped.update(reason for _, reason in decoded.skipped)
        if decoded.new_class is not None:
            known = known.with_class(decoded.new_class)
            decoder.follow_labels(known)
        start += decoded.consumed
    counts = Counter(str(known.decode(y)) for y in found)
    return Trial(len(found), _grouped(faults), skipped, counts, frozenset(ids))


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
