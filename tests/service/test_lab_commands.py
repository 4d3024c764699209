"""The commands of the laboratory: what they print and write, and their exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kaboost.service.cli import main
from kaboost.service.lab.records import FileRecords
from kaboost.service.storage.live import RECORDS, LiveFiles
from tests.service.replays import LINEAR, rows, write_csv


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command in a folder with a file of events."""
    write_csv(tmp_path / "orders.csv", rows(300))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, printed.out, printed.err)

    return run


REPLAY = ("replay", "orders.csv", "--label", "fraud", "--set", f"model={LINEAR}")


def test_replay_prints_and_writes(run: Run, tmp_path: Path) -> None:
    """The table names every predictor; the report, its JSON and the picture are named."""
    done = run(*REPLAY, "--png", "p.png", "--slice", "country")

    assert 0 == done.code
    assert "300 events of 300 records" in done.out
    for name in ("model", "prior", "last_label"):
        assert name in done.out
    assert "written: orders.replay.html, orders.replay.json, p.png" in done.out
    names = {"orders.csv", "orders.replay.html", "orders.replay.json", "p.png"}
    assert names == {path.name for path in tmp_path.iterdir()}
    assert 300 == json.loads(Path("orders.replay.json").read_text())["events"]


def test_replay_as_json(run: Run, tmp_path: Path) -> None:
    """With --json nothing but the figures is printed; `none` writes no file."""
    done = run(*REPLAY, "--json", "--report", "none")

    assert 300 == json.loads(done.out)["events"]
    assert ["orders.csv"] == [path.name for path in tmp_path.iterdir()]


def test_interrupted_replay_ends_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C the part that was learned is printed and written."""
    batches = FileRecords.batches

    def interrupted(self: FileRecords, size: int) -> object:
        yield next(batches(self, 200))
        raise KeyboardInterrupt

    monkeypatch.setattr(FileRecords, "batches", interrupted)
    done = run(*REPLAY)

    assert 130 == done.code
    assert "200 events of 200 records" in done.out
    assert "INTERRUPTED" in done.out
    assert json.loads(Path("orders.replay.json").read_text())["partial"]


def test_full_disk_after_a_replay(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that cannot be written comes after the table, with its remedy."""
    from kaboost.service.lab import writing

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    done = run(*REPLAY)

    assert 1 == done.code
    assert "300 events of 300 records" in done.out
    assert "orders.replay.html: cannot be written: No space left on device" in done.err
    assert ["orders.csv"] == [path.name for path in Path().iterdir()]


def test_usage(run: Run, tmp_path: Path) -> None:
    """What cannot work ends with 2 before anything is learned."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    for flags, why in (
        (("--report", "gone/r.html"), "there is no folder"),
        (("--save", "full"), "--save full: exists; name a folder that is new or empty"),
        (("--label", "froud"), "did you mean 'fraud'"),
        (("--set", "model"), "--set model: write SECTION.KEY=VALUE"),
        (("--against", "catboost"), "--against catboost: is not known"),
    ):
        done = run(*REPLAY, *flags)
        assert (2, True) == (done.code, why in done.err), done


def test_save_names_the_command_that_continues(run: Run) -> None:
    """A saved folder has its configuration, which can be checked."""
    done = run(*REPLAY, "--save", "trained", "--report", "none")

    assert "continue as a service: kaboost serve --config trained/kaboost.yaml" in done.out
    assert '"ok"' in run("config", "check", "--config", "trained/kaboost.yaml", "--json").out
    shown = run("checkpoints", "list", "--config", "trained/kaboost.yaml", "--json").out
    assert "ok" == json.loads(shown)[0]["state"]
    seen = LiveFiles(Path("trained/snapshots")).read(RECORDS)["seen"]
    assert {"amount", "country", "vip"} <= seen.keys()  # the form of the page begins with them
    assert seen["amount"]["low"] <= seen["amount"]["last"] <= seen["amount"]["high"]


def test_a_column_that_is_no_feature_is_named(run: Run) -> None:
    """With the flag that makes it one."""
    Path("timed.csv").write_text(
        "timestamp,amount,fraud\n"
        + "".join(f"2026-01-01T00:{k // 60:02d}:{k % 60:02d}Z,{k},{k % 2}\n" for k in range(300))
    )
    timed = ("replay", "timed.csv", *REPLAY[2:], "--report", "none")
    words = "timestamp: is taken for the time of an event, and is no feature; --timestamp none"

    assert words in run(*timed).out.replace("\n", " ")
    assert "timestamp" not in run(*timed, "--timestamp", "none").out


def test_compare_prints_and_writes(run: Run, tmp_path: Path) -> None:
    """One table, one page; the JSON next to it is what --json prints."""
    text = "task: {kind: binary}\nevents: {label: fraud, ignore: [order], coerce: true}\n"
    text += "features: {schema: {amount: number, country: category, vip: boolean}}\n"
    for name in "ab":
        (tmp_path / f"{name}.yaml").write_text(f"{text}model: {LINEAR}\n")
    done = run("compare", "a.yaml", "b.yaml", "--on", "orders.csv")

    assert 0 == done.code
    assert "the same 300 events" in done.out
    assert "written: comparison.html, comparison.json" in done.out
    figures = json.loads(Path("comparison.json").read_text())
    assert ["first", "the same"] == [row["verdict"] for row in figures["rows"]]
