"""Snapshots in a compacted topic: manifests in its partition 0, chunks of snapshots in partition 1.

- Chunks have keys of a few slots, which versions use in turn: compaction removes old versions, and
  nothing has to be deleted by a writer that may be gone.
- A manifest names the offset of the first chunk. It is written when the broker has confirmed all.
- A reader reads the last manifests, then the chunks of the newest one alone.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kaboost.service.errors import Damaged, StoreAway
from kaboost.service.kafka.snapshot_topic_setup import CHUNKS, MANIFESTS, require_topic
from kaboost.service.storage.manifest import Manifest, decode, describe
from kaboost.service.storage.snapshots import Numbering

CHUNK_BYTES = 900_000  # below the usual limit of a record, with its key
SLOTS = 4  # versions whose chunks the compacted topic has: while they come, one can be read
IN_FLIGHT = 16  # records that the producer holds
SEND_SECONDS = 30.0  # until a record that the broker does not confirm counts as not written
REQUEST_SECONDS = 2.0  # for an answer of the broker
FETCH_SECONDS = 30.0  # for all chunks of one snapshot
TAIL = 64  # manifests that a reader looks at first: that of a late writer may be the last one
MANIFEST_KEY = b"manifest"
PRODUCER = {
    "enable.idempotence": True,  # in order: no manifest comes before a chunk
    "linger.ms": 0,
    "message.timeout.ms": int(SEND_SECONDS * 1000),
    "log_level": 2,
}
CONSUMER = {
    "group.id": "kaboost-readers",  # the client wants one; nothing is committed, nobody joins it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",  # the topic was created again: whatever it has is the newest
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 20,
    "queued.max.messages.kbytes": 16_384,
    "reconnect.backoff.max.ms": 1_000,
    "log_level": 2,
}

log = logging.getLogger(__name__)


class TopicTarget:
    """Write snapshots to a topic, which is created if it is missing."""

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        self._client = client
        self._topic = topic
        self._producer: Producer | None = None

    @property
    def location(self) -> str:
        """The topic."""
        return f"kafka:{self._topic}"

    def send(self, numbering: Numbering, data: bytes, leader_epoch: int = 0) -> Manifest:
        """Write the chunks of a version, and wait until the broker has them."""
        # Two leaders in a row use other keys: a late chunk replaces none of the newer one.
        slot, offsets = numbering.version % SLOTS + SLOTS * (leader_epoch % 2), list[int]()
        pieces = range(0, max(1, len(data)), CHUNK_BYTES)
        with self._sending() as write:
            for index, start in enumerate(pieces):
                key = f"{numbering.epoch}/{slot}/{index}".encode()
                chunk = data[start : start + CHUNK_BYTES]
                write(CHUNKS, key, chunk, _chunk_headers(numbering, index), offsets.append)
        place = {"chunks": len(pieces), "offset": min(offsets)}
        return describe(numbering, data, leader_epoch, **place)

    def announce(self, manifest: Manifest) -> None:
        """Write the manifest, and wait until the broker has it."""
        with self._sending() as write:
            write(MANIFESTS, MANIFEST_KEY, manifest.encode(), {}, lambda _: None)

    def close(self) -> None:
        """Forget the producer, and what it has not written."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(REQUEST_SECONDS)
            self._producer = None

    @contextmanager
    def _sending(self) -> Iterator[Callable[..., None]]:
        """Yield what writes a record; at the end all are confirmed, or StoreAway is raised."""
        if self._producer is None:
            require_topic(self._client, self._topic)
            self._producer = Producer({**self._client, **PRODUCER})
        producer, failures = self._producer, list[str]()

        def write(
            partition: int,
            key: bytes,
            value: bytes,
            headers: Mapping[str, bytes],
            confirmed: Callable[[int], None],
        ) -> None:
            def report(error: KafkaError | None, message: Message) -> None:
                if error is not None:
                    failures.append(error.str())
                else:
                    confirmed(message.offset() or 0)

            while len(producer) >= IN_FLIGHT and not failures:
                producer.poll(0.1)
            producer.produce(
                self._topic, value, key, partition, report, headers=list(headers.items())
            )

        try:
            yield write
            left = producer.flush(SEND_SECONDS + REQUEST_SECONDS)
        except (KafkaException, BufferError) as err:
            failures.append(str(err))
            left = 0
        if failures or left:
            self.close()  # a producer that has lost a record in a row may be of no use any more
            reason = failures[0] if failures else f"{left} records are not confirmed"
            raise StoreAway(
                f"{self.location} cannot be written ({reason}): see whether the broker answers and "
                "its rights, and that the topic takes records of 1 MB"
            )


