"""Cost of an event by the width of the schema and the number of values present.

`python -m bench.wide` takes events as name-to-value objects through the service's decoder to the
default model's state, and rows as dicts through `predict_many`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from kaboost import Model
from kaboost.service.events.decoder import Decoder

WIDTHS = (12, 100, 300, 1000)
VALUES = 12  # in a sparse event
PIECE = 100


class Cost(NamedTuple):
    """CPU microseconds an event."""

    decode: float  # bytes to arrays
    learn: float  # arrays to state
    predict: float  # dicts to predictions


def rows(width: int, values: int, count: int) -> tuple[list[dict[str, float]], np.ndarray]:
    """Draw events of `values` numbers among `width` columns, in the order of the columns, and their
    weighted sums.
    """
    r = np.random.default_rng(0)
    names, worth = [f"column{j}" for j in range(width)], r.standard_normal(width)
    drawn, sums = [], np.empty(count)
    for k in range(count):
        places = np.sort(r.choice(width, values, replace=False))
        x = r.standard_normal(values)
        drawn.append(dict(zip((names[j] for j in places), x.tolist(), strict=True)))
        sums[k] = x @ worth[places]
    return drawn, sums


def measure(width: int, values: int, events: int, timed: int) -> Cost:
    """Learn events, and time the last of them; then predict those."""
    drawn, sums = rows(width, values, events)
    encode = msgspec.json.Encoder().encode
    bodies = [
        encode({"features": row, "label": bool(s > 0)}) for row, s in zip(drawn, sums, strict=True)
    ]
    model = Model("binary", features={f"column{j}": "number" for j in range(width)})
    decoder = Decoder(model.encoder.schema, model.labels)
    spent = [0.0, 0.0]
    for k in range(0, events, PIECE):
        begun = time.process_time()
        found, _ = decoder.decode_many(bodies[k : k + PIECE])
        table, y, w = decoder.tabulate(found)
        decoded = time.process_time()
        model.learn(table, y, w)
        if k >= events - timed:
            spent[0] += decoded - begun
            spent[1] += time.process_time() - decoded
    spent.append(_predicting(model, drawn[-timed:]))
    return Cost(*(1e6 * seconds / timed for seconds in spent))


def _predicting(model: Model, drawn: Sequence[Any]) -> float:
    model.predict_many(drawn[:PIECE])
    begun = time.process_time()
    for k in range(0, len(drawn), PIECE):
        model.predict_many(drawn[k : k + PIECE])
    return time.process_time() - begun


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--timed", type=int, default=20_000)
    told = parser.parse_args()
    print("| columns | there | decode | learn | predict |\n|---|---|---|---|---|")
    cases = [(width, VALUES) for width in WIDTHS] + [(width, width) for width in WIDTHS[1:3]]
    for width, values in cases:
        cost = measure(width, values, told.events, told.timed)
        cells = " | ".join(f"{one:.1f}" for one in cost)
        print(f"| {width:,} | {values} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
