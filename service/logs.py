"""Log lines with one schema: ts, level, logger, event, fields of the event, ids of the request."""

import json
import logging
import math
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from kaboost.service.config.monitoring import Log
from kaboost.service.request_context import CURRENT

# Attributes of every record; any others were passed with `extra=`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Libraries log warnings and errors only.
_LIBRARIES = ("uvicorn", "fastapi", "asyncio", "numba", "httpx", "httpcore")


class JsonLines(logging.Formatter):
    """Write one JSON object a line; of an exception only class and stack where its message may hold
    a value of a private field.
    """

    def __init__(self, *, private: bool = False) -> None:
        super().__init__()
        self._private = private

    def format(self, record: logging.LogRecord) -> str:
        """Render a record; values that JSON does not support are written as text."""
        return json.dumps(fields(record) | self._trace(record), default=str, ensure_ascii=False)

    def _trace(self, record: logging.LogRecord) -> dict[str, str]:
        if not record.exc_info:
            return {}
        kind, _, frames = record.exc_info
        if self._private and kind is not None:
            return {"traceback": "".join([*traceback.format_tb(frames), kind.__name__])}
        return {"traceback": self.formatException(record.exc_info)}


class TextLines(JsonLines):
    """Write the same fields for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Render a record as time, level, logger, event and key=value pairs."""
        values = fields(record)
        head = [values.pop(key) for key in ("ts", "level", "logger", "event")]
        pairs = [f"{key}={value!r}" for key, value in values.items()]
        trace = [f"\n{text}" for text in self._trace(record).values()]
        return " ".join([head[0], f"{head[1]:<7}", *head[2:], *pairs, *trace])


def setup(log: Log, stream: TextIO | None = None, *, private: bool = False) -> None:
    """Send every log line to standard error in the configured form; `private` leaves the messages
    of unexpected exceptions out.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        JsonLines(private=private) if log.format == "json" else TextLines(private=private)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(log.level.upper())
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """List a record's fields in the order of the schema."""
    moment = datetime.fromtimestamp(record.created, UTC)
    extra: Mapping[str, Any] = vars(record)
    schema = {
        "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": record.getMessage(),
    }
    extras = {key: _plain(value) for key, value in extra.items() if key not in _STANDARD}
    request = ids.fields() if (ids := CURRENT.get()) else {}
    return {**schema, **extras, **request, **schema}


def _plain(value: Any) -> Any:
    """Write NaN and infinities, which JSON does not support, as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
