"""The live page in a real browser, against a live service; its endpoints; its history."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Route, expect

from kaboost.service.config.settings import Settings
from kaboost.service.http import pages
from kaboost.service.storage.live import FIGURES, RECORDS, LiveFiles
from kaboost.service.storage.snapshots import Condition, FolderSnapshotStore
from tests.browser import DESK, PHONE, browser, opened
from tests.kafka.broker import Broker
from tests.kafka.client import create_topic, encode, produce
from tests.service.learning import until
from tests.service.serving import PATIENCE, SCHEMA, Program, publish, running, settings, taught

Start = Callable[..., tuple[Settings, Program]]
KEY = "a-key-of-more-than-sixteen-characters"
SECRET = "the-email-of-nobody"
EVENTS = 400
expect.set_options(timeout=30_000)
MOST_BYTES = 200_000  # of all files of the page


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of this file."""
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A service that has learned from a topic with one dead letter, steered by a key."""
    topic = "page"
    create_topic(broker.bootstrap, name=topic)
    wanted = settings(
        tmp_path_factory.mktemp("page"),
        kafka={"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic},
        admin={"key": KEY, "page": True},
        privacy={"fields": ["country"]},
    )
    good = [
        encode({"age": 20 + k % 50, "vip": k % 3 == 0, "country": SECRET}, int(k % 50 > 25))
        for k in range(EVENTS)
    ]
    produce(broker.bootstrap, topic, [*good, encode({"age": "old"}, 1)])
    with running("serve", wanted) as program:
        until(lambda: program.probe(200) and status(program)["events_learned"] == EVENTS, PATIENCE)
        until(lambda: program.client.get("/model/records").json()["dead_letters"])
        yield program


def status(program: Program) -> dict[str, Any]:
    """Ask for the status."""
    return dict(program.client.get("/status").json())


def history(program: Program, points: int = 1_000) -> dict[str, Any]:
    """Ask for the history."""
    return dict(program.client.get("/model/history", params={"points": points}).json())


def url_of(program: Program) -> str:
    return str(program.client.base_url)


def test_the_page_shows_a_service_that_learns(live: Program, chromium: Browser) -> None:
    """State and quality in words, figures, the curve, the losses, the last events."""
    with opened(chromium, url_of(live)) as page:
        expect(page.locator("#word")).to_have_text("Waiting for events")
        expect(page.locator("#state")).to_have_class("good")
        expect(page.locator("#quality")).to_contain_text(re.compile(r"% (better|worse) than "))
        expect(page.locator("#figures")).to_contain_text("Events learned400")
        expect(page.locator("#loss-chart")).to_have_attribute(
            "aria-label", re.compile("Loss after 400 events: model 0[.]")
        )
        expect(page.locator("#loss-chart canvas")).to_be_visible()
        expect(page.locator("#losses tbody tr")).to_have_count(3)
        expect(page.locator("#prefix-chart path.line").first).to_be_visible()
        expect(page.locator("#edges-chart i").first).to_be_visible()
        expect(page.locator("#features")).to_contain_text("speednumber100.0 %")
        expect(page.locator("#importance-chart")).to_have_text("This model has no trees.")
        expect(page.locator("#events tbody tr").first).to_contain_text("country [hidden]")
        assert SECRET not in page.content()


def test_events_stop_and_are_searched(live: Program, chromium: Browser) -> None:
    """A dead letter has its reason; its bytes are hidden, as fields of it are private."""
    with opened(chromium, url_of(live)) as page:
        letters = page.locator("#letters tbody tr")
        expect(letters).to_have_count(1)
        expect(letters).to_contain_text("feature_type")
        expect(letters).to_contain_text('age: "old" where a number or null belongs')
        expect(letters).to_contain_text("page[0]@400")
        page.get_by_label("Search letters").fill("no such word")
        expect(letters).to_have_count(0)
        rows = page.locator("#events tbody tr")
        expect(rows.first).to_be_visible()
        before = rows.count()
        page.locator("#events-choices button").click()
        page.get_by_label("Search events").fill("vip true")
        expect(rows.first).to_be_visible()
        assert 0 < rows.count() < before


def test_a_form_of_the_schema_is_answered(live: Program, chromium: Browser) -> None:
    """With values that were seen; the slider moves the field; requests are copied."""
    with opened(chromium, url_of(live)) as page:
        expect(page.get_by_label("age", exact=True)).to_have_value(re.compile(r"^\d\d$"))
        expect(page.get_by_label("country", exact=True)).to_have_value("")  # private
        page.get_by_label("age", exact=True).fill("60")
        expect(page.locator("#try-answer")).to_contain_text(re.compile(r"^1probability .* of 1;"))
        page.get_by_label("What would change it").select_option("age")
        slider = page.get_by_label("Value of the feature")
        expect(page.locator("#try-change .note")).to_contain_text("With age 60")
        slider.press("End")
        expect(page.get_by_label("age", exact=True)).not_to_have_value("60")
        expect(page.locator("#try-change .note")).to_contain_text("With age 69: probability of 1")
        for language in ("curl", "Python", "TypeScript"):
            page.get_by_role("button", name=language).click()
            expect(page.locator("#try-code")).to_contain_text(f"{url_of(live)}/predict")
        page.get_by_label("age", exact=True).fill("")
        expect(page.locator("#try-answer")).to_contain_text("missing, of 4 features: age")


def test_a_prediction_is_explained_in_bars(serve: Start, chromium: Browser) -> None:
    """The default model, which has trees: the largest part fills half of its track."""
    wanted, program = serve(model={})
    publish(wanted, taught(wanted, events=600))
    program.ready()
    with opened(chromium, url_of(program)) as page:
        bars = page.locator("#try-explanation .fill")
        expect(bars).to_have_count(1 + len(SCHEMA))
        widths = bars.evaluate_all("bars => bars.map((bar) => parseFloat(bar.style.width))")

        assert 50.0 == max(widths)
        assert all(0.0 <= width for width in widths)
        assert "NaN" not in page.locator("#try-explanation").inner_text()


def test_the_page_steers_with_the_key_only(live: Program, chromium: Browser) -> None:
    """Without the key nothing happens, from another page neither; with it learning pauses."""
    assert 401 == live.client.post("/admin/pause").status_code
    bearer = {"Authorization": f"Bearer {KEY}"}
    foreign = live.client.post("/admin/pause", headers=bearer | {"Origin": "http://example.com"})
    assert 403 == foreign.status_code
    with opened(chromium, url_of(live)) as page:
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#steering-result")).to_contain_text("Authorization: Bearer KEY")
        page.get_by_label("Admin key").fill(KEY)
        page.get_by_label("Reason").fill("a look")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#steering-result")).to_contain_text("learning is paused")
        expect(page.locator("#word")).to_have_text("Paused")
        expect(page.locator("#audit")).to_contain_text("a look")
        page.get_by_role("button", name="Write a checkpoint").click()
        expect(page.locator("#steering-result")).to_contain_text("is written")
        assert page.locator("#steering-body select option").count() > 2
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#word")).to_have_text("Waiting for events")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_nothing_serious_keeps_anybody_out(
    live: Program, chromium: Browser, size: tuple[int, int], scheme: str
) -> None:
    """axe finds nothing serious in either theme and size; no page scrolls sideways."""
    for path in ("/", "/docs"):
        with opened(chromium, f"{url_of(live)}{path}", size, scheme) as page:
            page.wait_for_selector("#events tbody tr, #routes section")
            page.locator("#letters summary").first.click() if path == "/" else None
            found = [
                (each["id"], [node["html"] for node in each["nodes"][:3]])
                for each in Axe().run(page).response["violations"]
                if each["impact"] in ("serious", "critical")
            ]
            width = page.evaluate("document.documentElement.scrollWidth")

            assert [] == found
            assert size[0] == width


def test_the_keyboard_reaches_everything(live: Program, chromium: Browser) -> None:
    """The first key leads to the charts; buttons react to the space bar."""
    with opened(chromium, url_of(live)) as page:
        page.wait_for_selector("#events tbody tr")
        page.keyboard.press("Tab")
        assert "Skip to the charts" == page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")
        button = page.get_by_role("button", name="all events")
        button.focus()
        page.keyboard.press("Space")
        expect(button).to_have_attribute("aria-pressed", "true")


FAILING = Condition(1_000, 1.0, "all labels are odd")
STATES: dict[int, list[tuple[Condition, str, str, str]]] = {
    60: [
        (Condition(problem="odd labels"), "records are rejected", "bad", "odd labels"),
        (Condition(paused="paused by anna"), "paused", "warning", "paused by anna"),
        (Condition(stalled="no answer for 7 s"), "stalled", "bad", "no answer for 7 s"),
    ],
    0: [
        (FAILING, "nothing can be learned", "bad", "all labels are odd"),
        (Condition(compiling="compiling, step 2 of 9"), "compiling", "warning", "step 2 of 9"),
        (Condition(), "cold", "warning", "no event was learned yet"),
    ],
}


@pytest.mark.parametrize("learned", STATES)
def test_the_state_is_named(serve: Start, learned: int) -> None:
    """Red only where somebody must act; with the reason."""
    wanted, program = serve()
    publish(wanted, taught(wanted, events=learned))
    program.ready()
    store = FolderSnapshotStore(wanted.snapshots.directory)
    for condition, state, level, reason in STATES[learned]:
        store.write_condition(condition)

        def found(state: str = state) -> dict[str, Any] | None:
            store.heartbeat()
            now = status(program)
            return now if now["state"] == state else None

        now = until(found, PATIENCE)
        assert level == now["level"]
        assert reason in now["reason"]


def test_a_dead_service_is_red(serve: Start, chromium: Browser) -> None:
    """The page shows that nothing answers, and goes on when something does."""
    wanted, program = serve()
    publish(wanted, taught(wanted))
    program.ready()
    with opened(chromium, url_of(program)) as page:
        expect(page.locator("#figures")).to_contain_text("Events learned60")
        program.end(15)
        expect(page.locator("#state")).to_have_class("bad")
        expect(page.locator("#word")).to_have_text("No response")
        with running("api", wanted):
            expect(page.locator("#word")).not_to_have_text("No response")


def test_the_stream_gives_one_status_a_second(live: Program) -> None:
    """Events of the status, no compression, no cache; HEAD does not wait for its end."""
    seen = []
    with live.client.stream("GET", "/stream") as answer:
        assert "text/event-stream; charset=utf-8" == answer.headers["content-type"]
        assert "no-store" == answer.headers["cache-control"]
        for line in answer.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: ")))
            if len(seen) == 3:
                break

    assert set(status(live)) == set(seen[0])
    assert 0.8 < (seen[2]["time"] - seen[0]["time"]) / 2 < 5.0


def test_a_silent_stream_is_opened_again(api: Program, chromium: Browser) -> None:
    """One that never sends anything and never ends, such as over a connection that broke."""
    silent: list[Route] = []
    with opened(chromium, url_of(api)) as page:
        page.route(
            "**/stream",
            lambda route: route.continue_() if silent else silent.append(route),
        )
        page.reload()
        expect(page.locator("#word")).to_have_text("No response")
        expect(page.locator("#word")).not_to_have_text("No response")


def test_the_history_survives_a_restart(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Points and annotations go on where they were; a restart is one of these."""
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    wanted = settings(tmp_path, kafka=kafka)
    event = encode({"age": 31.0}, 1)
    produce(broker.bootstrap, topic, [event] * 120)
    with running("serve", wanted) as program:
        until(lambda: program.probe(200) and history(program)["event"], PATIENCE)
        first = until(lambda: found if (found := history(program))["event"][-1:] == [100] else None)
        program.end(15)
    produce(broker.bootstrap, topic, [event] * 130)
    with running("serve", wanted) as program:
        until(lambda: program.probe(200), PATIENCE)
        second = until(lambda: f if (f := history(program))["event"][-1:] == [250] else None)

    assert [25, 50, 75, 100] == first["event"]
    assert list(range(25, 275, 25)) == second["event"]
    assert first["loss"]["model"] == second["loss"]["model"][:4]
    kinds = [(each["kind"], each["event"]) for each in second["annotations"]]
    assert ("restart", 120) in kinds
    assert {"checkpoint", "restart"} == {kind for kind, _ in kinds}


