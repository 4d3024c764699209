"""Traces for OpenTelemetry: a request to its answer, records to the snapshot that has learned them.

A batch of records has one span in the trace of its first traced record, with links to those of all;
the snapshot has links to its batches. Of records without a sampled `traceparent` only the headers
are looked at.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags

from kaboost.service.request_context import RequestIds, trace_parent_of

MOST_LINKS = 128  # of a span, the SDK's limit
TIMEOUT_SECONDS = 5.0


class Record(Protocol):
    """A record of a topic."""

    def headers(self) -> Any: ...


class OtelTraces:
    """The spans of one process, sent in the background."""

    def __init__(self, endpoint: str, sample_ratio: float, name: str, process: str) -> None:
        names = {"service.name": name, "service.namespace": "kaboost", "process": process}
        self._provider = TracerProvider(
            resource=Resource.create(names),
            sampler=ParentBased(TraceIdRatioBased(sample_ratio)),
            shutdown_on_exit=False,
        )
        url = f"{endpoint.rstrip('/')}/v1/traces"
        exporter = OTLPSpanExporter(endpoint=url, timeout=TIMEOUT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("kaboost")
        self._unpublished: list[Link] = []  # to the batches that no snapshot has

    @contextmanager
    def request(self, name: str, ids: RequestIds) -> Iterator[tuple[Any, RequestIds]]:
        """Trace one request; yield its span, and its ids with the span as the parent of others."""
        remote = _context_of(ids.trace_parent)
        parent = None if remote is None else _below(remote)
        with self._span(name, parent, SpanKind.SERVER) as span:
            span.set_attribute("kaboost.request_id", ids.request_id)
            yield span, ids._replace(trace_parent=_trace_parent(span))

    @contextmanager
    def learning(self, records: Sequence[Record]) -> Iterator[None]:
        """Trace a batch, if one of its records is traced."""
        links = list(_links(records))
        if not links:
            yield
            return
        first, kind = _below(links[0].context), SpanKind.CONSUMER
        with self._span("learn", first, kind, links) as span:
            span.set_attribute("messaging.system", "kafka")
            span.set_attribute("messaging.batch.message_count", len(records))
            yield
        if len(self._unpublished) < MOST_LINKS:
            self._unpublished.append(Link(span.get_span_context()))

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Trace a snapshot, if it has learned traced records."""
        if not self._unpublished:
            yield
            return
        first, links = _below(self._unpublished[0].context), self._unpublished
        with self._span("publish snapshot", first, SpanKind.INTERNAL, links):
            yield
        self._unpublished = []

    def close(self) -> None:
        """Send what is left, within `TIMEOUT_SECONDS`: the library waits for 30 for a collector
        that hangs, longer than a process may take to end.
        """
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(TIMEOUT_SECONDS)

    def _span(
        self, name: str, parent: Context | None, kind: SpanKind, links: Sequence[Link] = ()
    ) -> AbstractContextManager[Span]:
        """Begin a span without the messages of exceptions, which may hold values of records."""
        return self._tracer.start_as_current_span(
            name, parent, kind, links=links, record_exception=False, set_status_on_exception=False
        )


def _links(records: Sequence[Record]) -> Iterator[Link]:
    found = 0
    for record in records:
        try:
            sent = trace_parent_of(record.headers() or ())
        except UnicodeDecodeError:  # the name of a header, which anybody may write: no trace
            continue
        context = _context_of(sent) if sent else None
        if context is not None and context.trace_flags.sampled:
            yield Link(context)
            found += 1
            if found == MOST_LINKS:
                return


def _below(context: SpanContext) -> Context:
    """Make the context of what belongs to another span: its trace, and whether it is sampled."""
    return trace.set_span_in_context(NonRecordingSpan(context))


def _context_of(trace_parent: str) -> SpanContext | None:
    if not trace_parent:
        return None
    _, trace_id, span_id, flags = trace_parent.split("-")[:4]
    ids = int(trace_id, 16), int(span_id, 16)
    return SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _trace_parent(span: Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
