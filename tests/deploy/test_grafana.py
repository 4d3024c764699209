"""The dashboards are what their code makes, and ask only for what exists."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client import CollectorRegistry

from deploy.grafana import generate
from kaboost import Model
from kaboost.models.evaluation.baselines import progressive_validation
from kaboost.service.http.source_metrics import SourceMetrics
from kaboost.service.metrics import api_metrics, learner_metrics
from kaboost.service.score.metrics import score_metrics
from kaboost.service.storage.source_status import SourceStatus
from tests.deploy.prometheus import rules
from tests.specs import LINEAR

FOLDER = Path(generate.__file__).parent
BOARDS = {path.stem: json.loads(path.read_text()) for path in generate.files()}
WORDS = {"and", "or", "unless", "bool"}
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
PARTS |= {"counter": ("_total",)}


class Expression(NamedTuple):
    """An expression and where it stands."""

    at: str
    text: str


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """List the panels of a dashboard that show something."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def asked() -> Iterator[Expression]:
    """List the expressions of all panels, annotations and variables."""
    for board in BOARDS.values():
        for panel in panels(board):
            for target in panel["targets"]:
                at = f"{board['title']}, {panel['title']}, {target['legendFormat']}"
                yield Expression(at, target["expr"])
        for mark in board["annotations"]["list"]:
            yield Expression(f"{board['title']}, {mark['name']}", mark["expr"])
        for variable in board["templating"]["list"]:
            found = re.fullmatch(r"query_result\((.+)\)", variable["query"])
            assert found
            yield Expression(f"{board['title']}, ${variable['name']}", found[1])


def exposed() -> set[str]:
    """Name every series that a scrape can show."""
    registry = CollectorRegistry()
    api_metrics(registry)
    model = Model("binary", LINEAR, {"x": "number"})
    learner_metrics(registry).validation.record(
        progressive_validation(model.labels), model.booster.progress
    )
    answering = CollectorRegistry()
    score_metrics(answering)
    with TemporaryDirectory() as folder:
        SourceStatus("kafka:t", 0.0).write(Path(folder))
        families = [
            *registry.collect(),
            *answering.collect(),
            *SourceMetrics(Path(folder)).collect(),
        ]
    return {family.name + part for family in families for part in PARTS.get(family.type, ("",))}


def named(expression: str) -> set[str]:
    """Name the series that an expression is about: what is neither function nor label nor word."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]', " ", re.sub(r'"[^"]*"', "", expression))
    bare = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    return set(re.findall(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()", bare)) - WORDS


ASKED = [
    *asked(),
    *(Expression(*rule[:2]) for kind in ("record", "alert") for rule in rules(kind)),
]


@pytest.mark.parametrize("expression", ASKED, ids=lambda expression: expression.at)
def test_expressions_name_what_exists(expression: Expression) -> None:
    """A panel or rule about a metric that nobody exposes would stay empty for ever."""
    known = exposed() | {rule.name for rule in rules("record")} | {"up"}

    assert named(expression.text)
    assert set() == named(expression.text) - known


def test_names_are_found() -> None:
    """The reading of expressions sees through functions, labels, ranges and joins."""
    text = 'sum by (le) (rate(a_total{x="b"}[5m])) / on (job) group_left (v) c:d and e unless f > 0'

    assert {"a_total", "c:d", "e", "f"} == named(text)


def test_committed_is_generated() -> None:
    """Who changes a dashboard changes its code, and runs `python -m deploy.grafana.generate`."""
    assert {"overview.json", "learning.json", "data.json"} == {
        path.name for path in generate.FOLDER.iterdir()
    }
    for path, text in generate.files().items():
        assert text == path.read_text(), f"{path.name}: run python -m deploy.grafana.generate"


@pytest.mark.parametrize("word", BOARDS)
def test_boards_stand_alone(word: str) -> None:
    """A dashboard has a fixed address, asks for no input and finds its data source by itself."""
    board = BOARDS[word]
    text = json.dumps(board)
    (source,) = yaml.safe_load((FOLDER / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    asked = [panel["datasource"] for panel in panels(board)]
    asked += [target["datasource"] for panel in panels(board) for target in panel["targets"]]
    asked += [variable["datasource"] for variable in board["templating"]["list"]]

    assert f"kaboost-{word}" == board["uid"]
    assert ["model", "instance"] == [each["name"] for each in board["templating"]["list"]]
    assert "${" not in text
    assert "__inputs" not in board
    assert {source["uid"]} == {each["uid"] for each in asked}
    assert {source["type"]} == {each["type"] for each in asked}


@pytest.mark.parametrize("word", BOARDS)
def test_panels_explain_themselves(word: str) -> None:
    """Every panel has a title of its own, a description and a unit, and a place of its own."""
    shown = panels(BOARDS[word])
    titles = [panel["title"] for panel in shown]
    cells = [cell for panel in BOARDS[word]["panels"] for cell in covered(panel["gridPos"])]

    assert len(titles) == len(set(titles))
    assert all(len(panel["description"]) > 20 for panel in shown)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in shown)
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def covered(place: dict[str, int]) -> list[tuple[int, int]]:
    """List the cells of the grid that a panel takes."""
    across = range(place["x"], place["x"] + place["w"])
    return [(x, y) for x in across for y in range(place["y"], place["y"] + place["h"])]


def test_provisioning_finds_the_boards() -> None:
    """Grafana reads the folder that compose mounts, and nobody edits what code makes."""
    whole = yaml.safe_load((FOLDER / "provisioning/dashboards/kaboost.yml").read_text())
    (provider,) = whole["providers"]

    assert "/var/lib/grafana/dashboards" == provider["options"]["path"]
    assert provider["allowUiUpdates"] is False
