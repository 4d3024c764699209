"""API keys: a file with a line each, which holds digests, so that it shows no key.

    # name  roles  digest of the key  [expires=YYYY-MM-DD]
    shop    predict,read  sha256:5f1d20a3...
    batch   predict       sha256:9c1185a5...  expires=2027-01-31

A key has 256 random bits, so one round of SHA-256 is enough: nobody can try them all.
"""

import hashlib
import hmac
import logging
import math
import re
import secrets
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from kaboost.service.access.callers import Caller
from kaboost.service.access.roles import ROLES
from kaboost.service.access.watched import WatchedFile
from kaboost.service.errors import ConfigError

PREFIX = "kaboost_"  # lets scanners of repositories find a key that was committed
KEY_BYTES = 32
ALGORITHM = "sha256:"
NAME = re.compile(r"[\w.@-]{1,64}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REMEDY = "make it with `kaboost keys new`"

log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """One line of the file."""

    name: str
    roles: frozenset[str]
    digest: bytes
    expires: float  # seconds since 1970

    @property
    def caller(self) -> Caller:
        """Who has the key."""
        return Caller(self.name, self.roles, self.expires)


Keys = dict[bytes, Entry]


def digest_of(key: bytes) -> bytes:
    """Hash a key."""
    return hashlib.sha256(key).digest()


def new_key(name: str, roles: str, expires: str | None = None) -> tuple[str, str]:
    """Make a key; return it, and its line of the file."""
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    line = f"{name}  {roles}  {ALGORITHM}{digest_of(key.encode()).hex()}"
    line += f"  expires={expires}" if expires else ""
    read_line(line, "the new line")
    return key, line


def read_line(line: str, where: str) -> Entry:
    """Parse one line; the error names the place, the value and the remedy, but no digest."""
    parts = line.split()
    if len(parts) not in (3, 4):
        raise ConfigError(f"{where}: write `name roles digest [expires=DATE]`; {REMEDY}")
    name, roles, digest = parts[:3]
    if not NAME.fullmatch(name):
        raise ConfigError(f"{where}: name {name!r}: use at most 64 letters, digits and . _ - @")
    wanted = frozenset(roles.split(","))
    unknown = sorted(wanted - set(ROLES))
    if unknown:
        raise ConfigError(f"{where}: role {unknown[0]!r} is not one of {', '.join(ROLES)}")
    if not DIGEST.fullmatch(digest):
        raise ConfigError(f"{where}: no digest such as sha256:5f1d... of 64 hex digits; {REMEDY}")
    found = bytes.fromhex(digest.removeprefix(ALGORITHM))
    return Entry(name, wanted, found, _end_of(parts[3:], where))


def _end_of(options: list[str], where: str) -> float:
    """Return when a key ends, the end of its last day in UTC."""
    if not options:
        return math.inf
    word, _, day = options[0].partition("=")
    try:
        if word != "expires":
            raise ValueError(word)
        last = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise ConfigError(f"{where}: {options[0]!r}: write expires=2027-01-31") from None
    return (last + timedelta(days=1)).timestamp()


def read_keys(path: Path) -> Keys:
    """Read all keys of a file; several may have one name, while one replaces another."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        reason = getattr(err, "strerror", None) or "it is not UTF-8"
        raise ConfigError(
            f"api.auth.keys = {path}: {reason}; name a file with the lines of `kaboost keys new`"
        ) from err
    lines = [(n, line.split("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1)]
    entries = [read_line(line, f"api.auth.keys = {path}, line {n}") for n, line in lines if line]
    return {entry.digest: entry for entry in entries}


class KeyRing:
    """The keys of a file that may change, and others that are fixed."""

    def __init__(self, path: Path | None, fixed: Keys | None = None) -> None:
        self._fixed = fixed or {}
        self._file = None if path is None else WatchedFile([path], lambda: read_keys(path))
        if self._file and not self._file.value:
            raise ConfigError(f"api.auth.keys = {path}: it has no key; {REMEDY}")

    def find(self, key: bytes) -> Caller | None:
        """Return who has a key, in constant time for all keys that are not in the file."""
        digest = digest_of(key)
        entry = self._fixed.get(digest) or (self._file and self._file.current().get(digest))
        if not entry or not hmac.compare_digest(entry.digest, digest):
            return None
        return entry.caller


def describe(entry: Entry, now: float | None = None) -> dict[str, object]:
    """Return what `kaboost keys list` shows of a key."""
    now = time.time() if now is None else now
    ends = math.isfinite(entry.expires)
    last = datetime.fromtimestamp(entry.expires, UTC) - timedelta(days=1) if ends else None
    return {
        "name": entry.name,
        "roles": ", ".join(role for role in ROLES if role in entry.roles),
        "expires": last.strftime("%Y-%m-%d") if last else "never",
        "state": "expired" if entry.expires <= now else "valid",
        "digest": entry.digest.hex()[:12],
    }
