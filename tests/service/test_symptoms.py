"""What is wrong with a stream, as the learner judges it: features, labels, rejected records."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from kaboost.service.errors import EventError
from kaboost.service.learner.broken_features import BrokenFeatures
from kaboost.service.learner.feature_watch import FeatureWatch, Row
from kaboost.service.learner.label_silence import LabelSilence
from kaboost.service.learner.monitor import Monitor
from kaboost.service.learner.progress import RecentRecords
from kaboost.service.learner.rejected_share import RejectedShare
from kaboost.service.metrics import learner_metrics
from tests.service.serving import settings

NOW = 1_700_000_000.0  # seconds since 1970
SINCE = "since 2023-11-14 22:13 UTC"
ABOUT_SINCE = SINCE.replace("13 ", "1[345] ")
ROWS = 40  # of one look


class Watched:
    """Rows that come a few at a time, and the texts of their broken features."""

    def __init__(
        self, row: Callable[[random.Random, int], Row], rows: int = ROWS, seconds: float = 1.0
    ) -> None:
        self.row, self._rows, self._seconds = row, rows, seconds
        self._now = NOW
        self._draw = random.Random(1)
        self._watch = FeatureWatch(learner_metrics(CollectorRegistry()))
        self._broken = BrokenFeatures(lambda: self._now)
        self._count = 0

    def after(self, rows: int) -> list[str]:
        """Return what is so after so many more, each change of it once."""
        seen: list[str] = []
        for _ in range(rows // self._rows):
            self._now += self._seconds
            self._watch.add([self._next() for _ in range(self._rows)], self._seconds)
            found = self._watch.show()
            self._broken.update(self._watch, found)
            text = "; ".join(each["text"] for each in self._broken.report(found))
            if not seen or bool(seen[-1]) != bool(text):
                seen.append(text)
            seen[-1] = text
        return seen

    def _next(self) -> Row:
        self._count += 1
        return self.row(self._draw, self._count)


def healthy(draw: random.Random, count: int) -> Row:
    """Draw a lognormal amount, a counter, a country, and a feature that is often missing."""
    return {
        "amount": draw.lognormvariate(3.0, 1.0),
        "counter": float(count),
        "country": draw.choice(["PT", "DE", "FR"]),
        "rare": draw.gauss(0.0, 1.0) if draw.random() < 0.5 else None,
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda row, draw: {"amount": None if draw.random() < 0.6 else row["amount"]},
            f"feature amount is missing in [56]. % of events {ABOUT_SINCE}; usually 0 %",
        ),
        (
            lambda row, _: {"rare": None},
            f"feature rare is missing in 100 % of events {ABOUT_SINCE}; usually [45]",
        ),
        (
            lambda row, _: {"amount": 100.0 * row["amount"]},
            f"feature amount is about (9.|1[0-2]0) times what it was {ABOUT_SINCE}, as with",
        ),
        (
            lambda row, _: {"amount": row["amount"] / 100.0},
            f"amount is about 1/(9.|1[0-2]0) of what it was {ABOUT_SINCE}",
        ),
        (
            lambda row, _: {"country": row["country"].lower()},
            f"100 % of the values of feature country are new {ABOUT_SINCE}",
        ),
    ],
)
def test_a_broken_feature(change: Callable[[Row, random.Random], Row], expected: str) -> None:
    """It begins once, ends once, and names the feature; before and after it nothing is shown."""
    watched = Watched(healthy)
    before = watched.after(1_400)  # the reference is not full yet
    watched.row = lambda draw, count: (row := healthy(draw, count)) | change(row, draw)
    (nothing, broken), (still,) = watched.after(1_000), watched.after(8_000)
    watched.row = healthy
    repaired = watched.after(2_000)

    assert [""] == before
    assert "" == nothing
    assert re.search(expected, broken), broken
    assert re.search(expected, still), still
    assert "" == repaired[-1]
    assert 2 >= len(repaired)


@pytest.mark.parametrize("seed", range(3))
def test_what_drifts_is_not_broken(seed: int) -> None:
    """Counters, a level that moves slowly, a new category of a tenth of the events."""
    draw = random.Random(seed)

    def row(_: random.Random, count: int) -> Row:
        share = 0.1 if count > 4_000 else 0.0
        return {
            "counter": float(count),
            "level": draw.gauss(10.0 * 1.0005**count, 3.0),
            "country": "UK" if draw.random() < share else draw.choice(["PT", "DE"]),
            "flag": draw.random() < 0.5,
            "sparse": 1.0 if draw.random() < 0.05 else 0.0,
        }

    assert [""] == Watched(row).after(12_000)


DAY = 6_000  # rows of a day that passes quickly: a look at 120 is of 29 minutes


def words_of(day: Callable[[int], list[str]]) -> Callable[[random.Random, int], Row]:
    """Make rows with one of the words of their day."""
    return lambda draw, count: {"word": draw.choice(day(count // DAY))}


def test_a_value_of_the_day_is_not_broken() -> None:
    """A date, or the version of a build: the model has learned nothing from the one before."""
    watched = Watched(words_of(lambda day: [f"2026-11-{day:02}"]), 120, 86_400 / DAY * 120)

    assert [""] == watched.after(5 * DAY)


def test_values_that_are_replaced_each_day_are_broken_once() -> None:
    """Builds of two applications: it is known after a day that they are replaced now and then."""
    watched = Watched(words_of(lambda day: [f"a{day}", f"b{day}"]), 120, 86_400 / DAY * 120)
    watched.after(DAY)
    first, _ = watched.after(DAY), watched.after(DAY)

    assert "100 % of the values of feature word are new" in first[-1]
    assert [""] == watched.after(4 * DAY)


def test_values_that_are_always_new_are_not_broken() -> None:
    """Identifiers of batches, which come some times each, and then never again."""
    watched = Watched(lambda _, count: {"batch": f"b{count // 50}"})

    assert [""] == watched.after(8_000)


def test_a_jump_is_found_between_two_looks_at_many_rows() -> None:
    """600 rows lie between them where many events come."""
    watched = Watched(healthy, 600)
    watched.after(3_000)
    watched.row = lambda draw, count: healthy(draw, count) | {"country": draw.choice("abc")}

    assert "100 % of the values of feature country are new" in watched.after(600)[-1]


def test_an_instant_is_only_missing_or_not(tmp_path: Path) -> None:
    """Its values are new always: seconds of now, several rows in each."""
    clock, registry = Clock(), CollectorRegistry()
    monitor = Monitor(settings(tmp_path), learner_metrics(registry), clock)

    def look(text: str | None, rows: int) -> list[dict[str, Any]]:
        clock.now += 5.0
        sample = [{"at": text and f"{text}{k // 8}"} for k in range(rows)]
        monitor.follow(Recent({"at": "datetime"}, sample))
        return monitor.broken_features

    assert [] == [each for k in range(60) for each in look(f"2026-11-26T{k}:", 80)]
    assert 0.0 == registry.get_sample_value("kaboost_feature_unseen_ratio", {"feature": "at"})
    assert "at is missing in 100 %" in look(None, 300)[0]["text"]


class Recent:
    """Sampled rows, as the learner has them."""

    def __init__(self, kinds: dict[str, str], rows: list[Row]) -> None:
        self.kinds, self._rows = kinds, rows

    def take_sample(self) -> list[Row]:
        """Return the rows."""
        return self._rows


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Labelled:
    """Events that come ten a second, and labels."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.silence = LabelSilence(self.clock, lambda: NOW)

    def send(self, seconds: int, labels: Callable[[int], int] = lambda _: 0) -> set[str]:
        """Send so many seconds of events, and the labels of each second; return what was so."""
        seen = set()
        for second in range(seconds):
            self.clock.now += 1.0
            self.silence.note(10, 0)
            if count := labels(second):
                self.silence.note(0, count)
            seen.add(self.state)
        return seen

    @property
    def state(self) -> str:
        """What is so now."""
        return (self.silence.describe(7) or {"state": ""})["state"]


