"""Elec2 with labels that come late: learned as if at once, and as they were predicted.

`python -m bench.late_labels` prints, for each delay in events, log-loss and error of what was
served from event 2,000 on, and of the answers that were surer than .98 how many were wrong; then
the log-loss of the baseline `last_label`, which knows the labels that had come.
"""

import csv
import gzip
import sys
from importlib.resources import files

import numpy as np

from kaboost import Model
from kaboost.models.evaluation.baselines import progressive_validation
from kaboost.models.evaluation.late_baselines import capture_baselines, record_captured
from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.features.labels import labels as task_labels
from kaboost.models.features.onehot import Table
from kaboost.models.types import Mat, Vec

EVENTS, BATCH, FIRST = 20_000, 24, 2_000
DELAYS = (0, 48, 336)


def elec2() -> tuple[Mat, Vec]:
    """Return features (n, d) and labels (n,) of the first events."""
    with gzip.open(str(files("kaboost.data") / "elec2.csv.gz"), "rt") as file:
        rows = list(csv.DictReader(file))[:EVENTS]
    y = np.array([float(row.pop("class") == "UP") for row in rows])
    return np.array([[float(value) for value in row.values()] for row in rows]), y


def served(x: Mat, y: Vec, delay: int, *, capture: bool) -> Vec:
    """Return the served probability of every label, which comes `delay` events later."""
    model = Model("binary", features={f"f{j}": "number" for j in range(x.shape[1])})
    waiting, probabilities = [], []
    for first in range(0, len(y), BATCH):
        due = first - delay - BATCH
        if due >= 0:
            labels, ones = y[due : due + BATCH], np.ones(BATCH)
            if capture:
                model.learn_captured(waiting.pop(0), labels, ones)
            else:
                model.learn(table(x[due : due + BATCH]), labels, ones)
        rows = table(x[first : first + BATCH])
        if capture:
            waiting.append(model.capture(rows))
        scores = waiting[-1].scores if capture else model.predict(rows)
        probabilities.append(model.predictions(scores)[:, 1])
    positive = np.concatenate(probabilities)
    return np.where(y == 1.0, positive, 1.0 - positive)[FIRST:]


def last_label(y: Vec, delay: int) -> Vec:
    """Return what the baseline of the last label gives every label."""
    seen = progressive_validation(task_labels("binary"))
    nothing, ones = np.zeros(BATCH), np.ones(BATCH)
    outcome = Outcome(nothing[:, None], nothing, nothing, nothing, None)
    captured: list[Mat] = []
    for first in range(0, len(y), BATCH):
        due = first - delay - BATCH
        if due >= 0:
            expected = captured[due // BATCH]
            record_captured(seen, outcome, expected, y[due : due + BATCH], ones)
        captured.append(np.tile(capture_baselines(seen), (len(y[first : first + BATCH]), 1)))
    probabilities = np.concatenate(captured)[:, 2:4]  # those of the prior come before
    given: Vec = probabilities[np.arange(len(y)), y.astype(int)]
    return given[FIRST:]


def table(x: Mat) -> Table:
    """Return rows of numbers as a table."""
    return Table(np.ascontiguousarray(x), np.empty((len(x), 0)), [])


def main() -> int:
    """Print one line for each delay and way of learning."""
    x, y = elec2()
    for delay in DELAYS:
        for capture in (False, True):
            p = served(x, y, delay, capture=capture)
            sure = np.maximum(p, 1.0 - p) > 0.98
            wrong = (p[sure] < 0.5).mean() if sure.any() else 0.0
            print(
                f"delay {delay:3}  {'as predicted' if capture else 'as if at once':13}  "
                f"log-loss {-np.log(p).mean():.3f}  error {(p < 0.5).mean():.3f}  "
                f"sure {sure.mean():.3f}  of these wrong {wrong:.3f}"
            )
        print(
            f"delay {delay:3}  last label     log-loss {-np.log(last_label(y, delay)).mean():.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
