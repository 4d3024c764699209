"""Peers on the streams of `bench/quality.py`: the same events, each predicted before it is learned,
for a fixed CPU time.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from bench.streams import Stream

Run = Callable[[Stream, float], np.ndarray]  # scores of the events reached in the time limit
SURE = 1e-6  # probabilities are clipped to this distance from 0 and 1
CLASSIFIERS = {
    "River ARF(10)": ("river.forest", "ARFClassifier", {"n_models": 10, "seed": 0}),
    "River SRP(10)": ("river.ensemble", "SRPClassifier", {"n_models": 10, "seed": 0}),
    "River AMF(10)": ("river.forest", "AMFClassifier", {"n_estimators": 10, "seed": 0}),
    "River Hoeffding tree": ("river.tree", "HoeffdingAdaptiveTreeClassifier", {"seed": 0}),
}
REGRESSORS = {
    "River ARF(10)": ("river.forest", "ARFRegressor", {"n_models": 10, "seed": 0}),
    "River SRP(10)": ("river.ensemble", "SRPRegressor", {"n_models": 10, "seed": 0}),
    "River AMF(10)": ("river.forest", "AMFRegressor", {"n_estimators": 10, "seed": 0}),
    "River Hoeffding tree": ("river.tree", "HoeffdingAdaptiveTreeRegressor", {"seed": 0}),
}


def of(stream: Stream) -> Iterator[tuple[str, Run]]:
    """Yield the peers that can learn a stream."""
    yield "prior", prior
    yield "last label", last_label
    for name, where in (REGRESSORS if stream.regression else CLASSIFIERS).items():
        yield name, river(*where)
    if not stream.regression:
        yield "River BOLE", bole
        yield "River ALMA", alma
        yield "VW --boosting 10", wabbit
    if importlib.util.find_spec("capymoa"):  # it also needs Java
        yield ("CapyMOA SGBR" if stream.regression else "CapyMOA SGBT"), capymoa
    yield "LightGBM at doubling sizes", lightgbm(lambda t: t in DOUBLING, None)
    yield "LightGBM each 5,000 on 20,000", lightgbm(lambda t: t % 5_000 == 0, 20_000)


DOUBLING = {250 * 2**k for k in range(20)}


def prior(stream: Stream, seconds: float) -> np.ndarray:
    """Predict the mean label so far, or its log-odds."""
    n = np.arange(len(stream.y))
    sums = np.cumsum(stream.y) - stream.y
    if stream.regression:
        return np.divide(sums, np.maximum(n, 1))
    return np.log((sums + 1.0) / (n - sums + 1.0))


def last_label(stream: Stream, seconds: float) -> np.ndarray:
    """Predict the previous label, or the log-odds of what followed it so far."""
    if stream.regression:
        return np.r_[0.0, stream.y[:-1]]
    seen, last, scores = np.ones((2, 2)), 0, np.zeros(len(stream.y))
    for k, y in enumerate(stream.y.astype(int).tolist()):
        scores[k] = math.log(seen[last, 1] / seen[last, 0])
        seen[last, y] += 1.0
        last = y
    return scores


def progressive(stream: Stream, seconds: float, step: Callable[[Any, Any], float]) -> np.ndarray:
    """Let `step` predict and learn events, as dicts without what is missing, until time is up."""
    names, columns = list(stream.columns), [c.tolist() for c in stream.columns.values()]
    scores: list[float] = []
    start = time.process_time()
    for values, y in zip(zip(*columns, strict=True), stream.y.tolist(), strict=True):
        given = (v if v == v else stream.absent for v in values)
        x = {name: v for name, v in zip(names, given, strict=True) if v == v}
        scores.append(step(x, y))
        if len(scores) % 100 == 0 and time.process_time() - start > seconds:
            break
    return np.array(scores)


def odds(p: float) -> float:
    """Return the log-odds of a probability."""
    p = min(max(p, SURE), 1.0 - SURE)
    return math.log(p / (1.0 - p))


def river(module: str, kind: str, params: dict[str, Any]) -> Run:
    """Let an estimator of River learn."""

    def run(stream: Stream, seconds: float) -> np.ndarray:
        return learn_river(
            stream, seconds, getattr(importlib.import_module(module), kind)(**params)
        )

    return run


def learn_river(stream: Stream, seconds: float, model: Any) -> np.ndarray:
    """Let a named River estimator learn."""

    def step(x: Any, y: float) -> float:
        if stream.regression:
            said = model.predict_one(x) or 0.0
            model.learn_one(x, y)
            return float(said)
        said = model.predict_proba_one(x)
        model.learn_one(x, y > 0)
        return odds(said.get(True, 0.0)) if said else 0.0

    return progressive(stream, seconds, step)


def bole(stream: Stream, seconds: float) -> np.ndarray:
    """Boosting-like online ensemble of Hoeffding trees."""
    ensemble, drift, tree = (
        importlib.import_module(f"river.{n}") for n in ("ensemble", "drift", "tree")
    )
    base = drift.DriftRetrainingClassifier(
        model=tree.HoeffdingTreeClassifier(), drift_detector=drift.binary.DDM()
    )
    return learn_river(stream, seconds, ensemble.BOLEClassifier(model=base, n_models=10, seed=0))


def alma(stream: Stream, seconds: float) -> np.ndarray:
    """ALMA on standardised numbers; it has no probabilities: its sign counts as one of 0.9."""
    preprocessing, linear, compose = (
        importlib.import_module(f"river.{n}") for n in ("preprocessing", "linear_model", "compose")
    )
    numbers = compose.SelectType(float) | preprocessing.StandardScaler()
    texts = compose.SelectType(str) | preprocessing.OneHotEncoder()
    model = (numbers + texts) | linear.ALMAClassifier()

    def step(x: Any, y: float) -> float:
        said = model.predict_one(x)
        model.learn_one(x, y > 0)
        return odds(0.9 if said else 0.1)

    return progressive(stream, seconds, step)


def wabbit(stream: Stream, seconds: float) -> np.ndarray:
    """Vowpal Wabbit's boosting of ten learners, with logistic loss."""
    words = "--quiet --boosting 10 --alg logistic"
    space = importlib.import_module("vowpalwabbit").Workspace(words)

    def step(x: Any, y: float) -> float:
        words = (
            f"{n}:{v!r}" if isinstance(v, float) else f"{n}={v.replace(' ', '_')}"
            for n, v in x.items()
        )
        row = "| " + " ".join(word.replace("|", "_") for word in words)
        said = float(space.predict(row))
        space.learn(f"{1 if y > 0 else -1} {row}")
        return said

    return progressive(stream, seconds, step)


