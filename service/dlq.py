"""Look at the topic of dead letters, and write their records to the topics they came from again."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kaboost.service.config.settings import Kafka, Settings
from kaboost.service.errors import BrokerError, ConfigError
from kaboost.service.kafka.letters import REPLAYED_FROM, DeadLetter, Origin, read_letter
from kaboost.service.storage.replayed import ReplayedOrigins

FOREIGN = "foreign"  # the code of records on the topic that no learner has written
ANSWER_SECONDS = 10.0  # of the broker, for the next record
BATCH = 500  # records in one call of the client
FILTERS = "reason=CODE, from=TOPIC[PARTITION]@OFFSET or the beginning of it, since=TIME, until=TIME"

Row = dict[str, Any]


class LetterFilter(NamedTuple):
    """Which dead letters are meant: all conditions hold, of one key any of its values."""

    reasons: Sequence[str] = ()
    origins: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Read `key=value` texts; raise ConfigError for another key or an unusable value."""
        found: dict[str, Any] = {"reasons": [], "origins": []}
        for text in texts:
            key, _, value = text.partition("=")
            if key == "reason" and value:
                found["reasons"].append(value)
            elif key == "from" and value:
                found["origins"].append(value)
            elif key in ("since", "until"):
                found[key] = _moment(text, value)
            else:
                raise ConfigError(f"--filter {text}: write {FILTERS}")
        return cls(**found)

    def matches(self, letter: DeadLetter) -> bool:
        """Return whether a dead letter is meant."""
        if self.reasons and letter.code not in self.reasons:
            return False
        if self.origins and not any(_is_from(letter.origin, text) for text in self.origins):
            return False
        if self.since is None and self.until is None:
            return True
        try:
            at = datetime.fromisoformat(letter.failed_at)
        except ValueError:
            return False
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


class Replayed(NamedTuple):
    """What became of the dead letters of one replay."""

    replayed: int = 0
    repeated: int = 0  # of an event that this replay has written already
    filtered: int = 0
    foreign: int = 0  # no dead letters of ours, or of topics that are not read
    by_code: dict[str, int] = {}  # noqa: RUF012 # of the replayed ones


def read_letters(kafka: Kafka) -> Iterator[DeadLetter | None]:
    """Yield the dead letters that are there now, None for each record that is none of ours."""
    for message in _read_all(kafka, kafka.dlq):
        yield read_letter(message)


def group(letters: Iterable[DeadLetter | None], wanted: LetterFilter) -> list[Row]:
    """Count dead letters by their code, the most frequent first, each with its newest one."""
    counts: Counter[str] = Counter()
    newest: dict[str, DeadLetter] = {}
    for letter in letters:
        if letter is None:
            counts[FOREIGN] += not (wanted.reasons or wanted.origins)
        elif wanted.matches(letter):
            counts[letter.code] += 1
            before = newest.get(letter.code)
            if before is None or letter.failed_at >= before.failed_at:
                newest[letter.code] = letter
    rows = []
    for code, count in counts.most_common():
        last = newest.get(code)
        row: Row = {"code": code, "letters": count, "newest": "", "from": "", "reason": ""}
        if last is not None:
            row |= {"newest": last.failed_at, "from": str(last.origin)}
            row["reason"] = f"{code}: {last.remedy}"
        if count:
            rows.append(row)
    return rows


def find(letters: Iterable[DeadLetter | None], place: Origin) -> DeadLetter | None:
    """Return the newest dead letter of an event, or the one at a place of the letters' topic."""
    found = None
    for letter in letters:
        if letter is not None and place in (letter.origin, letter.first_origin, letter.place):
            found = letter
    return found


def describe(letter: DeadLetter, *, reveal: bool) -> list[Row]:
    """List what a dead letter is; its key, headers and content only where they are asked for."""
    rows: list[Row] = [
        {"key": "code", "value": letter.code},
        {"key": "remedy", "value": letter.remedy},
        {"key": "from", "value": str(letter.origin)},
        {"key": "first from", "value": str(letter.first_origin)},
        {"key": "dead letter", "value": str(letter.place)},
        {"key": "failed at", "value": letter.failed_at},
    ]
    rows += [{"key": key, "value": value} for key, value in letter.reason.items()]
    rows.append({"key": "bytes", "value": None if letter.value is None else len(letter.value)})
    if not reveal:
        hidden = "hidden: privacy.fields is set; --reveal shows it"
        return [*rows, {"key": "record", "value": hidden}]
    rows += [{"key": f"header {name}", "value": _text(value)} for name, value in letter.headers]
    rows.append({"key": "record key", "value": _text(letter.key)})
    return [*rows, {"key": "record", "value": _text(letter.value)}]


