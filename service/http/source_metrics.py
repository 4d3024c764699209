"""The metrics of a reader's source of snapshots, once for all workers of its port."""

import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kaboost.service.storage import source_status


class SourceMetrics(Collector):
    """Read the report of the mirror; without one there is nothing to yield."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        status = source_status.read(self._directory)
        if status is None:
            return
        up = 0.0 if status.problem(time.monotonic()) else 1.0
        yield GaugeMetricFamily(
            "kaboost_snapshot_source_up", "Whether the source of snapshots answers.", up
        )
        yield GaugeMetricFamily(
            "kaboost_snapshot_received_version",
            "Version of the snapshot that was received last.",
            status.version,
        )
        yield CounterMetricFamily(
            "kaboost_snapshots_received", "Snapshots received from the source.", status.received
        )
        failures = CounterMetricFamily(
            "kaboost_snapshot_source_failures",
            "Requests to the source without an answer, and snapshots that were not whole.",
            labels=["reason"],
        )
        failures.add_metric(["unreachable"], status.failures)
        failures.add_metric(["damaged"], status.damaged)
        yield failures
