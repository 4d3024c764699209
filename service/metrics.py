"""All metrics: one NamedTuple for each kind of process, made from a registry."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kaboost.service.validation_metrics import Validation

WRITE_BUCKETS = (1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
LATENCY_BUCKETS = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, *WRITE_BUCKETS)
DELAY_BUCKETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
LABEL_DELAY_BUCKETS = (1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0)
# A longer delay is that of a wrong timestamp, such as one of the year 1: it would ruin the sum.
MAX_DELAY_SECONDS = 10 * 366 * 86_400.0
BATCH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000)


class LearnerMetrics(NamedTuple):
    """The learner's metrics; one thread writes them."""

    consumed: Counter
    learned: Counter
    rejected: Counter  # {reason}
    rejected_ratio: Gauge
    dead_letters: Counter  # {reason}
    duplicates: Counter
    influence_limited: Counter
    skipped: Counter  # {reason}
    waiting_features: Gauge
    waiting_bytes: Gauge
    labels_early: Gauge
    labels_held: Gauge
    label_delay: Histogram
    labels_joined: Counter
    labels_expired: Counter
    labels_unmatched: Counter
    labels_corrected: Counter
    ignored: Counter
    metadata_repaired: Counter  # {field, action}
    weights_ignored: Counter
    validation: Validation
    lag_records: Gauge  # {topic, partition}
    lag_seconds: Gauge  # {topic, partition}
    paused: Gauge
    stalled_seconds: Gauge
    serving_fallback: Gauge
    drifts: Counter  # {kind}
    feature_missing: Gauge  # {feature}
    feature_shift: Gauge  # {feature}
    feature_unseen: Gauge  # {feature}
    slice_loss: Gauge  # {feature, value}
    rollbacks: Counter
    promotions: Counter
    candidate_loss: Gauge  # {candidate}
    candidate_improvement: Gauge  # {candidate}
    candidate_failures: Counter  # {candidate}
    gaps_accepted: Counter  # {kind}
    records_lost: Counter
    batch_events: Histogram
    learn_duration: Histogram
    publish_duration: Histogram
    checkpoint_duration: Histogram
    snapshot_failures: Counter  # {reason}
    snapshots_sent: Counter  # {target, result}
    sent_version: Gauge  # {target}
    event_to_snapshot: Histogram
    snapshot_version: Gauge
    snapshot_timestamp: Gauge
    checkpoint_timestamp: Gauge
    checkpoint_size: Gauge
    checkpoint_failures: Counter  # {reason}
    restore_fallbacks: Counter
    model_memory: Gauge
    feature_names_on_trial: Gauge
    features_evicted: Counter
    restarts: Counter
    model_info: Gauge  # {model, rule, bank, loss}
    leader: Gauge
    leader_epoch: Gauge
    build_info: Gauge  # {version}


class ApiMetrics(NamedTuple):
    """An API worker's metrics; those of all workers of a port are added up."""

    predict_duration: Histogram
    predictions: Counter
    predict_errors: Counter  # {status}
    features_ignored: Counter
    predictions_logged: Counter  # {result}
    accepted: Counter  # {topic}
    refused: Counter  # {reason}
    request_duration: Histogram  # {method, route, status}


def learner_metrics(registry: CollectorRegistry) -> LearnerMetrics:
    """Make the learner's metrics."""
    validation = Validation()
    registry.register(validation)
    metrics = LearnerMetrics(validation=validation, **make(LEARNER, registry))
    metrics.build_info.labels(program_version()).set(1)
    return metrics


def api_metrics(registry: CollectorRegistry) -> ApiMetrics:
    """Make an API worker's metrics."""
    return ApiMetrics(**make(_API, registry))


def program_version() -> str:
    """Return the installed version; `unknown` if Kaboost is not installed."""
    try:
        return version("kaboost")
    except PackageNotFoundError:
        return "unknown"