def test_points_are_thinned_on_request(live: Program) -> None:
    """At most so many, evenly spaced, with the last; others are refused."""
    few = history(live, 4)["event"]

    assert [100, 200, 300, 400] == few
    refused = live.client.get("/model/history", params={"points": "many"})
    assert 422 == refused.status_code
    assert "points" in refused.text


def test_records_are_shown_only_where_it_is_safe(tmp_path: Path) -> None:
    """Not on an address that other machines reach, unless the settings say so."""
    shown = {
        (host, wished): settings(
            tmp_path, api={"host": host, **({} if wished is None else {"show_records": wished})}
        ).api.shows_records
        for host in ("127.0.0.1", "0.0.0.0")
        for wished in (None, True, False)
    }

    assert {("127.0.0.1", None), ("127.0.0.1", True), ("0.0.0.0", True)} == {
        key for key, value in shown.items() if value
    }


HELD = {
    "shown": True,
    "events": [{"id": SECRET}],
    "dead_letters": [{"value": SECRET}],
    "missing": {"age": 0.25},
    "seen": {"country": {"last": SECRET}},
}
REJECTIONS = [{"code": "label", "records": 1, "recent_records": 9, "reason": f"label: {SECRET}"}]
HOSTS = ("127.0.0.1:80", "localhost", "[::1]:80", "page.example.com")


