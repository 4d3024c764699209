"""The ids of the request that is being served: in its log lines and its answer."""

import re
from collections.abc import Iterable
from contextvars import ContextVar
from random import SystemRandom
from typing import NamedTuple

REQUEST_ID = b"x-request-id"
TRACE_PARENT = b"traceparent"
VALID_ID = re.compile(rb"[\w.:/+=@~-]{1,128}", re.ASCII)
# https://www.w3.org/TR/trace-context/: version, trace, parent span, flags; later versions add more.
VALID_TRACE = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?=-|$)"
)

_random = SystemRandom()


class RequestIds(NamedTuple):
    """What a request is called."""

    request_id: str
    trace_parent: str = ""  # as the client sent it; empty without a valid one

    @property
    def trace_id(self) -> str:
        """The trace that the request belongs to; empty if there is none."""
        return self.trace_parent[3:35]

    @property
    def is_sampled(self) -> bool:
        """Whether the trace is recorded, as its flags have it."""
        return bool(self.trace_parent) and bool(int(self.trace_parent[53:55], 16) & 1)

    def fields(self) -> dict[str, str]:
        """Return the fields of log lines."""
        found = {"request_id": self.request_id}
        return found | {"trace_id": self.trace_id} if self.trace_parent else found


def trace_parent_of(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Return the `traceparent` of a record's headers; empty without a valid one."""
    for name, value in headers:
        if name == "traceparent" and value is not None and VALID_TRACE.match(value):
            return value[:55].decode()
    return ""


CURRENT: ContextVar[RequestIds | None] = ContextVar("request", default=None)


def read_ids(headers: Iterable[tuple[bytes, bytes]]) -> RequestIds:
    """Take the ids that a client has sent; a request without a valid one gets one of 64 bits."""
    request_id = trace = b""
    for name, value in headers:
        if name == REQUEST_ID and VALID_ID.fullmatch(value):
            request_id = value
        elif name == TRACE_PARENT and VALID_TRACE.match(value):
            trace = value[:55]
    made = request_id.decode() or f"{_random.getrandbits(64):016x}"
    return RequestIds(made, trace.decode())
