"""Run published tables again: `python -m bench.papers NAME --data FOLDER`.

Results are JSON lines in `--results`, one for every cell; a killed run continues where it was.
`--quick` takes minutes and fails where a figure leaves its band; its kernels should be compiled.
Without it a page of docs/experiments is written.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

from bench.papers import pages
from bench.papers.cells import run_missing
from bench.papers.loaders import Missing

NAMES = (
    "gentle_table3",
    "onlb_table1",
    "onlb_table2",
    "onlb_table3",
    "onlb_latent",
    "sgb_table1",
    "sgb_figure1",
    "sgb_figure2",
    "ogb_table",
)
DOCS = Path(__file__).resolve().parents[2] / "docs" / "experiments"


def main() -> int:
    """Read the command line and run; return 1 where a quick figure leaves its band."""
    given = arguments()
    names = NAMES if given.name == "all" else (given.name,)
    try:
        bad = [line for name in names for line in one(name, given)]
    except Missing as err:
        print(f"--data: {err}", file=sys.stderr)
        return 2
    for line in bad:
        print(f"FAILED {line}", file=sys.stderr)
    return 1 if bad else 0


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.papers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("name", choices=(*NAMES, "all"), metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--data", type=Path, default=os.environ.get("KABOOST_DATA"))
    parser.add_argument("--results", type=Path, default=DOCS / "results", help="folder of cells")
    parser.add_argument("--scale", choices=("quick", "short", "full"), default="full")
    parser.add_argument("--quick", action="store_true", help="as --scale quick, with bands")
    parser.add_argument("--bands", action="store_true", help="write the bands of --quick")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the pages")
    given = parser.parse_args()
    if given.data is None:
        parser.error("--data: the folder of data sets is missing; give it, or set KABOOST_DATA")
    given.scale = "quick" if given.quick or given.bands else given.scale
    return given


def one(name: str, given: argparse.Namespace) -> list[str]:
    """Run and print one table; return what leaves its band."""
    module = importlib.import_module(f"bench.papers.{name}")
    if given.scale != "quick":
        return show(name, module, given, given.results)
    with tempfile.TemporaryDirectory() as folder:  # the quick form measures anew each time
        return show(name, module, given, Path(folder))


def show(name: str, module: ModuleType, given: argparse.Namespace, results: Path) -> list[str]:
    """Run what is missing, print the table, write its page or check its bands."""
    scale, start = module.SCALES[given.scale], time.perf_counter()
    print(f"{module.TITLE}: {pages.extent(scale)}", flush=True)
    file = results / f"{getattr(module, 'RESULTS', name)}.jsonl"
    cells = module.plan(scale, given.data)
    run = run_missing(module.__name__, cells, given.data, file, given.processes)
    if hasattr(module, "follow"):  # cells that depend on results
        cells += module.follow(run, scale)
        run = run_missing(module.__name__, cells, given.data, file, given.processes)
    page = module.page(run, scale)
    print(f"\n{page.text}\n\n{pages.claim_lines(page.claims)}\n")
    print(
        f"{time.perf_counter() - start:.0f} s; {pages.duration(run.seconds)} in cells", flush=True
    )
    if scale.name != "quick":
        given.docs.mkdir(parents=True, exist_ok=True)
        print(pages.write(given.docs, name, module.TITLE, module.ABOUT, page, scale, run))
        return []
    if given.bands:
        pages.write_bands(name, page)
    return [f"{name}: {line}" for line in pages.outside(name, page)]


if __name__ == "__main__":
    sys.exit(main())
