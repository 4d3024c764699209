"""Checks of the broker: reached, topics and partitions, rights."""

from collections.abc import Collection
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]

from kaboost.service.config.settings import Settings
from kaboost.service.onboarding.report import Check
from kaboost.service.onboarding.topic_sample import REQUEST_SECONDS

SILENT = {"log_level": "0", "socket.timeout.ms": "5000"}


def check_broker(settings: Settings) -> list[Check]:
    """Look at the broker, the topics and the rights on them."""
    kafka = settings.kafka
    client = AdminClient({**SILENT, **kafka.client()})
    try:
        metadata = client.list_topics(timeout=REQUEST_SECONDS)
    except KafkaException as err:
        return [
            Check(
                "broker",
                "red",
                f"no answer from {kafka.bootstrap_servers} within {REQUEST_SECONDS:g} s: "
                f"{err.args[0].str()}",
                "start it, or correct kafka.bootstrap_servers and kafka.extra",
            )
        ]
    count = len(metadata.brokers)
    checks = [Check("broker", "green", f"{count} at {kafka.bootstrap_servers}")]
    known = {name: len(topic.partitions) for name, topic in metadata.topics.items()}
    names = {"topic": kafka.topic, "labels topic": settings.labels.topic}
    for what, name in names.items():
        if name is not None:
            checks += _check_source(client, what, name, known)
    checks += _check_dead_letters(client, settings, known)
    if settings.predictions.topic is not None:
        checks += _check_target(client, "predictions topic", settings.predictions.topic, known)
    return checks


def _check_source(client: AdminClient, what: str, name: str, known: dict[str, int]) -> list[Check]:
    if name not in known:
        key = "kafka.topic" if what == "topic" else "labels.topic"
        return [
            _missing(what, name, f"create it, or correct {key}; `serve` waits for it, then ends")
        ]
    return [_exists(what, name, known), _check_right(client, name, AclOperation.READ)]


def _check_target(client: AdminClient, what: str, name: str, known: dict[str, int]) -> list[Check]:
    if name not in known:
        return [_missing(what, name, "create it, or correct predictions.topic")]
    return [_exists(what, name, known), _check_right(client, name, AclOperation.WRITE)]


def _check_dead_letters(
    client: AdminClient, settings: Settings, known: dict[str, int]
) -> list[Check]:
    what, name = "dead-letter topic", settings.kafka.dlq
    if name in known:
        return [_exists(what, name, known), _check_right(client, name, AclOperation.WRITE)]
    if not settings.kafka.create_dlq:
        detail = f"{name} does not exist; with kafka.create_dlq: false the broker must create it"
        remedy = (
            "nothing, if the broker creates topics by itself (auto.create.topics.enable); else "
            "create it, or learning pauses at the first dead letter"
        )
        return [Check(what, "yellow", detail, remedy)]
    allowed = _cluster_operations(client)
    if allowed is not None and AclOperation.CREATE not in allowed:
        detail = (
            f"{name} does not exist, and this user may not create topics by the cluster's rights"
        )
        return [Check(what, "yellow", detail, f"create {name}, or grant CREATE on it")]
    return [Check(what, "green", f"{name} does not exist yet; the learner creates it")]


def _exists(what: str, name: str, known: dict[str, int]) -> Check:
    number = known[name]
    return Check(what, "green", f"{name} has {number} partition{'s' if number > 1 else ''}")


def _missing(what: str, name: str, remedy: str) -> Check:
    return Check(what, "red", f"{name} does not exist, or this user may not describe it", remedy)


def _check_right(client: AdminClient, topic: str, operation: AclOperation) -> Check:
    name = f"right to {operation.name.lower()} {topic}"
    allowed = _topic_operations(client, topic)
    if allowed is None:
        remedy = f"if learning stops with an authorisation error, grant {operation.name} on {topic}"
        return Check(name, "yellow", "the broker does not report rights", remedy)
    if operation in allowed:
        return Check(name, "green", "granted")
    return Check(name, "red", "not granted", f"grant {operation.name} on topic {topic}")


def _topic_operations(client: AdminClient, topic: str) -> Collection[AclOperation] | None:
    try:
        described = client.describe_topics(
            TopicCollection([topic]),
            include_authorized_operations=True,
            request_timeout=REQUEST_SECONDS,
        )
        topics = described[topic].result(2 * REQUEST_SECONDS)
        operations: Collection[AclOperation] | None = topics.authorized_operations
    except (KafkaException, FutureTimeout):
        return None
    return operations


def _cluster_operations(client: AdminClient) -> Collection[AclOperation] | None:
    try:
        described = client.describe_cluster(
            include_authorized_operations=True, request_timeout=REQUEST_SECONDS
        )
        cluster = described.result(2 * REQUEST_SECONDS)
        operations: Collection[AclOperation] | None = cluster.authorized_operations
    except (KafkaException, FutureTimeout):
        return None
    return operations
