"""Logs: one JSON schema for every line, ours and the libraries'; quiet by default."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from kaboost.service import logs
from kaboost.service.config.monitoring import Log


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What is logged; the root logger is given back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    """Read what was logged."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_one_schema(stream: io.StringIO) -> None:
    """ts, level, logger, event, then the fields of the event."""
    logs.setup(Log(), stream)
    logging.getLogger("service.x").info("published", extra={"version": 3, "loss": 0.5})
    (line,) = lines(stream)

    assert list(line) == ["ts", "level", "logger", "event", "version", "loss"]
    assert line["ts"].endswith("Z")  # type: ignore[attr-defined]
    assert (line["level"], line["logger"], line["event"]) == ("info", "service.x", "published")
    assert (line["version"], line["loss"]) == (3, 0.5)


def test_any_field_is_one_line_of_json(stream: io.StringIO) -> None:
    """What JSON cannot say is written as text; no field can change the schema."""
    logs.setup(Log(), stream)
    extra = {"loss": float("nan"), "path": io, "text": "a\nb", "event": "x", "level": "y"}
    logging.getLogger("a").warning("told", extra=extra)
    (line,) = lines(stream)

    assert line["loss"] == "nan"
    assert line["text"] == "a\nb"
    assert (line["event"], line["level"]) == ("told", "warning")


def test_exceptions_stay_on_their_line(stream: io.StringIO) -> None:
    """A traceback is a field."""
    logs.setup(Log(), stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("a").exception("failed")
    (line,) = lines(stream)

    assert "ValueError: broken" in str(line["traceback"])


def test_quiet_by_default(stream: io.StringIO) -> None:
    """Our news is written; details, and libraries below a warning, are not."""
    logs.setup(Log(), stream)
    logging.getLogger("service").debug("detail")
    logging.getLogger("uvicorn.access").info("GET /")
    logging.getLogger("uvicorn.error").warning("odd")
    logging.getLogger("service").info("news")

    assert [line["event"] for line in lines(stream)] == ["odd", "news"]


def test_level(stream: io.StringIO) -> None:
    """`log.level` holds for everyone."""
    logs.setup(Log(level="error"), stream)
    logging.getLogger("service").warning("odd")
    logging.getLogger("uvicorn").warning("odd")
    logging.getLogger("service").error("bad")

    assert [line["event"] for line in lines(stream)] == ["bad"]


def test_text(stream: io.StringIO) -> None:
    """The same fields for people."""
    logs.setup(Log(format="text"), stream)
    logging.getLogger("service").info("published", extra={"version": 3})

    assert stream.getvalue().endswith(" info    service published version=3\n")
