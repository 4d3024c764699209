"""Every metric, by name: one NamedTuple a process, made from a registry."""

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from kaboost.models.evaluation.baselines import PREDICTORS, ProgressiveValidation
from kaboost.models.evaluation.intervals import LEVELS, Intervals
from kaboost.models.evaluation.progress import Progress
from kaboost.models.evaluation.reliability import Reliability
from kaboost.models.types import Vec

SHOWN = 32  # prefixes and weak learners at most, spread evenly
QUICK = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 1.0)
WRITES = (1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
DELAYS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000)


class _Figures(NamedTuple):
    loss_sum: Vec  # (3,) by predictor, like the windows
    weight_sum: float
    window_loss: Vec
    window_error: Vec
    prefix_losses: Vec  # (N+1,), or (K, N+1) of several structures
    edges: Vec  # (N,), or (K, N)
    reliability: Reliability
    coverage: Vec  # (8,) by level, none for classes


class Validation(Collector):
    """Progressive loss, error, prefixes and edges as they stand in the state.

    A restored learner goes on with the sums of its checkpoint, which no counter could.
    """

    def __init__(self) -> None:
        self._figures: _Figures | None = None

    def record(
        self,
        baselines: ProgressiveValidation,
        progress: Progress,
        intervals: Intervals | None = None,
    ) -> None:
        """Take the figures of now; a scrape in another thread sees all of them or none."""
        self._figures = _Figures(
            baselines.loss_sum.copy(),
            float(baselines.weight_sum),
            baselines.window_loss,
            baselines.window_error,
            progress.prefix_losses,
            progress.edges,
            Reliability(*map(np.copy, baselines.reliability)),
            np.full(len(LEVELS), np.nan) if intervals is None else intervals.coverage,
        )

    def collect(self) -> Iterator[Metric]:
        """Give the figures that were recorded last."""
        now = self._figures
        if now is not None:
            yield _loss(now)
            yield _by_predictor("kaboost_progressive_loss_window", _LOSS, now.window_loss)
            yield _by_predictor("kaboost_progressive_error_window", _ERROR, now.window_error)
            yield _spread("kaboost_prefix_loss", _PREFIX, "prefix", now.prefix_losses, first=0)
            yield _spread("kaboost_weak_learner_edge", _EDGE, "learner", now.edges, first=1)
            yield from _reliable(now.reliability)
            yield _covered(now.coverage)


class LearnerMetrics(NamedTuple):
    """What the learner counts; one thread writes."""

    consumed: Counter
    learned: Counter
    rejected: Counter  # {reason}
    dead_letters: Counter  # {reason}
    ignored: Counter
    weights_ignored: Counter
    validation: Validation
    lag_records: Gauge  # {topic, partition}
    lag_seconds: Gauge  # {topic, partition}
    paused: Gauge
    batch_events: Histogram
    learn_duration: Histogram
    publish_duration: Histogram
    checkpoint_duration: Histogram
    event_to_snapshot: Histogram
    snapshot_version: Gauge
    snapshot_timestamp: Gauge
    checkpoint_timestamp: Gauge
    checkpoint_size: Gauge
    checkpoint_failures: Counter  # {reason}
    restore_fallbacks: Counter
    model_memory: Gauge
    restarts: Counter
    model_info: Gauge  # {model, rule, bank, loss}
    build_info: Gauge  # {version}


class ApiMetrics(NamedTuple):
    """What an API worker counts; the workers of one port are added up."""

    predict_duration: Histogram
    predictions: Counter
    predict_errors: Counter  # {status}
    features_ignored: Counter
    request_duration: Histogram  # {method, route, status}


def learner_metrics(registry: CollectorRegistry) -> LearnerMetrics:
    """Make the learner's metrics."""
    validation = Validation()
    registry.register(validation)
    metrics = LearnerMetrics(validation=validation, **_make(_LEARNER, registry))
    metrics.build_info.labels(program_version()).set(1)
    return metrics


