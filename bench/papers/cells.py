"""Cells of an experiment: run on all cores, each result one line of JSON, so that a kill loses at
most the cells that were running.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

Cell = dict[str, Any]  # the configuration of one measurement, of plain values
Result = dict[str, Any]


class Scale(NamedTuple):
    """How much of the published protocol is run."""

    name: str
    rows: int | None  # of a data set at most; None for all
    folds: int  # or splits
    seeds: int
    draws: int | None = None  # candidates of a grid; None for the whole grid
    search_rows: int | None = None  # that candidates are compared on; None for all


class Run(NamedTuple):
    """The cells of a table with their results, and the seconds of computation in them."""

    pairs: list[tuple[Cell, Result]]
    seconds: float

    def where(self, **wanted: Any) -> list[tuple[Cell, Result]]:
        """Return the pairs whose cell has these values."""
        return [pair for pair in self.pairs if wanted.items() <= pair[0].items()]


def key(cell: Cell) -> str:
    """Return the text that identifies a cell."""
    return json.dumps(cell, sort_keys=True)


def read(file: Path) -> dict[str, tuple[Result, float]]:
    """Return results and seconds by key; a line cut off by a kill is left out."""
    found: dict[str, tuple[Result, float]] = {}
    if not file.exists():
        return found
    for line in file.read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # the last line of a killed run
            continue
        found[key(entry["cell"])] = entry["result"], entry["seconds"]
    return found


def append(file: Path, cell: Cell, result: Result, seconds: float) -> None:
    """Add a result, on a line of its own even after a line that was cut off."""
    with file.open("ab+") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":
                out.write(b"\n")
        entry = {"cell": cell, "result": result, "seconds": round(seconds, 3)}
        out.write((json.dumps(entry) + "\n").encode())
        out.flush()
        os.fsync(out.fileno())


def measure(module: str, cell: Cell, folder: Path) -> tuple[Result, float]:
    """Measure one cell by the module's function; return its result and the seconds it took."""
    start = time.perf_counter()
    result: Result = importlib.import_module(module).measure(cell, folder)
    return result, time.perf_counter() - start


def run_missing(
    module: str, cells: Iterable[Cell], folder: Path, file: Path, processes: int = 2
) -> Run:
    """Run the cells that have no result in the file yet, and return all of them in order.

    Parameters
    ----------
    module
        Name of the module that has `measure(cell, folder)`.
    cells
        What to measure.
    folder
        The data.
    file
        Results, as JSON lines; made when missing.
    processes
        How many cells run at a time.
    """
    wanted = {key(cell): cell for cell in cells}
    done = read(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    missing = [cell for name, cell in wanted.items() if name not in done]
    if missing:
        _run(module, missing, folder, file, processes)
        done = read(file)
    pairs = [(cell, done[name][0]) for name, cell in wanted.items()]
    return Run(pairs, sum(done[name][1] for name in wanted))


def _run(module: str, missing: list[Cell], folder: Path, file: Path, processes: int) -> None:
    if processes == 1:
        for cell in missing:
            append(file, cell, *measure(module, cell, folder))
        return
    total, start = len(missing), time.perf_counter()
    with ProcessPoolExecutor(min(processes, total)) as pool:
        open_ = {pool.submit(measure, module, cell, folder): cell for cell in missing}
        while open_:
            for future in wait(open_, return_when=FIRST_COMPLETED).done:
                append(file, open_.pop(future), *future.result())
                done, spent = total - len(open_), time.perf_counter() - start
                print(f"  {done} of {total} cells, {spent:.0f} s", end="\r", flush=True)
    print()
