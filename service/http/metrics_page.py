"""All metrics as one text for Prometheus: those of every API worker, and the learner's own."""

import http.client
import logging
import os
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from kaboost.service.metrics import program_version

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
TIMEOUT_SECONDS = (
    2.0  # seconds for the learner's port; a learner that is down shows by its missing lines
)

log = logging.getLogger(__name__)
# The learner is our neighbour: a proxy of the environment has no business between us.
_open = build_opener(ProxyHandler({})).open


class BuildInfo(Collector):
    """Which program answers: said once, where a gauge of every worker would say it of each."""

    def collect(self) -> Iterator[Metric]:
        """Give the one figure."""
        family = GaugeMetricFamily(
            "kaboost_build_info", "Which program; always 1.", labels=["version"]
        )
        family.add_metric([program_version()], 1.0)
        yield family


def expose(registry: CollectorRegistry, learner: str | None) -> bytes:
    """Write the metrics of all workers, then what the learner's own port has besides."""
    build = CollectorRegistry()
    build.register(BuildInfo())
    text = "".join(generate_latest(each).decode() for each in (build, _all_workers(registry)))
    return merge_families(text, fetch(learner) if learner else "").encode()


def fetch(url: str) -> str:
    """Ask the learner's own port; empty while it does not answer."""
    try:
        with _open(url, timeout=TIMEOUT_SECONDS) as answer:
            return str(answer.read(), "utf-8")
    except (URLError, OSError, http.client.HTTPException) as err:
        log.debug("learner metrics missing", extra={"reason": str(err)})
        return ""


def merge_families(ours: str, theirs: str) -> str:
    """Join two expositions; a family may stand in a text only once, so ours goes first."""
    return "".join((split_families(theirs) | split_families(ours)).values())


def split_families(text: str) -> dict[str, str]:
    """Cut an exposition into its metric families."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if line.startswith("# "):
            name = line.split(" ", 3)[2].strip()
        found[name] = found.get(name, "") + line
    return found


def _all_workers(registry: CollectorRegistry) -> CollectorRegistry:
    """Collect from the files that all workers write, where there are several processes."""
    if not os.path.isdir(os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")):
        return registry
    shared = CollectorRegistry()
    MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
    return shared
