"""Run one process that answers: build its parts, let it answer, and release them."""

import asyncio
import logging
import platform
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

from confluent_kafka import KafkaException
from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Kafka, Settings
from kaboost.service.errors import BrokerError, ConfigError, Exit
from kaboost.service.http.follower import Follower
from kaboost.service.kafka import topics
from kaboost.service.kafka.group_consumer import GroupConsumer, Member
from kaboost.service.kafka.transactions import Transactions
from kaboost.service.metrics_server import metrics_server
from kaboost.service.score.loop import Parts, ScoreLoop
from kaboost.service.score.metrics import score_metrics
from kaboost.service.storage.slot import process_slot

NO_TOPIC = "score.topic: is not set; name the topic of the records to answer"
PORT_KEYS = ("score.metrics_port", "score.metrics_host")

log = logging.getLogger(__name__)


def run(settings: Settings, *, stop: threading.Event) -> int:
    """Answer until asked to stop.

    1. Take a name in the group that no other process has.
    2. Wait for the topics; create that of dead letters.
    3. End the transaction that a former process of this name has left open.
    4. Wait for the first snapshot; then join the group.
    5. Read, answer, write.
    6. When asked to stop, finish the batch and leave.
    """
    score, kafka = settings.score, _kafka_of(settings)
    registry = CollectorRegistry()
    metrics = score_metrics(registry)
    with ExitStack() as stack:
        instance = stack.enter_context(_instance(settings, kafka.group_id))
        log.info("answering", extra={"topic": kafka.topic, "instance": instance})
        server = metrics_server(score.metrics_host, score.metrics_port, registry, PORT_KEYS)
        stack.enter_context(server)
        try:
            member = Member(kafka, instance, score.start_from)
            consumer = stack.enter_context(closing(GroupConsumer(member, metrics)))
            if not _wait_for_topics(settings, consumer, kafka, stop):
                return Exit.DONE
            name = f"{kafka.group_id}-{instance}"
            producer = Transactions(kafka.client(), name, kafka.broker_timeout)
            stack.enter_context(closing(producer))
            producer.start()
            follower = stack.enter_context(_following(settings))
            loop = ScoreLoop(settings, Parts(consumer, producer, follower, metrics, stop))
            if loop.wait_for_model():
                consumer.subscribe()
                loop.run()
        except KafkaException as err:
            raise BrokerError(f"{kafka.bootstrap_servers}: {err.args[0].str()}") from err
    log.info("answered all that was read")
    return Exit.DONE


def _kafka_of(settings: Settings) -> Kafka:
    """Return the section `kafka` with the topics and the group of this process."""
    score = settings.score
    if score.topic is None:
        raise ConfigError(NO_TOPIC)
    own = {
        "topic": score.topic,
        "group_id": score.group(settings.kafka.group_id),
        "dlq_topic": score.dlq,
    }
    return settings.kafka.model_copy(update=own)


@contextmanager
def _instance(settings: Settings, group: str) -> Iterator[str]:
    """Yield the name of this process in its group."""
    if settings.score.instance is not None:
        yield settings.score.instance
        return
    with process_slot(f"{settings.kafka.bootstrap_servers} {group}") as slot:
        yield f"{platform.node() or 'localhost'}-{slot}"


def _wait_for_topics(
    settings: Settings, consumer: GroupConsumer, kafka: Kafka, stop: threading.Event
) -> bool:
    """Wait until the topics exist; return false if asked to stop meanwhile."""
    answers = kafka.model_copy(update={"topic": settings.predictions.topic})
    for section, setting in ((kafka, "score.topic"), (answers, "predictions.topic")):
        if not topics.wait(consumer.client, section, lambda: not stop.is_set(), setting):
            return False
    if kafka.create_dlq:
        topics.create_dead_letter_topic(kafka)
    return True


@contextmanager
def _following(settings: Settings) -> Iterator[Follower]:
    """Follow the newest snapshot, in a thread, as the API does."""
    follower = Follower(settings)
    loop = asyncio.new_event_loop()
    task = loop.create_task(follower.follow())

    def follow() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=follow, name="follower", daemon=True)
    thread.start()
    try:
        yield follower
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
