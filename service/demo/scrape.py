"""Read what the demo shows while it runs from the public `GET /metrics`."""

import math
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Scrape(NamedTuple):
    """The learner's figures of one scrape."""

    learned: int
    lag: int | None  # None until the learner has read from the topic
    losses: dict[str, float]  # progressive log-loss by predictor
    restarts: int


def scrape(port: int) -> Scrape | None:
    """Read the metrics; None while no learner contributes to them."""
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
    return _select(samples)


def _select(samples: Iterable[tuple[str, dict[str, str], float]]) -> Scrape | None:
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
    return Scrape(int(counts["model"]), lag, losses, int(restarts))