def capymoa(stream: Stream, seconds: float) -> np.ndarray:
    """Streaming gradient boosted trees of CapyMOA, as it sets them; missing numbers are 0 to it,
    and it is told all values of a category beforehand.
    """
    core, streams = (importlib.import_module(f"capymoa.{n}") for n in ("core", "stream"))
    values = {n: np.unique(c).tolist() for n, c in stream.columns.items() if c.dtype.kind != "f"}
    target = {} if stream.regression else {"y": ["0", "1"]}
    schema = streams.Schema.from_custom(
        features=[*stream.columns, "y"], target="y", categories={**values, **target}
    )
    if stream.regression:
        kind = importlib.import_module("capymoa.regressor").StreamingGradientBoostedRegression
    else:
        kind = importlib.import_module("capymoa.classifier").StreamingGradientBoostedTrees
    model = kind(schema=schema)
    places = {n: {v: i for i, v in enumerate(given)} for n, given in values.items()}

    def step(x: Any, y: float) -> float:
        row = np.array([places[n][x[n]] if n in places else x.get(n, 0.0) for n in stream.columns])
        if stream.regression:
            event = core.RegressionInstance.from_array(schema, row, y)
            said = float(model.predict(event) or 0.0)
        else:
            event = core.LabeledInstance.from_array(schema, row, int(y > 0))
            shares = model.predict_proba(event)
            said = odds(float(shares[1])) if shares is not None and len(shares) > 1 else 0.0
        model.train(event)
        return said if math.isfinite(said) else 0.0

    return progressive(stream, seconds, step)


def lightgbm(due: Callable[[int], bool], window: int | None) -> Run:
    """Retrain a batch booster on past events at fixed points: common practice."""

    def run(stream: Stream, seconds: float) -> np.ndarray:
        library = importlib.import_module("lightgbm")
        X = np.column_stack([coded(values) for values in stream.columns.values()])
        texts = [j for j, kind in enumerate(stream.kinds.values()) if kind == "category"]
        make = library.LGBMRegressor if stream.regression else library.LGBMClassifier
        scores = prior(stream, seconds)
        times = [t for t in range(1, len(X)) if due(t)]
        start = time.process_time()
        for t, until in pairwise([*times, len(X)]):
            if time.process_time() - start > seconds:
                return scores[:t]
            first = 0 if window is None else max(0, t - window)
            if stream.regression or 0 < stream.y[first:t].sum() < t - first:
                model = make(n_jobs=1, verbosity=-1, seed=0)
                model.fit(X[first:t], stream.y[first:t], categorical_feature=texts or "auto")
                found = model.predict(X[t:until], raw_score=True)
                scores[t:until] = found
        return scores

    return run


def coded(values: np.ndarray) -> np.ndarray:
    """Return numbers unchanged, and texts as their index among all values."""
    if values.dtype.kind == "f":
        return values
    return np.unique(values, return_inverse=True)[1].astype(float)
