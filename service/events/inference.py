"""Infer features that nobody declared from a record: which names, and which kinds."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from kaboost.models.features.datetimes import is_datetime
from kaboost.models.features.readings import is_missing_text
from kaboost.models.features.schema import check_name, infer_kind
from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import CODES, LIMIT, Fault, shorten, show

DATE_REMEDY = (
    "declare it as datetime in features.schema and start again, for hour, weekday and month"
)

log = logging.getLogger(__name__)


def as_it_is(name: str, value: object) -> object:
    """Show the value of a field."""
    return value


def infer_new_features(
    features: Iterable[tuple[str, object]],
    known: Mapping[str, str],
    *,
    on_trial: bool = False,
    shown: Callable[[str, object], object] = as_it_is,
) -> dict[str, str]:
    """Return the kinds of an event's features that the schema lacks; null has no kind.

    The event is valid but for these features, which may be repeated. Raises an EventError for a
    name or a value that no feature can have, of several faults the first by `CODES`. Dates are
    logged, unless the names are `on_trial`, with the value as `shown`.
    """
    new = [(name, cell) for name, cell in features if name not in known]
    kinds: dict[str, str] = {}
    faults: list[Fault] = []
    for name, cell in new:
        wrong = list(_faults(name, cell, kinds.get(name)))
        faults += wrong
        if not wrong and (kind := infer_kind(cell)):
            kinds[name] = kind
    if faults:
        code, where, detail = min(faults, key=lambda fault: CODES.index(fault.code))
        raise EventError(code, f"{shorten(where)}: {detail}")
    for name, cell in () if on_trial else new:
        if isinstance(cell, str) and is_datetime(cell):
            fields = {"feature": name, "value": shown(name, cell), "remedy": DATE_REMEDY}
            log.warning("a date is read as a category", extra=fields)
    return kinds


def _faults(name: str, value: object, earlier: str | None) -> Iterator[Fault]:
    kind = infer_kind(value)
    if why := check_name(name):
        yield Fault("feature_unknown", name, why)
    elif kind is None and value is not None and not is_missing_text(value):
        detail = (
            f"{show(value)} where a number, a boolean, a string or null belongs; send its parts as "
            "features"
        )
        yield Fault("feature_type", name, detail)
    elif kind and earlier and kind != earlier:
        yield Fault(
            "feature_type", name, f"comes twice, as a {earlier} and as a {kind}; send it once"
        )
    elif isinstance(value, int | float) and not abs(value) <= LIMIT:
        yield Fault("not_finite", name, f"{show(value)} is beyond {LIMIT:g}; send null")
