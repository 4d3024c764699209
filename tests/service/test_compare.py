"""Comparison of configurations: paired differences with confidence, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kaboost.service.errors import ConfigError
from kaboost.service.lab.bootstrap import block_length, mean_difference
from kaboost.service.lab.comparison import compare
from kaboost.service.lab.planning import ConfigOptions
from kaboost.service.lab.replay import Request, no_report
from kaboost.service.lab.report import comparison_page
from tests.service.replays import rows, write_csv

TEXT = """task: {{kind: {task}}}
events: {{label: fraud, ignore: [order], coerce: true}}
features: {{schema: {{amount: number, country: category, vip: boolean}}, unknown: ignore}}
model: {{rule: sgb, bank: {{kind: linear, n: 4, step: sgd, lr: {lr}}}}}
"""
Config = Callable[..., Path]


@pytest.fixture
def csv(tmp_path: Path) -> str:
    """A file of events."""
    return str(write_csv(tmp_path / "orders.csv", rows(800)))


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Write configurations: `config(name, lr=0.1, task="binary")`."""

    def write(name: str, lr: float = 0.1, task: str = "binary") -> Path:
        path = tmp_path / f"{name}.yaml"
        path.write_text(TEXT.format(lr=lr, task=task))
        return path

    return write


def test_interval_is_that_of_a_mean() -> None:
    """For independent differences the interval is the usual one; correlated ones have a wider."""
    source = np.random.default_rng(2)
    noise = source.normal(0.1, 1.0, 8000)
    plain = mean_difference(noise)
    usual = 1.96 / np.sqrt(8000)
    slow = mean_difference(np.repeat(source.normal(0.0, 1.0, 800), 10))

    assert plain.difference == pytest.approx(noise.mean())
    assert plain.high - plain.low == pytest.approx(2.0 * usual, rel=0.1)
    assert slow.high - slow.low > 2.0 * (plain.high - plain.low)
    assert plain.is_clear
    assert 20 == block_length(8000)
    assert plain == mean_difference(noise)


def test_paired_differences(csv: str, config: Config) -> None:
    """The same configuration has no difference; a learning rate of almost nothing is worse."""
    configs = [config("a"), config("b"), config("still", lr=1e-6)]
    figures, found = compare(configs, Request(csv), lambda name: no_report)
    first, same, still = figures["rows"]

    assert ["first", "the same", "worse"] == [row["verdict"] for row in figures["rows"]]
    assert (first["difference"], same["difference"]) == (None, 0.0)
    assert still["difference"] == pytest.approx(still["loss"] - first["loss"])
    assert 0.0 < still["low"] < still["difference"] < still["high"]
    assert first["loss"] == pytest.approx(found[0].result.loss, rel=1e-6)
    page = comparison_page(json.loads(json.dumps(figures)))
    assert 4 == page.count("</script>")
    assert "src=" not in page


def test_one_event(tmp_path: Path, config: Config) -> None:
    """A single event has no interval: null in the JSON, which every reader takes."""
    path = write_csv(tmp_path / "one.csv", rows(1))
    request = Request(str(path))
    figures, _ = compare([config("a"), config("b", lr=0.2)], request, lambda name: no_report)
    _, other = figures["rows"]

    json.dumps(figures, allow_nan=False)
    assert (0.0, None, None) == (other["difference"], other["low"], other["high"])
    assert "the same" == other["verdict"]
    assert "too few events" in comparison_page(figures)


def test_what_compare_refuses(csv: str, config: Config, tmp_path: Path) -> None:
    """One configuration, standard input, other tasks, other events."""
    a, b = config("a"), config("b")
    other = tmp_path / "c.yaml"
    text = TEXT.format(lr=0.1, task="binary").replace("[order]", "[]")
    other.write_text(text.replace("label: fraud", "label: fraud, id: country"))

    with pytest.raises(ConfigError, match="name two configurations or more"):
        compare([a], Request(csv), lambda name: no_report)
    with pytest.raises(ConfigError, match="standard input is read once"):
        compare([a, b], Request("-"), lambda name: no_report)
    with pytest.raises(ConfigError, match=r"task\.kind: r has regression, a has binary"):
        compare([a, regression(tmp_path)], Request(csv, ConfigOptions()), lambda name: no_report)
    with pytest.raises(ConfigError, match=r"c learned 3 events, a 800: differences are of the"):
        compare([a, other], Request(csv), lambda name: no_report)


def regression(folder: Path) -> Path:
    """A configuration that predicts the label as a number."""
    path = folder / "r.yaml"
    path.write_text(TEXT.format(lr=0.1, task="regression"))
    return path
