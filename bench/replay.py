"""How long `kaboost replay` takes for a file of 100,000 rows of 30 columns, from start to report.

python -m bench.replay --rounds 3
"""

import argparse
import csv
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

COUNTRIES = ("PT", "DE", "FR", "ES", "IT", "PL", "NL", "US")
NUMBERS = 24


def write(path: Path, rows: int) -> None:
    """Write events whose label depends on four columns, and changes half-way."""
    source = random.Random(1)
    names = [*(f"x{j}" for j in range(NUMBERS)), "country", "merchant", "channel", "vip", "age"]
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow([*names, "fraud"])
        for k in range(rows):
            x = [round(source.gauss(0, 1), 4) for _ in range(NUMBERS)]
            country, merchant = source.choice(COUNTRIES), source.randrange(50)
            score = x[0] + 0.8 * x[1] * x[2] + 1.5 * (country == "FR") - 1.2
            score -= 2.0 * x[0] * (k > rows // 2)
            label = int(source.random() < 1.0 / (1.0 + math.exp(-1.5 * score)))
            others = (f"m{merchant}", source.choice(["web", "app"]), source.random() < 0.3)
            out.writerow([*x, country, *others, source.randrange(18, 90), label])


def cpu_seconds() -> float:
    """Return the CPU time of the commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run rounds of the whole command and print seconds and events a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, report = Path(folder) / "rows.csv", Path(folder) / "rows.html"
        write(path, given.rows)
        command = [sys.executable, "-m", "kaboost.service.cli", "replay", str(path)]
        command += ["--label", "fraud", "--report", str(report), "--json"]
        seconds, cpu, rates = [], [], []
        for _ in range(given.rounds + 1):  # the first one may compile
            begin, before = time.perf_counter(), cpu_seconds()
            done = subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.perf_counter() - begin)
            cpu.append(cpu_seconds() - before)
            rates.append(json.loads(done.stdout)["events_per_second"])
        print(f"first {seconds[0]:.2f} s; then, medians of {given.rounds}:")
        print(f"{median(seconds[1:]):.2f} s, CPU time {median(cpu[1:]):.2f} s")
        print(f"learning alone: {median(rates[1:]):,.0f} events/s")


if __name__ == "__main__":
    main()
