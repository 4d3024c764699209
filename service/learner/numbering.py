"""With which version the snapshots of a learner go on after its start."""

import logging
import time

from kaboost.service.storage.snapshots import Numbering, Snapshot
from kaboost.service.storage.stores import SnapshotStore

RESERVED_VERSIONS = 1_000_000  # for snapshots after a checkpoint

log = logging.getLogger(__name__)


def resume(
    known: Numbering, store: SnapshotStore, newest: Snapshot | None, *, is_led: bool
) -> Numbering:
    """Return the version to go on above: the highest, of the files or of the checkpoint.

    Where the folder has lost snapshots, those since the checkpoint are unknown: some versions are
    left out. So they are where another learner has led before, whose folder is elsewhere.
    """
    epoch, version = known
    last = store.last_version()
    if last < version:
        version += RESERVED_VERSIONS
        fields = {"folder": store.location, "version": version}
        if is_led:
            log.info("versions go on above those of the leader before", extra=fields)
        else:
            log.warning("snapshots were removed, their versions go on", extra=fields)
    if not version and not last and epoch and is_led:
        version = RESERVED_VERSIONS  # the leader before may have published some
    elif not version and not last:
        epoch = int(time.time())
    elif newest:
        epoch = max(epoch, newest.numbering.epoch)
    return Numbering(epoch, max(version, last))
