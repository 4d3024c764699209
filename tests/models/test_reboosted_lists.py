"""Rows that are lists of what is there give the very trees that dense rows give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
from models.banks.reboosted_grow import BINS, NODES, PLACES, finish, grow, plant
from models.banks.reboosted_hist import pack
from models.banks.reboosted_lists import LISTED, list_row, place_columns, worth_listing
from models.banks.reboosted_regrow import copy_codes, shift_of
from models.verbs import kernel
from tests.models.test_reboosted_grow import limits, made
from tests.naive.reboosted import MISSING

N, D = 300, 289  # rows, and columns: more than a byte counts, and with the lags no whole words


@kernel
def listed(codes, words, work, columns, d):
    """List rows as they stand in a window; return which of them are lists."""
    kept = np.empty(N)
    for i in range(N):
        kept[i] = list_row(codes, words, work, (i, i, columns, d))
    return kept


def stream(seed, gone, crowded):
    """Codes of which most are missing, of some rows none, and a slope that follows some."""
    r = np.random.default_rng(seed)
    codes = r.integers(0, 40, size=(N, D + 5)).astype(np.uint8)
    missing = r.random(codes.shape) < gone
    missing[r.random(N) < crowded] = False
    codes[missing] = MISSING
    g = (
        r.normal(size=N)
        + 0.8 * (codes[:, 3] == MISSING)
        - 1.5 * (codes[:, 8] < 20)
        + (codes[:, 270] < 30)
    )
    return codes, g, r.uniform(0.5, 1.5, size=N)


def grown(seed, told, lists, room=1e9):
    """Grow a tree over chosen columns on rows that are lists, or not; return its nodes and values,
    and how many rows were lists.
    """
    gone, crowded, bins, chosen = told
    codes, g, h = stream(seed, gone, crowded)
    empty, work = made(12, 5, N, D)
    n = len(chosen)
    work.columns[:n] = chosen
    work.narrow[:n] = bins == 32
    work.starts[: n + 1] = bins * np.arange(n + 1)
    work.codes[:], work.tables[:] = 11, (7 << 32) + 7  # what stood there before
    work.at[BINS], work.at[PLACES] = bins, bins * n
    work.at[LISTED], kept = lists, np.zeros(N)
    if lists:
        place_columns(work, n)
        flat = codes.reshape(-1)
        words = flat[: flat.size // 8 * 8].view(np.uint64)
        kept = listed(flat, words, work, n, codes.shape[1])
    for i in np.flatnonzero(kept == 0):
        copy_codes(codes[i], work, shift_of(work, n), work.codes[i * n : (i + 1) * n])
    work.slopes[:N], work.bends[:N] = g, h
    work.scale[0], work.scale[1] = abs(g).max(), h.max()
    pack(work, N)
    plant(work, N, n)
    while not grow(work, limits(empty.plan), n, room)[1]:
        pass
    finish(work, empty.plan.lam[0], empty.plan.eta[0], empty.bins.edges)
    m = int(work.at[NODES])
    return work.cuts[:m].tobytes(), work.values[:m].tobytes(), m, int(kept.sum())


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**30),
    gone=st.sampled_from([0.5, 0.9, 0.97, 1.0]),
    crowded=st.sampled_from([0.0, 0.1]),
    bins=st.sampled_from([64, 32]),
    part=st.sampled_from([0.3, 1.0]),
    room=st.sampled_from([1e9, 300.0]),
)
def test_lists_and_dense_rows_give_one_tree(seed, gone, crowded, bins, part, room):
    """Whatever is missing, chosen, or too much for a list, and however work is cut into pieces."""
    chosen = np.flatnonzero(np.random.default_rng(seed).random(D + 5) < part)
    told = (gone, crowded, bins, chosen)
    assert grown(seed, told, 1, room)[:3] == grown(seed, told, 0)[:3]


def test_rows_are_lists_where_they_have_room():
    """Of nearly empty rows all but the crowded ones; and the tree they give has cuts."""
    *_, nodes, lists = grown(1, (0.97, 0.1, 64, list(range(D + 5))), 1)
    assert nodes > 3
    assert 240 < lists < 290
    assert grown(1, (0.97, 0.1, 64, list(range(D + 5))), 0)[3] == 0


@pytest.mark.parametrize(
    ("filled", "columns", "d", "told"),
    [
        (17.0, 1005, 1005, True),
        (12.0, 64, 105, True),
        (14.0, 105, 105, False),
        (2.0, 63, 105, False),
    ],
)
def test_what_is_worth_listing(filled, columns, d, told):
    """Where an eighth of the columns is there at most, and the tree has not few of them."""
    assert worth_listing(filled, columns, d) is told


def sparse(values, n=400, d=80):
    """Rows of some numbers among d, drawn anew for each, and whether the first is positive."""
    r = np.random.default_rng(2)
    X = r.normal(size=(n, d))
    here = np.argsort(r.random((n, d)), axis=1)[:, :values]
    rows = [{f"c{j}": x[j] for j in js} for x, js in zip(X.tolist(), here.tolist(), strict=True)]
    return rows, [row.get("c0", 0.0) > 0.0 for row in rows]


@pytest.mark.parametrize(("values", "expected"), [(4, True), (80, False)])
def test_a_sparse_stream_is_grown_from_lists(values, expected):
    """And a dense one of as many columns is not."""
    model = models.Model("binary", features={f"c{j}": "number" for j in range(80)})
    model.learn_many(*sparse(values))
    assert int(model.booster.bank.pace.grown.sum()) > 10
    assert any(work.at[LISTED] for work in model.booster.works) is expected


def test_a_file_keeps_lists(tmp_path):
    """Saved while a tree grows from them, and gone on from there, all is as if never stopped."""
    rows, labels = sparse(4, 1200)
    whole, cut = (models.Model("binary", features="auto") for _ in range(2))
    whole.learn_many(rows, labels)
    t, busy = 0, False
    while not busy:
        cut.learn_one(rows[t], labels[t])
        t, bank = t + 1, cut.booster.bank
        busy = any(bank.pace.busy[k] and cut.booster.works[k].at[LISTED] for k in range(4))
    assert 100 < t < 1200
    cut.save(tmp_path / "model")
    gone_on = models.Model.load(tmp_path / "model")
    gone_on.learn_many(rows[t:], labels[t:])
    expected = whole.to_arrays()
    for name, array in gone_on.to_arrays().items():
        assert array.tobytes() == expected[name].tobytes(), name
