"""The learner's status, from which API processes report why it is down."""

import logging
import os

from kaboost.service.errors import KaboostError
from kaboost.service.storage.stores import SnapshotStore

RESTARTED_AFTER = "restarted after: "  # prefix of a reason: the same may end the learner again

log = logging.getLogger(__name__)


def write_status(
    store: SnapshotStore,
    state: str,
    exit_code: int | None = None,
    reason: str = "",
    pid: int | None = None,
) -> None:
    """Write the status of a learner, by default of this process, for the API processes; a full disk
    must not stop anything else.
    """
    try:
        store.write_status(state, exit_code, reason, pid or os.getpid())
    except (OSError, KaboostError) as err:
        log.error("status not written", extra={"reason": str(err)})


def is_of_another(store: SnapshotStore) -> bool:
    """Return whether the status is that of another process: it waits for this one to leave."""
    status = store.read_status()
    return status is not None and status.pid not in (None, os.getpid())


def previous_exit_reason(store: SnapshotStore) -> str:
    """Return why the learner before this one ended, if the supervisor restarted it."""
    status = store.read_status()
    return status.reason if status and status.reason.startswith(RESTARTED_AFTER) else ""
