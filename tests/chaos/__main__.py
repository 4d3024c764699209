"""Run the chaos suite: `python -m tests.chaos [--long] [--seed N] [--list] [SCENARIO ...]`.

Prints one row for each scenario, with its seed; ends with 1 if one has failed.
"""

import argparse
import os
import random
import signal
import sys
import time

from tests.chaos import catalogue
from tests.chaos.scenario import HEAD, PASSED, SharedBroker, perform


def main() -> int:
    """Run what is asked for."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended first
    if options.list:
        for each in catalogue.SCENARIOS.values():
            print(f"{each.name:26}{each.rounds:7,} {each.long:9,}  {each.about}")
        return 0
    broker = SharedBroker(os.environ.get("KABOOST_TEST_BOOTSTRAP"))
    begin, rows = time.monotonic(), []
    try:
        for name in options.scenarios or catalogue.SCENARIOS:
            each = catalogue.SCENARIOS[name]
            rounds = options.rounds or (each.long if options.long else each.rounds)
            print(f"{name}: seed {options.seed}, {rounds:,} rounds", file=sys.stderr, flush=True)
            rows.append(perform(each, options.seed, rounds, broker))
            print(rows[-1], file=sys.stderr, flush=True)
    finally:
        broker.close()
    print(HEAD, *rows, sep="\n")
    failed = [row.name for row in rows if not row.result.startswith(PASSED)]
    print(f"\n{len(rows)} scenarios, {len(failed)} failed, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*catalogue.SCENARIOS, []])
    parser.add_argument("--long", action="store_true", help="the rounds of the long form: hours")
    parser.add_argument("--rounds", type=int, help="another number of rounds")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
