"""`GET /metrics`: the metrics of every API worker and of the learner as one exposition."""

import http.client
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from kaboost.service.http.exemplars import Exemplars
from kaboost.service.http.source_metrics import SourceMetrics
from kaboost.service.metrics import program_version

OPEN_METRICS = "application/openmetrics-text"
END = "# EOF\n"  # of OpenMetrics
TIMEOUT_SECONDS = (
    2.0  # seconds for the learner's port; a learner that is down shows by its missing lines
)

log = logging.getLogger(__name__)
# Ignore proxy settings of the environment: the learner runs on this machine.
_open = build_opener(ProxyHandler({})).open


class BuildInfo(Collector):
    """The version once, where a gauge of every worker would repeat it."""

    def collect(self) -> Iterator[Metric]:
        """Yield the one gauge."""
        family = GaugeMetricFamily(
            "kaboost_build_info", "Version of the program; always 1.", labels=["version"]
        )
        family.add_metric([program_version()], 1.0)
        yield family


def expose(
    registry: CollectorRegistry,
    learner: str | None,
    snapshots: Path,
    accept: str = "",
    exemplars: Exemplars | None = None,
) -> tuple[bytes, str]:
    """Write the metrics of all workers, those of a reader's source of snapshots, then those of the
    learner's port; as OpenMetrics, which has exemplars, for who accepts it. Return the text and its
    media type.
    """
    is_open = OPEN_METRICS in accept
    build, shared = CollectorRegistry(), _all_workers(registry)
    build.register(BuildInfo())
    build.register(SourceMetrics(snapshots))
    if is_open and exemplars is not None:
        shared = exemplars.added_to(shared)
    write = openmetrics.generate_latest if is_open else generate_latest
    text = "".join(write(part).decode() for part in (build, shared))
    wanted = OPEN_METRICS if is_open else "text/plain"
    merged = merge_families(text, fetch(learner, wanted) if learner else "")
    return (
        (f"{merged}{END}".encode(), openmetrics.CONTENT_TYPE_LATEST)
        if is_open
        else (merged.encode(), CONTENT_TYPE_PLAIN_0_0_4)
    )


def fetch(url: str, accept: str) -> str:
    """Read the learner's metrics; empty while it does not respond."""
    try:
        with _open(Request(url, headers={"Accept": accept}), timeout=TIMEOUT_SECONDS) as response:
            return str(response.read(), "utf-8")
    except (URLError, OSError, http.client.HTTPException) as err:
        log.debug("learner metrics missing", extra={"reason": str(err)})
        return ""


def merge_families(first: str, second: str) -> str:
    """Join two expositions; a family may occur only once, and the first one counts."""
    return "".join((split_families(second) | split_families(first)).values())


def split_families(text: str) -> dict[str, str]:
    """Split an exposition into its metric families."""
    families: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if line == END:
            continue
        if line.startswith("# "):
            name = line.split(" ", 3)[2].strip()
        families[name] = families.get(name, "") + line
    return families


def _all_workers(registry: CollectorRegistry) -> CollectorRegistry:
    """Collect from the files of all workers, if there are several processes."""
    if not os.path.isdir(os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")):
        return registry
    shared = CollectorRegistry()
    MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
    return shared