def replay(
    settings: Settings,
    letters: Iterable[DeadLetter | None],
    wanted: LetterFilter,
    *,
    dry_run: bool = False,
) -> Replayed:
    """Write the records of dead letters to the partitions they came from, in their order.

    A header carries the first origin of each, by which the learner learns it once. So a replay that
    was interrupted is simply run again.
    """
    topics = {settings.kafka.topic, settings.labels.topic}
    counts: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    written = ReplayedOrigins()
    with _Writer(settings.kafka, dry_run=dry_run) as writer:
        for letter in letters:
            if letter is None or letter.first_origin.topic not in topics:
                counts["foreign"] += 1
            elif not wanted.matches(letter):
                counts["filtered"] += 1
            elif letter.first_origin in written:
                counts["repeated"] += 1
            else:
                writer.write(letter)
                written.add(letter.first_origin)
                counts["replayed"] += 1
                codes[letter.code] += 1
    return Replayed(**counts, by_code=dict(codes.most_common()))


class _Writer:
    """Write records and require that the broker has all of them."""

    def __init__(self, kafka: Kafka, *, dry_run: bool) -> None:
        required = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": 30_000}
        sizes = {"message.max.bytes": 1_000_000_000, "compression.type": "zstd"}
        client = {"log_level": 2, **kafka.client(), **required, **sizes}
        self._producer = None if dry_run else Producer(client)
        self._failed: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._producer is not None:
            left = self._producer.flush(30.0)
            if error is None:
                self._require_written(left)

    def write(self, letter: DeadLetter) -> None:
        """Write the record of a dead letter; wait while much is on its way."""
        if self._producer is None:
            return
        origin = letter.first_origin
        kept = [(name, value) for name, value in letter.headers if name != REPLAYED_FROM]
        headers = [*kept, (REPLAYED_FROM, str(origin))]
        while True:
            self._producer.poll(0)
            self._require_written(0)
            try:
                self._producer.produce(
                    origin.topic,
                    letter.value,
                    letter.key,
                    origin.partition,
                    headers=headers,
                    on_delivery=lambda err, _: self._note(origin, err),
                    timestamp=letter.timestamp or 0,  # 0 is now
                )
            except BufferError:
                self._producer.poll(0.5)
            except KafkaException as err:
                self._note(origin, err.args[0])
                self._require_written(0)
            else:
                return

    def _note(self, origin: Origin, error: KafkaError | None) -> None:
        if error is not None and self._failed is None:
            self._failed = f"the record of {origin} cannot be written: {error.str()}"

    def _require_written(self, left: int) -> None:
        failed = self._failed or (f"{left} records are not confirmed" if left else "")
        if failed:
            raise BrokerError(
                f"{failed}; correct that, then replay again: what has been replayed is not learned "
                "twice"
            )


def _read_all(kafka: Kafka, topic: str) -> Iterator[Message]:
    """Yield the records of a topic from its first to those that are the last ones now."""
    client = {"log_level": 2, **kafka.client()}
    required = {"group.id": kafka.group_id, "enable.auto.commit": False}
    more = {"enable.partition.eof": True, "auto.offset.reset": "earliest"}
    consumer = Consumer({**client, **required, **more})
    try:
        ends = _ends(consumer, topic)
        consumer.assign([TopicPartition(topic, p, low) for p, (low, high) in ends.items()])
        unread = {partition for partition, (low, high) in ends.items() if low < high}
        answered = time.monotonic()
        while unread:
            messages = consumer.consume(BATCH, 0.5)
            if messages:
                answered = time.monotonic()
            elif time.monotonic() - answered > ANSWER_SECONDS:
                raise BrokerError(f"{topic} gave no record in {ANSWER_SECONDS:g} s: try again")
            for message in messages:
                partition, offset = message.partition() or 0, message.offset() or 0
                if message.error() is not None:
                    _check(message.error(), topic)
                    unread.discard(partition)  # its end: a transaction's mark may be the last one
                    continue
                if offset < ends[partition][1]:
                    yield message
                if offset >= ends[partition][1] - 1:
                    unread.discard(partition)
    except KafkaException as err:
        raise BrokerError(f"{kafka.bootstrap_servers}: {err.args[0].str()}") from err
    finally:
        consumer.close()


def _ends(consumer: Consumer, topic: str) -> dict[int, tuple[int, int]]:
    metadata = consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
    if metadata.error is not None:
        raise BrokerError(
            f"topic {topic} cannot be read ({metadata.error.str()}): no learner has written a dead "
            "letter yet, or kafka.topic or kafka.dlq_topic is another one"
        )
    ends: Callable[[TopicPartition, float], tuple[int, int]] = consumer.get_watermark_offsets
    return {p: ends(TopicPartition(topic, p), ANSWER_SECONDS) for p in metadata.partitions}


def _check(error: KafkaError | None, topic: str) -> None:
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise BrokerError(f"{topic}: {error.str()}")


def _moment(text: str, value: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as err:
        raise ConfigError(f"--filter {text}: write an RFC 3339 time") from err
    if moment.tzinfo is None:
        raise ConfigError(f"--filter {text}: the time needs a UTC offset: end it with Z or +01:00")
    return moment


def _is_from(origin: Origin, text: str) -> bool:
    topic, partition = origin.topic, f"{origin.topic}[{origin.partition}]"
    return text in (topic, partition, str(origin))


def _text(data: bytes | str | None) -> str | None:
    """Return text as it is, and other bytes as a JSON string with escapes."""
    if data is None or isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return json.dumps(data.decode("latin-1"))