def test_labels_stop() -> None:
    """After four times the most events, and the longest time, between two labels that is usual;
    until one comes.
    """
    labelled = Labelled()
    assert "stopped" not in labelled.send(300, lambda second: second % 20 == 19)
    assert {"awaited"} == labelled.send(79)
    assert {"stopped"} == labelled.send(1)
    text = f"no label {SINCE}, while 800 events have come; 7 wait for their label"
    assert text == (labelled.silence.describe(7) or {})["text"]
    labelled.clock.now += 1_000.0
    assert "stopped" == labelled.state
    assert {""} == labelled.send(1, lambda _: 5)
    assert {"awaited"} == labelled.send(79)
    assert {"late"} == labelled.send(4 * 82 - 80)  # the longest gap is 82 s by now
    assert {"stopped"} == labelled.send(1)


def test_labels_that_come_all_the_time_stop() -> None:
    """No gap between two of them is long; 100 events are."""
    labelled = Labelled()
    labelled.send(120, lambda _: 8)
    assert {"awaited"} == labelled.send(9)
    assert {"stopped"} == labelled.send(1)


@pytest.mark.parametrize("burst", [1, 600])
def test_a_daily_burst_of_labels_has_not_stopped(burst: int) -> None:
    """Though it is of more gaps than are kept: in a day of two hours, for five days."""
    labelled = Labelled()
    seen = [labelled.send(7_200, lambda second: 7_000 - burst < second <= 7_000) for _ in range(5)]

    assert "stopped" not in set().union(*seen)
    assert "late" not in set().union(*seen[2:])  # as the first nights are
    assert ("stopped" in labelled.send(5 * 7_200)) == (burst > 100)  # of few gaps none is usual


