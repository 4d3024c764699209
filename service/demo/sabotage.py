"""`kaboost demo --sabotage`: alter the offsets that the learner restarts from."""

from pathlib import Path

from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import FolderCheckpointStore

REWOUND_EVENTS = 250


def rewind(directory: Path) -> None:
    """Move the offsets of the newest checkpoint back, so that some events are learned twice."""
    newest = next(FolderCheckpointStore(directory).paths())
    header, arrays = files.read(newest)
    header["offsets"] = {
        partition: max(0, offset - REWOUND_EVENTS)
        for partition, offset in header["offsets"].items()
    }
    files.write(newest, arrays, header)
