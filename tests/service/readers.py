"""Snapshots for the tests of readers: made by hand, sent to a topic or an object store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.session import get_session
from moto.server import ThreadedMotoServer
from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Settings
from kaboost.service.learner.snapshot_sender import Sender, open_target
from kaboost.service.metrics import LearnerMetrics, learner_metrics
from kaboost.service.storage.manifest import SnapshotTarget
from kaboost.service.storage.mirror import Mirror
from kaboost.service.storage.snapshots import FolderSnapshotStore, Snapshot
from tests.service.serving import publish, settings, taught

KEYS = {"key": "k", "secret": "hush"}
BUCKET = "models"


def start_s3(port: int = 0) -> ThreadedMotoServer:
    """Start an S3 server on loopback, with one bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    client = get_session().create_client(
        "s3",
        endpoint_url=url_of(server),
        region_name="us-east-1",
        aws_access_key_id=KEYS["key"],
        aws_secret_access_key=KEYS["secret"],
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()
    return server


def url_of(server: ThreadedMotoServer) -> str:
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


def options_of(server: ThreadedMotoServer) -> dict[str, str]:
    return {**KEYS, "endpoint_url": url_of(server)}


class Learner:
    """A learner's folder of snapshots, and what sends it to one place."""

    def __init__(self, folder: Path, place: str, **sections: Mapping[str, Any]) -> None:
        folder.mkdir(exist_ok=True)
        own = {"publish": [place], "directory": str(folder / "snapshots")}
        sections["snapshots"] = {**own, **sections.get("snapshots", {})}
        self.settings: Settings = settings(folder, **sections)
        self.metrics: LearnerMetrics = learner_metrics(CollectorRegistry())
        self.directory = self.settings.snapshots.directory
        self.target: SnapshotTarget = open_target(place, self.settings)
        self.sender = Sender(self.target, self.directory, self.metrics)
        self.store = FolderSnapshotStore(self.directory)
        self._events = 60

    def publish(self, **header: Any) -> int:
        """Publish the next version into the folder; nothing is sent yet."""
        self._events += 1
        return publish(self.settings, taught(self.settings, self._events), **header)

    def send(self) -> int:
        """Publish the next version and send it."""
        version = self.publish()
        assert self.sender.step()
        return version

    def sent(self, result: str) -> float:
        """Read the counter of one result."""
        counter = self.metrics.snapshots_sent.labels(self.target.location, result)
        return float(counter._value.get())


def newest(mirror: Mirror) -> Snapshot | None:
    """Read the newest snapshot that a mirror has received."""
    return FolderSnapshotStore(mirror._directory).newest()


def version(mirror: Mirror) -> int:
    """Return its version, 0 without one."""
    found = newest(mirror)
    return found.version if found else 0