@pytest.mark.parametrize("seed", range(20))
def test_rare_labels_have_not_stopped(seed: int) -> None:
    """Labels of one event in 2,000, from the start of the learner on."""
    draw, labelled = random.Random(seed), Labelled()

    assert "stopped" not in labelled.send(8_000, lambda _: int(draw.random() < 0.005))


def test_silence_does_not_count_while_nothing_is_read() -> None:
    """Learning is paused or stalled, or no events come."""
    labelled = Labelled()
    labelled.send(300, lambda second: second % 20 == 19)
    labelled.send(40)
    labelled.silence.note(1_000, 0)
    labelled.clock.now += 1_000.0
    assert "" == labelled.state
    labelled.send(1)
    assert "awaited" == labelled.state


def test_labels_that_never_came_are_awaited() -> None:
    """It is not known what is usual, so it is no alarm."""
    labelled = Labelled()
    assert {"awaited", "none yet"} == labelled.send(500)
    found = labelled.silence.describe(5_000) or {}

    assert "none yet" == found["state"]
    assert found["text"].startswith(f"no label yet, {SINCE}, while 5,000 events have come")


def share_of(rejected: int, of: int, recent: RecentRecords, share: RejectedShare) -> Any:
    """Note records of which some are rejected, evenly; return the level."""
    messages = [Message(topic="t", partition=0, offset=k, value=b"") for k in range(of)]
    bad = {k * of // rejected for k in range(rejected)} if rejected else set()
    fault = EventError("feature_type", 'age: "secret" where a number belongs')
    recent.note(messages, [(messages[k], fault) for k in sorted(bad)])
    return (share.report(recent) or {}).get("level")


def test_rejected_records_are_a_warning_and_then_bad() -> None:
    """The levels do not come and go at their limits; no value of a record is in the words."""
    recent, share = RecentRecords(), RejectedShare()

    assert [None, None, "warning", "warning", None, "warning", "bad", "bad", "warning", None] == [
        share_of(rejected, 1_000, recent, share)
        for rejected in (0, 19, 20, 6, 5, 300, 500, 401, 399, 0)
    ]
    share_of(300, 1_000, recent, share)
    text = (share.report(recent) or {})["text"]
    assert "30 %: 300 of the last 1,000 records were rejected, most of them with code" in text
    assert text.endswith("feature_type at age")
    assert "secret" not in text


def test_the_first_records_are_judged_once() -> None:
    """Ten of ten are bad; that the eleventh is good changes nothing."""
    recent, share = RecentRecords(), RejectedShare()
    seen = [share_of(9, 9, recent, share), share_of(1, 1, recent, share)]
    seen += [share_of(0, 1, recent, share) for _ in range(10)]

    assert [None, *["bad"] * 11] == seen
