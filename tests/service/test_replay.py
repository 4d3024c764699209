"""A replay of files: the same figures whatever the format, and what its report holds."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from kaboost.models.model import Model
from kaboost.models.types import Vec
from kaboost.service.errors import ConfigError, NotWritten
from kaboost.service.lab import other_models, report
from kaboost.service.lab import replay as module
from kaboost.service.lab.other_models import LightGBM, Part, make_other_models
from kaboost.service.lab.records import FileRecords
from kaboost.service.lab.writing import write
from tests.service.replays import FAST, LINEAR, replayed, rows, write_csv

EVENTS = 700
CLASSES: dict[str, Any] = {
    "task": "multiclass",
    "overrides": {"model": LINEAR.replace("{rule", "{multiclass: one_vs_rest, rule", 1)},
}


@pytest.fixture
def table() -> list[dict[str, Any]]:
    """Some events."""
    return rows(EVENTS)


@pytest.fixture
def csv(tmp_path: Path, table: list[dict[str, Any]]) -> Path:
    """A file of them."""
    return write_csv(tmp_path / "orders.csv", table)


def test_loss_is_that_of_the_model(csv: Path, table: list[dict[str, Any]]) -> None:
    """A replay learns what `Model` learns from the same rows, in one pass and in their order."""
    result = replayed(csv)
    kinds = {"amount": "number", "country": "category", "vip": "boolean"}
    spec = {"rule": "sgb", "bank": {"kind": "linear", "n": 4, "step": "sgd", "lr": 0.1}}
    model = Model("binary", spec, kinds)
    y = np.array([row["fraud"] for row in table])
    p = model.learn_many([{k: row[k] for k in kinds} for row in table], y)[np.arange(EVENTS), y]

    assert result.loss == pytest.approx(float(-np.log(p).mean()), rel=1e-6)
    assert result.events == EVENTS
    assert {} == result.figures["rejected"]
    assert result.loss < result.losses["prior"]


def test_formats_agree(tmp_path: Path, csv: Path, table: list[dict[str, Any]]) -> None:
    """CSV, TSV, Parquet, Arrow and JSON lines, plain and packed, give one result."""
    lines = "".join(json.dumps(row) + "\n" for row in table)
    arrow = pa.Table.from_pylist(table)
    parquet.write_table(arrow, tmp_path / "a.parquet")
    feather.write_feather(arrow, tmp_path / "a.arrow")
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "a.jsonl.zst").write_bytes(pa.Codec("zstd").compress(lines.encode(), asbytes=True))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(csv.read_bytes()))
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    write_csv(tmp_path / "a.tsv", table, "\t")
    expected = replayed(csv).losses

    for path in sorted(tmp_path.glob("a.*")):
        assert expected == replayed(path).losses, path.name


def test_standard_input(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads standard input, whose format its first bytes tell."""
    expected = replayed(csv).losses
    with csv.open() as file:
        monkeypatch.setattr("sys.stdin", file)

        assert expected == replayed("-").losses


def test_configuration_holds(tmp_path: Path, csv: Path) -> None:
    """With a file of settings its mapping holds; a label that no record has is named."""
    config = tmp_path / "kaboost.yaml"
    text = "task: {kind: binary}\nevents: {label: fraud, id: order, ignore: [vip], coerce: true}\n"
    config.write_text(text)
    result = replayed(csv, None, config=config, overrides={})

    assert ["amount", "country"] == sorted(result.figures["features"])
    with pytest.raises(ConfigError, match=r"events\.label = froud.* did you mean 'fraud'"):
        replayed(csv, "froud", config=config, overrides={})


def test_slices_and_curves(csv: Path) -> None:
    """Groups of a slice and steps of the curve hold all events and their mean loss."""
    figures = replayed(csv, slices=("country", "amount", "vip")).figures
    countries = figures["slices"]["country"]
    mean = sum(row["events"] * row["loss model"] for row in countries) / EVENTS

    assert {"PT", "DE", "FR"} == {row["group"] for row in countries}
    assert figures["losses"]["model"] == pytest.approx(mean, rel=1e-5)
    amounts = figures["slices"]["amount"]
    assert EVENTS == sum(row["events"] for row in amounts)
    assert amounts[0]["group"].startswith("amount <= ")
    assert amounts[-1]["group"].startswith("> ")
    assert {"amount", "country", "vip"} == {row["name"] for row in figures["slow_features"]}
    assert EVENTS == figures["curve"]["events"][-1]
    assert figures["losses"]["prior"] == pytest.approx(figures["running"]["loss prior"][-1])
    with pytest.raises(ConfigError, match="--slice contry: is no feature; did you mean 'country'"):
        replayed(csv, slices=("contry",))


def test_time_and_regression(tmp_path: Path) -> None:
    """Numbers have intervals instead of reliability; times of the events make spans."""
    found = [
        {"at": f"2026-11-{1 + k // 100:02d}T10:00:00Z", "x": k % 13, "price": 2.5 * (k % 13)}
        for k in range(600)
    ]
    path = write_csv(tmp_path / "prices.csv", found)
    figures = replayed(path, "price", timestamp="at", task="regression").figures

    assert "regression" == figures["task"]
    assert [] == figures["reliability"]
    assert 0.9 in [row["level"] for row in figures["intervals"]]
    assert 6 == len(figures["by_time"])
    assert "2026-11-01T00:00:00Z" == figures["by_time"][0]["from"][:11] + "00:00:00Z"


