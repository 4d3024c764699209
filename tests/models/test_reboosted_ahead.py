"""Leaves found for a block of events at once: nothing shows that they were."""

import numpy as np
import pytest

import kaboost
from kaboost.models.reboosted.learn import fill_row
from kaboost.models.reboosted.scratch import MAX_BLOCK_COLUMNS, MIN_BLOCK_EVENTS, allocate
from kaboost.models.reboosted.state import LABEL_MEANS
from kaboost.models.reboosted.trees.binning import to_keys
from kaboost.models.reboosted.trees.traverse import BLOCK, traverse, traverse_block
from tests.boosters import learn_stream, state_digest
from tests.models.number_streams import random_walk
from tests.models.test_reboosted import SMALL, build

D = 5


@pytest.mark.parametrize("loss", ["logistic", "squared", "quantile", "poisson"])
def test_blocks_do_not_show(loss):
    """One by one, in batches shorter than a block or of several, the scores and the state are the
    same to the byte: though trees take their places in mid-block, labels far from all others are
    not learned as they came, and events without importance are not learned.
    """
    X, y, w = random_walk(1500, D, loss)
    found = []
    for size in (1, MIN_BLOCK_EVENTS + 1, BLOCK + 3, len(X)):
        booster = build(loss=loss)
        scores = learn_stream(booster, X, y, w, batch=size)
        found.append((state_digest(booster), scores.tobytes()))

    assert (booster.trees.schedule.grown > 10).all()
    assert found == [found[0]] * len(found)


def test_many_columns_do_not_show():
    """Where the rows of a block would not fit the cache there are no blocks; nothing shows that."""
    d = MAX_BLOCK_COLUMNS // 2
    X, y, w = random_walk(300, d, "logistic")
    whole, parts = build(SMALL, d=d), build(SMALL, d=d)
    kaboost.learn_many(whole, X, y, w)
    learn_stream(parts, X, y, w)

    assert allocate(whole.trees, whole.stack, d, len(X)).leaves.shape[0] == 1
    assert state_digest(whole) == state_digest(parts)


def test_walks_agree():
    """Eight events side by side reach the leaves that each reaches alone, whichever are asked for;
    those of other eights are left as they are.
    """
    X, y, w = random_walk(1500, D, "logistic")
    booster = build()
    kaboost.learn_many(booster, X, y, w)
    a, rows = allocate(booster.trees, booster.stack, D, BLOCK), to_keys(X[:BLOCK])
    lags, expected = np.random.default_rng(0).normal(size=LABEL_MEANS), []
    for trees, depth in zip(booster.trees.structures, booster.trees.params.depth, strict=True):
        leaf = np.zeros((BLOCK, len(trees.nodes)), np.int32)
        for b in range(BLOCK):
            fill_row(lags, rows[b], a.row)
            a.columns.reshape(-1, BLOCK)[: 2 * (D + LABEL_MEANS), b] = a.row[
                : 2 * (D + LABEL_MEANS)
            ]
            traverse(trees.nodes, int(depth), a.row, leaf[b])
        expected.append(leaf)
        for first, last in ((0, BLOCK), (0, 1), (9, 23), (BLOCK, BLOCK)):
            found = np.full(leaf.shape, -1, np.int32)
            for i, nodes in enumerate(trees.nodes):
                traverse_block(nodes, int(depth), a.columns, first, last, found[:, i])
            begin, end = first // 8 * 8, -(-last // 8) * 8
            assert np.array_equal(found[begin:end], leaf[begin:end])
            assert (found[:begin] == -1).all()
            assert (found[end:] == -1).all()

    assert all(len(np.unique(leaf)) > 1 for leaf in expected)
