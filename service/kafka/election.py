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

log = logging.getLogger(__name__)


class Election:
    """Take part in the election, from a thread, while entered."""

    def __init__(self, kafka: Kafka, standby: Standby, stop: Event) -> None:
        self.topic = standby.topic or f"{kafka.topic}.leader"
        self._kafka = kafka
        self._stop = stop
        self._closing = Event()
        self._leads = Event()
        self._term = Event()  # that ends with the leadership, or with the process
        self._logged: set[int] = set()  # codes of errors
        milliseconds = int(1000 * standby.session_seconds)
        config = {
            **kafka.client(),
            **REQUIRED_CONFIG,
            "group.id": f"{kafka.group_id}.leader",
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
        create_topic(self._kafka, self.topic)
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
        """Whether this process is elected."""
        return self._leads.is_set()

    def begin_term(self) -> Event:
        """Return what is set once this leadership, or the process, has to end."""
        self._term = Event()
        if not self._leads.is_set():
            self._term.set()
        return self._term

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._consumer.poll(POLL_SECONDS)  # records of the topic mean nothing
            except KafkaException as err:
                log.warning("trouble with the election", extra={"reason": err.args[0].str()})
            if self._stop.is_set():
                self._term.set()
        self._consumer.close()

    def _on_assign(self, _: Consumer, partitions: list[At]) -> None:
        self._consumer.incremental_assign(partitions)
        if any(at.partition == 0 for at in partitions):
            self._logged.clear()
            self._leads.set()
            log.info("elected as leader", extra={"topic": self.topic})

    def _on_loss(self, _: Consumer, partitions: list[At]) -> None:
        self._consumer.incremental_unassign(partitions)
        if any(at.partition == 0 for at in partitions):
            self._leads.clear()
            self._term.set()
            if not self._closing.is_set():
                log.warning("leadership lost", extra={"topic": self.topic})

    def _on_error(self, error: KafkaError) -> None:
        if error.code() not in self._logged:
            self._logged.add(error.code())
            log.warning("trouble with the election", extra={"reason": error.str()})


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
