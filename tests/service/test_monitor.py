"""Features and slices as metrics: `/metrics` alone shows which of five causes it was."""

import itertools
import json
import math
import random
import tracemalloc
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from kaboost.service.cli import app
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.learner import live, monitor
from kaboost.service.learner.feature_watch import (
    ENOUGH_ROWS,
    MOST_FEATURES,
    RECENT_ROWS,
    REFERENCE_ROWS,
    FeatureWatch,
    Row,
)
from kaboost.service.learner.slice_losses import (
    ENOUGH_EVENTS,
    MOST_VALUES,
    SliceLosses,
    check_slices,
)
from kaboost.service.metrics import learner_metrics
from tests.service.learning import learning, until
from tests.service.serving import settings as plain_settings

Make = Callable[..., Settings]
Send = Callable[..., None]
Samples = dict[tuple[str, str], float]  # by metric, and its last label
SCHEMA = {"amount": "number", "age": "number", "country": "category", "vip": "boolean"}
BEFORE, AFTER = 2_400, 800  # events


def event(k: int, cause: str) -> dict[str, Any]:
    """Draw the features of an event, with what has gone wrong."""
    draw = random.Random(k)
    features: dict[str, Any] = {
        "amount": draw.uniform(5.0, 100.0),
        "age": draw.gauss(40.0, 10.0),
        "country": draw.choice(["PT", "DE", "FR"]),
        "vip": draw.random() < 0.5,
    }
    if cause == "a feature is missing":
        features["amount"] = None
    if cause == "a unit is changed":
        features["amount"] *= 100.0  # cents
    if cause == "a new category":
        features["country"] = draw.choice(["PT", "UK"])
    return features


def label(k: int, cause: str) -> int:
    """Return what follows from the features as they are in the world."""
    amount = event(k, "")["amount"]
    # One that this linear model cannot follow: a turned sign it learns within some events.
    return int(30.0 < amount < 75.0 if cause == "a rule has turned" else amount > 50.0)


def test_a_kind_that_changes_with_the_trainer_begins_the_comparison_again(tmp_path: Path) -> None:
    """Also where the new trainer, after a promotion or a rollback, has no rows at first."""
    metrics = learner_metrics(CollectorRegistry())
    settings = plain_settings(tmp_path)
    clock = itertools.count(0.0, 10.0)
    follower = monitor.Monitor(settings, metrics, lambda: next(clock))

    def recent(kinds: dict[str, str], value: Any, count: int) -> Any:
        rows = [{"x": value}] * count
        return SimpleNamespace(kinds=kinds, take_sample=lambda: rows)

    follower.follow(recent({"x": "number"}, 1.0, 500))
    follower.follow(recent({}, None, 0))
    follower.follow(recent({"x": "category"}, "a", 120))

    assert 120 == follower._features._rows


CAUSES = (
    "a feature is missing",
    "a unit is changed",
    "a new category",
    "a rule has turned",
    "labels have stopped",
)


def scrape(settings: Settings) -> Samples:
    """Read the learner's own port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{settings.metrics.port}/metrics") as page:
        text = page.read().decode()
    families = text_string_to_metric_families(text)
    return {
        (sample.name, next(reversed(sample.labels.values()), "")): sample.value
        for family in families
        for sample in family.samples
    }


def of(found: Samples, name: str) -> dict[str, float]:
    """Return the series of a metric, by feature."""
    return {each: value for (metric, each), value in found.items() if metric == name}


def diagnose(before: Samples, now: Samples) -> tuple[str, str]:
    """Name the cause and its feature, as docs/metrics.md describes it."""
    consumed, joined = ("kaboost_events_consumed_total", ""), ("kaboost_labels_joined_total", "")
    if now[consumed] > before[consumed] and now[joined] == before[joined]:
        return "labels have stopped", ""
    missing = of(now, "kaboost_feature_missing_ratio")
    for name, share in missing.items():
        if share > of(before, "kaboost_feature_missing_ratio")[name] + 0.3:
            return "a feature is missing", name
    shift, unseen = (of(now, f"kaboost_feature_{which}") for which in ("shift", "unseen_ratio"))
    for name in shift:
        if unseen[name] > 0.2:
            words = {"number": "a unit is changed", "category": "a new category"}
            return words[SCHEMA[name]], name
    loss = ("kaboost_progressive_loss_window", "model")
    if now[loss] > 1.3 * before[loss] and max(shift.values()) < 0.3:
        return "a rule has turned", ""
    return "nothing", ""


@pytest.fixture(autouse=True)
def at_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample and compare at every batch, not by the clock: events come faster than in life."""
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(monitor, "SHOWN_SECONDS", 0.0)


