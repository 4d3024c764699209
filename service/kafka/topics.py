"""The topics that must exist before learning begins: the events' and the dead letters'."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it does export them
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kaboost.service.config.settings import Kafka
from kaboost.service.errors import BrokerError

REQUEST_SECONDS = 1.0  # for one request while waiting
ADMIN_SECONDS = 15.0  # for one change
DEFAULT_RECORD_BYTES = 1_048_588  # the broker's default limit of a record
# A dead letter is its record and headers, and may be compressed by another codec.
MIN_LETTER_BYTES = 16 * 1024 * 1024

log = logging.getLogger(__name__)


def find(consumer: Consumer, topic: str) -> list[int]:
    """List the topic's partitions; KafkaException where it is missing or the broker is away."""
    metadata = consumer.list_topics(topic, timeout=REQUEST_SECONDS).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return sorted(metadata.partitions)


def wait(
    consumer: Consumer,
    kafka: Kafka,
    tick: Callable[[], bool],
    setting: str = "kafka.topic",
    refusal: Callable[[], str] = str,
) -> list[int]:
    """Wait until the topic exists and list its partitions; none when `tick` returns false.

    `setting` is where its name is from, `refusal` returns what TLS or SASL refused, if anything:
    both for the message.
    """
    began, answered = time.monotonic(), None
    logged = ""
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
                f"({error.str()}): create it, or correct {setting}"
            )
        if not answered and now - began > kafka.broker_timeout:
            refused = refusal()
            remedy = "correct kafka.extra" if refused else "start it"
            raise BrokerError(
                f"no broker at {kafka.bootstrap_servers} after {kafka.broker_timeout:g} s "
                f"({refused or error.str()}): {remedy}, or correct kafka.bootstrap_servers"
            )
        if logged != error.name():
            logged = error.name()
            log.warning("waiting for the topic", extra={"topic": kafka.topic, "reason": logged})
        time.sleep(0.2)
    return []


def describe_id(admin: AdminClient, topic: str, patience: float = 0.0) -> str | None:
    """Return the topic's id, which changes when it is created again; None where the broker has no
    such ids, or does not answer, which is asked again for `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            described = admin.describe_topics(
                TopicCollection([topic]), request_timeout=REQUEST_SECONDS
            )
            return str(described[topic].result(2 * REQUEST_SECONDS).topic_id)
        except KafkaException as err:
            if _is_answer(err.args[0]) or err.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
                return None
        except FutureTimeout:
            pass
        if time.monotonic() >= deadline:
            return None


def cluster_id(consumer: Consumer, topic: str) -> str | None:
    """Return the id of the cluster; None where the broker does not answer."""
    try:
        found: str | None = consumer.list_topics(topic, timeout=REQUEST_SECONDS).cluster_id
    except KafkaException:
        return None
    return found


def create_dead_letter_topic(kafka: Kafka) -> None:
    """Create the dead-letter topic if it is missing, for larger records than the source's."""
    admin = AdminClient({"log_level": 2, **kafka.client()})
    known = admin.list_topics(timeout=ADMIN_SECONDS).topics
    if kafka.dlq in known:
        return
    size = str(max(MIN_LETTER_BYTES, 2 * _largest(admin, kafka.topic)))
    log.info("creating the dead-letter topic", extra={"topic": kafka.dlq})
    topic = NewTopic(kafka.dlq, 1, config={"max.message.bytes": size})
    try:
        admin.create_topics([topic], request_timeout=ADMIN_SECONDS)[kafka.dlq].result(
            2 * ADMIN_SECONDS
        )
    except (KafkaException, FutureTimeout) as err:
        if not _exists(err):
            raise BrokerError(
                f"the dead-letter topic {kafka.dlq} cannot be created ({err}): create it by hand, "
                "or set kafka.create_dlq: false where the broker creates topics by itself"
            ) from err
    log.info("dead-letter topic created", extra={"topic": kafka.dlq})


def _largest(admin: AdminClient, topic: str) -> int:
    """Return the largest record of a topic; without the right to ask, the broker's default."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        configs = admin.describe_configs([resource], request_timeout=ADMIN_SECONDS)[
            resource
        ].result(ADMIN_SECONDS)
    except (KafkaException, FutureTimeout):
        return DEFAULT_RECORD_BYTES
    return int(configs["max.message.bytes"].value)


def _is_answer(error: KafkaError) -> bool:
    """Return whether the broker answered: errors of the client itself are negative."""
    return error.code() > 0 or error.code() == KafkaError._UNKNOWN_TOPIC


def _exists(error: BaseException) -> bool:
    code = KafkaError.TOPIC_ALREADY_EXISTS
    return isinstance(error, KafkaException) and error.args[0].code() == code
