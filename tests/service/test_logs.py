"""Logs: one JSON schema for every line, ours and the libraries'; quiet by default."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
from starlette.types import Receive, Scope, Send

from kaboost.service import logs
from kaboost.service.config.monitoring import Log
from kaboost.service.http.middleware import RequestIdMiddleware


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


@pytest.mark.parametrize(
    ("sent", "trace_id"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", "a" * 32),
        (f"01-{'a' * 32}-{'b' * 16}-01-more", "a" * 32),
        (f"00-{'0' * 32}-{'b' * 16}-01", None),
        (f"00-{'a' * 32}-{'0' * 16}-01", None),
        (f"ff-{'a' * 32}-{'b' * 16}-01", None),
        (f"00-{'A' * 32}-{'b' * 16}-01", None),
        ("", None),
    ],
)
def test_lines_of_a_request_have_its_ids(
    stream: io.StringIO, sent: str, trace_id: str | None
) -> None:
    """Also those of threads that it waits for; lines of nothing have none."""
    logs.setup(Log(), stream)

    async def serve(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await asyncio.to_thread(logging.getLogger("service.x").info, "in a thread")

    async def request() -> None:
        headers = [(b"x-request-id", b"r-1"), (b"traceparent", sent.encode())]
        scope = {"type": "http", "headers": headers}
        await RequestIdMiddleware(serve)(scope, None, None)  # type: ignore[arg-type] # not used
        logging.getLogger("service.x").info("after it")

    asyncio.run(request())
    during, after = lines(stream)

    assert ("r-1", trace_id) == (during["request_id"], during.get("trace_id"))
    assert "request_id" not in after
