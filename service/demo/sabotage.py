"""`kaboost demo --sabotage`: alter the offsets that the learner restarts from."""

from pathlib import Path

from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import FolderCheckpointStore

SKIPPED_EVENTS = 250


def skip(directory: Path) -> None:
    """Move the offsets of the newest checkpoint on, so that some events are never learned.

    The marks of the last records, by which the learner would refuse such offsets, are removed.
    Offsets that are moved back would show nothing: an id is learned once.
    """
    newest = next(FolderCheckpointStore(directory).paths())
    header, arrays = files.read(newest)
    header["offsets"] = {
        partition: offset + SKIPPED_EVENTS if offset else 0  # some are empty
        for partition, offset in header["offsets"].items()
    }
    header["last_records"] = {}
    files.write(newest, arrays, header)
