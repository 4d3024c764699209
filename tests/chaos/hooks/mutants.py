"""Guarantees to break on purpose, one function each, inside every process of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kaboost.models.state import format as state_format
from kaboost.service.kafka.dead_letters import DeadLetters
from kaboost.service.learner.loop import LearnerLoop
from kaboost.service.processes.draining_server import DrainingServer
from kaboost.service.storage import files
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.recent_ids import RecentIds


def commit_before_checkpoint() -> None:
    """Show lag tools offsets that no durable checkpoint holds yet."""
    save = LearnerLoop._save

    def commit_first(self: LearnerLoop) -> Any:
        self._inputs.commit(self.trainer.state)
        return save(self)

    LearnerLoop._save = commit_first  # type: ignore[method-assign]


def no_fsync_of_files() -> None:
    """Give a file its name before its bytes are on the disk."""
    files.sync = lambda descriptor: None


def no_fsync_of_folders() -> None:
    """Rename a file, and do not flush its name."""
    files.sync_folder = lambda directory: None


def learn_duplicates() -> None:
    """Take every id for a new one."""
    RecentIds.is_new = lambda self, id_: True  # type: ignore[method-assign]


def no_digest() -> None:
    """Read files without their digest."""
    unpack: Callable[..., Any] = state_format.unpack
    files.unpack = lambda buffer, verify=True: unpack(buffer, verify=False)  # type: ignore[attr-defined]


def no_lock() -> None:
    """Let two processes write to a folder."""
    FolderLock.__enter__ = lambda self: None  # type: ignore[method-assign]
    FolderLock.__exit__ = lambda self, *_: None  # type: ignore[method-assign]


def checkpoint_passes_dead_letters() -> None:
    """Write checkpoints before the broker has confirmed the dead letters."""
    DeadLetters.outstanding = property(lambda self: 0)  # type: ignore[method-assign, assignment]
    DeadLetters.stuck = property(lambda self: False)  # type: ignore[method-assign, assignment]
    DeadLetters.confirm = lambda self, timeout: True  # type: ignore[method-assign]


def no_draining() -> None:
    """Close the listening socket and the connections at once."""

    async def shutdown(self: DrainingServer, sockets: Any = None) -> None:
        for sock in sockets or []:
            sock.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # type: ignore[union-attr]

    DrainingServer.shutdown = shutdown  # type: ignore[method-assign, assignment]


def forget_ids_at_restarts() -> None:
    """Leave the ids of the last events out of the checkpoint."""
    RecentIds.to_arrays = lambda self: {}  # type: ignore[method-assign]
