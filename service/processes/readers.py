"""Serve without the learner's folder: a thread copies snapshots into a folder of this machine."""

import logging
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.kafka.snapshot_topic import TopicSource
from kaboost.service.storage.manifest import SnapshotSource
from kaboost.service.storage.mirror import Mirror
from kaboost.service.storage.object_snapshots import ObjectSource
from kaboost.service.storage.object_store import RemoteFiles, require_packages
from kaboost.service.storage.source_status import SourceStatus
from kaboost.service.storage.stores import reveal

SETTING = "snapshots.source"
CLOSE_SECONDS = 5.0  # for a request to the source to end

log = logging.getLogger(__name__)


def refuse_source(settings: Settings, command: str) -> None:
    """Refuse commands that learn with a source of snapshots: a learner makes its own."""
    if settings.snapshots.source is not None:
        raise ConfigError(
            f"snapshots.source = {settings.snapshots.source}: {command} makes snapshots itself; "
            "leave it out, and run kaboost api --from"
        )


@contextmanager
def local_snapshots(settings: Settings) -> Iterator[Settings]:
    """Yield settings whose folder of snapshots is on this machine, and kept as the source is."""
    snapshots = settings.snapshots
    if snapshots.source is None:
        yield settings
        return
    if not snapshots.is_remote:
        yield _with_folder(settings, Path(snapshots.source))
        return
    with (
        tempfile.TemporaryDirectory(prefix="kaboost-snapshots-") as name,
        _mirroring(settings, Path(name)),
    ):
        yield _with_folder(settings, Path(name))


def check_source(place: str) -> None:
    """Raise ConfigError where a package for the source is missing."""
    if not place.startswith("kafka:"):
        require_packages(place, SETTING)


def open_source(settings: Settings) -> SnapshotSource:
    """Choose the transport of the source: nothing is contacted yet."""
    place = settings.snapshots.source or ""
    scheme, _, topic = place.partition(":")
    if scheme == "kafka":
        return TopicSource(settings.kafka.client(), topic)
    options = {key: reveal(value) for key, value in settings.snapshots.options.items()}
    return ObjectSource(RemoteFiles(place, options, SETTING, tries=1))


@contextmanager
def _mirroring(settings: Settings, folder: Path) -> Iterator[None]:
    stop, place = threading.Event(), settings.snapshots.source or ""
    check_source(place)
    log.info("snapshots come from elsewhere", extra={"source": place})

    def copy() -> None:
        try:
            source = open_source(settings)  # it loads its packages while API processes start
        except ConfigError as err:
            log.error("snapshots cannot be received", extra={"reason": str(err)})
            SourceStatus(place, time.monotonic(), reason=str(err)).write(folder)
            return
        with closing(source):
            Mirror(source, folder, settings.snapshots.keep).run(stop)

    # A daemon: a source that hangs must not keep the service from ending.
    thread = threading.Thread(target=copy, name="mirror", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(CLOSE_SECONDS)


def _with_folder(settings: Settings, folder: Path) -> Settings:
    snapshots = settings.snapshots.model_copy(update={"directory": folder})
    return settings.model_copy(update={"snapshots": snapshots})
