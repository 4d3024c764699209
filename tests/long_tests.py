"""Which long tests to run: those whose files changed since they last passed, as many as there is
time for.

    python -m tests.long_tests choose [--all | --seconds N] [--seed TEXT]
    python -m tests.long_tests passed FILE      writes .ci/long-passed, to be committed
"""

import argparse
import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LISTED = Path(__file__).with_name("long.txt")
PASSED = ROOT / ".ci" / "long-passed"
MODELS = (
    "kaboost",
    "models",
    "tests/models",
    "tests/contracts",
    "tests/naive",
    "requirements.lock",
)
ALL = (*MODELS, "service", "tests", "data", "deploy", "Dockerfile", "requirements-dev.lock")


class LongTest(NamedTuple):
    """Tests whose ids match a pattern."""

    pattern: str
    seconds: float  # of CPU


def read(path: Path = LISTED) -> list[LongTest]:
    """Return the tests that a file lists."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [LongTest(name, float(cost)) for name, cost in (x.rsplit(maxsplit=1) for x in lines)]


def covered(test: LongTest) -> Sequence[str]:
    """Return the files and folders that tests cover."""
    is_model = test.pattern.startswith(("tests/models/", "tests/contracts/"))
    return MODELS if is_model else ALL


def digests() -> dict[Sequence[str], str]:
    """Return the hash of all that is committed in each set of files."""
    found = {}
    for names in (MODELS, ALL):
        command = ["git", "ls-files", "-s", "--", *names]
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
        found[names] = hashlib.sha256(listing).hexdigest()[:16]
    return found


def changed(tests: Sequence[LongTest], passed: Mapping[str, str]) -> list[LongTest]:
    """Return the tests whose files are not those with which they passed."""
    now = digests()
    return [test for test in tests if passed.get(test.pattern) != now[covered(test)]]


def choose(tests: Sequence[LongTest], seconds: float, seed: str) -> list[LongTest]:
    """Return tests of at most so many seconds together, others with every seed; one that takes
    longer than that is never among them.
    """

    def place(test: LongTest) -> bytes:
        return hashlib.sha256(f"{seed} {test.pattern}".encode()).digest()

    chosen = []
    for test in sorted(tests, key=place):
        if test.seconds <= seconds:
            seconds -= test.seconds
            chosen.append(test)
    return chosen


def read_passed() -> dict[str, str]:
    """Return the digest with which each pattern passed."""
    lines = PASSED.read_text().splitlines() if PASSED.exists() else []
    return dict(line.rsplit(maxsplit=1) for line in lines)


def main() -> None:
    """Print the chosen lines of long.txt, or note that those of a file passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.long_tests")
    words = parser.add_subparsers(dest="word", required=True)
    asked = words.add_parser("choose")
    asked.add_argument("--all", action="store_true")
    asked.add_argument("--seconds", type=float, default=float("inf"))
    asked.add_argument("--seed", default="")
    words.add_parser("passed").add_argument("file", type=Path)
    args = parser.parse_args()
    tests, passed = read(), read_passed()
    if args.word == "passed":
        now = digests()
        passed |= {test.pattern: now[covered(test)] for test in read(args.file)}
        known = {test.pattern for test in tests}
        lines = [f"{name} {digest}\n" for name, digest in sorted(passed.items()) if name in known]
        PASSED.write_text("".join(lines))
        return
    if not args.all:
        tests = choose(changed(tests, passed), args.seconds, args.seed)
    for test in tests:
        print(f"{test.pattern} {test.seconds:g}")


if __name__ == "__main__":
    main()
