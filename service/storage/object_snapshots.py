"""Snapshots in an object store: one object a version, and a manifest that names the newest.

Readers list nothing: they get the manifest by its name, then the object that it names. A listing
that lags behind does no harm, as only the removal of old versions uses one.
"""

import logging
from collections import deque

from kaboost.service.errors import Damaged, StoreAway
from kaboost.service.storage.files import SUFFIX
from kaboost.service.storage.manifest import Manifest, decode, describe
from kaboost.service.storage.object_store import RemoteFiles
from kaboost.service.storage.snapshots import Numbering

MANIFEST = "manifest.json"
KIND = "snapshot"

log = logging.getLogger(__name__)


class ObjectTarget:
    """Write snapshots below one URL, and remove all but the newest few."""

    def __init__(self, remote: RemoteFiles, keep: int) -> None:
        self._remote = remote
        self._keep = keep
        self._written: deque[str] = deque()  # names, the oldest first
        self._is_swept = False  # whether the objects of an earlier writer were looked for

    @property
    def location(self) -> str:
        """The URL."""
        return self._remote.url

    def send(self, numbering: Numbering, data: bytes, leader_epoch: int = 0) -> Manifest:
        """Write the object of a version; what an earlier, torn attempt left there is replaced."""
        self._refuse_if_late((numbering.epoch, leader_epoch))
        name = f"{KIND}-{numbering.epoch:012d}-{numbering.version:012d}{SUFFIX}"
        self._remote.put(name, data)
        if name not in self._written:
            self._written.append(name)
        return describe(numbering, data, leader_epoch, name=name)

    def announce(self, manifest: Manifest) -> None:
        """Replace the manifest; then nobody needs the oldest versions."""
        if manifest.leader_epoch:  # it is repeated every second, also by one that is late
            self._refuse_if_late(manifest.term)
        self._remote.replace(MANIFEST, manifest.encode())
        try:
            self._sweep(manifest.place["name"])
            while len(self._written) > self._keep:
                self._remote.remove(self._written[0])
                self._written.popleft()
        except StoreAway as err:
            log.warning("old snapshots stay in the object store", extra={"reason": str(err)})

    def close(self) -> None:
        """Hold nothing open."""

    def _refuse_if_late(self, term: tuple[int, int]) -> None:
        """Raise StoreAway where a learner of a later epoch has written: who joins must not get this
        one's manifest.
        """
        try:
            newest = decode(self._remote.get(MANIFEST)).term
        except (FileNotFoundError, Damaged):
            return
        if newest > term:
            epoch, leader = newest
            whose = f"epoch, {epoch}" if epoch > term[0] else f"leader, epoch {leader}"
            raise StoreAway(
                f"{self.location} has snapshots of a later {whose}: stop this learner, or "
                "send its snapshots elsewhere"
            )

    def _sweep(self, newest: str) -> None:
        """Remember, once, what earlier writers left, to remove it in its turn."""
        if self._is_swept:
            return
        names = [name for name in self._remote.names() if name.startswith(f"{KIND}-")]
        self._written.extendleft(reversed([name for name in names if name not in self._written]))
        self._written.remove(newest)
        self._written.append(newest)
        self._is_swept = True


class ObjectSource:
    """Read the manifest below one URL, and the object that it names."""

    def __init__(self, remote: RemoteFiles) -> None:
        self._remote = remote

    @property
    def location(self) -> str:
        """The URL."""
        return self._remote.url

    def newest(self, seconds: float) -> Manifest | None:
        """Get the manifest, without waiting for a newer one."""
        try:
            return decode(self._remote.get(MANIFEST))
        except FileNotFoundError:
            return None

    def fetch(self, manifest: Manifest) -> bytes:
        """Get the object that a manifest names."""
        name = str(manifest.place.get("name", ""))
        if not name.startswith(f"{KIND}-") or "/" in name:
            raise Damaged(f"the manifest names {name!r}, which is no snapshot")
        try:
            return self._remote.get(name)
        except FileNotFoundError as err:
            raise Damaged(f"{self.location}/{name} is not there, or not yet") from err

    def close(self) -> None:
        """Hold nothing open."""
