"""What learners that take turns do after a loss: without new processes."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kaboost.service.admin.sending import command_line
from kaboost.service.config.settings import Kafka, Settings
from kaboost.service.config.standby import Standby
from kaboost.service.errors import BrokerError, ConfigError, StoreAway, Superseded
from kaboost.service.kafka.bounded import Stuck, call_bounded
from kaboost.service.kafka.election import Election
from kaboost.service.learner import standby
from kaboost.service.learner.takeover import no_report
from kaboost.service.storage.commands import CommandQueue
from kaboost.service.storage.led_store import LedCheckpointStore
from kaboost.service.storage.lock import FolderLock
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.kafka.broker import Reachable
from tests.kafka.client import create_topic
from tests.service.learning import events, gauge, learned, learning, rows, until

LOST = object()


def settings_with(**sections: Any) -> Settings:
    """Return settings without a file."""
    return Settings(task={"kind": "binary"}, kafka={"topic": "t"}, **sections)


class Elected:
    """An election that this learner has won, and loses on request."""

    topic, problem, leads = "t.leader", "", True

    def begin_term(self) -> threading.Event:
        return threading.Event()


@pytest.mark.parametrize(
    ("error", "leads", "wanted"),
    [
        (StoreAway("away"), True, None),
        (Superseded("store", "process 7", 1), True, None),
        (BrokerError("no answer"), False, LOST),
        (BrokerError("no topic"), True, BrokerError),
        (ConfigError("no"), True, ConfigError),
    ],
)
def test_what_ends_a_leadership_ends_no_process(
    error: Exception, leads: bool, wanted: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without the store it leaves the election; without the broker it stands by, and leads again;
    where the broker lacks what it needs it ends.
    """
    settings = settings_with(metrics={"port": 0})
    turns: list[object] = []
    election, stop = Elected(), threading.Event()

    def wait(*_: object) -> bool:
        election.leads = True
        return True

    def lead(_: threading.Event) -> int:
        turns.append(error)
        if len(turns) == 1:
            election.leads = leads
            raise error
        stop.set()
        return 0

    monkeypatch.setattr(standby, "_wait", wait)

    def take_turns() -> int | None:
        return standby._take_turns(settings, election, None, lead, stop, no_report)  # type: ignore[arg-type]

    if wanted in (None, LOST):
        assert (0 if wanted is LOST else None) == take_turns()
        assert (2 if wanted is LOST else 1) == len(turns)
    else:
        with pytest.raises(wanted):
            take_turns()


def test_a_learner_joins_again_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time with a new membership: an assignment of before must not lead again at once."""
    codes, joined = [None, None, 0], []

    class Joined:
        def __enter__(self) -> "Joined":
            joined.append(self)
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(standby, "require_movable", lambda _: None)
    monkeypatch.setattr(standby, "create_topic", lambda *_: None)
    monkeypatch.setattr(standby, "Warm", lambda _: None)
    monkeypatch.setattr(standby, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(standby, "Election", lambda *_: Joined())
    monkeypatch.setattr(standby, "_take_turns", lambda *_: codes.pop(0))

    assert 0 == standby.run(settings_with(metrics={"port": 0}), stop=threading.Event())
    assert 3 == len(set(joined))


def test_a_busy_cache_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process before this one may be ending; nothing of it is led from."""
    places = {"directory": str(tmp_path / "shared"), "cache": str(tmp_path / "cache")}
    left = tmp_path / "cache" / "run-0001" / "checkpoint-000000000009.safetensors"
    left.parent.mkdir(parents=True)
    left.touch()
    monkeypatch.setattr(standby.Warm, "_compile", lambda _: None)
    warm = standby.Warm(settings_with(checkpoints=places))
    with FolderLock(tmp_path / "cache"):
        warm.follow()
        assert not warm.is_clear
        assert left.exists()
    warm.follow()

    assert warm.is_clear
    assert not left.exists()


