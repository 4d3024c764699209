"""Traces in a real OTLP receiver: from a producer's header to the snapshot, and of requests."""

import http.server
import sys
import threading
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any, NamedTuple

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kaboost.service import otel_traces
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.otel_traces import OtelTraces
from kaboost.service.tracing import make_traces
from tests.kafka.broker import Reachable
from tests.kafka.client import encode, read
from tests.service.learning import until
from tests.service.serving import PATIENCE, ROW, running, settings

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
Spans = list[Any]


@pytest.fixture
def receiver() -> Iterator[tuple[str, Spans]]:
    """An HTTP server that takes OTLP as a collector does, and the spans that came."""
    spans: Spans = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert ("/v1/traces", "application/x-protobuf") == (
                self.path,
                self.headers["content-type"],
            )
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", spans
    server.shutdown()
    thread.join()
    server.server_close()


def service(receiver: str, broker: Reachable, topic: str, folder: Any) -> Settings:
    """Make settings of a service that sends its traces to a receiver."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    return settings(folder, kafka=kafka, otel={"endpoint": receiver, "sample_ratio": 0.0})


def check_exemplars(page: httpx.Response, learners: httpx.Response) -> None:
    """Check that both ports have OpenMetrics, and the traced requests exemplars."""
    families = {each.name: each for each in text_string_to_metric_families(page.text)}
    of_learner = {each.name for each in text_string_to_metric_families(learners.text)}
    assert "application/openmetrics-text" in page.headers["content-type"]
    assert {"kaboost_snapshot_version"} <= of_learner & set(families)
    samples = families["http_server_request_duration_seconds"].samples
    assert {("/predict", TRACE), ("/events", TRACE)} == {
        (each.labels["http_route"], each.exemplar.labels["trace_id"])
        for each in samples
        if each.exemplar
    }


def test_a_trace_is_followed(
    receiver: tuple[str, Spans],
    broker: Reachable,
    topic: str,
    send: Callable[..., None],
    tmp_path: Any,
) -> None:
    """From the header of a record over its batch to the snapshot; of a request to its answer, and
    into the record that it writes.
    """
    url, spans = receiver
    wanted = service(url, broker, topic, tmp_path)
    send(topic, [encode(ROW, 1)] * 3)
    with running("serve", wanted) as program:
        program.ready()
        send(topic, [encode(ROW, 1)], headers=[("traceparent", SAMPLED)])
        send(topic, [encode(ROW, 1)], headers=[("traceparent", NOT_SAMPLED)])
        send(topic, [encode(ROW, 1)], headers=[("traceparent", "nonsense")])
        until(lambda: program.events_learned() == 6)
        answer = program.client.post(
            "/predict", json={"features": ROW}, headers={"traceparent": SAMPLED}
        )
        event = {"features": ROW, "label": 1}
        accepted = program.client.post("/events", json=event, headers={"traceparent": SAMPLED})
        program.client.post("/predict", json={"features": ROW})
        assert (200, 202) == (answer.status_code, accepted.status_code), accepted.text
        until(lambda: program.events_learned() == 7)
        until(lambda: {"learn", "publish snapshot", "POST /predict"} <= {s.name for s in spans})
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        page = program.client.get("/metrics", headers=accept)
        learners = httpx.get(f"http://127.0.0.1:{wanted.metrics.port}/metrics", headers=accept)
    check_exemplars(page, learners)
    written = read(broker.bootstrap, topic, 7)[-1]
    by_name = {name: [s for s in spans if s.name == name] for name in {s.name for s in spans}}

    (predict,) = by_name["POST /predict"]
    assert (TRACE, SPAN) == (predict.trace_id.hex(), predict.parent_span_id.hex())
    found = {each.key: each.value for each in predict.attributes}
    assert 200 == found["http.response.status_code"].int_value
    assert answer.headers["x-request-id"] == found["kaboost.request_id"].string_value
    (posted,) = by_name["POST /events"]
    ours = f"00-{TRACE}-{posted.span_id.hex()}-01".encode()
    assert ("traceparent", ours) in (written.headers() or [])
    learned = {link.span_id: span for span in by_name["learn"] for link in span.links}
    assert {bytes.fromhex(SPAN), posted.span_id} == set(learned)
    published = {link.span_id for span in by_name["publish snapshot"] for link in span.links}
    assert {span.span_id for span in learned.values()} <= published


class Odd(NamedTuple):
    """A record whose headers are as given; None: a name that is no text."""

    given: list[tuple[str, bytes]] | None

    def headers(self) -> Any:
        if self.given is None:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return self.given


def test_no_header_and_no_error_changes_what_is_learned(receiver: tuple[str, Spans]) -> None:
    """A name that is no text has no trace; an error passes, and its message is not sent."""
    url, spans = receiver
    traces = OtelTraces(url, 1.0, "kaboost", "learner")
    with traces.learning([Odd(None), Odd([("traceparent", b"\xff")])]):
        pass
    with (
        pytest.raises(ValueError, match="planted"),
        traces.learning([Odd(None), Odd([("traceparent", SAMPLED.encode())])]),
    ):
        raise ValueError("planted")
    traces.close()
    assert ["learn"] == [span.name for span in spans]
    assert "planted" not in str(spans)


def test_a_collector_that_hangs_does_not_keep_a_process_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library would wait for it for 30 s."""
    monkeypatch.setattr(otel_traces, "TIMEOUT_SECONDS", 0.1)
    traces, go_on, ended = OtelTraces("http://127.0.0.1:9", 1.0, "a", "b"), Event(), Event()

    def hang() -> None:
        go_on.wait(PATIENCE)
        ended.set()

    monkeypatch.setattr(traces._provider, "shutdown", hang)
    traces.close()
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(PATIENCE)


@pytest.mark.parametrize("address", ["http://user:planted@id:4318", "http://id:4318/?key=planted"])
def test_the_address_of_a_collector_has_no_secret(tmp_path: Any, address: str) -> None:
    """It is in messages and lines of the log."""
    with pytest.raises(ConfigError, match="without a password"):
        settings(tmp_path, otel={"endpoint": address})


def test_traces_are_off_by_default(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing of the library is loaded; without the extra the error names it."""
    assert make_traces(settings(tmp_path), "api") is None
    monkeypatch.setitem(sys.modules, "kaboost.service.otel_traces", None)
    wanted = settings(tmp_path, otel={"endpoint": "http://127.0.0.1:4318"})
    with pytest.raises(ConfigError, match=r"pip install 'kaboost\[otel\]'"):
        make_traces(wanted, "api")
