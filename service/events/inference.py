"""What a record says of features that nobody declared: names that can be, and kinds."""

import logging
from collections.abc import Iterator, Mapping

from kaboost.models.features.datetimes import is_datetime
from kaboost.models.features.schema import check_name, infer_kind
from kaboost.service.errors import EventError
from kaboost.service.events.diagnosis import CODES, LIMIT, Fault, parse, shorten, show

DATED = "declare it as datetime in features.schema and begin anew, for hour, weekday and month"

log = logging.getLogger(__name__)


def newcomers(value: bytes, known: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds of an event's features that are not known; null stands for none. A category
    that begins with a date is logged: as a datetime it would tell more.

    Parameters
    ----------
    value
        An event that is sound but for these features.
    known
        Feature to kind.

    Raises
    ------
    EventError
        A name or a value that no feature can have; of several faults the first by `CODES`.
    """
    event: object = parse(value)
    assert isinstance(event, tuple)  # an object, with repeated keys kept: the last one counts
    kinds: dict[str, str] = {}
    faults: list[Fault] = []
    for name, each in dict(event)["features"]:
        if name not in known:
            found = list(_faults(name, each, kinds.get(name)))
            faults += found
            if not found and (kind := infer_kind(each)):
                kinds[name] = kind
    if faults:
        code, where, detail = min(faults, key=lambda fault: CODES.index(fault.code))
        raise EventError(code, f"{shorten(where)}: {detail}")
    for name, each in dict(event)["features"]:
        if kinds.get(name) == "category" and isinstance(each, str) and is_datetime(each):
            told = {"feature": name, "value": each, "remedy": DATED}
            log.warning("a date is read as a category", extra=told)
    return kinds


def _faults(name: str, value: object, before: str | None) -> Iterator[Fault]:
    kind = infer_kind(value)
    if why := check_name(name):
        yield Fault("feature_unknown", name, why)
    elif kind is None and value is not None:
        detail = f"{show(value)} where a number, a boolean, a string or null belongs"
        yield Fault("feature_type", name, detail)
    elif kind and before and kind != before:
        yield Fault("feature_type", name, f"comes twice, as a {before} and as a {kind}")
    elif isinstance(value, int | float) and not abs(value) <= LIMIT:
        yield Fault("not_finite", name, f"{show(value)} is beyond {LIMIT:g}; send null")