def api_metrics(registry: CollectorRegistry) -> ApiMetrics:
    """Make an API worker's metrics."""
    return ApiMetrics(**_make(_API, registry))


def program_version() -> str:
    """Say which Kaboost this is; a bare checkout does not know."""
    try:
        return version("kaboost")
    except PackageNotFoundError:
        return "unknown"


class _Spec(NamedTuple):
    kind: type
    name: str  # a counter's without its `_total`
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_PARTITION = ("topic", "partition")
_LEARNER = {
    "consumed": _Spec(Counter, "kaboost_events_consumed", "Records read from the topic."),
    "learned": _Spec(Counter, "kaboost_events_learned", "Events that taught the model."),
    "rejected": _Spec(
        Counter, "kaboost_events_rejected", "Records that are no event.", ("reason",)
    ),
    "dead_letters": _Spec(
        Counter, "kaboost_dlq_records", "Dead letters that the broker confirmed.", ("reason",)
    ),
    "ignored": _Spec(Counter, "kaboost_features_ignored", "Unknown features passed over."),
    "weights_ignored": _Spec(
        Counter, "kaboost_weights_ignored", "Events of a weight that the River model cannot take."
    ),
    "lag_records": _Spec(
        Gauge, "kaboost_consumer_lag_records", "Records that are still to be read.", _PARTITION
    ),
    "lag_seconds": _Spec(
        Gauge,
        "kaboost_consumer_lag_seconds",
        "Age of the last record read; 0 when all are read.",
        _PARTITION,
    ),
    "paused": _Spec(
        Gauge,
        "kaboost_learning_paused",
        "1 while dead letters or checkpoints cannot be written, else 0.",
    ),
    "batch_events": _Spec(
        Histogram, "kaboost_learn_batch_events", "Events learned in one call.", (), BATCHES
    ),
    "learn_duration": _Spec(
        Histogram, "kaboost_learn_duration_seconds", "Time to learn one batch.", (), QUICK
    ),
    "publish_duration": _Spec(
        Histogram, "kaboost_snapshot_publish_duration_seconds", "Time to publish.", (), WRITES
    ),
    "checkpoint_duration": _Spec(
        Histogram, "kaboost_checkpoint_duration_seconds", "Time to write one.", (), WRITES
    ),
    "event_to_snapshot": _Spec(
        Histogram,
        "kaboost_event_to_snapshot_seconds",
        "From an event's time to the snapshot that holds it, for the first one learned of each.",
        (),
        DELAYS,
    ),
    "snapshot_version": _Spec(Gauge, "kaboost_snapshot_version", "Version published last."),
    "snapshot_timestamp": _Spec(
        Gauge, "kaboost_snapshot_timestamp_seconds", "When it was published."
    ),
    "checkpoint_timestamp": _Spec(
        Gauge,
        "kaboost_checkpoint_last_success_timestamp_seconds",
        "When the last checkpoint became durable.",
    ),
    "checkpoint_size": _Spec(Gauge, "kaboost_checkpoint_size_bytes", "Size of that checkpoint."),
    "checkpoint_failures": _Spec(
        Counter, "kaboost_checkpoint_failures", "Checkpoints that were not written.", ("reason",)
    ),
    "restore_fallbacks": _Spec(
        Counter, "kaboost_restore_fallbacks", "Damaged checkpoints passed over at the start."
    ),
    "model_memory": _Spec(Gauge, "kaboost_model_memory_bytes", "Size of the model's arrays."),
    "restarts": _Spec(Counter, "kaboost_learner_restarts", "Restarts by the supervisor."),
    "model_info": _Spec(
        Gauge, "kaboost_model_info", "What learns; always 1.", ("model", "rule", "bank", "loss")
    ),
    "build_info": _Spec(Gauge, "kaboost_build_info", "Which program; always 1.", ("version",)),
}
_API = {
    "predict_duration": _Spec(
        Histogram, "kaboost_predict_duration_seconds", "Time of one POST /predict.", (), QUICK
    ),
    "predictions": _Spec(Counter, "kaboost_predictions", "Rows that were answered."),
    "predict_errors": _Spec(
        Counter, "kaboost_predict_errors", "POST /predict that were refused.", ("status",)
    ),
    "features_ignored": _Spec(
        Counter, "kaboost_predict_features_ignored", "Unknown features of rows, passed over."
    ),
    "request_duration": _Spec(
        Histogram,
        "http_server_request_duration_seconds",
        "Time of one HTTP request.",
        ("http_request_method", "http_route", "http_response_status_code"),
        QUICK,
    ),
}


