"""What the learning thread and the answering thread of one process share: a model that moves."""

from threading import Lock

from kaboost.models.adapters.from_river import RiverModel
from kaboost.service.storage.snapshots import Snapshot

WAITING = "the model waits for its topic"


class Live:
    """The newest state between two batches, and the turns that both threads take.

    The learning thread swaps `snapshot`, whose model is the living one: version and events are of
    that moment, `now` tells those of this one.
    """

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None  # None until the topic has been replayed
        self.progress = WAITING  # of the replay, in a sentence
        self.trouble = ""  # why what is served is not what the topic holds by now
        self._next, self._model = Lock(), Lock()

    def __enter__(self) -> None:
        """Have the model to oneself: for one event, or for one request.

        Who waits stands at `next`, so that the other cannot come round twice before it.
        """
        with self._next:
            self._model.acquire()

    def __exit__(self, *_: object) -> None:
        self._model.release()

    @staticmethod
    def now(found: Snapshot) -> tuple[int, int]:
        """Give version and events learned of this moment; exact while it is one's turn."""
        assert isinstance(found.model, RiverModel)
        learned = found.model.events
        return found.version + learned - int(found.header["events_learned"]), learned
