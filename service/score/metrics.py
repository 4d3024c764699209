"""The metrics of `kaboost score`."""

from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kaboost.service.metrics import LATENCY_BUCKETS, LEARNER, Spec, make, program_version


class ScoreMetrics(NamedTuple):
    """The metrics of a process that answers the records of a topic; one thread writes them."""

    consumed: Counter
    answered: Counter
    dead_letters: Counter  # {reason}
    skipped: Counter  # {reason}
    ignored: Counter
    aborted: Counter
    waiting: Gauge
    partitions: Gauge
    snapshot_version: Gauge
    lag_records: Gauge  # {topic, partition}
    lag_seconds: Gauge  # {topic, partition}
    records_lost: Counter
    batch_duration: Histogram
    build_info: Gauge  # {version}


def score_metrics(registry: CollectorRegistry) -> ScoreMetrics:
    """Make the metrics of `kaboost score`."""
    shared = {name: LEARNER[name] for name in ScoreMetrics._fields if name in LEARNER}
    metrics = ScoreMetrics(**make(shared | _SCORE, registry))
    metrics.build_info.labels(program_version()).set(1)
    return metrics


_SCORE = {
    "consumed": Spec(
        Counter, "kaboost_score_consumed", "Records whose offsets were committed by `score`."
    ),
    "answered": Spec(Counter, "kaboost_score_answered", "Answers that were committed."),
    "aborted": Spec(
        Counter, "kaboost_score_aborted", "Transactions that were aborted and tried again."
    ),
    "waiting": Spec(
        Gauge, "kaboost_score_waiting", "Whether records wait because there is no usable model."
    ),
    "partitions": Spec(Gauge, "kaboost_score_partitions", "Partitions that the process reads."),
    "snapshot_version": Spec(
        Gauge, "kaboost_score_snapshot_version", "Version of the snapshot that answers."
    ),
    "batch_duration": Spec(
        Histogram,
        "kaboost_score_batch_duration_seconds",
        "Time of one batch, from its records to the commit of its answers.",
        (),
        LATENCY_BUCKETS,
    ),
}