def _make(specs: Mapping[str, _Spec], registry: CollectorRegistry) -> dict[str, Any]:
    made = {}
    for field, spec in specs.items():
        more = {"buckets": spec.buckets} if spec.buckets else {}
        made[field] = spec.kind(spec.name, spec.help, spec.labels, registry=registry, **more)
    return made


_LOSS = "Progressive loss over about the last thousand events."
_ERROR = "Progressive error over about the last thousand events."
_PREFIX = "Progressive loss of the first so many weak learners together."
_EDGE = "Edge of a weak learner over guessing nothing."
_CALIBRATION = "Mean gap between probabilities and what happened, over 15 bins, decayed."
_COVERAGE = "Share of labels inside their prediction interval, of about the last thousand."
_RELIABILITY = {
    "said": "Mean probability of the events in one of 15 bins of probability.",
    "happened": "Share of positive events among them.",
}


def _loss(now: _Figures) -> Metric:
    help_ = "Loss of each prediction before its event was learned, weighted by importance."
    family = SummaryMetricFamily("kaboost_progressive_loss", help_, labels=["predictor"])
    for predictor, total in zip(PREDICTORS, now.loss_sum, strict=True):
        count: Any = now.weight_sum  # weights need not be whole
        family.add_metric([predictor], count, float(total))
    return family


def _by_predictor(name: str, help_: str, values: Vec) -> Metric:
    family = GaugeMetricFamily(name, help_, labels=["predictor"])
    for predictor, value in _known(PREDICTORS, values):
        family.add_metric([predictor], value)
    return family


def _spread(name: str, help_: str, label: str, values: Vec, *, first: int) -> Metric:
    """Give some of many figures; those of several structures (K, N) with the structure's number."""
    family = GaugeMetricFamily(name, help_, labels=[label, *["structure"] * (values.ndim - 1)])
    count = values.shape[-1]
    last = max(0, count - 1)  # a model that is no booster has none
    chosen = np.unique(np.linspace(0, last, SHOWN).round().astype(int))[:count]
    for k, row in enumerate(np.atleast_2d(values), 1):
        for place, value in _known(chosen, row[chosen]):
            family.add_metric([str(place + first), str(k)][: values.ndim], value)
    return family


def _reliable(now: Reliability) -> Iterator[Metric]:
    """Give what was said and what happened in every bin that holds something; and the error."""
    error = GaugeMetricFamily("kaboost_calibration_error", _CALIBRATION)
    for value in [now.error] if np.isfinite(now.error) else []:
        error.add_metric([], value)
    yield error
    filled = np.flatnonzero(now.weight > 0.0)
    for what, sums in (("said", now.predicted), ("happened", now.observed)):
        name = f"kaboost_reliability_{what}"
        family = GaugeMetricFamily(name, _RELIABILITY[what], labels=["bin"])
        for b in filled:
            family.add_metric([str(b + 1)], float(sums[b] / now.weight[b]))
        yield family


def _covered(coverage: Vec) -> Metric:
    family = GaugeMetricFamily("kaboost_interval_coverage", _COVERAGE, labels=["level"])
    for level, value in _known(LEVELS, coverage):
        family.add_metric([str(level)], value)
    return family


def _known(keys: Iterable[Any], values: Vec) -> Iterator[tuple[Any, float]]:
    """Leave out what no event has told yet."""
    return ((key, float(v)) for key, v in zip(keys, values, strict=True) if np.isfinite(v))
