"""Overview dashboard: is the model better than the baselines, is it fresh, is it fast?"""

from deploy.grafana.panels import About, Query, Rows, lines, number
from deploy.grafana.queries import mean_loss, of_instance, quantile, rate

AT_A_GLANCE = [
    number(
        About(
            "Loss against the better baseline",
            "percentunit",
            "Loss of the model over about the last thousand events, relative to the better of the "
            "baselines prior and last label. At 100 % or more the model is useless.",
        ),
        of_instance("kaboost:progressive_loss:to_baseline"),
        red_from=1.0,
    ),
    number(
        About(
            "Age of the snapshot",
            "s",
            "Time since the served model was published. Without new events nothing is published.",
        ),
        of_instance("kaboost:snapshot_age_seconds"),
        red_from=120.0,
    ),
    number(
        About(
            "Prediction latency, p99",
            "s",
            "99th percentile of POST /predict over 5 minutes, measured in the service.",
        ),
        of_instance("kaboost:predict_duration_seconds:p99_5m"),
        red_from=0.05,
    ),
    number(
        About("Events learned", "cps", "Events learned a second, over 5 minutes."),
        of_instance("kaboost:events_learned:rate5m"),
    ),
]
BETTER = [
    lines(
        About(
            "Loss, 10 minutes",
            "none",
            "Mean progressive loss: every event is predicted before it is learned. Log-loss in "
            "nats, or half the squared error. The model should be the lowest line.",
        ),
        Query(of_instance("kaboost:progressive_loss:ratio10m"), "{{predictor}}"),
    ),
    lines(
        About(
            "Loss, all events",
            "none",
            "The same over all events since the model was created, restarts included.",
        ),
        Query(mean_loss(), "{{predictor}}"),
    ),
    lines(
        About(
            "Error, last thousand events",
            "none",
            "Share of wrong labels, or mean absolute error, over about the last thousand events.",
        ),
        Query(of_instance("kaboost_progressive_error_window"), "{{predictor}}"),
    ),
]
FRESH = [
    lines(
        About(
            "From event to snapshot",
            "s",
            "From the time of a record to the snapshot that holds it, for the oldest record of "
            "each snapshot: the delay after which predictions reflect an event.",
        ),
        Query(quantile(0.5, "kaboost_event_to_snapshot_seconds"), "median"),
        Query(of_instance("kaboost:event_to_snapshot_seconds:p99_5m"), "99 %, 5 minutes"),
    ),
    lines(
        About("Lag", "s", "Age of the event that is being learned; 0 when all are read."),
        Query(of_instance("kaboost:consumer_lag_seconds"), "lag"),
    ),
    lines(
        About(
            "Snapshot version",
            "none",
            "Version of the newest snapshot. A flat line while events arrive means that the "
            "served model is not updated.",
        ),
        Query(of_instance("kaboost:snapshot_version"), "version"),
    ),
]
FAST = [
    lines(
        About(
            "Time of a prediction",
            "s",
            "Median and 99th percentile of POST /predict over 5 minutes, measured in the service.",
        ),
        Query(of_instance("kaboost:predict_duration_seconds:p50_5m"), "median"),
        Query(of_instance("kaboost:predict_duration_seconds:p99_5m"), "99 %"),
    ),
    lines(
        About(
            "Predictions",
            "cps",
            "Rows predicted and requests served, a second.",
        ),
        Query(rate("kaboost_predictions_total"), "rows"),
        Query(of_instance("kaboost:predict_requests:rate5m"), "requests, 5 minutes"),
    ),
    lines(
        About(
            "Requests by status",
            "reqps",
            "HTTP requests a second of all routes by status code. 4xx: client error; 503: no "
            "model yet.",
        ),
        Query(
            rate("http_server_request_duration_seconds_count", "http_response_status_code"),
            "{{http_response_status_code}}",
        ),
    ),
]
ROWS: Rows = {
    "At a glance": AT_A_GLANCE,
    "Is it better than the baselines?": BETTER,
    "Is it fresh?": FRESH,
    "Is it fast?": FAST,
}
