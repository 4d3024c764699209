"""The Dockerfile as its instructions, and what the image says of itself."""

import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FILE = ROOT / "Dockerfile"


class Instruction(NamedTuple):
    """One instruction of one stage; stage 0 is what stands before the first FROM."""

    stage: int
    word: str
    rest: str


def instructions() -> list[Instruction]:
    """Read the Dockerfile: no comments, continued lines joined."""
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    found: list[Instruction] = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line:
            word, _, rest = line.partition(" ")
            stage = sum(each.word == "FROM" for each in found) + (word == "FROM")
            found.append(Instruction(stage, word, rest.strip()))
    return found


def last(word: str) -> str:
    """Give what the final stage says under a word."""
    everything = instructions()
    final = everything[-1].stage
    return [each.rest for each in everything if (each.stage, each.word) == (final, word)][-1]


def environment() -> dict[str, str]:
    """The variables that the image sets."""
    return dict(entry.split("=", 1) for entry in shlex.split(last("ENV")))


def command(word: str) -> list[str]:
    """ENTRYPOINT or CMD, or the command of HEALTHCHECK."""
    listed = re.search(r"\[.*\]$", last(word))
    assert listed, f"{word} is not in its exec form"
    return [str(each) for each in json.loads(listed[0])]
