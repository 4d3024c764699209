"""What `kaboost demo --sabotage` does: alter the position that the learner restarts from."""

from pathlib import Path

from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import FolderCheckpointStore

REWOUND = 250  # events


def rewind(directory: Path) -> None:
    """Set the newest checkpoint's positions back: its state will learn some events twice."""
    newest = next(FolderCheckpointStore(directory).paths())
    header, arrays = files.read(newest)
    header["offsets"] = {
        partition: max(0, offset - REWOUND) for partition, offset in header["offsets"].items()
    }
    files.write(newest, arrays, header)