@pytest.mark.parametrize(("wished", "shown_to"), [(None, HOSTS[:3]), (True, HOSTS), (False, ())])
def test_records_are_read_only_where_they_are_shown(
    serve: Start, wished: bool | None, shown_to: tuple[str, ...]
) -> None:
    """By the settings of the API, whatever the learner wrote; by default under no other name."""
    wanted, program = serve(api={} if wished is None else {"show_records": wished})
    publish(wanted, taught(wanted))
    files = LiveFiles(wanted.snapshots.directory)
    files.write(RECORDS, HELD)
    files.write(FIGURES, {"rejections": REJECTIONS})
    program.ready()
    for host in HOSTS:
        records = program.client.get("/model/records", headers={"host": host})
        answer = program.client.get("/status", headers={"host": host})
        (rejection,) = answer.json()["rejections"]
        if host in shown_to:
            assert HELD == records.json(), host
            assert REJECTIONS == [rejection]
            continue
        assert SECRET not in records.text + answer.text, host
        assert REJECTIONS == [rejection | {"reason": f"label: {SECRET}"}]
        if wished is None:
            assert 403 == records.status_code
            assert "set api.show_records: true" in records.json()["detail"]
        else:
            nothing = {"shown": False, "events": [], "dead_letters": [], "seen": {}}
            assert {**nothing, "missing": HELD["missing"]} == records.json()
    with program.client.stream("GET", "/stream") as answer:
        line = next(line for line in answer.iter_lines() if line.startswith("data: "))
        assert SECRET not in line
        assert "label" == json.loads(line.removeprefix("data: "))["rejections"][0]["code"]