class Spec(NamedTuple):
    """What a metric is made from."""

    kind: type
    name: str  # a counter's without its `_total`
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_PARTITION = ("topic", "partition")
LEARNER = {
    "consumed": Spec(Counter, "kaboost_events_consumed", "Records read from the topic."),
    "learned": Spec(Counter, "kaboost_events_learned", "Events that the model learned."),
    "rejected": Spec(
        Counter, "kaboost_events_rejected", "Records that are not valid events.", ("reason",)
    ),
    "rejected_ratio": Spec(
        Gauge, "kaboost_rejected_ratio", "Share of rejected records among the last 1,000."
    ),
    "dead_letters": Spec(
        Counter, "kaboost_dlq_records", "Dead letters that the broker confirmed.", ("reason",)
    ),
    "duplicates": Spec(
        Counter, "kaboost_duplicates", "Events skipped because their id was learned before."
    ),
    "influence_limited": Spec(
        Counter,
        "kaboost_influence_limited",
        "Events learned with less weight, since their key has had its share.",
    ),
    "skipped": Spec(
        Counter,
        "kaboost_records_skipped",
        "Records that are no event and no fault, such as deletes of a table.",
        ("reason",),
    ),
    "waiting_features": Spec(
        Gauge, "kaboost_waiting_features", "Events whose features wait for their label."
    ),
    "waiting_bytes": Spec(Gauge, "kaboost_waiting_bytes", "Size of the waiting features on disk."),
    "labels_early": Spec(Gauge, "kaboost_labels_early", "Labels that wait for their features."),
    "labels_held": Spec(
        Gauge, "kaboost_labels_held", "Labels joined with their features that are learned later."
    ),
    "label_delay": Spec(
        Histogram,
        "kaboost_label_delay_seconds",
        "From an event's time to the time of its label.",
        (),
        LABEL_DELAY_BUCKETS,
    ),
    "labels_joined": Spec(
        Counter, "kaboost_labels_joined", "Labels that found the features that waited for them."
    ),
    "labels_expired": Spec(
        Counter, "kaboost_labels_expired", "Features that waited too long for a label."
    ),
    "labels_unmatched": Spec(
        Counter,
        "kaboost_labels_unmatched",
        "Labels that were rejected because their features did not come.",
    ),
    "labels_corrected": Spec(
        Counter, "kaboost_labels_corrected", "Labels that replaced one already learned."
    ),
    "ignored": Spec(Counter, "kaboost_features_ignored", "Unknown features that were ignored."),
    "metadata_repaired": Spec(
        Counter,
        "kaboost_metadata_repaired",
        "Ids and timestamps of events that were converted, or ignored because they are none.",
        ("field", "action"),
    ),
    "weights_ignored": Spec(
        Counter,
        "kaboost_weights_ignored",
        "Events with a weight that the River model does not support.",
    ),
    "lag_records": Spec(
        Gauge, "kaboost_consumer_lag_records", "Records not yet learned.", _PARTITION
    ),
    "lag_seconds": Spec(
        Gauge,
        "kaboost_consumer_lag_seconds",
        "Age of the last record learned; 0 when all are learned.",
        _PARTITION,
    ),
    "paused": Spec(
        Gauge,
        "kaboost_learning_paused",
        "1 while learning is paused by command or because files cannot be written, else 0.",
    ),
    "stalled_seconds": Spec(
        Gauge,
        "kaboost_learner_stalled_seconds",
        "Seconds since when a partition or all cannot be read, or learning is paused; else 0.",
    ),
    "serving_fallback": Spec(
        Gauge,
        "kaboost_serving_fallback",
        "1 while answers come from the last good model, not the current one, else 0.",
    ),
    "feature_missing": Spec(
        Gauge,
        "kaboost_feature_missing_ratio",
        "Share of the last sampled events in which a feature is missing.",
        ("feature",),
    ),
    "feature_shift": Spec(
        Gauge,
        "kaboost_feature_shift",
        "Distance of a feature's last sampled values from earlier ones, 0 to 1.",
        ("feature",),
    ),
    "feature_unseen": Spec(
        Gauge,
        "kaboost_feature_unseen_ratio",
        "Share of a feature's last sampled values that are far from, or rare among, earlier ones.",
        ("feature",),
    ),
    "slice_loss": Spec(
        Gauge,
        "kaboost_slice_loss",
        "Recent loss of sampled events by the value of a feature of metrics.slices.",
        ("feature", "value"),
    ),
    "drifts": Spec(
        Counter,
        "kaboost_drift",
        "Changes of the stream that the model has noticed: drift or level_shift.",
        ("kind",),
    ),
    "rollbacks": Spec(Counter, "kaboost_rollbacks", "Rollbacks to an earlier checkpoint."),
    "promotions": Spec(
        Counter, "kaboost_promotions", "Candidates that became the model that is served."
    ),
    "candidate_loss": Spec(
        Gauge,
        "kaboost_candidate_loss_window",
        "Progressive loss of a candidate over about the last thousand events.",
        ("candidate",),
    ),
    "candidate_improvement": Spec(
        Gauge,
        "kaboost_candidate_improvement_ratio",
        "How much lower a candidate's loss is in its round, as a part of the champion's.",
        ("candidate",),
    ),
    "candidate_failures": Spec(
        Counter,
        "kaboost_candidate_failures",
        "Candidates that learn no more since an exception.",
        ("candidate",),
    ),
    "gaps_accepted": Spec(
        Counter,
        "kaboost_gaps_accepted",
        "Partitions read on from another offset than the state's, with kafka.on_gap: accept.",
        ("kind",),
    ),
    "records_lost": Spec(
        Counter, "kaboost_records_lost", "Records deleted before they were read, accepted as a gap."
    ),
    "batch_events": Spec(
        Histogram, "kaboost_learn_batch_events", "Events learned in one call.", (), BATCH_BUCKETS
    ),
    "learn_duration": Spec(
        Histogram, "kaboost_learn_duration_seconds", "Time to learn one batch.", (), LATENCY_BUCKETS
    ),
    "publish_duration": Spec(
        Histogram,
        "kaboost_snapshot_publish_duration_seconds",
        "Time to publish a snapshot.",
        (),
        WRITE_BUCKETS,
    ),
    "checkpoint_duration": Spec(
        Histogram,
        "kaboost_checkpoint_duration_seconds",
        "Time to write a checkpoint.",
        (),
        WRITE_BUCKETS,
    ),
    "event_to_snapshot": Spec(
        Histogram,
        "kaboost_event_to_snapshot_seconds",
        "From an event's time to its snapshot, for the first event learned in each snapshot.",
        (),
        DELAY_BUCKETS,
    ),
    "snapshot_version": Spec(
        Gauge, "kaboost_snapshot_version", "Version of the last published snapshot."
    ),
    "snapshot_timestamp": Spec(
        Gauge, "kaboost_snapshot_timestamp_seconds", "Time of the last published snapshot."
    ),
    "checkpoint_timestamp": Spec(
        Gauge,
        "kaboost_checkpoint_last_success_timestamp_seconds",
        "Time of the last durable checkpoint.",
    ),
    "checkpoint_size": Spec(Gauge, "kaboost_checkpoint_size_bytes", "Size of the last checkpoint."),
    "checkpoint_failures": Spec(
        Counter,
        "kaboost_checkpoint_failures",
        "Checkpoints that could not be written.",
        ("reason",),
    ),
    "snapshot_failures": Spec(
        Counter,
        "kaboost_snapshot_failures",
        "Snapshots that could not be written.",
        ("reason",),
    ),
    "snapshots_sent": Spec(
        Counter,
        "kaboost_snapshots_sent",
        "Snapshots for a place of snapshots.publish: sent, failed or skipped for a newer one.",
        ("target", "result"),
    ),
    "sent_version": Spec(
        Gauge,
        "kaboost_snapshot_sent_version",
        "Version of the snapshot that a place of snapshots.publish got last.",
        ("target",),
    ),
    "restore_fallbacks": Spec(
        Counter, "kaboost_restore_fallbacks", "Damaged checkpoints that were skipped at the start."
    ),
    "model_memory": Spec(Gauge, "kaboost_model_memory_bytes", "Size of the model's arrays."),
    "features_evicted": Spec(Counter, "kaboost_features_evicted", "Features that made way."),
    "feature_names_on_trial": Spec(
        Gauge, "kaboost_feature_names_on_trial", "New names of features that are on trial."
    ),
    "restarts": Spec(Counter, "kaboost_learner_restarts", "Restarts by the supervisor."),
    "model_info": Spec(
        Gauge,
        "kaboost_model_info",
        "The model that learns; always 1.",
        ("model", "rule", "bank", "loss"),
    ),
    "leader": Spec(Gauge, "kaboost_leader", "1 while this learner leads, 0 while it stands by."),
    "leader_epoch": Spec(
        Gauge, "kaboost_leader_epoch", "Epoch of its leadership; 0 without a standby."
    ),
    "build_info": Spec(
        Gauge, "kaboost_build_info", "Version of the program; always 1.", ("version",)
    ),
}
_API = {
    "predict_duration": Spec(
        Histogram,
        "kaboost_predict_duration_seconds",
        "Time of one request to POST /predict.",
        (),
        LATENCY_BUCKETS,
    ),
    "predictions": Spec(Counter, "kaboost_predictions", "Rows predicted."),
    "predict_errors": Spec(
        Counter, "kaboost_predict_errors", "Requests to POST /predict that failed.", ("status",)
    ),
    "features_ignored": Spec(
        Counter, "kaboost_predict_features_ignored", "Unknown features of rows that were ignored."
    ),
    "predictions_logged": Spec(
        Counter,
        "kaboost_predictions_logged",
        "Predictions for predictions.topic: written, failed or dropped.",
        ("result",),
    ),
    "accepted": Spec(
        Counter,
        "kaboost_records_accepted",
        "Records of POST /events and POST /labels that the broker confirmed.",
        ("topic",),
    ),
    "refused": Spec(
        Counter,
        "kaboost_requests_refused",
        "Requests without a key, with another one, without the role, or too many.",
        ("reason",),
    ),
    "request_duration": Spec(
        Histogram,
        "http_server_request_duration_seconds",
        "Time of one HTTP request.",
        ("http_request_method", "http_route", "http_response_status_code"),
        LATENCY_BUCKETS,
    ),
}


def standby_metrics(registry: CollectorRegistry) -> None:
    """Make the metrics of a learner that stands by: it does not lead."""
    names = ("leader", "leader_epoch", "build_info")
    made = make({name: LEARNER[name] for name in names}, registry)
    made["leader"].set(0)
    made["build_info"].labels(program_version()).set(1)


def make(specs: Mapping[str, Spec], registry: CollectorRegistry) -> dict[str, Any]:
    """Return the metrics of a registry, by field."""
    made = {}
    for field, spec in specs.items():
        more = {"buckets": spec.buckets} if spec.buckets else {}
        made[field] = spec.kind(spec.name, spec.help, spec.labels, registry=registry, **more)
    return made
