"""Files of API keys for the tests, and settings that want them."""

from pathlib import Path
from typing import Any

from kaboost.service.access.keys import new_key
from kaboost.service.access.roles import ROLES


def write_keys(path: Path, *callers: tuple[str, str]) -> dict[str, str]:
    """Make keys of (name, roles) and a file of them, in one step; return each key by its name."""
    made = {name: new_key(name, roles) for name, roles in callers}
    replace(path, *(line for _, line in made.values()))
    return {name: key for name, (key, _) in made.items()}


def replace(path: Path, *lines: str) -> None:
    """Write a file of keys and rename it into its place."""
    written = path.with_suffix(".new")
    written.write_text("".join(f"{line}\n" for line in lines))
    written.rename(path)


def one_of_each_role(path: Path) -> dict[str, str]:
    """Write a file with a key of every role; return each key by its role."""
    return write_keys(path, *((role, role) for role in ROLES))


def bearer(key: str) -> dict[str, str]:
    """Make the header of a key."""
    return {"Authorization": f"Bearer {key}"}


def with_keys(path: Path, **more: Any) -> dict[str, Any]:
    """Make the section `auth` of a file of keys."""
    return {"keys": str(path), **more}
