"""The pages where keys are needed: asked for, kept until the tab is closed, never in an address."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import browser, opened
from tests.ports import free_port
from tests.service.keyfiles import with_keys, write_keys
from tests.service.serving import Program, publish, running, settings, taught

expect.set_options(timeout=30_000)


class Keyed(NamedTuple):
    """A service that wants keys: one for the whole page, one that may only read."""

    url: str
    whole: str
    reading: str


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of this file."""
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A service over one snapshot."""
    folder: Path = tmp_path_factory.mktemp("page-key")
    known = write_keys(folder / "keys", ("whole", "predict,read"), ("reading", "read"))
    api = {"port": free_port(), "auth": with_keys(folder / "keys")}
    wanted = settings(folder, api=api)
    publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        program.ready()
        yield Keyed(url_of(program), known["whole"], known["reading"])


def url_of(program: Program) -> str:
    return str(program.client.base_url)


def enter(page: Page, key: str) -> None:
    """Type a key in."""
    page.get_by_label("Key of the API").fill(key)
    page.get_by_role("button", name="Use it").click()


def test_the_page_asks_for_a_key(keyed: Keyed, chromium: Browser) -> None:
    """A wrong one is refused and asked for again; with the right one all goes on, also reloaded."""
    with opened(chromium, keyed.url) as page:
        expect(page.locator("#key-form")).to_contain_text("send Authorization: Bearer KEY")
        enter(page, "kaboost_wrong")
        expect(page.locator("#key-form")).to_contain_text("the key is not one of this service")
        assert page.evaluate("sessionStorage.length") == 0
        enter(page, keyed.whole)
        expect(page.locator("#figures")).to_contain_text("Events learned60")
        expect(page.locator("#key-form")).to_have_count(0)
        expect(page.locator("#try-answer")).to_contain_text("probability")
        expect(page.locator("#losses tbody tr")).to_have_count(3)
        page.reload()
        expect(page.locator("#figures")).to_contain_text("Events learned60")

        assert keyed.whole not in page.url + page.content()
        assert page.evaluate("localStorage.length + document.cookie.length") == 0


def test_a_key_without_the_role_is_named(keyed: Keyed, chromium: Browser) -> None:
    """The figures are shown, the form reports which role it lacks."""
    with opened(chromium, keyed.url) as page:
        enter(page, keyed.reading)
        expect(page.locator("#figures")).to_contain_text("Events learned60")
        expect(page.locator("#try-answer")).to_contain_text("needs the role predict; reading has")
        expect(page.locator("#key-form")).to_have_count(0)


def test_the_endpoints_ask_for_a_key(keyed: Keyed, chromium: Browser) -> None:
    """/docs shows the routes with the key, and sends it with each request."""
    with opened(chromium, f"{keyed.url}/docs") as page:
        enter(page, keyed.whole)
        section = page.locator("section", has_text="GET /model/importance").first
        expect(section).to_be_visible()
        predict = page.locator("section", has=page.get_by_text("POST /predict", exact=True))
        predict.get_by_role("button", name="Send").click()
        expect(predict.locator("pre")).to_contain_text("200")
