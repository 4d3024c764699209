"""A running learner does what it is asked: pause, resume, checkpoint, rollback; each is audited."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kaboost.service.admin.sending import command_line, send
from kaboost.service.config.settings import Settings
from kaboost.service.errors import NotTaken
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.commands import INTERRUPTED, CommandQueue
from kaboost.service.storage.pause import PauseFile
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.kafka.broker import Reachable
from tests.kafka.client import PATIENCE, admin
from tests.service.learning import (
    Rows,
    events,
    expect_state,
    gauge,
    learn_all,
    learned,
    learning,
    rows,
    saved,
    until,
)
from tests.service.steering import audited, command, newest_checkpoint

Make = Callable[..., Settings]
Send = Callable[..., None]
RARELY = {"every_seconds": 3600, "every_events": 1_000_000}


def test_a_pause_holds_until_it_is_ended(topic: str, make_settings: Make, send: Send) -> None:
    """Nothing is learned from the answer on, also by the next learner; then every event once."""
    settings, stream = make_settings(topic), rows(300)
    send(topic, events(stream[:100]))
    with learning(settings) as running:
        until(lambda: learned(settings) == 100)
        paused = command(settings, "pause", "a release")
        send(topic, events(stream[100:200]))
        until(lambda: gauge(settings, "kaboost_learning_paused") == 1.0)
        assert 0 == running.stop()
    assert ("done", True) == (paused.state, paused.details["paused"])
    assert {0: 100} == saved(settings)

    send(topic, events(stream[200:]))
    condition = FolderSnapshotStore(settings.snapshots.directory).read_condition
    with learning(settings) as running:
        until(lambda: running.alive and learned(settings) == 100)
        assert "(a release)" in command(settings, "pause").message
        assert "(a release)" in condition().paused
        assert 1.0 == gauge(settings, "kaboost_learning_paused")
        assert 100 == learned(settings)
        assert "done" == command(settings, "resume").state
        until(lambda: learned(settings) == 300)
        assert 0.0 == gauge(settings, "kaboost_learning_paused")
        until(lambda: condition().paused == "")
        assert 0 == running.stop()

    expect_state(settings, stream)
    assert ["pause", "pause", "resume"] == [entry["command"] for entry in audited(settings)]
    first = audited(settings)[0]
    assert ("a release", "command line", "done") == tuple(
        first[key] for key in ("reason", "via", "state")
    )
    assert "@" in first["by"]


def test_a_checkpoint_is_written_at_once(topic: str, make_settings: Make, send: Send) -> None:
    """By schedule it would be an hour later."""
    settings = make_settings(topic, checkpoints=RARELY)
    send(topic, events(rows(50)))
    with learning(settings) as running:
        until(lambda: learned(settings) == 50)
        assert {0: 0} == saved(settings)
        result = command(settings, "checkpoint")

        assert {0: 50} == saved(settings)
        assert {"0": 50} == result.details["offsets"]
        assert 0 == running.stop()


def two_models(settings: Settings, send: Send, stream: Rows) -> tuple[int, int]:
    """Learn 100 events, then 50 more; return the checkpoint and the version of the first 100."""
    topic = settings.kafka.topic
    send(topic, events(stream[:100]))
    until(lambda: learned(settings) == 100)
    result = command(settings, "checkpoint")
    send(topic, events(stream[100:150]))
    until(lambda: learned(settings) == 150)
    return newest_checkpoint(settings), result.details["model_version"]


def test_a_rollback_learns_again_where_positions_go_back(
    topic: str, make_settings: Make, send: Send
) -> None:
    """The model of 100 events is served as a new version, and learns the 50 after it once more; the
    state before can be had back, and has then learned no event twice.
    """
    settings, stream = make_settings(topic, checkpoints={**RARELY, "keep": 10}), rows(150)
    store = FolderSnapshotStore(settings.snapshots.directory)
    with learning(settings) as running:
        number, _ = two_models(settings, send, stream)
        command(settings, "pause")
        version = store.last_version()
        result = command(settings, "rollback", version=number, positions="back")
        assert "done" == result.state, result.message
        newest = store.newest()
        assert newest is not None
        assert (version + 1, 100) == (newest.version, newest.header["events_learned"])
        assert {0: 100} == saved(settings)

        undone = command(settings, "rollback", version=result.details["before"], positions="stay")
        assert "done" == undone.state, undone.message
        assert {0: 150} == saved(settings)
        assert 150 == learned(settings)
        again = command(settings, "rollback", version=number, positions="back")
        assert 100 == again.details["events_learned"]
        command(settings, "resume")
        until(lambda: learned(settings) == 150)
        assert 0 == running.stop()

    expect_state(settings, stream)
    learn_all(settings, 150)


def test_a_rollback_goes_on_where_positions_stay(
    topic: str, make_settings: Make, send: Send
) -> None:
    """The 50 events after it are forgotten, also after a restart; kept checkpoints stay."""
    checkpoints = {**RARELY, "keep": 1}
    settings, stream = make_settings(topic, checkpoints=checkpoints), rows(180)
    with learning(settings) as running:
        number, _ = two_models(settings, send, stream)
        result = command(settings, "rollback", version=number, positions="stay")
        assert "done" == result.state, result.message
        assert 0 == running.stop()
    send(topic, events(stream[150:]))
    learn_all(settings, 130)
    store = FolderCheckpointStore(settings.checkpoints.directory)

    assert {0: 180} == saved(settings)
    expect_state(settings, stream[:100] + stream[150:])
    assert 150 == store.load(result.details["before"], {}).state.events_learned


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"version": 999, "positions": "stay"}, "there is no checkpoint 999"),
        ({"version": "1", "positions": "stay"}, "is no number of a checkpoint"),
        ({"version": 1, "positions": "forth"}, "write stay or back"),
    ],
)
def test_a_rollback_that_cannot_be_is_refused(
    topic: str, make_settings: Make, send: Send, arguments: Any, words: str
) -> None:
    """With the reason; the learner goes on."""
    settings = make_settings(topic)
    with learning(settings) as running:
        until(lambda: learned(settings) == 0)
        result = command(settings, "rollback", **arguments)
        send(topic, events(rows(10)))
        until(lambda: learned(settings) == 10)
        assert 0 == running.stop()

    assert "refused" == result.state
    assert words in result.message
    assert ["refused"] == [entry["state"] for entry in audited(settings)]


def test_a_rollback_to_deleted_events_is_refused(
    topic: str, make_settings: Make, send: Send, broker: Reachable
) -> None:
    """What came after the checkpoint is not in the topic any more: the model stays as it is."""
    settings, stream = make_settings(topic, checkpoints=RARELY), rows(160)
    with learning(settings) as running:
        number, _ = two_models(settings, send, stream)
        client, at = admin(broker.bootstrap), TopicPartition(topic, 0, 120)
        client.delete_records([at])[at].result(30)
        result = command(settings, "rollback", version=number, positions="back")
        send(topic, events(stream[150:]))
        until(lambda: learned(settings) == 160)
        assert 0 == running.stop()

    assert "events between were deleted" in result.message
    expect_state(settings, stream)


def test_a_folder_that_cannot_be_used_stops_no_learning(
    topic: str, make_settings: Make, send: Send
) -> None:
    """A file in the place of a folder; the audit log is then the log."""
    settings = make_settings(topic)
    settings.checkpoints.directory.mkdir()
    for name in ("commands", "audit.jsonl"):
        path = settings.checkpoints.directory / name
        path.touch() if name == "commands" else path.mkdir()
    send(topic, events(rows(10)))
    learn_all(settings, 10)

    (settings.checkpoints.directory / "commands").unlink()
    with learning(settings) as running:
        assert "done" == command(settings, "checkpoint").state
        assert 0 == running.stop()


def test_what_is_no_command_is_refused(topic: str, make_settings: Make) -> None:
    """Files that somebody has written by hand; the next command is taken."""
    settings = make_settings(topic)
    folder = settings.checkpoints.directory / "commands"
    folder.mkdir(parents=True)
    written = ["{", "[]", '{"name": "stop"}', '{"name": "pause", "by": 3, "via": "", "more": 1}']
    for k, text in enumerate(written):
        (folder / f"{k}.json").write_text(text)
    queue = CommandQueue(settings.checkpoints.directory)
    with learning(settings) as running:
        assert "done" == command(settings, "checkpoint").state
        assert 0 == running.stop()

    found = [queue.wait(str(k), 0) for k in range(len(written))]
    assert ["refused"] * len(written) == [result.state for result in found if result]


def test_a_command_that_nobody_takes_is_withdrawn(topic: str, make_settings: Make) -> None:
    """Unless it is for the next learner; what a learner had taken when it died is not repeated."""
    settings = make_settings(topic, admin={"timeout_seconds": 0.2})
    with pytest.raises(NotTaken, match="no learner works on"):
        command(settings, "pause")
    queue = CommandQueue(settings.checkpoints.directory)
    assert queue.take() is None

    interrupted = queue.submit(command_line("checkpoint", "a crash"))
    assert queue.take() is not None
    send(settings, command_line("pause", "a start"), later=True)
    settings = make_settings(topic)
    with learning(settings) as running:
        until(lambda: [entry for entry in audited(settings) if entry["command"] == "pause"])
        found = queue.wait(interrupted, 0)
        assert 0 == running.stop()

    assert found is not None
    assert ("refused", INTERRUPTED) == (found.state, found.message)


def test_a_command_that_nobody_waits_for_any_more_is_refused(
    topic: str, make_settings: Make
) -> None:
    """Who has sent it was killed before it was withdrawn; `--later` has no such time."""
    settings = make_settings(topic)
    queue = CommandQueue(settings.checkpoints.folder)
    queue.prepare()
    old = queue.submit(command_line("pause", "a test"), seconds=-3600.0)
    valid = queue.submit(command_line("checkpoint", "a test"), seconds=30.0)
    with learning(settings) as running:
        results = [queue.wait(number, PATIENCE) for number in (old, valid)]
        assert 0 == running.stop()

    assert ["refused", "done"] == [result.state for result in results if result]
    assert "nobody has waited for this command since" in results[0].message  # type: ignore[union-attr]
    assert PauseFile(settings.checkpoints.folder).read() is None
