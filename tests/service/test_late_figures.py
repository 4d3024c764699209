"""What became of late labels: counted, reported by `GET /model`, and shown on the page."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect
from prometheus_client import CollectorRegistry

from kaboost.service.http.reports import report_late_labels
from kaboost.service.learner.late_recorder import LateRecorder
from kaboost.service.metrics import learner_metrics
from kaboost.service.storage.late_figures import RECENT_LABELS, LabelFit, LateCounts, LateFigures
from kaboost.service.storage.snapshots import Condition, FolderSnapshotStore
from tests.browser import browser, opened
from tests.service.learning import until
from tests.service.serving import Program

FIGURES = LateFigures(1200, 3, 2, 450, 20, 7, 5, 432_000.0, 5400.0)


@given(
    delays=st.lists(st.floats(0.0, 1e8), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_counts_do_not_depend_on_batches(delays: list[float], cuts: list[int]) -> None:
    """Any cut of the same labels gives the same counts, bit for bit; the mean is the mean."""
    edges = sorted({0, len(delays), *(cut for cut in cuts if cut < len(delays))})
    counts = LateCounts()
    for first, after in pairwise(edges):
        counts = counts.with_joined(delays[first:after])

    assert LateCounts().with_joined(delays) == counts
    assert len(delays) == counts.joined
    assert counts.mean_delay == pytest.approx(np.mean(delays) if delays else 0.0)


def test_the_recent_delay_follows_a_change() -> None:
    """After some thousand labels the old delay hardly counts in it."""
    counts = LateCounts().with_joined([10.0] * 5 * RECENT_LABELS + [100.0] * 5 * RECENT_LABELS)

    assert counts.mean_delay == pytest.approx(55.0)
    assert 99.0 < counts.recent_delay < 100.0


def test_a_wrong_time_leaves_the_delays() -> None:
    """Features of the year 1 were joined; 2,000 years are nobody's delay."""
    metrics = learner_metrics(CollectorRegistry())
    recorder = LateRecorder(metrics, LateCounts(), LabelFit())
    recorder.joined([60.0, 180.0])
    recorder.joined([2_000 * 366 * 86_400.0])
    (family,) = metrics.label_delay.collect()
    sums = {sample.name: sample.value for sample in family.samples}

    assert (3, 120.0) == (recorder.counts.joined, recorder.counts.mean_delay)
    assert 240.0 == sums["kaboost_label_delay_seconds_sum"]
    assert 2.0 == sums["kaboost_label_delay_seconds_count"]


def test_figures_survive_the_file(tmp_path: Path) -> None:
    """The API reads what the learner wrote, and none where labels are in the events."""
    store = FolderSnapshotStore(tmp_path)
    for condition in (Condition(late_labels=FIGURES), Condition(5, 0.5, "a problem")):
        store.write_condition(condition)
        assert condition == store.read_condition()


def test_the_model_and_the_page_show_them(api: Program) -> None:
    """`GET /model` has the figures of the learner now; the page shows them in a browser, and
    nothing of them where labels do not come later.
    """
    store = FolderSnapshotStore(api.folder / "snapshots")
    with browser() as chromium, opened(chromium, str(api.client.base_url)) as page:
        expect(page.locator("#figures")).to_contain_text("Events learned60")
        expect(page.locator("#late")).to_be_hidden()
        store.write_condition(Condition(late_labels=FIGURES))
        try:
            found = until(lambda: api.client.get("/model").json()["late_labels"])
            expect(page.locator("#late")).to_be_visible()
            shown = page.locator("#late-figures div").all_inner_texts()
        finally:
            store.write_condition(Condition())
            until(lambda: api.client.get("/model").json()["late_labels"] is None)

    names = ["waiting", "early", "held", "joined", "expired", "unmatched", "corrected"]
    delays = {"mean_delay_seconds": 432_000.0, "recent_delay_seconds": 5400.0}
    assert {**dict(zip(names, FIGURES, strict=False)), **delays} == found
    texts = ["1,200", "3", "2", "450", "20", "7", "5", "5 days", "90 min"]
    labels = [*names, "mean delay", "recent delay"]
    assert [f"{label}\n{text}" for label, text in zip(labels, texts, strict=True)] == shown


def test_delays_are_null_before_the_first_label() -> None:
    """Features wait and no label has come: there is no delay, and 0 would be one."""
    found = report_late_labels(LateFigures(9, 0, 0, *LateCounts()))

    assert found is not None
    assert (9, None, None) == (found.waiting, found.mean_delay_seconds, found.recent_delay_seconds)
    assert report_late_labels(None) is None