def test_a_leader_publishes_at_once(
    topic: str,
    make_settings: Callable[..., Settings],
    send: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Readers wait for its epoch, also where nothing new is learned; commands in a shared folder
    reach whoever leads.
    """
    place = f"memory://{topic}"
    settings = make_settings(
        topic,
        standby={"enabled": True},
        snapshots={"publish": [place]},
        checkpoints={"cache": str(tmp_path / "cache")},
    )
    send(topic, events(rows(50)))
    sent = f'kaboost_snapshots_sent_total{{result="sent",target="{place}"}}'
    with learning(settings) as first:
        until(lambda: learned(settings) == 50)
        assert 0 == first.stop()
    with monkeypatch.context() as patched:
        patched.setattr(LedCheckpointStore, "write", away)
        with learning(settings) as second, pytest.raises(StoreAway):
            second.wait()
    newest = FolderSnapshotStore(settings.snapshots.directory).newest()
    assert newest is not None
    assert 1 == newest.header["leader_epoch"]  # without a checkpoint its versions could come twice
    queue = CommandQueue(settings.checkpoints.folder)
    with learning(settings):
        until(lambda: asked(settings, sent))
        assert 3.0 == gauge(settings, "kaboost_leader_epoch")
        queue.prepare()
        number = queue.submit(command_line("pause", "a test"), seconds=30.0)
        result = queue.wait(number, 30.0)

    assert result is not None
    assert "done" == result.state


def away(*_: object) -> None:
    """Write no checkpoint."""
    raise StoreAway("the store is away")


def asked(settings: Settings, name: str) -> float | None:
    """Ask a learner that starts for a metric."""
    with suppress(OSError):
        return gauge(settings, name)
    return None


class Client:
    """A Kafka consumer that fails where it is asked to."""

    def __init__(self, poll: Callable[[], object]) -> None:
        self.poll = lambda _: poll()

    def subscribe(self, *_: object, **__: object) -> None:
        pass

    def incremental_unassign(self, _: object) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    def close(self) -> None:
        pass


def election_with(poll: Callable[[], object], stop: threading.Event) -> Election:
    """Return an election whose client is polled by a function."""
    kafka = Kafka(bootstrap_servers="127.0.0.1:1", topic="t", group_id="t")
    election = Election(kafka, Standby(), stop)
    election._consumer = Client(poll)  # type: ignore[assignment]
    return election


def test_an_election_that_fails_ends_the_leadership() -> None:
    """Its thread alone notices losses, and the end of the process."""

    def fail() -> None:
        raise RuntimeError("a handler of the log")

    election = election_with(fail, threading.Event())
    election._leads.set()
    term = election.begin_term()
    with election:
        assert term.wait(10)
        with pytest.raises(BrokerError, match="a handler of the log"):
            until(lambda: election.leads)


def test_a_loss_counts_before_the_client_is_asked() -> None:
    """It may refuse to give the partition back."""
    election = election_with(lambda: None, threading.Event())
    election._leads.set()
    term = election.begin_term()
    with pytest.raises(KafkaException):
        election._on_loss(election._consumer, [TopicPartition("t.leader", 0)])

    assert term.is_set()
    assert not election.leads


def test_a_session_that_the_broker_refuses_is_named(broker: Reachable) -> None:
    """Nobody would ever be elected, and no log would say why."""
    topic = create_topic(broker.bootstrap)
    kafka = Kafka(bootstrap_servers=broker.bootstrap, topic=topic, group_id=topic)
    settings = Standby(topic=topic, session_seconds=1.0)
    with (
        Election(kafka, settings, threading.Event()) as election,
        pytest.raises(ConfigError, match=r"refused.*standby\.session_seconds"),
    ):
        until(lambda: election.leads)


@pytest.mark.parametrize(
    "error", [KafkaException(KafkaError(KafkaError._STATE)), RuntimeError("x"), SystemExit(3)]
)
def test_a_bounded_call_raises_what_the_call_raises(error: BaseException) -> None:
    """A commit that raised must not count as committed."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        call_bounded(fail, 10)
    assert caught.value is error


def test_a_call_that_hangs_is_given_up() -> None:
    """Its thread stays."""
    free = threading.Event()
    with pytest.raises(Stuck, match=r"not returned for 0\.01 s"):
        call_bounded(free.wait, 0.01)
    free.set()
    call_bounded(free.wait, 10)
