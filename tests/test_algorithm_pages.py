"""The pages of algorithms: complete, and with the figures that their code computes."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import algorithm_plots
from tests.test_docs_blocks import blocks

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(algorithm_plots.PAGES.glob("*.md"))
RULES = {"sgb", "ogb_span", "latent", "gentle", "bbm", "adaboost_ol", "oza_boost", "default"}
LARGEST = 60_000  # bytes of a picture


def test_every_published_booster_has_a_page() -> None:
    """One page each: the rule of its YAML."""
    specs = map(algorithm_plots.spec_of, PAGES)

    assert sorted(RULES) == sorted(spec["rule"]["kind"] if spec else "default" for spec in specs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_are_complete(page: Path) -> None:
    """Source, one block of YAML, a small picture that loads nothing, its command, figures."""
    text = page.read_text()
    picture = page.with_suffix(".svg")
    drawn = picture.read_text()
    nodes = ElementTree.fromstring(drawn).iter()
    links = [value for node in nodes for key, value in node.attrib.items() if "href" in key]

    assert "**Source.**" in text
    assert 1 == len([block for block in blocks(page) if block.language == "yaml"])
    assert f"]({picture.name})" in text
    assert f"python -m bench.algorithm_plots {page.stem}`" in text
    assert "Error in events 3,000 to 6,000: " in text
    assert "## When to choose it" in text
    assert picture.stat().st_size < LARGEST
    assert [] == [link for link in links if not link.startswith("#")]


def test_figures_are_those_of_the_code() -> None:
    """The cheapest page is made again, without the compiler: its figures are the committed ones."""
    page = algorithm_plots.PAGES / "bbm.md"
    again = (
        "from bench import algorithm_plots as a\n"
        f"print(a.sentence(a.compare(a.PAGES / {page.name!r})[0]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", again], cwd=ROOT, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.strip() in page.read_text().splitlines()