@pytest.mark.parametrize("cause", CAUSES)
def test_causes_are_distinguished(
    make_topic: Callable[..., str], make_settings: Make, send: Send, cause: str
) -> None:
    """Each of five is found, with its feature; before it nothing is."""
    topic, labels = make_topic(), make_topic()
    settings = make_settings(
        topic,
        features={"schema": SCHEMA},
        labels={"topic": labels, "id": "id", "label": "label", "timestamp": "timestamp"},
        kafka={"batch_events": 20},
    )
    features_of = {"a unit is changed": "amount", "a feature is missing": "amount"}
    wanted = (cause, features_of.get(cause, "country" if cause == "a new category" else ""))

    def produce(first: int, last: int, with_cause: str) -> None:
        send(topic, [record(k, features=event(k, with_cause)) for k in range(first, last)])
        if with_cause != "labels have stopped":
            send(labels, [record(k, label=label(k, with_cause)) for k in range(first, last)])

    with learning(settings):
        produce(0, BEFORE, "")
        until(lambda: scrape_or_none(settings).get(LEARNED, 0.0) == BEFORE)
        before = scrape(settings)
        assert ("nothing", "") == diagnose(before, before)
        produce(BEFORE, BEFORE + AFTER, cause)
        consumed = ("kaboost_events_consumed_total", "")
        learned = BEFORE if cause == "labels have stopped" else BEFORE + AFTER
        until(lambda: scrape(settings)[LEARNED] == learned)
        until(lambda: scrape(settings)[consumed] >= before[consumed] + AFTER)
        until(lambda: diagnose(before, scrape(settings)) == wanted)


LEARNED = ("kaboost_events_learned_total", "")


def scrape_or_none(settings: Settings) -> Samples:
    """Read the learner's port, empty while it does not listen yet."""
    try:
        return scrape(settings)
    except OSError:
        return {}


def record(k: int, **parts: Any) -> bytes:
    """Write a record of an event, or of its label."""
    return json.dumps({"id": f"e{k}", "timestamp": 1_700_000_000_000 + 1_000 * k, **parts}).encode()


def watch() -> tuple[FeatureWatch, CollectorRegistry]:
    """Make a watch, and where its metrics are."""
    registry = CollectorRegistry()
    return FeatureWatch(learner_metrics(registry)), registry


