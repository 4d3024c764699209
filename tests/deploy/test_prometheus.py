"""The rules on a real Prometheus that watches a real service: all numbers there, alerts fire."""

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from kaboost.service.demo import producer
from tests.deploy.prometheus import (
    CONFIGURATION,
    FOLDER,
    RULES,
    Prometheus,
    promtool,
    quantities,
    rules,
    shorten,
    wait,
)
from tests.deploy.stream import Feed
from tests.deploy.test_grafana import Expression
from tests.deploy.test_grafana import asked as panels
from tests.kafka.broker import Reachable
from tests.kafka.client import create_topic
from tests.service.serving import Program, running, settings
from tests.test_docs import leads

ROOT = Path(__file__).parents[2]
UNIT_TESTS = FOLDER / "alerts.test.yml"
ALERTS = {rule.name: rule for rule in rules("alert")}
CONTRACT = """ConsumerLagHigh SnapshotStale CheckpointStale LossRegressed WorseThanBaseline
    DeadLettersGrowing PredictLatencyHigh NoEvents LearnerStalled LearningPaused TargetDown
    ServingFallback SnapshotSourceDown ScoreWaiting ScoreLagHigh ScoreAborting
    NoLeader"""

NUMBERS = r"interval_coverage"  # of a regression alone; this service has two classes
ANNOTATED = " > 0"  # of what marks a moment in all panels: without it, there is a number always
# What need not change when more events are fed, by what its expression is about, and why.
STEADY = {
    r"^kaboost:(learner_)?up$|learner_idle|_info|leaders": "a state, not a count",
    r":(snapshot|checkpoint)_age": "an age: it grows and falls back by itself",
    r"consumer_lag": "0 as long as the learner keeps up",
    r"predict(?!or)|http_server": "about requests, not about events",
    r"histogram_quantile|event_to_snapshot": "a duration, told in buckets",
    r"checkpoint_size|model_memory": "bounded: the same for any number of events",
    r"waiting|labels_(early|held)": "0 as long as labels follow at once",
    r"labels_(expired|unmatched)": "a label that never comes, or that nobody waits for",
    r"rejected_ratio": "the same as long as the same share is rejected",
    r"duplicates|skipped|limited|repaired|lost|on_trial|evicted|accepted": "no such records",
    r"paused|stalled|ignored|fallback|restarts|failures|drift|rollbacks": "it does not happen here",
    r"promotions": "there are no candidates here",
    r"score_|source_up": "no such process, and no reader, is here",
}
pytestmark = pytest.mark.timeout(400)  # a fault in the rules shows by long waits
MOVING = r"events_|progressive_|prefix_loss|edge|learn_batch|snapshot_version"


class Seen(NamedTuple):
    """What was found while a service was fed and then hurt."""

    without_data: list[Expression]
    unmoved: list[Expression]
    broken: list[str]
    fired: list[str]
    cleared: list[str]


def everything() -> list[Expression]:
    """List recording rules, the alerts' quantities without their limits, and panels."""
    found = [Expression(rule.name, rule.name) for rule in rules("record")]
    for alert in ALERTS.values():
        found += [Expression(alert.name, quantity) for quantity in quantities(alert)]
    found += [each._replace(text=each.text.removesuffix(ANNOTATED)) for each in panels()]
    return [each for each in found if not re.search(NUMBERS, each.text)]


def steady(expression: Expression) -> bool:
    """Say whether an expression need not change with more events."""
    return any(re.search(pattern, expression.text) for pattern in STEADY)


