"""Hands the settings to a child process, secrets and all, through a file that has no name."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from kaboost.service.config.settings import Settings


@contextmanager
def send_settings(settings: Settings) -> Iterator[int]:
    """Keep a descriptor that children inherit; nobody else can open it and no crash leaves it."""
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(to_plain(settings)).encode())
        file.flush()
        yield file.fileno()


def receive_settings(descriptor: int) -> Settings:
    """Read what the parent handed over; its position is shared with other children, so leave it."""
    size = os.fstat(descriptor).st_size
    return Settings(**json.loads(os.pread(descriptor, size, 0)))


def to_plain(settings: Settings) -> dict[str, object]:
    """Spell the settings out as they stand in a file, secrets revealed."""
    tree = settings.model_dump(mode="json", by_alias=True)
    tree["kafka"]["extra"] = settings.kafka.client()
    del tree["kafka"]["extra"]["bootstrap.servers"]
    return tree
