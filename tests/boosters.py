"""What tests do with boosters: build the default one, learn streams, restore and compare states."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import kaboost

Arrays = Mapping[str, np.ndarray]


class Learned(NamedTuple):
    """A booster after a stream, and the scores (B, m) made before each event was learned."""

    booster: Any
    scores: np.ndarray


def learned(
    spec: Any, X: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, m: int = 1
) -> Learned:
    """Build a booster of a specification and learn a stream in one batch."""
    booster = kaboost.build(spec, d=X.shape[1], m=m)
    return Learned(booster, kaboost.learn_many(booster, X, y, w))


def default_booster(d: int, loss: Any = "logistic", seed: int = 1) -> Any:
    """Build the default model over d numbers."""
    return kaboost.build({"bank": "reboosted_trees", "loss": loss, "seed": seed}, d)


def learn_stream(
    booster: Any, X: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, batch: int = 1
) -> np.ndarray:
    """Learn a stream in batches of so many events; return the scores (B, m) made before each."""
    parts = (X, y) if w is None else (X, y, w)
    scores = [
        kaboost.learn_many(booster, *(part[first : first + batch] for part in parts))
        for first in range(0, len(y), batch)
    ]
    return np.concatenate(scores)


def log_losses(booster: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Learn a stream; return the log-loss of every event before it was learned."""
    s = kaboost.learn_many(booster, X, y)[:, 0]
    return np.logaddexp(0.0, np.where(y > 0.0, -s, s))


def absolute_errors(booster: Any, X: np.ndarray, y: np.ndarray, batch: int) -> np.ndarray:
    """Learn a stream of numbers in batches; return how far off each was before it was learned."""
    return np.asarray(abs(learn_stream(booster, X, y, batch=batch)[:, 0] - y))


def copied(arrays: Arrays, writeable: bool = True) -> dict[str, np.ndarray]:
    """Return arrays as a file gives them: those of a snapshot are not writeable."""
    copies = {name: array.copy() for name, array in arrays.items()}
    for array in copies.values():
        array.flags.writeable = writeable
    return copies


def restored(booster: Any, spec: Any) -> Any:
    """Return the booster of a checkpoint."""
    return kaboost.from_arrays(spec, copied(kaboost.to_arrays(booster)))


def digest(arrays: Arrays) -> str:
    """Return a digest of arrays by name; it tells -0.0 from 0.0."""
    whole = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        whole.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return whole.hexdigest()


def state_digest(booster: Any) -> str:
    """Return the digest of all that a checkpoint holds of a booster."""
    return digest(kaboost.to_arrays(booster))


def state_bytes(booster: Any) -> dict[str, bytes]:
    """Return the bytes of all arrays of a booster or model; states of the same are equal."""
    return array_bytes(kaboost.to_arrays(booster))


def array_bytes(arrays: Arrays) -> dict[str, bytes]:
    """Return the bytes of every array; where two differ, pytest shows the names."""
    return {name: array.tobytes() for name, array in arrays.items()}
