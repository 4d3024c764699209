"""Tuning: the lowest loss wins, a killed study goes on, and what is refused."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from kaboost.service.config.settings import load
from kaboost.service.errors import ConfigError
from kaboost.service.lab import tuning
from kaboost.service.lab.bootstrap import mean_difference
from kaboost.service.lab.display import show_tuning
from kaboost.service.lab.planning import ConfigOptions
from kaboost.service.lab.space import draw, read_space, rungs
from kaboost.service.lab.trial import run as run_trial
from kaboost.service.lab.tuning import Trial, TuneRequest, tune, winning_text
from tests.service.learning import until
from tests.service.replays import rows, write_csv

BASE = """task: {kind: binary}
events: {label: fraud, ignore: [order], coerce: true}
features: {schema: {amount: number, country: category, vip: boolean}}
model: {rule: sgb, bank: {kind: linear, n: 4, step: sgd, lr: 0.000001}}
"""
SPACE = {"model.bank.lr": [1e-6, 0.01, 0.1], "model.bank.n": [2, 4]}


@pytest.fixture
def study(tmp_path: Path) -> TuneRequest:
    """A study of a configuration that hardly learns."""
    source = write_csv(tmp_path / "orders.csv", rows(1200))
    config = tmp_path / "base.yaml"
    config.write_text(BASE)
    return TuneRequest(
        str(source), ConfigOptions(config), SPACE, tmp_path / "study", candidates=6, jobs=2
    )


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Run trials in this process, and list them."""
    found: list[dict[str, Any]] = []

    def run(self: Any, candidate: dict[str, Any], limit: int | None) -> Trial:
        losses = str(self.losses_path(candidate)) if limit == self.request.limit else None
        flags = tuning.flags_of(candidate)
        job = {
            "source": self.request.source, "config": str(self.folder / tuning.BASE), "flags": flags,
            "limit": limit, "delimiter": None, "losses": losses,
        }  # fmt: skip
        found.append(job)
        return Trial(candidate, limit, run_trial(job))

    monkeypatch.setattr(tuning._Study, "_run", run)
    return found


def quiet(done: int, total: int, lowest: float | None) -> None:
    """Report nothing."""


def test_lowest_loss_wins(study: TuneRequest, jobs: list[dict[str, Any]], tmp_path: Path) -> None:
    """All candidates and the default learn all records; the winner's configuration is whole."""
    figures = tune(study, quiet)
    losses = [row["loss"] for row in figures["rows"]]

    assert 7 == len(jobs) == figures["trials"]
    assert losses == sorted(losses)
    assert figures["best"]["loss"] == losses[0] < figures["default"]["loss"]
    assert figures["best"]["settings"]["model.bank.lr"] > 1e-6
    assert figures["gain"]["high"] < 0.0
    tuned = tmp_path / "tuned.yaml"
    tuned.write_text(winning_text(study.folder, figures["best"]["settings"]))
    model = load(tuned).model
    assert model is not None
    assert figures["best"]["settings"]["model.bank.lr"] == model["bank"]["lr"]
    assert "linear" == model["bank"]["kind"]


def test_study_goes_on(study: TuneRequest, jobs: list[dict[str, Any]]) -> None:
    """What is done is not run again; half a line of a killed study is run again."""
    before = tune(study, quiet)
    path = study.folder / "trials.jsonl"
    jobs.clear()

    assert before == tune(study, quiet)
    assert [] == jobs
    path.write_text(path.read_text()[:-30])
    assert before["best"] == tune(study, quiet)["best"]
    assert 1 == len(jobs)
    with pytest.raises(ConfigError, match="has a study with another seed; name a new folder"):
        tune(study._replace(seed=2), quiet)


def test_halving(
    study: TuneRequest, jobs: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ever fewer candidates learn ever more records; the last ones learn all."""
    monkeypatch.setattr(tuning, "LEAST_RECORDS", 100)
    figures = tune(study._replace(strategy="halving"), quiet)
    limits = [job["limit"] for job in jobs]

    assert [None, *[400] * 6, *[None] * 2] == limits
    assert figures["best"]["settings"]["model.bank.lr"] > 1e-6


def test_failed_candidates_are_listed(study: TuneRequest, jobs: list[dict[str, Any]]) -> None:
    """A candidate that cannot be replayed has its reason, and does not win."""
    space = {"model.bank.n": [4, -3]}
    figures = tune(study._replace(space=space), quiet)

    assert ["n=-3"] == [row["candidate"] for row in figures["failed"]]
    assert "-3" in figures["failed"][0]["fault"]
    assert 4 == figures["best"]["settings"].get("model.bank.n", 4)


def test_one_event(
    study: TuneRequest, jobs: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A winner by a single event has a difference without an interval, also in what is printed."""
    figures = tune(study._replace(limit=1), quiet)
    figures["best"]["settings"] = {"model.bank.lr": 0.1}
    figures["gain"] = mean_difference(np.array([-0.5])).figures
    show_tuning(figures, "tuned.yaml")

    json.dumps(figures, allow_nan=False)
    assert "difference -0.5000, of too few events for an interval;" in capsys.readouterr().out


def test_draws() -> None:
    """Candidates differ, come from their ranges, and are the same for a seed."""
    space = {"a.x": {"low": 1, "high": 100, "scale": "log", "whole": True}, "a.y": ["p", "q"]}
    drawn = draw(space, 30, 3)

    assert drawn == draw(space, 30, 3) != draw(space, 30, 4)
    assert 30 == len({json.dumps(each) for each in drawn})
    assert all(1 <= each["a.x"] <= 100 and isinstance(each["a.x"], int) for each in drawn)
    assert 2 == len(draw({"a.y": ["p", "q"]}, 30, 3))
    assert [(4, 3000), (1, 9000)] == rungs(4, 9000, 3, 1000)
    assert [(5, 900)] == rungs(5, 900, 3, 1000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no mapping"),
        ("lr: [1]", "space.lr: is no setting"),
        ("model.bank.lr: 3", "is no choice; write a list"),
        ("model.bank.lr: {low: 3, high: 1}", "is no range"),
        ("model.bank.lr: {low: 0, high: 1, scale: log}", "is no range"),
        ("a: [", "cannot be read"),
    ],
)
def test_space_is_checked(tmp_path: Path, text: str, why: str) -> None:
    """A space that cannot be drawn from is refused with the remedy."""
    path = tmp_path / "space.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=why):
        read_space(path)


def test_killed_command_goes_on(study: TuneRequest, tmp_path: Path) -> None:
    """After kill -9 the same command ends the study, and runs no trial twice."""
    (tmp_path / "space.yaml").write_text(yaml.safe_dump({"model.bank.lr": [0.01, 0.1]}))
    command = [
        sys.executable, "-m", "kaboost.service.cli", "tune", "orders.csv", "--config", "base.yaml",
        "--space", "space.yaml", "--jobs", "1", "--limit", "300",
    ]  # fmt: skip
    trials = tmp_path / "tuning" / "trials.jsonl"
    plain = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # starts sooner
    first = subprocess.Popen(command, cwd=tmp_path, env=plain, stderr=subprocess.DEVNULL)
    until(lambda: trials.is_file() and trials.read_text())
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    done = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True)
    candidates = [json.loads(line)["candidate"] for line in trials.read_text().splitlines()]

    assert 0 == done.returncode, done.stderr
    assert "tuning brings" in done.stdout
    assert 3 == len(candidates) == len({json.dumps(each) for each in candidates})
    assert (tmp_path / "tuned.yaml").is_file()
