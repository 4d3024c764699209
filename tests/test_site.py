"""The docs as a site: built strictly, complete, searched in a browser, and asking no other host."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.browser import browser, opened

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LOADED = {"script": "src", "img": "src", "link": "href", "source": "srcset", "iframe": "src"}


class Links(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, page: Path) -> None:
        """Read a page."""
        super().__init__()
        self.linked: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of a tag."""
        values = dict(attrs)
        self.anchors |= {values.get("id") or "", values.get("name") or ""}
        if tag == "a" and values.get("href"):
            self.linked.append(values["href"] or "")
        if tag in LOADED and values.get("rel") != "canonical" and values.get(LOADED[tag]):
            self.loaded.append(values[LOADED[tag]] or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` builds it: a warning ends it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    """Every page of the site with its links."""
    return {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """The site's address on loopback."""
    handler = partial(Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs none."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def test_every_page_is_on_the_site(pages: dict[Path, Links], site: Path) -> None:
    """Those of docs/, and those made while it is built."""
    made = {"benchmarks", "changelog", "contributing", "data", "options"}
    written = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    written = {re.sub(r"\bREADME$", "index", name) for name in written}

    assert {str(page.relative_to(site).with_suffix("")) for page in pages} == written | made


def test_no_link_is_dead(pages: dict[Path, Links], site: Path) -> None:
    """Every address of the site leads to a file, and to its anchor."""
    dead = [
        f"{page.relative_to(site)}: {link}"
        for page, links in pages.items()
        for link in links.linked + links.loaded
        if not re.match(r"https?:|data:|mailto:", link) and not leads(pages, page, link)
    ]

    assert [] == dead


def leads(pages: dict[Path, Links], page: Path, link: str) -> bool:
    path, _, anchor = unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    if target.is_dir():
        target /= "index.html"
    return target.exists() and (not anchor or anchor in pages[target].anchors)


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Links]) -> None:
    """No script, style, font or picture of another host."""
    foreign = [link for links in pages.values() for link in links.loaded if "//" in link]

    assert len(pages) > 60
    assert [] == foreign


def test_python_api_is_complete(site: Path) -> None:
    """Every public name of the package is on its page."""
    import kaboost

    shown = Links(site / "python.html").anchors

    assert {
        name for name in kaboost.__all__ if not any(a.endswith(f".{name}") for a in shown)
    } == set()


def test_search_finds_pages_without_another_host(served: str) -> None:
    """A word is found in a browser, and all requests of the pages are to their own server."""
    with browser() as chromium, opened(chromium, f"{served}architecture.html") as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        page.keyboard.press("/")
        page.keyboard.type("chargeback")
        page.locator(".md-search-result__link").first.wait_for()
        first = page.locator(".md-search-result__link").first.get_attribute("href") or ""
        page.goto(first)

        assert "chargeback" in page.inner_text("article").lower()
        assert {url for url in asked if not url.startswith(("data:", "blob:", served))} == set()
        assert len(asked) > 5