def shown(registry: CollectorRegistry, name: str) -> dict[str, float]:
    """Return the series of a metric, by its last label."""
    return {
        next(reversed(sample.labels.values())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def numbers(count: int, seed: int, times: float = 1.0, names: int = 1) -> list[Row]:
    """Draw rows of normal numbers."""
    draw = random.Random(seed)
    return [{f"x{k}": times * draw.gauss(10.0, 1.0) for k in range(names)} for _ in range(count)]


def test_nothing_is_shown_before_there_is_enough() -> None:
    """Then small differences for equal distributions; NaN for a feature without values."""
    of_features, registry = watch()
    of_features.add(numbers(RECENT_ROWS + ENOUGH_ROWS - 1, 1), 1.0)
    of_features.show()
    assert {} == shown(registry, "kaboost_feature_shift")

    of_features.add([{**row, "y": None} for row in numbers(2_000, 2)], 1.0)
    of_features.show()
    found = shown(registry, "kaboost_feature_shift")
    assert 0.0 < found["x0"] < 0.15
    assert math.isnan(found["y"])
    assert {"x0": 0.0, "y": 1.0} == shown(registry, "kaboost_feature_missing_ratio")
    of_features.forget()
    of_features.add(numbers(10, 3), 1.0)
    of_features.show()
    assert found.keys() == shown(registry, "kaboost_feature_shift").keys()


def test_a_shift_is_shown_until_it_is_usual() -> None:
    """A full reference follows within about a day, however many rows come."""
    of_features, registry = watch()
    of_features.add(numbers(RECENT_ROWS + REFERENCE_ROWS, 1), 1.0)

    def after(hours: int) -> tuple[float, float]:
        for hour in range(hours):
            of_features.add(numbers(3_000, hour, times=100.0), 3_600.0)
        of_features.show()
        names = ("kaboost_feature_shift", "kaboost_feature_unseen_ratio")
        return shown(registry, names[0])["x0"], shown(registry, names[1])["x0"]

    first, unseen = after(1)
    assert first > 0.9
    assert 1.0 == unseen
    later, _ = after(72)
    assert later < 0.2


@pytest.mark.parametrize(
    ("before", "now", "least", "most"),
    [
        (["PT", "DE"], ["PT", "DE"], 0.0, 0.0),
        (["PT", "DE"], ["PT", "UK"], 0.4, 0.6),
        ([f"c{k}" for k in range(5_000)], [f"d{k}" for k in range(5_000)], 0.0, 0.1),
        ([True, False], [True, False], 0.0, 0.0),
        ([False], [True], 1.0, 1.0),
    ],
)
def test_new_categories(before: list[Any], now: list[Any], least: float, most: float) -> None:
    """A value that was rare and is frequent; ids, of which each comes once, are none."""
    of_features, registry = watch()
    draw = random.Random(1)
    earlier = [{"x": draw.choice(before)} for _ in range(REFERENCE_ROWS)]
    of_features.add([*earlier, *({"x": draw.choice(now)} for _ in range(RECENT_ROWS))], 1.0)
    of_features.show()

    assert least <= shown(registry, "kaboost_feature_unseen_ratio")["x"] <= most


def test_only_the_features_that_differ_are_shown() -> None:
    """At most fifty; one that has shifted is among them, and replaces another."""
    of_features, registry = watch()
    names = 3 * MOST_FEATURES
    of_features.add(numbers(RECENT_ROWS + ENOUGH_ROWS, 1, names=names), 1.0)
    for _ in range(names):
        of_features.show()
    last = f"x{names - 1}"
    before = shown(registry, "kaboost_feature_shift")
    shifted = [{**row, last: 1e6} for row in numbers(RECENT_ROWS, 2, names=names)]
    of_features.add(shifted, 1.0)
    of_features.show()
    after = shown(registry, "kaboost_feature_shift")

    assert MOST_FEATURES == len(before) == len(after)
    assert last not in before
    assert 1.0 == after[last]


def losses(names: list[str], private: list[str], tmp_path: Path) -> tuple[SliceLosses, Any]:
    """Make the losses of slices, and where they are shown."""
    wanted = plain_settings(tmp_path, metrics={"slices": names}, privacy={"fields": private})
    check_slices(wanted)
    registry = CollectorRegistry()
    return SliceLosses(wanted.metrics.slices, learner_metrics(registry)), registry


def test_the_loss_of_slices_is_bounded(tmp_path: Path) -> None:
    """By value, the commonest ones; a value with few events is not shown."""
    of_slices, registry = losses(["country", "vip"], [], tmp_path)
    for _ in range(ENOUGH_EVENTS):
        for k in range(2 * MOST_VALUES):
            of_slices.add({"country": f"c{k}", "vip": k % 2 == 0}, float(k % 2))
    of_slices.add({"country": "rare", "vip": None}, 9.0)
    of_slices.show()
    found = shown(registry, "kaboost_slice_loss")
    countries = {name: loss for name, loss in found.items() if name.startswith("c")}

    assert MOST_VALUES == len(countries)
    assert all(loss == int(name[1:]) % 2 for name, loss in countries.items())
    assert (0.0, 1.0) == (found["true"], found["false"])
    assert not {"rare", "missing"} & found.keys()
    for _ in range(3_000):
        of_slices.add({"country": "PT", "vip": None}, 0.25)
    of_slices.show()
    assert {"PT": 0.25, "missing": 0.25} == shown(registry, "kaboost_slice_loss")


def test_private_values_are_no_labels(tmp_path: Path) -> None:
    """A slice whose values are private is refused, with the remedy."""
    with pytest.raises(ConfigError, match=r"metrics\.slices has country, whose .* leave it out"):
        losses(["country"], ["country"], tmp_path)


def test_misspelt_slices_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`config check` refuses one of a declared schema; of inferred ones the log has the nearest."""
    with pytest.raises(ConfigError, match=r"has countri, .* did you mean country"):
        losses(["countri"], [], tmp_path)
    wanted = tmp_path / "kaboost.yaml"
    refused = CliRunner().invoke(app, ["config", "check", "--config", str(wanted)])
    assert "did you mean country" in str(refused.exception)

    registry = CollectorRegistry()
    of_slices = SliceLosses(["countri"], learner_metrics(registry))
    kinds = {"age": "number", "country": "category"}
    for known in (kinds, kinds, {}, kinds):  # none right after a promotion
        of_slices.check(known)
    (line,) = [each for each in caplog.records if each.msg == "a slice is no feature so far"]
    assert ("countri", "country") == (vars(line)["feature"], vars(line)["nearest"])


def test_the_memory_of_rows_is_bounded() -> None:
    """Long texts, and ever new names, are kept in some megabytes; those that come are compared."""
    of_features, registry = watch()
    tracemalloc.start()
    for k in range(2_400 // 50):
        texts = [{f"x{j}": f"{'long' * 50}{k % 3}{j}" for j in range(150)} for _ in range(50)]
        of_features.add([row | {f"new{k}-{j}": 1.0 for j in range(50)} for row in texts], 1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for _ in range(10):  # a few features a time
        of_features.show()

    assert peak < 40_000_000
    assert MOST_FEATURES == len(shown(registry, "kaboost_feature_missing_ratio"))


def test_slices_of_a_stream(topic: str, make_settings: Make, send: Send) -> None:
    """A service shows the loss where labels of one country are noise."""
    settings = make_settings(
        topic,
        features={"schema": SCHEMA},
        metrics={"slices": ["country"]},
        kafka={"batch_events": 20},
    )
    draw = random.Random(1)

    def noisy(k: int) -> bytes:
        features = event(k, "")
        right = draw.random() < 0.5 if features["country"] == "DE" else features["amount"] > 50.0
        return record(k, features=features, label=int(right))

    send(topic, [noisy(k) for k in range(2_400)])
    with learning(settings):
        until(lambda: scrape_or_none(settings).get(LEARNED, 0.0) == 2_400)
        found = until(lambda: of(scrape(settings), "kaboost_slice_loss"))

    assert {"PT", "DE", "FR"} == set(found)
    assert found["DE"] > 1.5 * max(found["PT"], found["FR"])
