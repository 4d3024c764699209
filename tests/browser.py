"""A real browser without a screen: a page as it stands after its scripts have run."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
REMEDY = (
    "the test of the page runs it in Chromium: install it (Debian: apt-get install chromium; "
    "macOS: brew install --cask chromium) so that chromium is on PATH"
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --disable-dev-shm-usage"
)
VIRTUAL_MS = 3_000  # of the page's clock, which stands still while a response is awaited


def rendered(url: str, profile: Path) -> str:
    """Return the document of a page as HTML; `profile` is an empty folder."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail(REMEDY, pytrace=False)
    command = [found, *FLAGS.split(), f"--user-data-dir={profile}", "--dump-dom"]
    done = subprocess.run(
        [*command, f"--virtual-time-budget={VIRTUAL_MS}", url],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    return done.stdout


def rows(html: str, table: str) -> dict[str, str]:
    """Return the first two cells of every row of a table of the page."""
    found = re.search(rf'<table id="{table}">(.*?)</table>', html, re.S)
    assert found, f"no table {table}"
    cells = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in found[1].split("</tr>")]
    return {row[0]: row[1] for row in cells if len(row) >= 2}
