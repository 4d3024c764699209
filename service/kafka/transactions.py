"""A producer that writes records and the offsets of what they answer in one transaction."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as At

from kaboost.service.errors import BrokerError, ConfigError
from kaboost.service.kafka.bounded import Stuck, call_bounded
from kaboost.service.kafka.letters import Headers

REQUEST_SECONDS = 5.0  # for one request to the broker; it is tried again
LATE_SECONDS = 2.0  # after which a request that has not returned by then never will
RETRY_SECONDS = 0.1
STEP_SECONDS = 12.0  # for a step; by then the broker has ended the transaction
REQUIRED_CONFIG = {
    "acks": "all",
    "enable.idempotence": True,
    # The broker ends the transaction of a process that died after so long, plus up to 10 s.
    "transaction.timeout.ms": 10_000,
    "message.timeout.ms": 10_000,
    "message.max.bytes": 1_000_000_000,  # the topic's limit applies
    "delivery.report.only.error": True,
}
DEFAULT_CONFIG = {
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
    "log_level": 2,
}
FENCED = (
    "the broker has ended the transactions of {0}: this process stood still for longer than 10 s, "
    "or another has its name; then set score.instance to a name of its own for each ({1})"
)

TOO_LARGE = (
    "{0}; raise max.message.bytes of the topic, set score.features: false, or batch.size in "
    "kafka.extra below the topic's limit"
)


class Record(NamedTuple):
    """A record to write."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


class _Abort(Exception):
    """The transaction has to be aborted, and may then be tried again."""


class _Fenced(_Abort):
    """The broker takes nothing more from this client."""


class _Stuck(_Fenced):
    """A call of this client does not return: another client has to go on."""


class Transactions:
    """Write records exactly once; one thread calls."""

    def __init__(self, client: Mapping[str, str], name: str, patience: float) -> None:
        self._name = name
        self._patience = patience
        self._undelivered = ""  # why the broker has refused a record
        self._is_too_large = False
        self._config = {
            **DEFAULT_CONFIG,
            **client,
            **REQUIRED_CONFIG,
            "transactional.id": name,
            "on_delivery": self._on_delivery,
        }
        self.producer = self._make()

    def start(self) -> None:
        """End what a former process of this name has left open, and refuse it from now on."""
        until = time.monotonic() + self._patience
        while time.monotonic() < until:
            begin = self.producer.init_transactions
            try:
                if self._repeat(lambda: begin(REQUEST_SECONDS), until - time.monotonic()):  # noqa: B023
                    return
            except _Stuck:
                self.producer = self._make()
            except _Abort as abort:
                raise BrokerError(str(abort)) from abort
        raise BrokerError(f"no transactions: no answer in {self._patience:g} s")

    def write(self, records: Sequence[Record], offsets: Sequence[At], group: Any) -> str:
        """Write all records and offsets, or nothing.

        1. Begin; write the records; wait until the broker has them.
        2. Add the offsets, in the name of the member that has read them: a former one is refused.
        3. Commit.

        Returns
        -------
        Why nothing was written; empty if all was.

        Raises
        ------
        BrokerError
            If the broker does not answer, or does not take a record of this size.
        """
        self._undelivered, self._is_too_large = "", False
        self.producer.begin_transaction()
        try:
            self._produce(records)
            self._try(self._flush)
            if self._undelivered:
                raise _Abort(self._undelivered)
            self._try(
                lambda: self.producer.send_offsets_to_transaction(
                    list(offsets), group, REQUEST_SECONDS
                )
            )
            self._try(lambda: self.producer.commit_transaction(REQUEST_SECONDS))
        except _Abort as abort:
            self._abort(abort)
            if self._is_too_large:  # it would be again
                raise BrokerError(TOO_LARGE.format(self._undelivered)) from abort
            return self._undelivered or str(abort)
        return ""

    def close(self) -> None:
        """Drop what is not committed."""
        with suppress(KafkaException):  # of a client that failed for good
            self.producer.purge()
            self.producer.poll(0)

    def _abort(self, reason: _Abort) -> None:
        """Abort the transaction; with a new client where the broker has done so, or where this one
        does not return, such as after a kill -9 of the broker: what it still sends is refused.
        """
        if not isinstance(reason, _Fenced):
            try:
                self._try(lambda: self.producer.abort_transaction(REQUEST_SECONDS))
                return
            except _Abort:
                pass  # the new client aborts it
        if not isinstance(reason, _Stuck):  # a stuck call holds its client for ever
            self.close()
        self.producer = self._make()
        self.start()

    def _make(self) -> Producer:
        try:
            return Producer(self._config)
        except KafkaException as err:
            raise ConfigError(f"kafka.extra does not fit: {err.args[0].str()}") from err

    def _produce(self, records: Sequence[Record]) -> None:
        produce, until = self.producer.produce, time.monotonic() + self._patience
        for topic, key, value, headers in records:
            while True:
                try:
                    if headers is None:
                        produce(topic, value, key)
                    else:
                        produce(topic, value, key, headers=headers)
                    break
                except BufferError as err:
                    if time.monotonic() > until:
                        raise BrokerError(f"topic {topic} takes no records") from err
                    self.producer.poll(RETRY_SECONDS)
                except KafkaException as err:
                    self._raise(err)

    def _flush(self) -> None:
        """Wait until no record is on its way."""
        if self.producer.flush(REQUEST_SECONDS):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "records not confirmed"))

    def _try(self, step: Callable[[], object]) -> None:
        """Do a step of a transaction, again while the broker asks for it.

        A client that waits for longer may wait for ever, such as after a restart of the broker.
        """
        if not self._repeat(step, STEP_SECONDS):
            raise _Fenced(f"no answer of the broker in {STEP_SECONDS:g} s")

    def _repeat(self, step: Callable[[], object], seconds: float) -> bool:
        """Do a step until it succeeds; return false if it has not after so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                call_bounded(step, REQUEST_SECONDS + LATE_SECONDS)
                return True
            except Stuck as stuck:
                raise _Stuck(str(stuck)) from stuck
            except KafkaException as err:
                error = err.args[0]
                waits = error.retriable() or error.code() == KafkaError._TIMED_OUT
                if error.fatal() or not waits:
                    self._raise(err)
            time.sleep(RETRY_SECONDS)
        return False

    def _raise(self, err: KafkaException) -> None:
        error = err.args[0]
        if error.txn_requires_abort() and not error.fatal():
            raise _Abort(error.str()) from err
        if error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            raise _Fenced(FENCED.format(self._name, error.str())) from err
        raise BrokerError(f"no transaction with the broker: {error.str()}") from err

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and not self._undelivered:
            size = len(message.value() or b"")
            self._is_too_large = error.code() == KafkaError.MSG_SIZE_TOO_LARGE
            self._undelivered = f"{message.topic()}: record of {size:,} bytes: {error.str()}"
