"""Pass the settings, secrets included, to child processes through an unnamed file."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from kaboost.service.config.records import reveal_secrets
from kaboost.service.config.settings import Settings


@contextmanager
def send_settings(settings: Settings, *, serves_page: bool = False) -> Iterator[int]:
    """Yield a file descriptor to inherit; no other process can open it, no crash leaves a file.

    The admin key is in it only for a process that serves the page, and takes commands from it.
    """
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(to_plain(settings, serves_page=serves_page)).encode())
        file.flush()
        yield file.fileno()


def receive_settings(descriptor: int) -> Settings:
    """Read the settings from the parent; pread, as children share the position of the file."""
    size = os.fstat(descriptor).st_size
    return Settings(**json.loads(os.pread(descriptor, size, 0)))


def to_plain(settings: Settings, *, serves_page: bool = False) -> dict[str, object]:
    """Convert the settings to the plain values of a configuration file, secrets revealed."""
    tree = settings.model_dump(mode="json", by_alias=True)
    tree["kafka"]["extra"] = settings.kafka.client()
    del tree["kafka"]["extra"]["bootstrap.servers"]
    for name in ("checkpoints", "snapshots"):
        tree[name]["options"] = reveal_secrets(getattr(settings, name).options)
    if serves_page and settings.admin.page and settings.admin.key:
        tree["admin"]["key"] = settings.admin.key.get_secret_value()
    else:
        del tree["admin"]  # the supervisor itself serves the port: no child needs it
    # Only what is set: paths that are set, if only to their defaults, map the records, settings of
    # late labels need their topic, and limits of new names that are set hold for requests as well.
    for name in ("events", "labels", "features"):
        section = getattr(settings, name)
        tree[name] = section.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if settings.events.schema_registry:
        tree["events"]["schema_registry"] = reveal_secrets(settings.events.schema_registry)
    return tree
