"""Learning dashboard: loss by prefix, edges, calibration, lag, speed, checkpoints."""

from deploy.grafana.panels import About, Query, Rows, curve, lines, name, number
from deploy.grafana.queries import counted, mean_loss, of_instance, per, quantile

BOOSTING = [
    curve(
        About(
            "Loss by prefix",
            "none",
            "Progressive loss, over all events, of the sum of the first so many weak learners; 0 "
            "is the start value alone. It should fall to the right: each further learner helps. "
            "For reboosted trees: of the best structure; the stacked prediction has a lower loss.",
        ),
        "kaboost_prefix_loss",
        "prefix",
        "min",
    ),
    curve(
        About(
            "Edge by weak learner",
            "none",
            "Edge of each weak learner over all events: 1 is perfect, 0 is no better than "
            "predicting zero. For reboosted trees: of the best structure.",
        ),
        "kaboost_weak_learner_edge",
        "learner",
    ),
    lines(
        About(
            "Gain from boosting",
            "none",
            "Loss over all events of the start value alone, of the best prefix and of the whole "
            "ensemble. Best prefix far below the whole: there are too many weak learners. The "
            "stacked prediction of reboosted trees should be below every prefix.",
        ),
        Query(f"min({of_instance('kaboost_prefix_loss', prefix='0')})", "start value"),
        Query(f"min({of_instance('kaboost_prefix_loss')})", "best prefix"),
        Query(mean_loss(predictor="model"), "whole ensemble"),
    ),
]
PROBABILITIES = [
    curve(
        About(
            "Mean predicted probability",
            "percentunit",
            "Mean predicted probability of the events in each of 15 bins, over about ten thousand "
            "events.",
        ),
        "kaboost_reliability_predicted",
        "bin",
    ),
    curve(
        About(
            "Observed frequency",
            "percentunit",
            "Fraction of positive events in the same bins. Probabilities are calibrated if it is "
            "close to the mean predicted probability in every bin.",
        ),
        "kaboost_reliability_observed",
        "bin",
    ),
    number(
        About(
            "Calibration error",
            "percentunit",
            "Mean gap between predicted probability and observed frequency; two classes only.",
        ),
        of_instance("kaboost_calibration_error"),
    ),
]
INTERVALS = [
    lines(
        About(
            "Labels inside their interval",
            "percentunit",
            "Share of labels inside the prediction interval of each level, over about a thousand "
            "events; regression only. Below its level for long: the noise keeps growing.",
        ),
        Query(of_instance("kaboost_interval_coverage"), "{{level}}"),
    ),
]
STREAM = [
    lines(
        About(
            "Records",
            "cps",
            "Records a second over 5 minutes: read from the topic, learned, and rejected as dead "
            "letters.",
        ),
        Query(of_instance("kaboost:events_consumed:rate5m"), "read"),
        Query(of_instance("kaboost:events_learned:rate5m"), "learned"),
        Query(of_instance("kaboost:events_rejected:rate5m"), "rejected"),
    ),
    lines(
        About("Lag by partition", "none", "Records of each partition that are not read yet."),
        Query(of_instance("kaboost_consumer_lag_records"), "{{topic}} {{partition}}"),
    ),
    lines(
        About(
            "Changes of the stream",
            "none",
            "Drifts and level shifts that the model has noticed, and rollbacks, since the learner "
            "started. A few are normal; one after the other means labels or features are broken.",
        ),
        Query(counted("kaboost_drift_total"), "drifts, level shifts"),
        Query(counted("kaboost_rollbacks_total"), "rollbacks"),
    ),
    number(
        About(
            "Learning paused",
            "none",
            "1 while paused by command, or files cannot be written: nothing is lost or learned.",
        ),
        of_instance("kaboost_learning_paused"),
        red_from=1.0,
    ),
    number(
        About(
            "Serving the last good model",
            "none",
            "1 while the loss guard serves an earlier model: the current one is worse than a "
            "baseline.",
        ),
        of_instance("kaboost_serving_fallback"),
        red_from=1.0,
    ),
    number(
        About("Events learned", "none", "Weight of all events that the model has learned so far."),
        of_instance("kaboost_progressive_loss_count", predictor="model"),
    ),
]
WORK = [
    lines(
        About("Events in a batch", "none", "Mean number of events learned in one call."),
        Query(per("kaboost_learn_batch_events_sum", "kaboost_learn_batch_events_count"), "mean"),
    ),
    lines(
        About(
            "Time to learn an event",
            "s",
            "Time in the learning call divided by the events learned, without decoding.",
        ),
        Query(per("kaboost_learn_duration_seconds_sum", "kaboost_learn_batch_events_sum"), "mean"),
    ),
    lines(
        About(
            "Time of a batch",
            "s",
            "Time of one learning call. The learner writes files between calls, never during one.",
        ),
        Query(quantile(0.5, "kaboost_learn_duration_seconds"), "median"),
        Query(quantile(0.99, "kaboost_learn_duration_seconds"), "99 %"),
    ),
]
FILES = [
    lines(
        About(
            "Age of checkpoint and snapshot",
            "s",
            "How much would be learned again after a crash, and the age of the served model. "
            "Without new events nothing is written.",
        ),
        Query(of_instance("kaboost:checkpoint_age_seconds"), "checkpoint"),
        Query(of_instance("kaboost:snapshot_age_seconds"), "snapshot"),
    ),
    lines(
        About(
            "Time to write",
            "s",
            "99th percentile of writing a checkpoint and of publishing a snapshot; learning waits "
            "for both.",
        ),
        Query(quantile(0.99, "kaboost_checkpoint_duration_seconds"), "checkpoint"),
        Query(quantile(0.99, "kaboost_snapshot_publish_duration_seconds"), "snapshot"),
    ),
    lines(
        About(
            "Size",
            "bytes",
            "Size of the last checkpoint and of the model's arrays in memory. Both are bounded.",
        ),
        Query(of_instance("kaboost_checkpoint_size_bytes"), "checkpoint"),
        Query(of_instance("kaboost_model_memory_bytes"), "model"),
    ),
    number(
        About(
            "Failed checkpoints",
            "none",
            "Checkpoints that could not be written since the learner started: disk full, or no "
            "permission.",
        ),
        counted("kaboost_checkpoint_failures_total"),
        red_from=1.0,
    ),
    number(
        About(
            "Failed snapshots",
            "none",
            "Snapshots that could not be written since the learner started: disk full, or no "
            "permission.",
        ),
        counted("kaboost_snapshot_failures_total"),
        red_from=1.0,
    ),
    number(
        About(
            "Damaged checkpoints",
            "none",
            "Damaged checkpoints that were skipped at the last start.",
        ),
        of_instance("kaboost_restore_fallbacks_total"),
        red_from=1.0,
    ),
    number(
        About("Restarts", "none", "How often the supervisor has restarted the learner."),
        of_instance("kaboost_learner_restarts_total"),
        red_from=1.0,
    ),
    name(
        About("Model", "none", "Rule, bank and loss of the model, and the version of the program."),
        Query(
            f"{of_instance('kaboost_model_info')} * on (instance) group_left (version)"
            f" {of_instance('kaboost_build_info')}",
            "{{rule}} {{bank}} {{loss}} · kaboost {{version}}",
        ),
    ),
]
ROWS: Rows = {
    "Does boosting help?": BOOSTING,
    "Are probabilities calibrated?": PROBABILITIES,
    "Are intervals calibrated?": INTERVALS,
    "Input stream": STREAM,
    "Speed of learning": WORK,
    "Files": FILES,
}
