"""The election of a leader: the member of a group that reads the one partition of a topic leads."""

import logging
import threading
from concurrent.futures import TimeoutError as FutureTimeout
from threading import Event

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kaboost.service.config.settings import Kafka
from kaboost.service.config.standby import Standby
from kaboost.service.errors import BrokerError, ConfigError

POLL_SECONDS = 0.1
CLOSE_SECONDS = 5.0  # for leaving the group
ADMIN_SECONDS = 10.0
REQUIRED_CONFIG = {
    "enable.auto.commit": False,
    "auto.offset.reset": "latest",
    # A member that joins takes no partition from the one that has it.
    "partition.assignment.strategy": "cooperative-sticky",
    "log_level": 2,
}
_RIGHTS = "give this user the right to read the topic in the group"
REFUSALS = {  # what no retry cures, and its remedy
    KafkaError.GROUP_AUTHORIZATION_FAILED: _RIGHTS,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _RIGHTS,
    KafkaError.INVALID_SESSION_TIMEOUT: "correct standby.session_seconds, or "
    "group.min.session.timeout.ms of the broker",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "a consumer of another kind is in the group: end it",
}

log = logging.getLogger(__name__)


class Election:
    """Take part in the election, from a thread, while entered."""

    def __init__(self, kafka: Kafka, standby: Standby, stop: Event) -> None:
        self.topic = topic_of(kafka, standby)
        self.group = f"{kafka.group_id}.leader"
        self._stop = stop
        self._closing = Event()
        self._leads = Event()
        self._term = Event()  # that ends with the leadership, or with the process
        self._logged: set[int] = set()  # codes of errors
        self._fault: Exception | None = None  # that has ended the thread
        self.problem = ""  # why nobody may be elected, as far as the client knows
        milliseconds = int(1000 * standby.session_seconds)
        config = {
            **kafka.client(),
            **REQUIRED_CONFIG,
            "group.id": self.group,
            "session.timeout.ms": milliseconds,
            "heartbeat.interval.ms": min(1000, milliseconds // 4),
            "error_cb": self._on_error,
        }
        try:
            self._consumer = Consumer(config)
        except KafkaException as err:
            raise ConfigError(f"kafka.extra does not fit: {err.args[0].str()}") from err
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    def __enter__(self) -> "Election":
        self._consumer.subscribe(
            [self.topic], on_assign=self._on_assign, on_revoke=self._on_loss, on_lost=self._on_loss
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the group, so that another leads at once; a lost broker is not waited for."""
        self._closing.set()
        self._thread.join(CLOSE_SECONDS)

    @property
    def leads(self) -> bool:
        """Whether this process is elected; raise what makes that impossible."""
        if isinstance(self._fault, ConfigError):
            raise self._fault
        if self._fault is not None:
            raise BrokerError(f"the election has ended: {self._fault!r}") from self._fault
        return self._leads.is_set()

    def begin_term(self) -> Event:
        """Return what is set once this leadership, or the process, has to end."""
        self._term = Event()
        if not self._leads.is_set():
            self._term.set()
        return self._term

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._poll()
                if self._stop.is_set():
                    self._term.set()
            self._consumer.close()
        except Exception as err:  # boundary: without this thread no loss would be noticed
            self._fault = err
            if not isinstance(err, ConfigError):
                log.exception("election ended")
        finally:
            self._end_leadership()

    def _poll(self) -> None:
        try:
            message = self._consumer.poll(POLL_SECONDS)  # records of the topic mean nothing
            error = message.error() if message is not None else None
        except KafkaException as err:
            error = err.args[0]
        if error is None:
            return
        self._on_error(error)
        if error.code() in REFUSALS:
            raise ConfigError(
                f"the election in group {self.group} on topic {self.topic} is refused "
                f"({error.str()}): {REFUSALS[error.code()]}"
            )

    def _on_assign(self, _: Consumer, partitions: list[At]) -> None:
        self._consumer.incremental_assign(partitions)
        if any(at.partition == 0 for at in partitions):
            self._logged.clear()
            self.problem = ""
            self._leads.set()
            log.info("elected as leader", extra={"topic": self.topic})

    def _on_loss(self, _: Consumer, partitions: list[At]) -> None:
        if any(at.partition == 0 for at in partitions):
            self._end_leadership()  # first: what follows may raise
            if not self._closing.is_set():
                log.warning("leadership lost", extra={"topic": self.topic})
        self._consumer.incremental_unassign(partitions)

    def _end_leadership(self) -> None:
        self._leads.clear()
        self._term.set()

    def _on_error(self, error: KafkaError) -> None:
        self.problem = error.str()
        if error.code() not in self._logged:
            self._logged.add(error.code())
            log.warning("election client error", extra={"reason": error.str()})


def topic_of(kafka: Kafka, standby: Standby) -> str:
    """Return the name of the topic of the election."""
    return standby.topic or f"{kafka.topic}.leader"


def create_topic(kafka: Kafka, name: str) -> None:
    """Create the topic of the election if it is missing; refuse one of several partitions."""
    admin = AdminClient({"log_level": 2, **kafka.client()})
    try:
        known = admin.list_topics(timeout=ADMIN_SECONDS).topics
        if name not in known:
            created = admin.create_topics([NewTopic(name, 1)], request_timeout=ADMIN_SECONDS)
            created[name].result(2 * ADMIN_SECONDS)
            return
    except (KafkaException, FutureTimeout) as err:
        exists = KafkaError.TOPIC_ALREADY_EXISTS
        if not (isinstance(err, KafkaException) and err.args[0].code() == exists):
            raise BrokerError(
                f"topic {name} (standby.topic) cannot be found or created ({err}): see whether the "
                "broker answers, or create it by hand, with one partition"
            ) from err
        return
    if len(known[name].partitions) != 1:
        raise ConfigError(
            f"topic {name} (standby.topic) has {len(known[name].partitions)} partitions: two "
            "learners would lead; name one of one partition"
        )
