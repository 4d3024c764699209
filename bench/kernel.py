"""Kernels alone on arrays, against Vowpal Wabbit's boosting, River's AdaBoost and a plain loop.

`python -m bench.kernel` needs the `bench` group (`requirements-bench.lock`); every contestant runs
in one thread, and only learning is on the clock.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import vowpalwabbit
from river.ensemble import AdaBoostClassifier
from river.linear_model import LogisticRegression

import kaboost

FEATURES, EVENTS = 54, 4_000
SIZES = (10, 20, 50, 100)
SGD = {"kind": "linear", "step": "sgd", "lr": 0.01}
NAG = {"kind": "linear", "step": "nag"}
NETS = {"kind": "nets", "hidden": 2, "optimiser": "sgd"}
ADAM = {"kind": "nets", "hidden": 2, "optimiser": "adam"}
Ready = Callable[[], None]


class Contestant(NamedTuple):
    """A contestant: its name, number of events, repetitions, and its untimed setup."""

    name: str
    events: int
    times: int
    ready: Callable[[Any, Any], Ready]  # X (B, 54), u (B,) in {-1, +1} to the timed function


def stream(events: int) -> tuple[Any, Any]:
    """54 normal numbers an event, the label a noisy linear score's sign."""
    r = np.random.default_rng(7)
    X = r.standard_normal((events, FEATURES))
    return X, np.where(X[:, 0] - X[:, 1] + 0.5 * r.standard_normal(events) > 0.0, 1, -1)


def ours(bank: dict[str, Any]) -> Callable[[Any, Any], Ready]:
    """Set up `learn_many` with Algorithm 1 and logistic loss, compiled before timing starts."""

    def ready(X: Any, u: Any) -> Ready:
        spec = {"rule": "sgb", "bank": bank, "loss": "logistic"}
        kaboost.learn_many(kaboost.build(spec, d=FEATURES), X[:2], u[:2])
        booster = kaboost.build(spec, d=FEATURES)

        def run() -> None:
            kaboost.learn_many(booster, X, u)

        return run

    return ready


def wabbit(words: str, *, making: bool = False) -> Callable[[Any, Any], Ready]:
    """Set up Vowpal Wabbit's `learn`; examples are made before timing starts, unless `making`."""

    def ready(X: Any, u: Any) -> Ready:
        space = vowpalwabbit.Workspace(f"--quiet {words}")
        rows = [list(enumerate(row)) for row in X.tolist()]
        labels = [str(label) for label in u]

        def example(row: Any, label: str) -> Any:
            made = space.example({"f": row})
            made.set_label_string(label)
            made.setup_example()
            return made

        pairs = zip(rows, labels, strict=True)
        examples: Iterable[Any] = (example(*pair) for pair in pairs)
        if not making:
            examples = list(examples)

        def run() -> None:
            for one in examples:
                space.learn(one)
                if making:
                    space.finish_example(one)

        return run

    return ready


def river(n: int) -> Callable[[Any, Any], Ready]:
    """Set up River's AdaBoost over its logistic regression; rows are dicts before timing starts."""

    def ready(X: Any, u: Any) -> Ready:
        model = AdaBoostClassifier(LogisticRegression(), n, seed=1)
        pairs = [(dict(enumerate(x)), label > 0) for x, label in zip(X.tolist(), u, strict=True)]

        def run() -> None:
            for x, label in pairs:
                model.learn_one(x, label)

        return run

    return ready


def plain(n: int) -> Callable[[Any, Any], Ready]:
    """Set up a plain loop: Algorithm 1 with NumPy, one learner after the other."""

    def ready(X: Any, u: Any) -> Ready:
        w = np.zeros((n, FEATURES))

        def run() -> None:
            for x, label in zip(X, u, strict=True):
                score = 0.0
                for i in range(n):
                    h = w[i] @ x
                    slope = -label / (1.0 + math.exp(label * score))
                    score -= 0.3 * h
                    w[i] -= 0.01 * (h - slope) * x

        return run

    return ready


def contestants() -> list[Contestant]:
    """List all contestants, in the order of the table."""
    found = []
    for word, bank in (("sgd", SGD), ("nag", NAG), ("nets 2, sgd", NETS), ("nets 2, adam", ADAM)):
        for n in SIZES:
            found.append(Contestant(f"Kaboost {word}, N {n}", EVENTS, 20, ours({**bank, "n": n})))
    for nn in ("", " --nn 2"):
        for algorithm in ("BBM", "logistic", "adaptive"):
            for n in SIZES:
                words = f"--boosting {n} --alg {algorithm}{nn}"
                found.append(Contestant(f"VW {words}", 1_000 if nn else EVENTS, 1, wabbit(words)))
    made = wabbit("--boosting 10 --alg BBM", making=True)
    return [
        *found,
        Contestant("VW --nn 2", EVENTS, 1, wabbit("--nn 2")),
        Contestant("VW --boosting 10 --alg BBM, examples made on the clock", EVENTS, 1, made),
        Contestant("River AdaBoost(LogisticRegression, 10)", 400, 1, river(10)),
        Contestant("plain NumPy loop, sgd, N 20", 400, 1, plain(20)),
    ]


def spend(one: Contestant, X: Any, u: Any) -> float:
    """Return CPU microseconds an event, on fresh models."""
    runs = [one.ready(X[: one.events], u[: one.events]) for _ in range(one.times)]
    begun = time.process_time()
    for run in runs:
        run()
    return (time.process_time() - begun) / (one.events * one.times) * 1e6


def ratios() -> list[tuple[str, str]]:
    """Pair the contestants that are compared: the slower one, then the faster."""
    pairs = []
    for n in SIZES:
        for algorithm in ("BBM", "logistic", "adaptive"):
            pairs.append((f"VW --boosting {n} --alg {algorithm}", f"Kaboost sgd, N {n}"))
    pairs += [
        ("VW --boosting 10 --alg BBM", "Kaboost sgd, N 20"),
        ("VW --boosting 10 --alg BBM", "Kaboost nag, N 20"),
    ]
    for word in ("sgd", "adam"):
        pairs += [
            ("VW --boosting 10 --alg BBM --nn 2", f"Kaboost nets 2, {word}, N 20"),
            ("VW --boosting 10 --alg BBM --nn 2", f"Kaboost nets 2, {word}, N 10"),
            ("VW --nn 2", f"Kaboost nets 2, {word}, N 10"),
        ]
    return [
        *pairs,
        ("River AdaBoost(LogisticRegression, 10)", "Kaboost sgd, N 10"),
        ("plain NumPy loop, sgd, N 20", "Kaboost sgd, N 20"),
    ]


def main() -> None:
    """Print both tables: the cost of each, and the ratios as medians over the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    spent: dict[str, list[float]] = {one.name: [] for one in contestants()}
    X, u = stream(EVENTS)
    for _ in range(asked.rounds):
        for one in contestants():
            spent[one.name].append(spend(one, X, u))
    print("| who | CPU us an event | events per CPU-second |\n|---|---|---|")
    for name, times in spent.items():
        cost = statistics.median(times)
        print(f"| {name} | {cost:.2f} | {1e6 / cost:,.0f} |")
    print("\n| events per CPU-second of | as a multiple of those of | ratio |\n|---|---|---|")
    for slow, fast in ratios():
        ratio = statistics.median(a / b for a, b in zip(spent[slow], spent[fast], strict=True))
        print(f"| {fast} | {slow} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
