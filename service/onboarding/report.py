"""The result of one check, and how results are shown."""

import re
from typing import Literal, NamedTuple

Status = Literal["green", "yellow", "red"]


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


VERBS = (
    "add begin bring check correct create declare drop free give install leave make name pass put "
    "restore run see send set start stop take use write"
)
# Messages end with what to do: "place: reason; send this" or "place: reason: set that". A remedy
# may have colons and semicolons of its own, so it is found by its first word.
REMEDY = re.compile(rf"[:;] (?=(?:{'|'.join(VERBS.split())})\b)")


def split_remedy(message: str, otherwise: str) -> tuple[str, str]:
    """Split the message of an error into what is wrong and the remedy, its last part."""
    last = next(reversed(list(REMEDY.finditer(message))), None)
    return (message[: last.start()], message[last.end() :]) if last else (message, otherwise)


def worst(checks: list[Check]) -> Status:
    """Return the worst status."""
    statuses = {check.status for check in checks}
    return "red" if "red" in statuses else "yellow" if "yellow" in statuses else "green"


def line(check: Check) -> str:
    """Write one check for people."""
    text = f"{check.status.ljust(6)}  {check.name}: {check.detail}"
    return f"{text}\n        remedy: {check.remedy}" if check.remedy else text
