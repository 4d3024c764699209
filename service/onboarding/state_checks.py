"""Check of the stored state: whether the learner can continue from it, or begin."""

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from kaboost.models.types import ModelError
from kaboost.service.config.models import describe_models
from kaboost.service.config.settings import Settings
from kaboost.service.errors import KaboostError
from kaboost.service.onboarding.report import Check, split_remedy
from kaboost.service.onboarding.topic_sample import REQUEST_SECONDS
from kaboost.service.storage.candidate_state import CANDIDATES, MODEL
from kaboost.service.storage.changes import ALIASES
from kaboost.service.storage.checkpoints import Checkpoint, FolderCheckpointStore
from kaboost.service.storage.stores import readable_folder

NAME = "checkpoint"
COLD_START = "start once with --cold-start, or restore what it was learned with"


def check_state(settings: Settings) -> list[Check]:
    """Compare the newest checkpoint with the settings and with the offsets of the group."""
    if settings.is_live:
        return []  # a River model is learned again from the topic
    directory = settings.checkpoints.directory
    try:
        with readable_folder(settings.checkpoints) as folder:
            store = FolderCheckpointStore(folder)
            checkpoint, _ = store.restore(_expected(settings))
            is_new_run = store.is_new_run()
        if checkpoint is not None:
            return [_found(settings, checkpoint)]
        committed = _committed(settings)
    except (KaboostError, ModelError) as err:
        return [Check(NAME, "red", *split_remedy(str(err), COLD_START))]
    except KafkaException as err:
        remedy = f"grant DESCRIBE on group {settings.kafka.group_id}"
        return [Check(NAME, "yellow", f"offsets not read: {err.args[0].str()}", remedy)]
    if not committed or is_new_run:
        begins = f"none in {directory}; learning begins at kafka.start_from"
        return [Check(NAME, "green", f"{begins}: {settings.kafka.start_from}")]
    detail = f"group {settings.kafka.group_id} has committed offsets, but {directory} has none"
    remedy = (
        "bring it back, start once with --cold-start, or set another kafka.group_id for a second "
        "model: `serve` ends with exit code 3"
    )
    return [Check(NAME, "red", detail, remedy)]


def _expected(settings: Settings) -> dict[str, object]:
    candidates = describe_models(settings)
    model = candidates.pop(MODEL)
    topic, aliases = settings.kafka.topic, settings.features.aliases
    return {MODEL: model, "topic": topic, ALIASES: aliases, CANDIDATES: candidates}


def _found(settings: Settings, checkpoint: Checkpoint) -> Check:
    events = checkpoint.header.get("events_learned", 0)
    offsets = ", ".join(f"{p}: {offset}" for p, offset in sorted(checkpoint.state.offsets.items()))
    detail = f"{events} events learned, next offsets {offsets}, in {settings.checkpoints.directory}"
    return Check(NAME, "green", detail)


def _committed(settings: Settings) -> bool:
    """Return whether the group has offsets; asking for them leaves no trace."""
    kafka = settings.kafka
    client = {**kafka.client(), "log_level": "0", "group.id": kafka.group_id}
    consumer = Consumer({**client, "enable.auto.commit": False})
    try:
        topic = consumer.list_topics(timeout=REQUEST_SECONDS).topics.get(kafka.topic)
        at = [TopicPartition(kafka.topic, number) for number in (topic.partitions if topic else ())]
        found = consumer.committed(at, REQUEST_SECONDS) if at else []
        return any(each.offset != OFFSET_INVALID for each in found)
    finally:
        consumer.close()