def test_the_page_is_small_and_from_here(api: Program) -> None:
    """Its files weigh less than 200 kB; the policy allows no other host and no inline script."""
    files = [path for path in pages.WEB.rglob("*") if path.suffix in (".html", ".js", ".css")]
    answer = api.client.get("/")
    policy = answer.headers["content-security-policy"]

    assert MOST_BYTES > sum(path.stat().st_size for path in files)
    assert "default-src 'none'; script-src 'self'" in policy
    assert "unsafe" not in policy
    for name in re.findall(r'(?:src|href)="(web/[^"]+)"', answer.text):
        file = api.client.get(f"/{name}")
        assert 200 == file.status_code, name
        again = httpx.get(file.url, headers={"if-none-match": file.headers["etag"]})
        assert again.status_code in (200, 304)
    assert 404 == api.client.get("/web/../live.py").status_code


def test_long_names_do_not_widen_the_page(serve: Start, chromium: Browser) -> None:
    """On a phone, wide tables scroll on their own."""
    name = "a_name_of_a_feature_without_any_blanks" * 3
    wanted, program = serve(features={"schema": {name: "number", "x": "number"}})
    publish(wanted, taught(wanted))
    program.ready()
    with opened(chromium, url_of(program), PHONE) as page:
        expect(page.locator("#features")).to_contain_text(name)
        expect(page.locator("#try-form label")).to_have_count(2)

        assert PHONE[0] == page.evaluate("document.documentElement.scrollWidth")
