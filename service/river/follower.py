"""Answers from the living model itself: what the HTTP door asks where there are no snapshots."""

from kaboost.models.features.labels import Labels
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.events.decoder import Decoder
from kaboost.service.http.follower import Follower, LearnerStatus, Served
from kaboost.service.http.predict import PredictCodec, Rows, Stamp
from kaboost.service.river.shared_model import Live
from kaboost.service.storage.snapshots import Snapshot


class RiverPredictCodec(PredictCodec):
    """A door that takes its turn at the model, and says which moment of it has answered."""

    def __init__(self, decoder: Decoder, labels: Labels, max_rows: int, live: Live) -> None:
        super().__init__(decoder, labels, max_rows)
        self._live = live

    def respond(self, rows: Rows, model: Model, stamp: Stamp) -> bytes:
        """Predict the rows and write the answer; nothing is learned in between."""
        with self._live:
            found = self._live.snapshot
            if found is None:
                return super().respond(rows, model, stamp)
            return super().respond(rows, found.model, _at(stamp, found))


class LiveFollower(Follower):
    """Has nothing to follow but the learner's signs of life."""

    def __init__(self, settings: Settings, live: Live) -> None:
        super().__init__(settings)
        self._live = live
        self.waiting_for = ""  # what it waits for stands in the progress
        self._live_door: PredictCodec | None = None

    def current(self) -> Served | None:
        """Give what to answer from, once the topic has been replayed."""
        self.no_model_message, self.problem = self._live.progress, self._live.trouble
        found = self._live.snapshot
        if found is None:
            return None
        if self._live_door is None:
            self._live_door = self._make_door(found.model)
        return Served(found, self._live_door, _at(self._stamp(found, self.learner), found))

    def refresh(self) -> tuple[Served | None, LearnerStatus]:
        """See how the learner is."""
        self.learner = self._read_status()
        return self.current(), self.learner

    def _make_door(self, model: Model) -> PredictCodec:
        columns, limits = self._settings.features, self._settings.api
        decoder = Decoder(columns.columns, model.labels, columns.unknown)
        return RiverPredictCodec(decoder, model.labels, limits.max_rows, self._live)


def _at(stamp: Stamp, found: Snapshot) -> Stamp:
    """Date a stamp to this moment; exact while it is one's turn."""
    version, learned = Live.now(found)
    return Stamp(
        name=stamp.name,
        version=version,
        events_learned=learned,
        snapshot_time=stamp.snapshot_time,
        cold_start=learned == 0,
        stale=stamp.stale,
    )
