"""Log lines about features: kinds that were corrected, numbers that may be identifiers."""

import logging
from collections.abc import Iterable, Mapping

IDENTIFIER_REMEDY = (
    "if they name things, declare the feature as category in features.schema, or leave it out with "
    "features.unknown: ignore, and start again with --cold-start"
)

log = logging.getLogger(__name__)


def log_corrected(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Log the features whose inferred kinds have changed."""
    if now is before:
        return
    for name, kind in now.items():
        if before.get(name, kind) != kind:
            fields = {"feature": name, "before": before[name], "kind": kind}
            log.warning("an inferred kind is corrected", extra=fields)


def log_identifiers(names: Iterable[str]) -> None:
    """Log features whose values look like identifiers."""
    for name in names:
        fields = {"feature": name, "remedy": IDENTIFIER_REMEDY}
        log.warning("large whole numbers in no order may be identifiers", extra=fields)
