"""Write the golden files of the current version: `python -m tests.golden.make`.

Until a version is released its files may be written again. Afterwards they stay as they are, for
every later version to read.
"""

import json
import lzma
import random
import tempfile
from pathlib import Path
from typing import Any

from kaboost.models.evaluation.baselines import record
from kaboost.models.model import Model
from kaboost.models.state.migrations import FORMAT
from kaboost.service.events.json import JsonDecoder
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.late_figures import LateCounts
from kaboost.service.storage.recent_ids import RecentIds
from kaboost.service.storage.replayed import ReplayedOrigins
from kaboost.service.storage.snapshots import FolderSnapshotStore
from kaboost.service.storage.state import LateState, State
from tests.kafka.client import encode

FOLDER = Path(__file__).parent
SCHEMA = {"x": "number", "c": "category"}
EVENTS = 24
TASKS: dict[str, dict[str, Any]] = {
    "binary": {},
    "regression": {},
    "multiclass": {"labels": ["a", "b", "c"]},
}
# As small as the default model may be; the classes of a multiclass task have one each.
MEMORY = {"binary": 5, "regression": 5, "multiclass": 13}  # MB


def row(draw: random.Random) -> dict[str, Any]:
    return {"x": draw.gauss(0, 1), "c": draw.choice("pqr")}


def label_of(task: str, x: float) -> Any:
    if task == "regression":
        return 2.0 * x
    return int(x > 0) if task == "binary" else "abc"[min(2, max(0, int(x + 1)))]


def taught(task: str) -> State:
    """Make a state that has everything a checkpoint can hold."""
    spec: dict[str, Any] = {"bank": {"kind": "reboosted_trees", "max_memory": MEMORY[task]}}
    if task == "multiclass":
        spec["multiclass"] = "one_vs_rest"
    model = Model(task, spec, SCHEMA, **TASKS[task])
    draw = random.Random(1)
    rows = [row(draw) for _ in range(EVENTS)]
    state = State.initial(model, {0: EVENTS, 1: 7})
    values = [encode(one, label_of(task, one["x"])) for one in rows]
    decoded = JsonDecoder(model.encoder.schema, model.labels).decode(values)
    outcome = model.learn(decoded.table, decoded.y, decoded.w)
    record(state.validation, outcome, decoded.y, decoded.w)
    replayed = ReplayedOrigins()
    replayed.add(("t", 0, 17))
    late = LateState({0: 3}, 2, (1, 2), 9.0, 8.0, 7.0, LateCounts(), "labels", "id", {0: (1, 2, 3)})
    return state._replace(ids=RecentIds(2, ["a", "b"]), replayed=replayed, late=late)


def expected(state: State) -> list[Any]:
    """Predict a few rows; classes with their probabilities."""
    draw = random.Random(2)
    rows = [row(draw) for _ in range(3)]
    if state.model.task == "regression":
        return [state.model.predict_one(one) for one in rows]
    return [list(state.model.predict_proba_one(one).values()) for one in rows]


def main() -> None:
    """Write a checkpoint, a snapshot and what they predict, for each task."""
    target = FOLDER / f"v{FORMAT}"
    target.mkdir(exist_ok=True)
    predictions = {}
    for task in TASKS:
        state = taught(task)
        predictions[task] = expected(state)
        header = {
            "name": "golden", "topic": "t", "run": "run-0001", "epoch": 1, "version": 1,
            "created": "2026-11-26T00:00:00Z", "events_learned": EVENTS, "cold_start": False,
            "offsets": {"0": EVENTS, "1": 7}, "last_records": {}, "new_names": {},
            "topic_id": None, "cluster_id": None,
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(FolderCheckpointStore(Path(folder)).write(header, state).name)
            FolderSnapshotStore(Path(folder)).publish(header, state)
            (snapshot,) = Path(folder).glob("snapshot-*.safetensors")
            for kind, path in (("checkpoint", checkpoint), ("snapshot", snapshot)):
                packed = lzma.compress(path.read_bytes(), preset=9)
                (target / f"{task}-{kind}.safetensors.xz").write_bytes(packed)
    (target / "predictions.json").write_text(json.dumps(predictions, indent=1) + "\n")


if __name__ == "__main__":
    main()
