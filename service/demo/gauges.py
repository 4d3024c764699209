"""What the demo shows while it runs, read where anybody could: from `GET /metrics`."""

import math
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Gauges(NamedTuple):
    """One reading; a dead learner's part is absent from it."""

    learned: int
    lag: int | None  # None while the learner has read nothing yet
    losses: dict[str, float]  # progressive log-loss by predictor
    restarts: int


def read(port: int) -> Gauges | None:
    """Read the metrics; None while there is no learner behind them."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as page:
            text = page.read().decode()
    except (OSError, urllib.error.HTTPError):
        return None
    samples = [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    return _gauges(samples)


def _gauges(samples: Iterable[tuple[str, dict[str, str], float]]) -> Gauges | None:
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    lags, restarts = list[float](), math.nan
    for name, labels, value in samples:
        if name == "kaboost_progressive_loss_sum":
            sums[labels["predictor"]] = value
        elif name == "kaboost_progressive_loss_count":
            counts[labels["predictor"]] = value
        elif name == "kaboost_consumer_lag_records":
            lags.append(max(value, 0.0))
        elif name == "kaboost_learner_restarts_total":
            restarts = value
    if math.isnan(restarts) or "model" not in counts:
        return None
    losses = {key: total / counts[key] for key, total in sums.items() if counts[key]}
    lag = int(sum(lags)) if lags else None
    return Gauges(int(counts["model"]), lag, losses, int(restarts))