@pytest.fixture(scope="module")
def seen(broker: Reachable, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Feed a real service under a real Prometheus, look at every number, then hurt it."""
    folder = tmp_path_factory.mktemp("watched")
    topic, labels = create_topic(broker.bootstrap), create_topic(broker.bootstrap)
    kafka = {"bootstrap_servers": broker.bootstrap, "topic": topic, "group_id": topic}
    task = {"kind": "binary", "labels": ["DOWN", "UP"]}
    late = {"topic": labels, "directory": str(folder / "labels")}
    schema = {"schema": producer.schema()}
    wanted = settings(folder, kafka=kafka, task=task, features=schema, labels=late)
    with running("serve", wanted) as program:
        program.ready()
        target = f"127.0.0.1:{program.port}"
        with (
            closing(Prometheus(folder / "prometheus", target)) as prometheus,
            closing(Feed(broker.bootstrap, topic, labels, f"http://{target}")) as feed,
        ):
            assert wait(prometheus.ready, 30)
            without_data, unmoved = look(prometheus, feed, target)
            broken = prometheus.broken()
            return Seen(without_data, unmoved, broken, *hurt(prometheus, feed, program))


def look(
    prometheus: Prometheus, feed: Feed, target: str
) -> tuple[list[Expression], list[Expression]]:
    """Evaluate everything, feed faster, evaluate again; give what has no data or did not move."""
    filled = {
        "$instance": target,
        "$__rate_interval": "1m",
        "$model": "kaboost",
    }  # as Grafana does it
    asked = {each: replace(each.text, filled) for each in everything()}
    empty = remaining(asked, lambda each: prometheus.finite(asked[each]), 60)
    before = {each: prometheus.ask(asked[each]) for each in asked if not steady(each)}
    feed.pace *= 3
    still = remaining(
        before,
        lambda each: prometheus.finite(asked[each]) and prometheus.ask(asked[each]) != before[each],
        30,
    )
    return empty, still


def hurt(prometheus: Prometheus, feed: Feed, program: Program) -> tuple[list[str], list[str]]:
    """Inject three faults, heal the first two; give the alerts that fired and that cleared.

    1. Poison: a fifth of the records is none.
    2. The producer stops.
    3. Poison and silence end.
    4. The learner stops for good: killed, it finds its offsets committed and no checkpoint.
    """
    fired = []

    def expect(alert: str, within: float) -> None:
        if wait(lambda: alert in prometheus.firing(), within):
            fired.append(alert)

    feed.poisoned = 0.2
    expect("KaboostDeadLettersGrowing", 40)
    pace, feed.pace = feed.pace, 0
    expect("KaboostNoEvents", 60)
    feed.pace, feed.poisoned = pace, 0
    wait(lambda: not prometheus.firing() & set(fired), 30)
    cleared = [alert for alert in fired if alert not in prometheus.firing()]
    stop_learner(program)
    expect("KaboostSnapshotStale", 40)
    return fired, cleared


def stop_learner(program: Program) -> None:
    """Take its checkpoints away and kill it: it refuses a cold start, and stays down."""
    learner = program.child("learner")
    learner.suspend()  # it must not write another one meanwhile
    (program.folder / "checkpoints").rename(program.folder / "lost")
    learner.kill()
    assert wait(lambda: program.events("process stopped", role="learner"), 30)


def remaining(
    expressions: Iterable[Expression], done: Callable[[Expression], bool], within: float
) -> list[Expression]:
    """Wait until all are done; give those that are not when the time is up."""
    left = list(expressions)

    def none_left() -> bool:
        left[:] = [each for each in left if not done(each)]
        return not left

    wait(none_left, within)
    return left


def replace(text: str, values: dict[str, str]) -> str:
    """Put values in the place of names."""
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def test_every_expression_gives_data(seen: Seen) -> None:
    """Each recording rule, panel and alert without its limit gives data, all of it finite."""
    assert [] == seen.without_data
    assert [] == seen.broken


def test_numbers_follow_the_events(seen: Seen) -> None:
    """Those of events, loss, batches and versions change when more events are fed."""
    assert [] == seen.unmoved


def test_three_faults_fire(seen: Seen) -> None:
    """Poison, a stopped producer and a stopped learner each fire their alert."""
    assert ["KaboostDeadLettersGrowing", "KaboostNoEvents", "KaboostSnapshotStale"] == seen.fired


def test_healed_faults_clear(seen: Seen) -> None:
    """An alert goes when its fault has gone."""
    assert ["KaboostDeadLettersGrowing", "KaboostNoEvents"] == seen.cleared


def test_steady_numbers_are_few() -> None:
    """What need not change is none of events, losses, batches or versions, and each is there."""
    still = [each for each in everything() if steady(each)]
    wrong = [each for each in still if re.search(MOVING, each.text) and "_info" not in each.text]
    unused = [p for p in STEADY if not any(re.search(p, each.text) for each in still)]

    assert [] == wrong
    assert [] == unused


def test_files_are_valid() -> None:
    """Prometheus takes configuration and rules."""
    promtool("check", "config", "--lint-fatal", CONFIGURATION)
    promtool("check", "rules", "--lint-fatal", *RULES)


def test_alerts_fire_once_and_clear() -> None:
    """promtool: each alert fires once and alone while its fault is in the series, and clears."""
    promtool("test", "rules", UNIT_TESTS)


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_has_its_unit_test(name: str) -> None:
    """It looks before, meanwhile and after, and counts over the whole time all that fired."""
    tests = yaml.safe_load(UNIT_TESTS.read_text())["tests"]
    looks = [
        (
            [len(look.get("exp_alerts", [])) for look in test["alert_rule_test"]],
            [expr["expr"] for expr in test.get("promql_expr_test", ()) if "ALERTS" in expr["expr"]],
        )
        for test in tests
        if {look["alertname"] for look in test["alert_rule_test"]} == {name}
    ]

    assert looks
    assert all(seen == [0, 1, 0] for seen, _ in looks)
    assert any(counted for _, counted in looks)


def test_alerts_are_those_of_the_contract() -> None:
    """No alert is missing, none is unknown."""
    assert {f"Kaboost{name}" for name in CONTRACT.split()} == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_alert_tells_what_to_do(name: str) -> None:
    """Severity, summary and description are there, and the link leads to its own section."""
    whole = ALERTS[name].whole
    annotations = whole["annotations"]

    assert whole["labels"]["severity"] in ("critical", "warning")
    assert {"summary", "description", "runbook_url"} == set(annotations)
    page, anchor = "docs/runbook.md", name.lower()
    url = f"{{{{ or $externalLabels.kaboost_runbook `{page}` }}}}#{anchor}"
    assert url == annotations["runbook_url"]
    assert leads(ROOT / "README.md", f"{page}#{anchor}")


def test_shortened_rules_differ_in_time_alone() -> None:
    """The copy for the test keeps every name and number but durations and limits of seconds."""
    assert "for: 20000ms" == shorten("for: 10m")
    assert "rate(a:rate5m[10000ms]) > 2 * 2" == shorten("rate(a:rate5m[5m]) > 2 * 60")
    assert "every: 500ms, more > 0.05 and 1000" == shorten("every: 15s, more > 0.05 and 1000")
