"""Read the dead-letter topic with an ordinary consumer."""

from typing import NamedTuple

from confluent_kafka import Consumer, Message, TopicPartition

from kaboost.service.config.settings import Kafka


class DeadLetter(NamedTuple):
    """One record of the dead-letter topic."""

    value: bytes
    code: str
    reason: str
    offset: int  # of the event in its own topic


def read(kafka: Kafka, offset: int, timeout: float = 0.2) -> list[DeadLetter]:
    """Read the dead letters from the beginning, up to the one of the event at `offset`."""
    consumer = Consumer(
        {"group.id": "kaboost-demo", "auto.offset.reset": "earliest", **kafka.client()}
    )
    try:
        partitions = consumer.list_topics(kafka.dlq, timeout=5).topics[kafka.dlq].partitions
        consumer.assign([TopicPartition(kafka.dlq, number, 0) for number in partitions])
        return _read_until(consumer, offset, timeout)
    finally:
        consumer.close()


def _read_until(consumer: Consumer, offset: int, timeout: float) -> list[DeadLetter]:
    letters: list[DeadLetter] = []
    while message := consumer.poll(timeout):
        if message.error() is None:
            letters.append(_parse(message))
            if letters[-1].offset == offset:
                break
    return letters


def _parse(message: Message) -> DeadLetter:
    headers = dict(message.headers() or [])
    return DeadLetter(
        value=message.value() or b"",
        code=_text(headers.get("kaboost.error.code")),
        reason=_text(headers.get("__connect.errors.exception.message")),
        offset=int(_text(headers.get("__connect.errors.offset")) or -1),
    )


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
