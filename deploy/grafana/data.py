"""Data dashboard: are records refused or skipped, do labels come, do features hold?"""

from deploy.grafana.panels import About, Query, Rows, lines, number
from deploy.grafana.queries import counted, of_instance, quantile, rate

EXPIRED = f"sum({of_instance('kaboost_labels_expired_total')})"
RECORDS = [
    lines(
        About(
            "Rejects by reason",
            "none",
            "Records that are not valid events, and dead letters that the broker has confirmed, "
            "since the learner started. The reasons are those of docs/events.md.",
        ),
        Query(f"sum by (reason) ({of_instance('kaboost_events_rejected_total')})", "{{reason}}"),
        Query(counted("kaboost_dlq_records_total"), "dead letters"),
    ),
    lines(
        About(
            "Skipped records",
            "none",
            "Records that are neither learned nor faults, since the learner started: ids that were "
            "learned before, deletes and tombstones, and events whose key has had its share.",
        ),
        Query(counted("kaboost_duplicates_total"), "duplicates"),
        Query(counted("kaboost_records_skipped_total"), "deletes, tombstones"),
        Query(counted("kaboost_influence_limited_total"), "over the share of a key"),
    ),
    lines(
        About(
            "Repaired records",
            "none",
            "Ids and timestamps that were converted, replaced or ignored, and weights that a River "
            "model does not take; these events are learned.",
        ),
        Query(counted("kaboost_metadata_repaired_total"), "ids and timestamps"),
        Query(counted("kaboost_weights_ignored_total"), "weights"),
    ),
    number(
        About(
            "Share of rejects",
            "percentunit",
            "Share of the records read within 5 minutes that became dead letters.",
        ),
        of_instance("kaboost:events_rejected:ratio5m"),
        red_from=0.01,
    ),
    number(
        About(
            "Rejects, last 1,000 records",
            "percentunit",
            "Share of the last 1,000 records that became dead letters. From "
            "`api.max_rejected_ratio` on (0.99) predictions are stale, and a service that has "
            "learned nothing is not ready.",
        ),
        of_instance("kaboost_rejected_ratio"),
        red_from=0.99,
    ),
    number(
        About(
            "Lost records",
            "none",
            "Records that were deleted before they were read, in gaps that were accepted "
            "(`kafka.on_gap`), since the learner started.",
        ),
        counted("kaboost_records_lost_total"),
        red_from=1.0,
    ),
]
LABELS = [
    lines(
        About(
            "Waiting",
            "none",
            "Features that wait for their label, labels that wait for their features, and labels "
            "that are held until features expire. With `labels.topic` only.",
        ),
        Query(of_instance("kaboost_waiting_features"), "features"),
        Query(of_instance("kaboost_labels_early"), "labels"),
        Query(of_instance("kaboost_labels_held"), "held labels"),
    ),
    lines(
        About(
            "Delay of labels",
            "s",
            "From the time of an event to the time of its label, for labels that were joined.",
        ),
        Query(quantile(0.5, "kaboost_label_delay_seconds"), "median"),
        Query(quantile(0.9, "kaboost_label_delay_seconds"), "90 %"),
    ),
    lines(
        About(
            "Late labels",
            "cps",
            "A second: labels joined with their features, features that expired without a label, "
            "labels rejected because their features did not come, and corrections.",
        ),
        Query(rate("kaboost_labels_joined_total"), "joined"),
        Query(rate("kaboost_labels_expired_total"), "expired"),
        Query(rate("kaboost_labels_unmatched_total"), "unmatched"),
        Query(rate("kaboost_labels_corrected_total"), "corrected"),
    ),
    number(
        About(
            "Expired without a label",
            "percentunit",
            "Share of joined and expired features that expired, since the learner started. With "
            "`labels.expired: {label: 0}` these were learned as negatives.",
        ),
        f"{EXPIRED} / (sum({of_instance('kaboost_labels_joined_total')}) + {EXPIRED} > 0)",
    ),
    number(
        About("Waiting on disk", "bytes", "Size of the features that wait for their label."),
        of_instance("kaboost_waiting_bytes"),
    ),
]
FEATURES = [
    lines(
        About(
            "Ignored features",
            "none",
            "Features that the schema does not know, or whose names are on trial, of events and of "
            "requests. A new name here is often a misspelled one, or a change of the producer.",
        ),
        Query(counted("kaboost_features_ignored_total"), "of events"),
        Query(counted("kaboost_predict_features_ignored_total"), "of requests"),
    ),
    number(
        About(
            "Names on trial",
            "none",
            "New names of features that wait until they are known to stay. In the hundreds: a "
            "producer puts data into names.",
        ),
        of_instance("kaboost_feature_names_on_trial"),
        red_from=100.0,
    ),
    number(
        About(
            "Evicted features",
            "none",
            "Inferred features that made way for new ones, because memory is full.",
        ),
        counted("kaboost_features_evicted_total"),
    ),
]
REQUESTS = [
    lines(
        About(
            "Records by HTTP",
            "cps",
            "Records of `POST /events` and `POST /labels` that the broker has confirmed, a second.",
        ),
        Query(counted("kaboost_records_accepted_total", "rate"), "accepted"),
    ),
    lines(
        About(
            "Logged predictions",
            "cps",
            "Predictions for `predictions.topic` a second. Failed and dropped ones are answered, "
            "but never learned from.",
        ),
        Query(counted("kaboost_predictions_logged_total", "rate", result="written"), "written"),
        Query(counted("kaboost_predictions_logged_total", "rate", result="failed"), "failed"),
        Query(counted("kaboost_predictions_logged_total", "rate", result="dropped"), "dropped"),
    ),
    lines(
        About(
            "Refused requests",
            "cps",
            "`POST /predict` a second that did not fit: the caller sends what events do not have.",
        ),
        Query(counted("kaboost_predict_errors_total", "rate"), "refused"),
    ),
]
ROWS: Rows = {
    "Which records are refused or skipped?": RECORDS,
    "Do labels come?": LABELS,
    "Do features hold?": FEATURES,
    "What comes by HTTP?": REQUESTS,
}
