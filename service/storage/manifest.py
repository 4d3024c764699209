"""What travels with a snapshot: which version is the newest, its digest, the learner's own state.

A manifest is written after everything that it names. So a reader that has one either finds all of
it, or finds by size and digest that something is missing, and keeps what it serves.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from kaboost.service.errors import Damaged
from kaboost.service.storage.snapshots import Numbering

FORMAT = 1  # of a manifest


class LearnerFiles(NamedTuple):
    """The learner's small files as they stand in its folder; empty where there is none."""

    heartbeat: str = ""
    status: str = ""
    condition: str = ""
    figures: Mapping[str, Any] = {}  # what the live page shows


class Manifest(NamedTuple):
    """The newest snapshot of a learner, and the learner's own state at that moment."""

    numbering: Numbering
    size: int  # of the snapshot, bytes
    digest: str  # SHA-256 of the snapshot, hexadecimal
    place: Mapping[str, Any]  # where its transport finds the snapshot
    learner: LearnerFiles = LearnerFiles()
    leader_epoch: int = 0  # of the learner, where learners take turns

    @property
    def term(self) -> tuple[int, int]:
        """Whose manifest it is: one of an earlier term than another is refused."""
        return self.numbering.epoch, self.leader_epoch

    def encode(self) -> bytes:
        """Return the manifest as JSON."""
        values = {
            "format": FORMAT,
            **self.numbering._asdict(),
            "size": self.size,
            "sha256": self.digest,
            "place": dict(self.place),
            "learner": self.learner._asdict(),
            "leader_epoch": self.leader_epoch,
        }
        return json.dumps(values, separators=(",", ":")).encode()

    def check(self, data: bytes) -> None:
        """Raise Damaged unless these bytes are the snapshot of this manifest."""
        version = self.numbering.version
        if len(data) != self.size:
            raise Damaged(f"snapshot {version} has {len(data)} of its {self.size} bytes")
        if digest(data) != self.digest:
            raise Damaged(f"snapshot {version} has another SHA-256 than its manifest")


class SnapshotTarget(Protocol):
    """A place to which snapshots are sent, by one writer."""

    @property
    def location(self) -> str:
        """Where it is, without secrets."""

    def send(self, numbering: Numbering, data: bytes, leader_epoch: int = 0) -> Manifest:
        """Write a snapshot and return the manifest to announce it with, or raise StoreAway."""

    def announce(self, manifest: Manifest) -> None:
        """Make a manifest the newest, or raise StoreAway."""

    def close(self) -> None:
        """Release what it holds open."""


class SnapshotSource(Protocol):
    """A place from which snapshots are read; it belongs to one thread."""

    @property
    def location(self) -> str:
        """Where it is, without secrets."""

    def newest(self, seconds: float) -> Manifest | None:
        """Wait at most so long, and return the newest manifest; None if there is none, or none
        since the last call. Raise StoreAway if the place does not answer, Damaged if what is there
        is no manifest.
        """

    def fetch(self, manifest: Manifest) -> bytes:
        """Read the snapshot of a manifest, unchecked; raise StoreAway, or Damaged if it is not
        there.
        """

    def close(self) -> None:
        """Release what it holds open."""


def describe(numbering: Numbering, data: bytes, leader_epoch: int = 0, **place: Any) -> Manifest:
    """Make the manifest of a snapshot."""
    whole = Manifest(numbering, len(data), digest(data), place)
    return whole._replace(leader_epoch=leader_epoch)


def decode(text: bytes) -> Manifest:
    """Read a manifest, or raise Damaged."""
    try:
        values = json.loads(text)
        if values["format"] != FORMAT:
            raise Damaged(
                f"the manifest has format {values['format']}, this Kaboost reads {FORMAT}: run "
                "readers and learner of one version"
            )
        numbering = Numbering(int(values["epoch"]), int(values["version"]))
        known = {key: values["learner"].get(key) for key in LearnerFiles._fields}
        texts = {key: str(known[key] or "") for key in ("heartbeat", "status", "condition")}
        figures = known["figures"] if isinstance(known["figures"], dict) else {}
        learner = LearnerFiles(**texts, figures=figures)
        place = dict(values["place"])
        leader = int(values.get("leader_epoch", 0))
        size, sha256 = int(values["size"]), str(values["sha256"])
        return Manifest(numbering, size, sha256, place, learner, leader)
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise Damaged(f"what should be a manifest is none: {err!r}") from err


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()