class TopicSource:
    """Read manifests as they come, and the chunks of those that are wanted."""

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        config = {**client, **CONSUMER}
        self._manifests, self._chunks = Consumer(config), Consumer(config)
        self._is_assigned = False
        self._checked = 0.0  # when the broker was last seen to answer

    @property
    def location(self) -> str:
        """The topic."""
        return f"kafka:{self._topic}"

    def newest(self, seconds: float) -> Manifest | None:
        """Wait for manifests, and return the newest of those that have come."""
        with self._answers():
            messages = self._more(seconds) if self._is_assigned else self._begin()
            records = [each for each in messages if _is_record(each)]
            now = time.monotonic()
            if not records and now - self._checked > REQUEST_SECONDS / 2.0:
                self._range(self._manifests, MANIFESTS)  # silence of a learner, or of the broker?
            self._checked = now if records else self._checked
        return _newest([value for each in records if (value := each.value()) is not None])

    def fetch(self, manifest: Manifest) -> bytes:
        """Read the chunks from the offset that the manifest names; all, where the topic was copied
        and has other offsets.
        """
        with self._answers():
            low, high = self._range(self._chunks, CHUNKS)
            try:
                count, offset = (int(manifest.place[key]) for key in ("chunks", "offset"))
            except (KeyError, ValueError, TypeError) as err:
                raise Damaged(f"the manifest names no chunks: {manifest.place}") from err
            found = self._read(manifest.numbering, count, max(low, min(offset, high)), high)
            if len(found) < count and offset > low:
                found = self._read(manifest.numbering, count, low, high)
        if len(found) < count:
            version = manifest.numbering.version
            raise Damaged(f"snapshot {version} has {len(found)} of its {count} chunks")
        return b"".join(found[index] for index in range(count))

    def close(self) -> None:
        """Leave the broker."""
        self._manifests.close()
        self._chunks.close()

    def _begin(self) -> list[Message]:
        """Read the last manifests, all of them: the first ones name chunks that may be gone."""
        low, high = self._range(self._manifests, MANIFESTS)
        start = max(low, high - TAIL)
        self._manifests.assign([TopicPartition(self._topic, MANIFESTS, start)])
        self._is_assigned = True
        messages: list[Message] = []
        while low < high and (message := self._manifests.poll(REQUEST_SECONDS)) is not None:
            messages.append(message)
            if not _is_record(message) or (message.offset() or 0) + 1 >= high:
                break
        return messages

    def _more(self, seconds: float) -> list[Message]:
        """Wait for messages, and read those that have come by then."""
        first = self._manifests.poll(seconds)
        return [] if first is None else [first, *self._manifests.consume(TAIL, 0)]

    def _read(self, numbering: Numbering, count: int, start: int, end: int) -> dict[int, bytes]:
        """Read the chunks of a version between two offsets, by their index."""
        found: dict[int, bytes] = {}
        deadline = time.monotonic() + FETCH_SECONDS
        self._chunks.assign([TopicPartition(self._topic, CHUNKS, start)])
        try:
            while start < end and len(found) < count:
                message = self._chunks.poll(REQUEST_SECONDS)
                if time.monotonic() > deadline:
                    raise StoreAway(f"{self.location} gives no chunks for {FETCH_SECONDS:g} s")
                if message is None:
                    self._range(self._chunks, CHUNKS)
                elif not _is_record(message):
                    break  # the end of the partition: compaction has removed what came before it
                else:
                    start = (message.offset() or 0) + 1
                    index = _index_of(message, numbering)
                    if index is not None and index < count:
                        found[index] = message.value() or b""
        finally:
            self._chunks.unassign()
        return found

    def _range(self, consumer: Consumer, partition: int) -> tuple[int, int]:
        """Ask the broker for the first and the next offset."""
        of = TopicPartition(self._topic, partition)
        low, high = consumer.get_watermark_offsets(of, REQUEST_SECONDS, cached=False)
        self._checked = time.monotonic()
        return low, high

    @contextmanager
    def _answers(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as err:
            error = err.args[0]
            raise StoreAway(
                f"{self.location} cannot be read ({error.str()}): see whether the broker answers, "
                "and whether the learner has created the topic (snapshots.publish)"
            ) from err


def _newest(values: Sequence[bytes]) -> Manifest | None:
    """Return the newest manifest, of equal versions the last; Damaged if none can be read."""
    found, damage = list[Manifest](), None
    for value in values:
        try:
            found.append(decode(value))
        except Damaged as err:
            damage = err
    if damage is not None and not found:
        raise damage
    return max(reversed(found), key=lambda each: (each.term, each.numbering), default=None)


def _chunk_headers(numbering: Numbering, index: int) -> dict[str, bytes]:
    text = f"{numbering.epoch}/{numbering.version}/{index}"
    return {"kaboost.chunk": text.encode()}


def _index_of(message: Message, numbering: Numbering) -> int | None:
    """Return which chunk of a version a record is; None if it is of another one, or none at all."""
    headers: dict[str, Any] = dict(message.headers() or ())
    try:
        epoch, version, index = map(int, headers["kaboost.chunk"].split(b"/"))
    except (KeyError, ValueError, AttributeError):
        return None
    return index if numbering == (epoch, version) and index >= 0 else None


def _is_record(message: Message) -> bool:
    """Return whether a message is a record; raise what it reports instead, but not an end."""
    error = message.error()
    if error is None:
        return True
    if error.code() == KafkaError._PARTITION_EOF:
        return False
    raise KafkaException(error)
