"""The published tables: loaders of the original formats, cells that resume, bands, costs."""

import gzip
import importlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.papers import cells, loaders, nets, onlb, pages, sgb_figure1
from bench.papers.__main__ import DOCS, NAMES
from bench.papers.pages import Claim, Page

MEASURED: list[int] = []


def measure(cell: cells.Cell, folder: Path) -> cells.Result:
    """Stand for the function of a table's module."""
    MEASURED.append(cell["k"])
    return {"twice": 2 * cell["k"]}


def slice_lines() -> str:
    """Write ten rows as UCI's slice_localization_data.csv has them."""
    head = ",".join(["patientId", *(f"value{k}" for k in range(384)), "reference"])
    rows = [
        ",".join([str(k // 4), *(f"{(k + j) % 7 / 7:.6g}" for j in range(384)), f"{21.8 + k:.6f}"])
        for k in range(10)
    ]
    return "\n".join([head, *rows]) + "\n"


def year_lines() -> str:
    """Write ten rows as UCI's YearPredictionMSD.txt has them."""
    rows = [
        ",".join([str(1999 + k), *(f"{49.94357 - j * k:.5f}" for j in range(90))])
        for k in range(10)
    ]
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("packed", [False, True])
def test_slice_is_read_without_the_patient(tmp_path: Path, packed: bool) -> None:
    """384 inputs, and the location in units of 100."""
    write(tmp_path / "slice_localization_data.csv", slice_lines(), packed)
    data = loaders.slice_(tmp_path)

    assert (10, 384) == data.X.shape
    assert data.y[3] == pytest.approx(0.248)
    assert data.X[1, 2] == pytest.approx(3 / 7, abs=1e-5)


@pytest.mark.parametrize("packed", [False, True])
def test_year_keeps_its_last_rows_for_tests(
    tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """90 inputs, the year as the target, and the official cut, never shuffled across."""
    monkeypatch.setattr(loaders, "YEAR_TRAIN", 7)
    write(tmp_path / "YearPredictionMSD.txt", year_lines(), packed)
    train, test = loaders.split(tmp_path, "YEAR")

    assert (7, 90) == train.X.shape
    assert [2006.0, 2007.0, 2008.0] == test.y.tolist()
    assert set(range(1999, 2006)) == set(train.y)


def write(path: Path, text: str, packed: bool) -> None:
    """Write a file, packed or not."""
    if packed:
        with gzip.open(path.with_name(f"{path.name}.gz"), "wt") as out:
            out.write(text)
    else:
        path.write_text(text)


@pytest.mark.parametrize("name", ["SLICE", "YEAR"])
def test_a_missing_file_is_named_with_its_source(tmp_path: Path, name: str) -> None:
    """The message has the path and the address to fetch it from."""
    with pytest.raises(loaders.Missing, match=r"is missing.*archive\.ics\.uci\.edu"):
        loaders.LOADERS[name](tmp_path)


def test_a_killed_run_loses_only_the_cell_that_was_cut_off(tmp_path: Path) -> None:
    """Cells with a result are not measured again; half a line counts as none."""
    file, plan = tmp_path / "results.jsonl", [{"k": k} for k in range(4)]
    MEASURED.clear()
    cells.run_missing(__name__, plan[:3], tmp_path, file, 1)
    text = file.read_text()
    file.write_text(text[: text.rstrip().rfind("\n") + 20])
    run = cells.run_missing(__name__, plan, tmp_path, file, 1)

    assert [0, 1, 2, 2, 3] == MEASURED
    assert [0, 2, 4, 6] == [result["twice"] for _, result in run.pairs]
    assert [({"k": 3}, {"twice": 6})] == run.where(k=3)


def test_rows_are_standardised_by_those_before_them() -> None:
    """Mean and variance leave out the row itself; constants are 0; values end at 10."""
    X = np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0], [900.0, 5.0]])
    scaled, other = loaders.standardise(X, X[:1])
    sd = np.std([1.0, 3.0])

    assert [0.0, 0.0, 0.0, 10.0] == scaled[:, 0].tolist()
    assert not scaled[:, 1].any()
    assert other[0, 0] == pytest.approx((1.0 - X[:, 0].mean()) / X[:, 0].std())
    again, _ = loaders.standardise(X[[0, 1, 1]])
    assert again[2, 0] == pytest.approx((3.0 - 2.0) / sd)


def test_the_quick_form_fails_outside_a_band(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it does for a figure without a band, a band without a figure, and a claim of its own."""
    monkeypatch.setattr(pages, "BANDS", tmp_path / "bands.json")
    pages.write_bands("one", Page("", {"a": 0.5, "b": 40.0}))

    assert [] == pages.outside("one", Page("", {"a": 0.54, "b": 33.0}))
    assert ["a is 0.56, outside 0.45 to 0.55"] == pages.outside(
        "one", Page("", {"a": 0.56, "b": 40.0})
    )
    assert 2 == len(pages.outside("one", Page("", {"a": 0.5, "c": 1.0})))
    claims = [Claim("x", False, "1 of 2"), Claim("y", False, "", quick=False)]
    assert ["does not hold: x (1 of 2)"] == pages.outside(
        "one", Page("", {"a": 0.5, "b": 40.0}, claims)
    )


def test_a_page_keeps_what_was_written_about_differences(tmp_path: Path) -> None:
    """The rest of the page is of the run."""
    scale, run = cells.Scale("short", 10, 1, 1), cells.Run([({}, {})], 3.0)
    target = pages.write(tmp_path, "one", "One", "About.", Page("first", {}), scale, run)
    target.write_text(target.read_text().replace("Not written.", "By half."))
    pages.write(tmp_path, "one", "One", "About.", Page("second", {}), scale, run)

    assert target.read_text().endswith(f"{pages.DIFFERS}\n\nBy half.\n")
    assert "first" not in target.read_text()


def small_task(loss: Any = "squared") -> nets.Task:
    """Make a task of 24 rows."""
    X = np.linspace(-1.0, 1.0, 48).reshape(24, 2)
    bank = {"kind": "nets", "hidden": 1, "lr": 0.05}
    return nets.Task(X, X[:, 0] + 1.0, X[:4], X[:4, 0] + 1.0, loss, bank, 1)


def test_costs_are_those_of_the_specification() -> None:
    """3 T N on the stream; T (N^2 / 2 + 2 N) and half an N more for learners in sequence."""
    whole = nets.stream(small_task(), 3, 0.5, 0, 2)
    parts = nets.in_sequence(small_task(), 3, 0.5, 0)

    assert 3 * 3 * 24 * 2 == whole["units"][-1]
    assert 24 * sum(e * (i + 3) for i, e in enumerate(parts["epochs"])) == parts["units"][-1]
    assert parts["units"] == sorted(parts["units"])


def test_a_group_of_all_learners_is_the_stream() -> None:
    """The hybrid with one group learns the first pass as SGB does."""
    own = nets.in_groups(small_task(), 2, 0.5, 0, 2)
    whole = nets.stream(small_task(), 2, 0.5, 0, 1)

    assert own["test"][0] == pytest.approx(whole["test"][-1], abs=1e-6)


def test_gradients_are_difference_quotients() -> None:
    """Of the three losses of Table 1."""
    r = np.random.default_rng(0)
    y = r.integers(0, 3, 24).astype(float)
    many = small_task("softmax")._replace(y=y, outputs=3)
    one = small_task({"kind": "logistic", "l2": 0.01})._replace(y=(y > 0).astype(float))
    P, Q = r.normal(size=(24, 3)), r.normal(size=(24, 1))

    for c in range(3):
        quotient = slope(lambda s: softmax(s, y), P, c)
        assert many.gradients(P)[0, c] == pytest.approx(quotient, abs=1e-6)
    value = sgb_figure1.value
    assert one.gradients(Q)[0, 0] == pytest.approx(
        slope(lambda s: 24 * value("logistic", s[:, 0], one.y, 0.01), Q, 0), abs=1e-5
    )


def softmax(s: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of losses."""
    return float((np.log(np.exp(s).sum(axis=1)) - s[np.arange(len(y)), y.astype(int)]).sum())


def slope(f: Any, P: np.ndarray, c: int) -> float:
    """Return the difference quotient at the first row."""
    step = np.zeros_like(P)
    step[0, c] = 1e-5
    return float((f(P + step) - f(P - step)) / 2e-5)


def test_the_comparator_in_hindsight_is_perfect_on_distinct_rows() -> None:
    """A deep tree has no error; under the logistic loss its leaves are smoothed by a half."""
    X, y = np.arange(8.0)[:, None], np.array([0, 1, 0, 0, 1, 1, 0, 1.0])

    for loss in ("squared", "absolute", "hinge"):
        assert sgb_figure1.hindsight(loss, X, y, 0.0) == 0.0
    got = sgb_figure1.hindsight("logistic", np.zeros((8, 1)), y, 0.0)
    assert got == pytest.approx(math.log(2.0))


def test_steps_of_ogb_stay_between_one_over_n_and_one() -> None:
    """The grid of the specification, 3.1."""
    assert 0.25 == onlb.step("1/N", 4)
    assert math.log(4) / 4 == onlb.step("ln", 4)
    assert 1.0 == onlb.step("4 ln", 4) == onlb.step("1", 500)


def test_the_best_candidate_is_tested_on_every_fold() -> None:
    """Of one fold's cells the one with the lowest error is taken, whatever its number is."""
    scale = onlb.SCALES["full"]
    found = [({"data": "Pima", "system": "SGB", "fold": 0, "n": n}, n) for n in (2, 4, 8)]
    pairs = [(c, {"error": abs(n - 4) / 10, "candidate": {"n": n}}) for c, n in found]
    tested = onlb.test_plan(cells.Run(pairs, 0.0), scale)

    assert {"n": 4} == tested[0]["candidate"]
    assert 1 + 2 * 3 * len(onlb.SETS) == len(tested)


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_cells_bands_and_a_page(name: str, tmp_path: Path) -> None:
    """No two cells of a plan are the same; the page explains its differences."""
    module = importlib.import_module(f"bench.papers.{name}")
    bands = json.loads(pages.BANDS.read_text())[name]
    page = (DOCS / f"{name}.md").read_text()

    for scale in module.SCALES.values():
        keys = [cells.key(cell) for cell in module.plan(scale, tmp_path)]
        assert len(keys) == len(set(keys)) > 0
    assert all(low < high for low, high in bands.values())
    assert "Not written." not in page
    assert f"python -m bench.papers {name}" in page
