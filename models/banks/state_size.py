"""The limit on the size of a bank's state, and the message that refuses a larger one."""

from __future__ import annotations

LIMIT = 2 * 2**30  # bytes


def too_large(size: int, formula: str, remedy: str) -> str | None:
    """Return why a state of `size` bytes is refused, or None where it is not."""
    if size <= LIMIT:
        return None
    return (
        f"its state would take {formula} = {size / 2**30:.1f} GiB, more than "
        f"{LIMIT // 2**30}; take {remedy}"
    )
