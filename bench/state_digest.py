"""SHA-256 of the learned state after fixed streams: equal before and after a change that must not
change what is learned.

`python -m bench.state_digest` prints one line a system; `--check FILE` compares with such lines,
`--only WORD` takes the systems whose name contains it. Array names enter a digest as they were
before they were renamed, by `bench/renamed_arrays.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kaboost.models.evaluation.baselines import progressive_validation, record
from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.model import Model
from kaboost.models.state.tree import to_arrays
from tests.contracts import subjects
from tests.e2e.systems import SYSTEMS, events_of, schema_of

Arrays = Mapping[str, NDArray[Any]]
TABLE = Path(__file__).with_name("renamed_arrays.json")
EVENTS = 9000  # of the default model: every structure has grown trees
MIXED = {"a": "number", "b": "number", "colour": "category", "when": "datetime", "vip": "boolean"}
LABELS = {"regression": None, "binary": None, "multiclass": ["x", "y", "z"]}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "small-structures": (
        "binary",
        {"bank": {"kind": "reboosted_trees", "structures": [{"trees": 10, "leaves": 8}] * 4}},
    ),
    "uncalibrated": ("binary", {"bank": {"kind": "reboosted_trees", "calibrate": False}}),
    "budget": ("regression", {"bank": {"kind": "reboosted_trees", "budget": 20000}}),
    "quantile": ("regression", {"loss": {"kind": "quantile", "q": 0.8}}),
    "huber": ("regression", {"loss": {"kind": "huber", "k": 1.0}}),
    "poisson": ("regression", {"loss": "poisson"}),
}


def digest(arrays: Arrays) -> str:
    """Return the digest of arrays by the names that they had first; dropped arrays are left out.

    Arrays that have become shorter are padded with zeros to the bytes that they had.
    """
    table = {"renamed": [], "dropped": [], "padded": []}
    table |= json.loads(TABLE.read_text()) if TABLE.exists() else {}
    whole = hashlib.sha256()
    for name, array in sorted((_first_name(name, table), array) for name, array in arrays.items()):
        if not any(re.search(pattern, name) for pattern in table["dropped"]):
            size = sum(old for pattern, old in table["padded"] if re.search(pattern, name))
            whole.update(name.encode() + b"\0" + array.tobytes().ljust(size, b"\0"))
    return whole.hexdigest()


def _first_name(name: str, table: Mapping[str, Any]) -> str:
    for new, old in table["renamed"]:
        name = re.sub(new, old, name)
    return name


def published(name: str) -> Arrays:
    """Return the state of a published system after the stream of its end-to-end test."""
    task, spec = SYSTEMS[name]
    schema = schema_of(name, spec)
    labels = [0, 1, 2] if task == "multiclass" else None
    model = Model(task, spec, schema, labels)
    rows, y = zip(*events_of(task, schema), strict=True)
    model.learn_many(list(rows), list(y))
    return model.to_arrays()


def combination(kinds: tuple[Any, Any, Any, int]) -> Arrays:
    """Return the state of a rule, a bank and a loss after their contract's stream."""
    import kaboost

    subject = subjects.make(*kinds)
    booster = kaboost.build(subject.spec, d=subjects.FEATURES, m=subject.m)
    scores = kaboost.learn_many(booster, subject.X, subject.y, subject.w)
    return {**kaboost.to_arrays(booster), "answers": scores}


def default(task: str, spec: Any = None) -> Arrays:
    """Return state, answers and validation of a model over mixed features with a drift."""
    r = np.random.default_rng(11)
    rows, y = [], []
    for k in range(EVENTS):
        a, b, colour = r.normal(), round(r.normal(), 1), "rgbcmy"[r.integers(6)]
        z = (a if k < EVENTS // 2 else -a) + (colour in "rg") + 0.3 * b * b + 0.2 * r.normal()
        when = f"2026-{1 + k % 12:02}-{1 + k % 28:02}T{k % 24:02}:00:00Z"
        row = {"a": a, "b": b, "colour": colour, "when": when, "vip": bool(r.integers(2))}
        rows.append({name: value for name, value in row.items() if r.random() < 0.95})
        y.append(z)
    spec = spec or {}
    if spec.get("loss") == "poisson":
        labels: list[Any] = [int(min(abs(z) * 2, 20)) for z in y]
    elif task == "regression":
        labels = [4.0 * z + 30.0 for z in y]
    else:
        labels = [
            int(z > 0.8) if task == "binary" else "xyz"[int(np.digitize(z, (0, 1)))] for z in y
        ]
    model = Model(task, spec or None, MIXED, LABELS[task])
    parts = []
    for first in range(0, EVENTS, 1500):
        parts.append(model.learn_many(rows[first : first + 1500], labels[first : first + 1500]))
    seen = progressive_validation(model.labels)
    encoded = np.array([model.labels.encode(label) for label in labels], np.float64)
    outcome = Outcome(np.zeros((EVENTS, 1)), encoded, np.ones(EVENTS), np.zeros(EVENTS), None)
    record(seen, outcome, encoded, np.ones(EVENTS))
    served = {f"served.{name}": array for name, array in model.serving_arrays().items()}
    return {
        **model.to_arrays(),
        **to_arrays(seen, "validation.baselines"),
        "answers": np.concatenate(parts),
        "next": model.predictions(model.predict(model._tabulate_known(rows[:200]))),
        "names": np.array(sum("late." not in name for name in served)),  # later arrays
    }


def systems() -> Iterator[tuple[str, Any]]:
    """Yield every name with the function that makes its arrays."""
    for name in SYSTEMS:
        yield f"published/{name}", lambda name=name: published(name)
    for kinds in subjects.partners():
        words = "-".join(str(v) for one in kinds[:3] for v in one.values())
        yield f"partners/{words}-{kinds[3]}", lambda kinds=kinds: combination(kinds)
    for task in LABELS:
        yield f"default/{task}", lambda task=task: default(task)
    for name, (task, spec) in SETTINGS.items():
        yield f"settings/{name}", lambda task=task, spec=spec: default(task, spec)


def main() -> int:
    """Print or check the digests; 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", type=Path, help="lines of an earlier run")
    parser.add_argument("--only", default="", help="part of the names")
    parser.add_argument("--but", default="\0", help="part of the names that are left out")
    asked = parser.parse_args()
    known = {}
    if asked.check:
        known = dict(line.split("  ")[::-1] for line in asked.check.read_text().splitlines())
    wrong = 0
    for name, make in systems():
        if asked.only not in name or asked.but in name:
            continue
        with np.errstate(all="ignore"):
            made = digest(make())
        verdict = "" if not known else "  same" if known.get(name) == made else "  DIFFERS"
        wrong += verdict == "  DIFFERS"
        print(f"{made}  {name}{verdict}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
