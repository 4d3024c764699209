"""Export the progressive validation as metrics: losses, errors, prefixes, edges, reliability."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from kaboost.models.evaluation.baselines import PREDICTORS, ProgressiveValidation
from kaboost.models.evaluation.intervals import LEVELS, Intervals
from kaboost.models.evaluation.progress import Progress
from kaboost.models.evaluation.reliability import Reliability
from kaboost.models.types import Vec

MAX_SERIES = 32  # of prefixes and of weak learners, spread evenly


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
    """Export progressive loss, error, prefixes and edges from the state.

    A restored learner continues with the sums of its checkpoint, which a Counter could not.
    """

    def __init__(self) -> None:
        self._figures: _Figures | None = None

    def record(
        self,
        baselines: ProgressiveValidation,
        progress: Progress,
        intervals: Intervals | None = None,
    ) -> None:
        """Copy the current figures; a scrape in another thread sees all of them or none."""
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
        """Yield the figures that were recorded last."""
        figures = self._figures
        if figures is not None:
            yield _loss(figures)
            yield _by_predictor("kaboost_progressive_loss_window", _LOSS, figures.window_loss)
            yield _by_predictor("kaboost_progressive_error_window", _ERROR, figures.window_error)
            yield _sample_evenly(
                "kaboost_prefix_loss", _PREFIX, "prefix", figures.prefix_losses, first=0
            )
            yield _sample_evenly(
                "kaboost_weak_learner_edge", _EDGE, "learner", figures.edges, first=1
            )
            yield from _reliability(figures.reliability)
            yield _coverage(figures.coverage)


_LOSS = "Progressive loss over about the last thousand events."
_ERROR = "Progressive error over about the last thousand events."
_PREFIX = "Progressive loss of the sum of the first so many weak learners."
_EDGE = "Edge of a weak learner: 1 is perfect, 0 is no better than predicting zero."
_CALIBRATION = "Mean gap between predicted probability and observed fraction, over 15 bins."
_COVERAGE = "Share of labels inside their interval, over about the last thousand events."
_RELIABILITY = {
    "predicted": "Mean predicted probability of the events in one of 15 bins of probability.",
    "observed": "Fraction of positive events in the bin.",
}


def _loss(figures: _Figures) -> Metric:
    help_ = "Loss of each prediction before its event was learned, weighted by importance."
    family = SummaryMetricFamily("kaboost_progressive_loss", help_, labels=["predictor"])
    for predictor, total in zip(PREDICTORS, figures.loss_sum, strict=True):
        count: Any = figures.weight_sum  # a float, while the library declares int
        family.add_metric([predictor], count, float(total))
    return family


def _by_predictor(name: str, help_: str, values: Vec) -> Metric:
    family = GaugeMetricFamily(name, help_, labels=["predictor"])
    for predictor, value in _finite(PREDICTORS, values):
        family.add_metric([predictor], value)
    return family


def _sample_evenly(name: str, help_: str, label: str, values: Vec, *, first: int) -> Metric:
    """Export at most MAX_SERIES of many figures; (K, N) figures carry the structure's number."""
    family = GaugeMetricFamily(name, help_, labels=[label, *["structure"] * (values.ndim - 1)])
    count = values.shape[-1]
    last = max(0, count - 1)  # none for a model that is no booster
    chosen = np.unique(np.linspace(0, last, MAX_SERIES).round().astype(int))[:count]
    for k, row in enumerate(np.atleast_2d(values), 1):
        for index, value in _finite(chosen, row[chosen]):
            family.add_metric([str(index + first), str(k)][: values.ndim], value)
    return family


def _reliability(bins: Reliability) -> Iterator[Metric]:
    """Export the calibration error and the non-empty bins of the reliability diagram."""
    error = GaugeMetricFamily("kaboost_calibration_error", _CALIBRATION)
    for value in [bins.error] if np.isfinite(bins.error) else []:
        error.add_metric([], value)
    yield error
    weight, predicted, observed = bins
    for what, sums in (("predicted", predicted), ("observed", observed)):
        name = f"kaboost_reliability_{what}"
        family = GaugeMetricFamily(name, _RELIABILITY[what], labels=["bin"])
        for b in np.flatnonzero(weight > 0.0):
            family.add_metric([str(b + 1)], float(sums[b] / weight[b]))
        yield family


def _coverage(coverage: Vec) -> Metric:
    family = GaugeMetricFamily("kaboost_interval_coverage", _COVERAGE, labels=["level"])
    for level, value in _finite(LEVELS, coverage):
        family.add_metric([str(level)], value)
    return family


def _finite(keys: Iterable[Any], values: Vec) -> Iterator[tuple[Any, float]]:
    """Leave out figures that are not known yet."""
    return ((key, float(v)) for key, v in zip(keys, values, strict=True) if np.isfinite(v))
