"""An answer as it is on `predictions.topic`."""

from collections.abc import Mapping, Sequence
from typing import Any

KEPT = ("prediction", "probability", "score")


def answer_record(
    id_: str,
    timestamp: Any,
    features: Any,
    prediction: Mapping[str, Any],
    scores: Sequence[float],
    model: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the record of one answer.

    Parameters
    ----------
    id_, timestamp
        Of the row, and when it happened.
    features
        As they were sent: those that the model does not know yet it is to learn from this topic.
        None leaves them out.
    prediction
        As the codec of requests makes it.
    scores
        (m,), those of all classes: the learner of the same model records their loss.
    model
        What `model_keys` gives.
    """
    record = {"id": id_, "timestamp": timestamp}
    if features is not None:
        record["features"] = features
    for key in KEPT:
        if key in prediction:
            record[key] = prediction[key]
    record.update(model)
    if len(scores) > 1:
        record["scores"] = scores
    return record


def model_keys(version: int, header: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """Return what a record says of the model: of a snapshot with this version, header and epoch."""
    # The loss of a model that is served instead is not that of the one that learns.
    run = None if header.get("fallback") else header.get("run")
    return {"version": version, "run": run, "epoch": epoch}
