"""Send one command to the learner of a folder, and wait for what becomes of it."""

import getpass
import os
import platform
from collections.abc import Mapping
from typing import Any

from kaboost.service.config.settings import Settings
from kaboost.service.errors import NotTaken
from kaboost.service.storage.commands import Command, CommandQueue, Result
from kaboost.service.storage.stores import checkpoint_store

MAX_TEXT = 500  # characters of a reason or a name


def send(settings: Settings, command: Command, *, later: bool = False) -> Result:
    """Send a command; return its result, or raise NotTaken if no learner takes it in time.

    With `later` it stays until a learner takes it, and nothing is waited for.
    """
    queue = CommandQueue(settings.checkpoints.folder)
    queue.prepare()
    seconds = settings.admin.timeout_seconds
    number = queue.submit(command, None if later else seconds)
    if later:
        return Result("done", "the next learner of this folder carries it out", {"id": number})
    try:
        result = queue.wait(number, seconds)
    except KeyboardInterrupt:  # nobody waits for it any more
        queue.withdraw(number)
        raise
    if result is None and queue.withdraw(number):
        raise NotTaken(_nobody(settings, command, seconds))
    # It was taken: what it writes may take long.
    result = result or queue.wait(number, seconds)
    if result is None:
        raise NotTaken(
            f"the learner has taken {command.name} and is not done after {2 * seconds:g} s: look "
            "for it in kaboost audit"
        )
    return result


def command_line(name: str, reason: str, arguments: Mapping[str, Any] | None = None) -> Command:
    """Return a command of the user of this process."""
    by = f"{_user()}@{platform.node()}"
    return Command(name, by, "command line", reason[:MAX_TEXT], arguments or {})


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container
        return f"user {os.getuid()}"


def _nobody(settings: Settings, command: Command, seconds: float) -> str:
    directory = settings.checkpoints.folder
    holder = checkpoint_store(settings.checkpoints).holder()
    if holder is None:
        return (
            f"no learner works on {directory.resolve()}, so {command.name} is withdrawn: start it, "
            "or pass --later to leave the command for its start"
        )
    return (
        f"{holder} has not taken {command.name} in {seconds:g} s, so it is withdrawn: GET "
        "/healthz/ready says what the learner does; admin.timeout_seconds waits longer"
    )
