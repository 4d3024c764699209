"""The learner's status, from which API processes report why it is down."""

import logging

from kaboost.service.errors import KaboostError
from kaboost.service.storage.stores import SnapshotStore

RESTARTED_AFTER = "restarted after: "  # prefix of a reason: the same may end the learner again

log = logging.getLogger(__name__)


def write_status(
    store: SnapshotStore, state: str, exit_code: int | None = None, reason: str = ""
) -> None:
    """Write the status for the API processes; a full disk must not stop anything else."""
    try:
        store.write_status(state, exit_code, reason)
    except (OSError, KaboostError) as err:
        log.error("status not written", extra={"reason": str(err)})


def previous_exit_reason(store: SnapshotStore) -> str:
    """Return why the learner before this one ended, if the supervisor restarted it."""
    status = store.read_status()
    return status.reason if status and status.reason.startswith(RESTARTED_AFTER) else ""
