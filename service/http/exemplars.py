"""Exemplars of the durations of requests: the trace of the last traced one in each bucket.

The metrics library keeps none where several processes share metrics, as under `serve`; those here
are of the worker that answers the scrape.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Exemplar, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from kaboost.service.metrics import LATENCY_BUCKETS
from kaboost.service.request_context import CURRENT

NAME = "http_server_request_duration_seconds"
BOUNDS = [*map(floatToGoString, LATENCY_BUCKETS), "+Inf"]
Key = tuple[str, str, str, str]  # method, route, status, bucket


class Exemplars:
    """The exemplars of one process; the event loop writes, threads read."""

    def __init__(self) -> None:
        self._last: dict[Key, Exemplar] = {}  # bounded as the series are

    def note(self, series: tuple[str, str, int], seconds: float) -> None:
        """Note the request that is being served, if it is traced."""
        ids = CURRENT.get()
        if ids is not None and ids.is_sampled:
            method, route, status = series
            bucket = BOUNDS[bisect_left(LATENCY_BUCKETS, seconds)]
            made = Exemplar({"trace_id": ids.trace_id}, seconds, time.time())
            self._last[method, route, str(status), bucket] = made

    def added_to(self, registry: CollectorRegistry) -> CollectorRegistry:
        """Return a registry whose durations of requests have exemplars."""
        made = CollectorRegistry(auto_describe=False)
        made.register(_Added(registry, dict(self._last)))
        return made


class _Added(Collector):
    def __init__(self, registry: CollectorRegistry, last: dict[Key, Exemplar]) -> None:
        self._registry = registry
        self._last = last

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        for family in self._registry.collect():
            if family.name == NAME:
                family.samples = [
                    sample._replace(exemplar=self._last.get(_key(sample.labels)))
                    for sample in family.samples
                ]
            yield family


def _key(labels: dict[str, str]) -> Key:
    names = ("http_request_method", "http_route", "http_response_status_code", "le")
    method, route, status, bucket = (labels.get(name, "") for name in names)
    return method, route, status, bucket
