"""What must be before learning begins: the events' topic is there, the dead letters' as well."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it does export them
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kaboost.service.config.settings import Kafka
from kaboost.service.errors import BrokerError

ASK = 1.0  # seconds for one question while waiting
ADMIN = 15.0  # seconds for one change
# A dead letter is its record and headers, and compressed by another codec than its record was.
ROOM = 16 * 1024 * 1024

log = logging.getLogger(__name__)


def find(consumer: Consumer, topic: str) -> list[int]:
    """List the topic's partitions; KafkaException where it is missing or the broker is away."""
    metadata = consumer.list_topics(topic, timeout=ASK).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return sorted(metadata.partitions)


def wait(consumer: Consumer, kafka: Kafka, tick: Callable[[], bool]) -> list[int]:
    """Wait until the topic is there and list its partitions; none when `tick` says to stop."""
    began, answered = time.monotonic(), None
    said = ""
    while tick():
        try:
            return find(consumer, kafka.topic)
        except KafkaException as err:
            error = err.args[0]
        now = time.monotonic()
        if _is_answer(error):
            answered = answered or now
        if answered and now - answered > kafka.topic_timeout:
            raise BrokerError(
                f"topic {kafka.topic} is not there after {kafka.topic_timeout:g} s "
                f"({error.str()}): create it, or correct kafka.topic"
            )
        if not answered and now - began > kafka.broker_timeout:
            raise BrokerError(
                f"no broker at {kafka.bootstrap_servers} after {kafka.broker_timeout:g} s "
                f"({error.str()}): start it, or correct kafka.bootstrap_servers"
            )
        if said != error.name():
            said = error.name()
            log.warning("waiting for the topic", extra={"topic": kafka.topic, "reason": said})
        time.sleep(0.2)
    return []


def create_dead_letter_topic(kafka: Kafka) -> None:
    """Create the dead-letter topic where it is missing, for larger records than the source's."""
    admin = AdminClient({"log_level": 2, **kafka.client()})
    known = admin.list_topics(timeout=ADMIN).topics
    if kafka.dlq in known:
        return
    size = str(max(ROOM, 2 * _largest(admin, kafka.topic)))
    log.info("creating the dead-letter topic", extra={"topic": kafka.dlq})
    topic = NewTopic(kafka.dlq, 1, config={"max.message.bytes": size})
    try:
        admin.create_topics([topic], request_timeout=ADMIN)[kafka.dlq].result(2 * ADMIN)
    except (KafkaException, FutureTimeout) as err:
        if not _is_there(err):
            raise BrokerError(
                f"the dead-letter topic {kafka.dlq} cannot be created ({err}): create it by hand, "
                "or set kafka.create_dlq: false where the broker creates topics by itself"
            ) from err
    log.info("dead-letter topic created", extra={"topic": kafka.dlq})


def _largest(admin: AdminClient, topic: str) -> int:
    """Ask for the largest record of a topic; who may not ask gets the broker's default."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = admin.describe_configs([resource], request_timeout=ADMIN)[resource].result(ADMIN)
    except (KafkaException, FutureTimeout):
        return 1_048_588
    return int(found["max.message.bytes"].value)


def _is_answer(error: KafkaError) -> bool:
    """Tell an answer of the broker from none: the client's own errors are negative."""
    return error.code() > 0 or error.code() == KafkaError._UNKNOWN_TOPIC


def _is_there(error: BaseException) -> bool:
    exists = KafkaError.TOPIC_ALREADY_EXISTS
    return isinstance(error, KafkaException) and error.args[0].code() == exists
