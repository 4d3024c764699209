"""The moving model that the learning thread and the serving thread of one process share."""

from threading import Lock

from kaboost.models.adapters.from_river import RiverModel
from kaboost.service.storage.snapshots import Snapshot

WAITING = "the model waits for its topic"


class FairLock:
    """Give the lock in turns: for one event, or for one request.

    A waiting thread holds `_next`, so that the other cannot take the lock twice before it.
    """

    def __init__(self) -> None:
        self._next, self._lock = Lock(), Lock()

    def __enter__(self) -> None:
        with self._next:
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class SharedModel:
    """The newest state between two batches, and the lock on the model in it.

    The learning thread replaces `snapshot`, whose model goes on learning. Version and events in it
    are those of its publication; `current` returns those of now.
    """

    def __init__(self) -> None:
        self.lock = FairLock()
        self.snapshot: Snapshot | None = None  # None until the topic has been replayed
        self.progress = WAITING  # of the replay, in a sentence
        self.problem = ""  # why the model is older than the topic

    @staticmethod
    def current(snapshot: Snapshot) -> tuple[int, int]:
        """Return the version and events learned of now; exact while the lock is held."""
        assert isinstance(snapshot.model, RiverModel)
        learned = snapshot.model.events
        return snapshot.version + learned - int(snapshot.header["events_learned"]), learned
