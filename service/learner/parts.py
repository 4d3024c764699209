"""What a trainer is built from: settings, metrics, stores and the event format."""

from collections.abc import Callable
from typing import NamedTuple

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.events.decoder import Decoder
from kaboost.service.events.decoders import make_decoder
from kaboost.service.metrics import LearnerMetrics
from kaboost.service.storage.stores import Stores, make_stores


class Parts(NamedTuple):
    """The parts of one learner that do not depend on its state."""

    settings: Settings
    metrics: LearnerMetrics
    stores: Stores
    make_decoder: Callable[[Model, Settings], Decoder]


def make_parts(settings: Settings, metrics: LearnerMetrics) -> Parts:
    """Choose the implementation of every part: the stores and the event format of the settings."""
    stores = make_stores(settings.checkpoints, settings.snapshots, led=settings.standby.enabled)
    return Parts(settings, metrics, stores, decoder_of)


def decoder_of(model: Model, settings: Settings) -> Decoder:
    """Make the decoder of events for a model's features and labels."""
    return make_decoder(model.encoder.schema, model.labels, settings)
