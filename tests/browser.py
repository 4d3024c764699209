"""A real browser without a screen: Debian's Chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
REMEDY = (
    "the test of the page runs it in Chromium: install it (Debian: apt-get install chromium; "
    "macOS: brew install --cask chromium) so that chromium is on PATH"
)
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --disable-dev-shm-usage"
)
DESK, PHONE = (1280, 900), (390, 844)  # pixels
PATIENCE_MS = 60_000


@contextmanager
def browser() -> Iterator[Browser]:
    """Run Chromium."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail(REMEDY, pytrace=False)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=FLAGS.split())
        yield started
        started.close()


@contextmanager
def opened(
    chromium: Browser, url: str, size: tuple[int, int] = DESK, scheme: str = "light"
) -> Iterator[Page]:
    """Open a page; what it writes to the console as an error fails the test."""
    errors: list[str] = []
    context = chromium.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,  # type: ignore[arg-type] # light or dark
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.goto(url, wait_until="load")
    yield page
    context.close()
    # A request that is refused on purpose is an error of the console's, too.
    assert [] == [error for error in errors if "Failed to load resource" not in error]
