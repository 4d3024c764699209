"""Commands to a learner, for the tests."""

from typing import Any

from kaboost.service.admin.sending import command_line, send
from kaboost.service.config.settings import Settings
from kaboost.service.storage.audit import AuditLog
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.commands import Result
from kaboost.service.storage.files import number


def command(settings: Settings, name: str, reason: str = "a test", **arguments: Any) -> Result:
    """Send a command to the learner of these settings, and wait for its result."""
    return send(settings, command_line(name, reason, arguments))


def newest_checkpoint(settings: Settings) -> int:
    """Return the number of the newest checkpoint."""
    return number(next(FolderCheckpointStore(settings.checkpoints.directory).paths()))


def audited(settings: Settings) -> list[dict[str, Any]]:
    """Read the audit log."""
    return AuditLog(settings.checkpoints.directory).read()
