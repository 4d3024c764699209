"""The figures of a replay as plain values, from what was recorded."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kaboost.models.evaluation.intervals import LEVELS
from kaboost.models.model import Model
from kaboost.models.types import ModelError, Vec
from kaboost.service.lab.recording import Recording

VERSION = 1  # of these figures
SHOWN = 20  # features
DIGITS = 7
TYPES = {"regression": ("half the squared difference", "absolute difference")}
OF_CLASSES = ("log-loss in nats", "share of wrong classes")


class Origin(NamedTuple):
    """What was replayed, and what became of its records."""

    name: str
    records: int
    rejected: Counter[str]
    examples: dict[str, str]  # of rejected ones, by reason
    skipped: Counter[str]
    seconds: float  # in all
    learn_seconds: float  # without other models and slices
    partial: bool
    notes: Sequence[str]
    configuration: str | None = None
    slow: Sequence[dict[str, Any]] = ()


def figures(model: Model, recording: Recording, origin: Origin) -> dict[str, Any]:
    """Return all figures of a replay; docs/laboratory.md describes them."""
    curve, names = recording.curve, recording.names
    mean = {name: _overall(recording, "loss", k) for k, name in enumerate(names)}
    error = {name: _overall(recording, "error", k) for k, name in enumerate(names)}
    units = TYPES.get(model.task, OF_CLASSES)
    return {
        "version": VERSION,
        "input": origin.name,
        "partial": origin.partial,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "task": model.task,
        "classes": [str(label) for label in model.classes_],
        "model": model.spec,
        "features": model.kinds,
        "records": origin.records,
        "events": int(model.booster.progress.events),
        "rejected": dict(origin.rejected.most_common()),
        "examples": origin.examples,
        "skipped": dict(origin.skipped),
        "seconds": round(origin.seconds, 3),
        "events_per_second": _rate(curve.events, origin.learn_seconds),
        "other_model_seconds": {k: round(v, 3) for k, v in recording.other_model_seconds.items()},
        "loss_unit": units[0],
        "error_unit": units[1],
        "losses": mean,
        "errors": error,
        "labels": {str(model.classes_[k]): n for k, n in sorted(recording.labels.items())},
        "curve": {
            "events": curve.ends,
            **{name: _list(curve.means(name)) for name in curve.names},
        },
        "running": {name: _list(curve.running(name)) for name in curve.names},
        "by_time": _rounded(recording.times.rows()),
        "slices": {name: _rounded(rows) for name, rows in recording.slices.items()},
        "prefixes": _prefixes(model),
        "reliability": _reliability(recording),
        "intervals": _intervals(recording),
        "importance": _importance(model),
        "slow_features": list(origin.slow),
        "alarms": recording.alarms,
        "notes": [*origin.notes, *_label_notes(model, recording)],
        "configuration": origin.configuration,
    }


def _overall(recording: Recording, kind: str, k: int) -> float | None:
    """Return the mean of predictor k over all events, as the service has it."""
    seen = recording.seen_of_others.get(recording.names[k], recording.seen)
    means = seen.mean_loss if kind == "loss" else seen.mean_error
    return _number(float(means[0 if seen is not recording.seen else k]))


def _rate(events: int, seconds: float) -> float | None:
    return round(events / seconds, 1) if seconds > 0.0 else None


def _prefixes(model: Model) -> list[list[float | None]]:
    """Return the mean loss of every prefix, a list for every structure; of classes their sum."""
    losses = np.atleast_2d(np.asarray(model.booster.progress.prefix_losses))
    return [_list(row) for row in losses] if losses.size else []


def _reliability(recording: Recording) -> list[dict[str, float | None]]:
    weight, predicted, observed = recording.reliability
    return [
        {
            "weight": _number(w),
            "mean_predicted": _number(p / w),
            "observed_fraction": _number(o / w),
        }
        for w, p, o in zip(weight.tolist(), predicted.tolist(), observed.tolist(), strict=True)
        if w > 0.0
    ]


def _intervals(recording: Recording) -> list[dict[str, float | None]]:
    total = recording.covered_weight
    if not total > 0.0:
        return []
    rows = zip(LEVELS, recording.covered.tolist(), recording.widths.tolist(), strict=True)
    return [
        {"level": level, "coverage": _number(c / total), "mean_width": _number(width / total)}
        for level, c, width in rows
    ]


def _importance(model: Model) -> list[dict[str, Any]]:
    try:
        found = model.importance()
    except ModelError:
        return []  # a bank without trees
    return [
        {"name": share.name, "kind": share.kind, "share": _number(share.share)}
        for share in found[:SHOWN]
        if share.share > 0.0
    ]


def _label_notes(model: Model, recording: Recording) -> list[str]:
    if model.task == "regression" or len(recording.labels) != 1:
        return []
    ((place, count),) = recording.labels.items()
    return [
        f"all {count:,} labels are {model.classes_[place]!r}: a model learns nothing from one "
        "class; see whether the label is the right column"
    ]


def _list(values: Vec) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _rounded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: _number(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows]
