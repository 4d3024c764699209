"""A number that no other process of one kind has on this machine, and that a restart has again."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kaboost.service.errors import ConfigError

MAX_SLOTS = 1_000


@contextmanager
def process_slot(kind: str) -> Iterator[int]:
    """Yield the lowest number that is free; the kernel frees it when the process ends.

    Raises
    ------
    ConfigError
        If no file can be locked in the folder for temporary files.
    """
    folder, name = Path(tempfile.gettempdir()), hashlib.sha256(kind.encode()).hexdigest()[:16]
    reason = "all numbers are taken"
    for slot in range(MAX_SLOTS):
        try:
            file = os.open(folder / f"kaboost-{name}-{slot}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except PermissionError as err:  # of another user
            reason = str(err)
            continue
        except OSError as err:
            reason = str(err)
            break
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        try:
            yield slot
        finally:
            os.close(file)
        return
    raise ConfigError(
        f"score.instance: is not set, and no number for this process can be had in {folder} "
        f"({reason}); set a name that no other process has"
    )
