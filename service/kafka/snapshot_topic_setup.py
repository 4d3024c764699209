"""The topic of snapshots: created compacted, with two partitions; an unfit one is refused."""

import logging
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # it does export them
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kaboost.service.errors import StoreAway

MANIFESTS, CHUNKS = 0, 1  # partitions
ADMIN_SECONDS = 10.0
TOPIC = {
    "cleanup.policy": "compact",
    # The newest segment is never compacted: small and short-lived ones keep the topic small.
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}

log = logging.getLogger(__name__)


def require_topic(client: Mapping[str, str], topic: str) -> None:
    """Create the topic if it is missing; raise StoreAway if it cannot be used, or not now."""
    admin = AdminClient({"log_level": 2, **client})
    try:
        known = admin.list_topics(timeout=ADMIN_SECONDS).topics.get(topic)
        if known is None:
            wanted = NewTopic(topic, 2, config=TOPIC)
            admin.create_topics([wanted], request_timeout=ADMIN_SECONDS)[topic].result(
                2.0 * ADMIN_SECONDS
            )
            log.info("topic of snapshots created", extra={"topic": topic})
            return
    except (KafkaException, FutureTimeout) as err:
        code = KafkaError.TOPIC_ALREADY_EXISTS
        if isinstance(err, KafkaException) and err.args[0].code() == code:
            return
        raise StoreAway(
            f"topic {topic} of snapshots.publish cannot be created or looked at ({err}): see "
            "whether the broker answers, or create it with 2 partitions and cleanup.policy=compact"
        ) from err
    if len(known.partitions) <= CHUNKS:
        raise StoreAway(
            f"topic {topic} of snapshots.publish has {len(known.partitions)} partition: create it "
            "with 2 and cleanup.policy=compact, or name another"
        )
    _check_policy(admin, topic)


def _check_policy(admin: AdminClient, topic: str) -> None:
    """Log where the topic would forget the newest snapshot, or never an old one."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        described = admin.describe_configs([resource], request_timeout=ADMIN_SECONDS)
        policy = described[resource].result(ADMIN_SECONDS)["cleanup.policy"].value
    except (KafkaException, FutureTimeout):
        return  # without the right to look
    if policy != "compact":
        fields = {"topic": topic, "policy": policy}
        log.warning("topic of snapshots: set cleanup.policy=compact", extra=fields)
