"""Seeded streams of events for the tests here, and digests of what is made of them.

`NUMBA_DISABLE_JIT=1 python -m tests.models.streams encoder` prints what plain Python gives.
"""

import os
import subprocess
import sys

import numba
import numpy as np

from kaboost import Model
from kaboost.models.evaluation.baselines import progressive_validation, record
from kaboost.models.features.labels import labels
from kaboost.models.features.onehot import Encoder
from kaboost.models.features.rows import tabulate
from kaboost.models.state.tree import to_arrays
from tests.boosters import digest
from tests.outcomes import outcome
from tests.specs import LINEAR

SCHEMA = {
    "a": "number",
    "vip": "boolean",
    "note": "text",
    "place": "category",
    "when": "datetime",
    "b": "number",
    "kind": "category",
}
CLASSES = {"regression": None, "binary": None, "multiclass": ["x", "y", "z"]}
LARGE = (1e308, -1e308, 1e150, 1e-300, 5e-324, 0.0, -0.0)


def rows(count, seed=0):
    """Return events with missing values, huge and tiny ones, a constant, and 40 categories."""
    rng = np.random.default_rng(seed)
    return [row(rng) for _ in range(count)]


def row(rng):
    full = {
        "a": float(rng.choice(LARGE)) if rng.random() < 0.05 else float(rng.normal()),
        "b": 3.5,
        "vip": bool(rng.random() < 0.5),
        "place": f"p{rng.integers(40)}",
        "kind": str(rng.choice(["", "é", "\ud800", "long" * 100])),
        "when": f"{rng.integers(1, 10_000):04}-02-2{rng.integers(9)}T0{rng.integers(10)}:10:59.5Z",
        "note": " ".join(rng.choice(["Éa", "the", "word", "x" * 200, "\ud800"], rng.integers(9))),
    }
    return {name: value for name, value in full.items() if rng.random() < 0.9}


def weights(count, seed=1):
    """Return weights of which about a fifth are 0."""
    return np.random.default_rng(seed).choice([0.0, 1.0, 1.0, 2.5, 1e-3], count)


def targets(task, count, seed=2):
    """Return encoded labels."""
    rng = np.random.default_rng(seed)
    if task == "regression":
        return rng.normal(size=count)
    return rng.integers(len(labels(task, CLASSES[task]).classes), size=count).astype(np.float64)


def encoder(count=300):
    """Return the digest of an encoder and of all it encoded."""
    subject = Encoder(SCHEMA)
    table = tabulate(SCHEMA, rows(count))
    learned = subject.learn_many(table, weights(count))
    return digest(
        to_arrays(subject.state, "encoder")
        | {"learned": learned, "after": subject.encode_many(table)}
    )


def compared(count=300):
    """Return the digest of the baselines of every task."""
    parts = {}
    for task, classes in CLASSES.items():
        seen = progressive_validation(labels(task, classes))
        y = targets(task, count)
        y[::50] *= 1e308 if task == "regression" else 1.0
        record(seen, outcome(abs(y), np.ones(count)), y, weights(count))
        parts |= {f"{task}.{name}": array for name, array in to_arrays(seen, "validation").items()}
    return digest(parts)


def models(count=60):
    """Return the digest of a model of every task and of all it said."""
    parts = {}
    for task, classes in CLASSES.items():
        model = Model(task, LINEAR, SCHEMA, classes)
        y = targets(task, count)
        result = model.learn(tabulate(SCHEMA, rows(count)), y, weights(count))._asdict()
        result = {name: array for name, array in result.items() if array is not None}
        parts |= {f"{task}.{name}": array for name, array in (model.to_arrays() | result).items()}
    return digest(parts)


SUBJECTS = {"encoder": encoder, "baselines": compared, "model": models}


def digest_of_other_mode(subject):
    """Return the digest of one subject from a process with numba's compiler if this one is without
    it, and the other way round.
    """
    command = [sys.executable, "-W", "error", "-m", "tests.models.streams", subject]
    off = "0" if numba.config.DISABLE_JIT else "1"
    environment = os.environ | {"NUMBA_DISABLE_JIT": off}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


if __name__ == "__main__":
    with np.errstate(over="ignore" if numba.config.DISABLE_JIT else "warn"):
        print(SUBJECTS[sys.argv[1]]())
