"""Candidates of a live service: on the page, in its reports and in the terminal; promoted there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from typer.testing import CliRunner

from kaboost.service.cli import app
from tests.browser import browser, opened
from tests.kafka.broker import Reachable
from tests.kafka.client import create_topic, encode, produce
from tests.service.learning import until
from tests.service.serving import PATIENCE, Program, running, settings

KEY = "a-key-of-more-than-sixteen-characters"
EVENTS = 400
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def live(broker: Reachable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A service with two candidates that has learned, steered by a key."""
    topic = create_topic(broker.bootstrap)
    wanted = settings(
        tmp_path_factory.mktemp("candidates"),
        kafka={"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic},
        admin={"key": KEY, "page": True},
        candidates={"wide": {"bank": {"n": 40}}, "slow": {"bank": {"lr": 1e-6}}},
        promotion={"after": 100},
    )
    events = [
        encode({"age": 20 + k % 50, "vip": k % 3 == 0, "country": "PT"}, int(k % 50 > 25))
        for k in range(EVENTS)
    ]
    produce(broker.bootstrap, topic, events)
    with running("serve", wanted) as program:
        until(lambda: program.probe(200) and program.events_learned() == EVENTS, PATIENCE)
        yield program


def test_they_are_shown_and_promoted(live: Program) -> None:
    """In the table, the reports and the terminal; the button needs the key."""
    url = str(live.client.base_url)
    until(lambda: live.client.get("/status").json()["events_learned"] == EVENTS)
    report = live.client.get("/status").json()
    by_name = {each["name"]: each for each in report["candidates"]}
    assert ("model", ["wide", "slow"]) == (report["champion"], list(by_name))
    assert by_name["slow"]["improvement"] < 0.0 < by_name["slow"]["compared_events"] <= EVENTS
    model = live.client.get("/model").json()
    assert ("model", ["wide", "slow"]) == (
        model["champion"],
        [each["name"] for each in model["candidates"]],
    )
    shown = CliRunner().invoke(app, ["status", "--url", url]).output
    assert "candidate wide" in shown
    assert "loss higher by" in shown

    with browser() as chromium, opened(chromium, url) as page:
        rows = page.locator("#candidates tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(1)).to_contain_text("slow")
        expect(rows.nth(1)).to_contain_text("400")
        expect(page.locator("#candidates-note")).to_contain_text("as model, the champion")
        serious = [
            each["id"]
            for each in Axe().run(page).response["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert [] == serious
        promote = page.get_by_role("button", name="Promote")
        page.locator("#steering-body label", has_text="Candidate").locator("select").select_option(
            "wide"
        )
        promote.click()
        expect(page.locator("#steering-result")).to_contain_text("Authorization: Bearer KEY")
        page.get_by_label("Admin key").fill(KEY)
        page.get_by_label("Reason").fill("a wider one")
        promote.click()
        result = page.locator("#steering-result")
        expect(result).to_contain_text("wide is served now; kaboost promote model undoes it")
        expect(rows.nth(0)).to_contain_text("model")
        expect(page.locator("#annotations")).to_contain_text("promotion at event 400")
        expect(page.locator("#candidates-note")).to_contain_text("as wide, the champion")
        expect(page.locator("#audit tbody tr").first).to_contain_text("a wider one")
    until(lambda: live.client.get("/model").json()["champion"] == "wide")
    assert 40 == live.client.get("/model").json()["specification"]["bank"]["n"]
    assert 1.0 == live.metric("kaboost_promotions_total")
    assert "champion: wide" in CliRunner().invoke(app, ["status", "--url", url]).output


def test_the_command_line_promotes(live: Program, tmp_path: Path) -> None:
    """Exit code 0, or 3 with the reason."""
    config = str(live.folder / "kaboost.yaml")
    champion = live.client.get("/status").json()["champion"]
    refused = CliRunner().invoke(app, ["promote", "deep", "--config", config])
    assert (3, True) == (refused.exit_code, "'deep' is no candidate" in refused.output)
    done = CliRunner().invoke(app, ["promote", "slow", "--config", config, "--reason", "a test"])

    assert (0, True) == (done.exit_code, "slow is served now" in done.output)
    assert f"kaboost promote {champion} undoes it" in done.output
    until(lambda: live.client.get("/status").json()["champion"] == "slow")
