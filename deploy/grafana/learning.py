"""Learning: loss by prefix, edges, rejects, lag, checkpoints; for when the overview looks wrong."""

from deploy.grafana.panels import About, Query, Rows, curve, lines, name, number
from deploy.grafana.queries import counted, mean_loss, ours, per, quantile

BOOSTING = [
    curve(
        About(
            "Loss by prefix",
            "none",
            "Progressive loss, over all events, of the first so many weak learners together; 0 is"
            " the start value alone. It should fall to the right: then each further learner pays. "
            "Of reboosted trees the best structure's; what they are stacked to has less.",
        ),
        "kaboost_prefix_loss",
        "prefix",
        "min",
    ),
    curve(
        About(
            "Edge by weak learner",
            "none",
            "How much of what a weak learner was asked for it had right, over all events: 1 is "
            "all, 0 as much as saying nothing. Of reboosted trees the best structure's.",
        ),
        "kaboost_weak_learner_edge",
        "learner",
    ),
    lines(
        About(
            "What boosting gains",
            "none",
            "Loss over all events of the start value alone, of the best prefix and of the whole "
            "ensemble. Best prefix far below the whole: there are too many weak learners. What "
            "reboosted trees are stacked to should lie below every prefix.",
        ),
        Query(f"min({ours('kaboost_prefix_loss', prefix='0')})", "start value"),
        Query(f"min({ours('kaboost_prefix_loss')})", "best prefix"),
        Query(mean_loss(predictor="model"), "whole ensemble"),
    ),
]
PROBABILITIES = [
    curve(
        About(
            "Said",
            "percentunit",
            "Mean probability of the events in each of 15 bins, over about ten thousand events.",
        ),
        "kaboost_reliability_said",
        "bin",
    ),
    curve(
        About(
            "Happened",
            "percentunit",
            "Share of positive events in the same bins: near what was said in every one, the "
            "probabilities can be taken as they are.",
        ),
        "kaboost_reliability_happened",
        "bin",
    ),
    number(
        About(
            "Calibration error",
            "percentunit",
            "Mean gap between what was said and what happened; two classes only.",
        ),
        ours("kaboost_calibration_error"),
    ),
]
INTERVALS = [
    lines(
        About(
            "Labels inside their interval",
            "percentunit",
            "Share of labels inside the prediction interval of each level, over about a thousand "
            "events; regression only. Below the level for long: the noise is growing all the time.",
        ),
        Query(ours("kaboost_interval_coverage"), "{{level}}"),
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
        Query(ours("kaboost:events_consumed:rate5m"), "read"),
        Query(ours("kaboost:events_learned:rate5m"), "learned"),
        Query(ours("kaboost:events_rejected:rate5m"), "rejected"),
    ),
    lines(
        About("Lag by partition", "none", "Records of each partition that are still to be read."),
        Query(ours("kaboost_consumer_lag_records"), "{{topic}} {{partition}}"),
    ),
    lines(
        About(
            "Rejects by reason",
            "none",
            "Records that are no event, and dead letters that the broker has confirmed, since the"
            " learner started. The reasons are those of docs/events.md.",
        ),
        Query(f"sum by (reason) ({ours('kaboost_events_rejected_total')})", "{{reason}}"),
        Query(counted("kaboost_dlq_records_total"), "dead letters"),
    ),
    number(
        About(
            "Learning paused",
            "none",
            "1 while dead letters cannot be written: nothing is lost, but nothing is learned.",
        ),
        ours("kaboost_learning_paused"),
        red_from=1.0,
    ),
    number(
        About(
            "Share of rejects",
            "percentunit",
            "Share of the records read within 5 minutes that became dead letters.",
        ),
        ours("kaboost:events_rejected:ratio5m"),
        red_from=0.01,
    ),
    number(
        About(
            "Unknown features",
            "none",
            "Features that the schema does not know, passed over since the learner started.",
        ),
        ours("kaboost_features_ignored_total"),
    ),
    number(
        About("Events learned", "none", "Weight of all events that the model has learned so far."),
        ours("kaboost_progressive_loss_count", predictor="model"),
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
            "Time in the learning call divided by the events learned, decoding not counted.",
        ),
        Query(per("kaboost_learn_duration_seconds_sum", "kaboost_learn_batch_events_sum"), "mean"),
    ),
    lines(
        About(
            "Time of a batch",
            "s",
            "Time of one learning call. The learner writes and publishes in between, never "
            "meanwhile.",
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
            "How much would be learned again after a crash, and how old the model that answers "
            "is. Without new events nothing is written.",
        ),
        Query(ours("kaboost:checkpoint_age_seconds"), "checkpoint"),
        Query(ours("kaboost:snapshot_age_seconds"), "snapshot"),
    ),
    lines(
        About(
            "Time to write",
            "s",
            "99th percentile of writing a checkpoint and of publishing a snapshot; learning waits"
            " for both.",
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
        Query(ours("kaboost_checkpoint_size_bytes"), "checkpoint"),
        Query(ours("kaboost_model_memory_bytes"), "model"),
    ),
    number(
        About(
            "Failed checkpoints",
            "none",
            "Checkpoints that could not be written since the learner started: no room, or no "
            "rights.",
        ),
        counted("kaboost_checkpoint_failures_total"),
        red_from=1.0,
    ),
    number(
        About(
            "Damaged checkpoints",
            "none",
            "Checkpoints that were passed over at the last start because they are damaged.",
        ),
        ours("kaboost_restore_fallbacks_total"),
        red_from=1.0,
    ),
    number(
        About("Restarts", "none", "How often the supervisor has started the learner again."),
        ours("kaboost_learner_restarts_total"),
        red_from=1.0,
    ),
    name(
        About("Model", "none", "Rule, bank and loss that learn, and the program's version."),
        Query(
            f"{ours('kaboost_model_info')} * on (instance) group_left (version)"
            f" {ours('kaboost_build_info')}",
            "{{rule}} {{bank}} {{loss}} · kaboost {{version}}",
        ),
    ),
]
ROWS: Rows = {
    "Does boosting pay?": BOOSTING,
    "Are probabilities honest?": PROBABILITIES,
    "Are intervals honest?": INTERVALS,
    "What comes in": STREAM,
    "How fast it learns": WORK,
    "What is on disk": FILES,
}