def test_report_needs_no_network(tmp_path: Path, csv: Path) -> None:
    """The report is one file with its figures; no text of the input ends its script."""
    result = replayed(csv)
    result.figures["notes"].append("</script><b>")
    result.to_html(tmp_path / "r.html")
    result.to_json(tmp_path / "r.json")
    result.to_png(tmp_path / "r.png")
    page = (tmp_path / "r.html").read_text()

    assert "</script><b>" not in page
    assert 4 == page.count("</script>")
    assert not [each for each in ("src=", "href=", "@import", "fetch(") if each in page]
    assert result.figures == json.loads((tmp_path / "r.json").read_text())
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    assert result.to_frame().index[-1] == EVENTS
    assert "progressive loss" in result._repr_html_()


def test_full_disk_keeps_the_old_report(tmp_path: Path) -> None:
    """A report that cannot be written leaves the one before, and nothing else."""
    path = tmp_path / "r.html"
    path.write_text("before")

    def fill(_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(NotWritten, match=r"No space left on device; make room there"):
        write(path, fill)
    assert "before" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_interruption_keeps_the_part(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while reading ends the replay; what was learned until then is reported."""
    batches = FileRecords.batches

    def interrupted(self: FileRecords, size: int) -> Any:
        yield next(batches(self, 300))
        raise KeyboardInterrupt

    monkeypatch.setattr(FileRecords, "batches", interrupted)
    result = replayed(csv)

    assert result.figures["partial"]
    assert 300 == result.events


def test_other_models(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LightGBM and a model of River are on the same events; all are in the curves."""
    monkeypatch.setattr(other_models, "ROUNDS", 10)
    monkeypatch.setattr(other_models, "FIRST_ROWS", 50)
    result = replayed(csv, against=("lightgbm", "river:linear_model.LogisticRegression"))

    assert ["model", "prior", "last_label", "lightgbm"] == list(result.losses)[:4]
    assert result.losses["lightgbm"] < result.losses["prior"]
    assert "loss river:linear_model.LogisticRegression" in result.figures["curve"]
    assert isinstance(make_other_models(["lightgbm"], "binary")[0], LightGBM)
    for name, why in (
        ("xgboost", "is not known"),
        ("river:forest.Tree", "is not a usable part of River"),
    ):
        with pytest.raises(ConfigError, match=rf"--against {name}.*{why}"):
            replayed(csv, against=(name,))


class Bad:
    """A model whose losses are far too large."""

    name = "bad"

    def learn(self, part: Part) -> tuple[Vec, Vec]:
        """Return losses and errors (B,)."""
        return np.full(len(part.y), 1e30), np.full(len(part.y), 1e15)


@pytest.mark.parametrize(("task", "most"), [("binary", -np.log(1e-15)), ("regression", 1e6)])
def test_one_bound_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, most: float
) -> None:
    """The losses of other models have the bounds of the model's."""
    monkeypatch.setattr(module, "make_other_models", lambda names, task: [Bad()])
    found = [{"x": k % 7, "y": k % 3 if task == "regression" else k % 2} for k in range(60)]
    result = replayed(write_csv(tmp_path / "a.csv", found), "y", task=task, against=("bad",))
    later = result.figures["curve"]["loss bad"][2:]  # the first 20 numbers have no bound yet

    assert max(result.figures["curve"]["loss model"]) < min(later)
    assert max(later) <= most * 1.001


def test_class_that_lightgbm_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that comes after the training costs what a class never seen costs."""
    monkeypatch.setattr(other_models, "ROUNDS", 2)
    monkeypatch.setattr(other_models, "FIRST_ROWS", 50)
    found = [{"x": k % 7, "c": "ab"[k % 2] if k < 60 else "c"} for k in range(70)]
    path = write_csv(tmp_path / "a.csv", found)
    figures = replayed(path, "c", against=("lightgbm",), **CLASSES).figures

    assert figures["curve"]["loss lightgbm"][-1] == pytest.approx(np.log(50), abs=0.7)


def test_structures_have_names(csv: Path) -> None:
    """Loss over N is by structure, also where there are several classes."""
    result = replayed(csv, "country", **CLASSES)
    (axis,) = [each for each in result.plot().axes if each.get_title() == "Loss over N"]

    assert 1 == len(result.figures["prefixes"])
    assert ["structure 1"] == [text.get_text() for text in axis.get_legend().get_texts()]
    page = report.page(result.figures)
    assert "label: `structure ${k + 1}`" in page
    assert "f.classes[k]" not in page


def test_limit(csv: Path) -> None:
    """No more records are read than were asked for."""
    assert 123 == replayed(csv, limit=123).figures["records"]


def test_default_model(csv: Path) -> None:
    """The default model has importance, loss over N and alarms."""
    figures = replayed(csv, overrides={}).figures

    assert "amount" == figures["importance"][0]["name"]
    assert figures["prefixes"]
    assert FAST != figures["model"]
