"""Break one guarantee at a time and see the suite catch it: `python -m tests.chaos.mutations`.

Each mutation (hooks/mutants.py) is made inside the processes of one scenario that holds without it.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from typing import NamedTuple

from tests.chaos.hooks import mutants
from tests.chaos.service import HOOKS
from tests.service.serving import ROOT


class Mutation(NamedTuple):
    """A broken guarantee, and the scenario that must fail with it."""

    name: str
    scenario: str
    rounds: int


MUTATIONS = (
    Mutation("commit_before_checkpoint", "disk-slow", 3),
    Mutation("no_fsync_of_files", "power-cut", 2),
    Mutation("no_fsync_of_folders", "power-cut", 2),
    Mutation("learn_duplicates", "kill-learner", 1),
    Mutation("forget_ids_at_restarts", "kill-learner", 8),
    Mutation("no_digest", "flipped-bits", 1),
    Mutation("no_lock", "two-learners-one-folder", 1),
    Mutation("checkpoint_passes_dead_letters", "dead-letters-refused", 1),
    Mutation("no_draining", "terminate-under-load", 1),
)
HEAD = (
    "| mutation | broken guarantee | scenario | without it | with it | result |\n"
    "|---|---|---|---|---|---|"
)


def run(mutation: Mutation, seed: int, *, broken: bool) -> str:
    """Run the scenario of a mutation in a process of its own; return its result."""
    env = dict(os.environ)
    if broken:
        env["CHAOS_MUTATION"] = mutation.name
        env["PYTHONPATH"] = os.pathsep.join([str(HOOKS), str(ROOT)])
    rounds, chosen = str(mutation.rounds), str(seed)
    command = [sys.executable, "-m", "tests.chaos", mutation.scenario]
    done = subprocess.run(
        [*command, "--rounds", rounds, "--seed", chosen],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line for line in done.stdout.splitlines() if line.startswith(f"| {mutation.scenario}")]
    if not rows:
        return f"no result, exit code {done.returncode}: {done.stderr[-300:]!r}"
    return rows[-1].split(" | ")[4]


def main() -> int:
    """Run all mutations, or those that are named; end with 1 if one was not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutations", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    begin, rows, missed = time.monotonic(), [], 0
    sound: dict[tuple[str, int], str] = {}
    for mutation in MUTATIONS:
        if options.names and mutation.name not in options.names:
            continue
        key = mutation.scenario, mutation.rounds
        if key not in sound:
            sound[key] = run(mutation, options.seed, broken=False)
        result = run(mutation, options.seed, broken=True)
        caught = sound[key].startswith("held") and result.startswith("FAILED: ")
        missed += not caught
        about = (getattr(mutants, mutation.name).__doc__ or "").strip()
        words = sound[key].split(";")[0], result.removeprefix("FAILED: ")[:90]
        rows.append(
            f"| {mutation.name} | {about} | {mutation.scenario} | {words[0]} | {words[1]} | "
            f"{'caught' if caught else 'MISSED'} |"
        )
        print(rows[-1], file=sys.stderr, flush=True)
    print(HEAD, *rows, sep="\n")
    seconds = time.monotonic() - begin
    print(f"\nseed {options.seed}: {len(rows)} mutations, {missed} missed, {seconds:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
