"""Serve requests from the shared model, where there are no snapshots to follow."""

from kaboost.models.features.labels import Labels
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.events.json import JsonDecoder
from kaboost.service.http.follower import Follower, LearnerStatus, Served
from kaboost.service.http.predict import Answer, PredictCodec, Rows, Stamp
from kaboost.service.river.shared_model import SharedModel
from kaboost.service.storage.snapshots import Snapshot


class RiverPredictCodec(PredictCodec):
    """Predict while the model is locked, and stamp the response with that moment."""

    def __init__(
        self,
        decoder: JsonDecoder,
        labels: Labels,
        max_rows: int,
        *,
        ignore_keys: bool,
        shared: SharedModel,
    ) -> None:
        super().__init__(decoder, labels, max_rows, ignore_keys=ignore_keys)
        self._shared = shared

    def respond(self, rows: Rows, model: Model, stamp: Stamp) -> Answer:
        """Predict the rows and encode the response; nothing is learned in between."""
        with self._shared.lock:
            snapshot = self._shared.snapshot
            if snapshot is None:
                return super().respond(rows, model, stamp)
            return super().respond(rows, snapshot.model, _at(stamp, snapshot))


class RiverFollower(Follower):
    """Follow the shared model, and the learner's heartbeats."""

    def __init__(self, settings: Settings, shared: SharedModel) -> None:
        super().__init__(settings)
        self._shared = shared
        self.waiting_for = ""  # the progress describes what it waits for
        self._river_codec: PredictCodec | None = None

    def current(self) -> Served | None:
        """Return what to serve, once the topic has been replayed."""
        self.no_model_message, self.problem = self._shared.progress, self._shared.problem
        snapshot = self._shared.snapshot
        if snapshot is None:
            return None
        if self._river_codec is None:
            self._river_codec = self._make_codec(snapshot.model)
        return Served(
            snapshot, self._river_codec, _at(self._stamp(snapshot, self.learner), snapshot)
        )

    def refresh(self) -> tuple[Served | None, LearnerStatus]:
        """Refresh the learner's status."""
        self.learner = self._read_status()
        return self.current(), self.learner

    def _make_codec(self, model: Model) -> PredictCodec:
        features, limit = self._settings.features, self._settings.api.max_rows
        decoder = JsonDecoder(features.columns, model.labels, features.unknown)
        ignore = features.unknown == "ignore"
        return RiverPredictCodec(
            decoder, model.labels, limit, ignore_keys=ignore, shared=self._shared
        )


def _at(stamp: Stamp, snapshot: Snapshot) -> Stamp:
    """Date a stamp to now; exact while the model is locked."""
    version, learned = SharedModel.current(snapshot)
    return Stamp(
        name=stamp.name,
        version=version,
        events_learned=learned,
        snapshot_time=stamp.snapshot_time,
        cold_start=learned == 0,
        stale=stamp.stale,
    )
