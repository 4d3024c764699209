"""The result of one check, and how results are shown."""

from typing import Literal, NamedTuple

Status = Literal["green", "yellow", "red"]


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


def worst(checks: list[Check]) -> Status:
    """Return the worst status."""
    statuses = {check.status for check in checks}
    return "red" if "red" in statuses else "yellow" if "yellow" in statuses else "green"


def line(check: Check) -> str:
    """Write one check for people."""
    text = f"{check.status.ljust(6)}  {check.name}: {check.detail}"
    return f"{text}\n        remedy: {check.remedy}" if check.remedy else text
