"""How a River model gets its first state: from a replay of the topic."""

from kaboost.models.adapters.from_river import RiverModel
from kaboost.models.types import ModelError
from kaboost.service.errors import ConfigError, Refused
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.rollback import Positions
from kaboost.service.learner.trainer import Trainer
from kaboost.service.river.replay import Replay
from kaboost.service.river.shared_model import SharedModel
from kaboost.service.river.trainer import RiverTrainer, Sharing
from kaboost.service.storage.state import State


class ReplayFromTopic:
    """Build a new River model, which learns the whole topic before it is served."""

    ready_message = "learner replays"
    after_failure = "the model is still served"

    def __init__(self, parts: Parts, cold_start: bool, *, shared: SharedModel) -> None:
        self._parts = parts
        self._cold_start = cold_start
        self._shared = shared
        self._model: RiverModel

    def prepare(self) -> None:
        """Build the configured model."""
        settings = self._parts.settings
        task, schema = settings.task, settings.features.columns
        try:
            self._model = RiverModel(task.kind, settings.model, schema, task.labels)
        except ModelError as err:
            raise ConfigError(str(err)) from err

    def reopen(self, inputs: Inputs) -> None:
        """Return none: only a replay of the whole topic could restore the state."""

    def open(self, inputs: Inputs) -> RiverTrainer:
        """Return a trainer that begins with the replay."""
        consumer, partitions = inputs.events, inputs.partitions
        state = State.initial(self._model, consumer.start_offsets(partitions))
        lag, topic = self._parts.metrics.lag_records, self._parts.settings.kafka.topic
        replay = Replay(consumer.client, topic, state.offsets, lag)
        return RiverTrainer(self._parts, state, Sharing(self._shared, replay, self._cold_start))

    def roll_back(self, number: int, positions: Positions, now: Trainer, inputs: Inputs) -> Trainer:
        """Refuse: there is no checkpoint."""
        raise Refused("a River model has no checkpoints, so it cannot be rolled back")

    def promote(self, name: str, now: Trainer, inputs: Inputs) -> Trainer:
        """Refuse: there are no candidates."""
        raise Refused("a River model has no candidates, so none can be promoted")
