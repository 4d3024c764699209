"""State of the default model's trees before any event."""

from __future__ import annotations

from typing import Any

import numpy as np

from kaboost.models.kernels.memory import zeros
from kaboost.models.kernels.random import generator
from kaboost.models.reboosted.config import (
    BACKGROUND_MIN_NS,
    FIRST_BINS_EVENTS,
    FIRST_CHECK,
    MIN_CHECK_GAP,
    PREFIX_BLOCK,
    RECENT_EVENTS,
    SAMPLE_ROWS,
    Sizes,
    Structure,
)
from kaboost.models.reboosted.memory import (
    affordable_window,
    events_ahead,
    histogram_count,
    max_rows,
)
from kaboost.models.reboosted.state import (
    BINS_PROGRESS,
    BUILD_CURSOR,
    BUILD_NODE,
    BUILD_SCALE,
    CLASS_LANES,
    CLASS_ROOTS,
    CLASS_SQUARES,
    CODES,
    LABEL_MEANS,
    LANES,
    ROOT,
    Bins,
    Reboosted,
    Schedule,
    StructureParams,
    TreeBuild,
    Trees,
    Window,
)


def bank(sizes: Sizes, d0: int, seed: int) -> Reboosted:
    """Return trees that have learned nothing, over d0 features and the label means."""
    d, R, K = d0 + LABEL_MEANS, affordable_window(sizes, d0), len(sizes.structures)
    return Reboosted(
        params=_structure_params(sizes, d, R),
        structures=tuple(_trees(one, sizes.columns) for one in sizes.structures),
        base_score=np.zeros((K, sizes.columns) if sizes.columns else K),
        label_means=np.zeros(LABEL_MEANS),
        window=Window(zeros((R, d), np.uint8), zeros((R,)), zeros((R,)), _prefix(sizes, K, R)),
        bins=_bins(d, min(SAMPLE_ROWS, R)),
        schedule=_schedule(sizes, d, seed),
    )


def tree_builds(sizes: Sizes, params: StructureParams, d0: int) -> tuple[TreeBuild, ...]:
    """Return K builds that are not started; they are no part of the bank: few kernels need them."""
    R = int(params.window.max())
    return tuple(_tree_build(sizes, one, d0 + LABEL_MEANS, R) for one in sizes.structures)


def _prefix(sizes: Sizes, K: int, R: int) -> Any:
    return zeros((K, R, sizes.columns), np.float32) if sizes.columns else zeros((K, R))


def _trees(one: Structure, classes: int) -> Trees:
    nodes = np.full((one.trees, 2 * one.leaves - 1), np.int64(2**31 - 1) << 32, np.int64)
    if classes:
        rows = np.zeros((one.trees, one.leaves, CLASS_LANES * classes + 1), np.float32)
        rows[:, :, CLASS_ROOTS * classes : CLASS_SQUARES * classes] = 1.0
        return Trees(nodes, rows)
    trees = Trees(nodes, np.empty((one.trees, one.leaves, LANES), np.float32))
    reset_structure(trees)
    return trees


def reset_structure(trees: Trees) -> None:
    """Reset the leaves of trees that were never grown to what they are before any event."""
    trees.rows[...] = 0.0
    trees.rows[:, 0, ROOT] = 1.0


def _tree_build(sizes: Sizes, one: Structure, d: int, R: int) -> TreeBuild:
    r, M = max_rows(one, R), 2 * one.leaves - 1
    return TreeBuild(
        cursor=np.zeros(1, BUILD_CURSOR),
        scale=np.zeros(1, BUILD_SCALE),
        generator=generator(0),
        codes=zeros((r * d,), np.uint8),
        gradients=np.zeros(r),
        hessians=np.zeros(r),
        weights=np.zeros(r),
        packed=np.zeros(r, np.int64),
        order=np.zeros(r, np.int32),
        spare=np.zeros(r, np.int32),
        columns=np.zeros(d, np.uint64),
        half_bins=np.zeros(d, np.int64),
        first_bins=np.zeros(d + 1, np.uint64),
        histograms=zeros((histogram_count(sizes, one, d), d * CODES), np.int64),
        nodes=np.zeros(M, BUILD_NODE),
        gains=np.zeros(M),
        code_nodes=np.zeros(M, np.int64),
        served_nodes=np.zeros(M, np.int64),
        node_values=np.zeros(M),
        leaf_values=np.zeros(one.leaves),
        split_gain=np.zeros(d),
        sums=np.zeros(64, np.int64),
        positions=np.zeros(PREFIX_BLOCK, np.int32),
    )


def _bins(d: int, S: int) -> Bins:
    largest = np.iinfo(np.int32).max
    return Bins(
        edges=np.full((d, CODES), largest, np.int32),
        counts=np.zeros(d, np.int64),
        lowest=np.full(d, largest, np.int32),
        highest=np.full(d, -largest, np.int32),
        has_missing=np.zeros(d, np.int64),
        sample=zeros((S, d), np.int32),
        stride=np.ones((), np.int64),
        rebin_at=np.full((), FIRST_BINS_EVENTS, np.int64),
        new_feature_at=np.zeros((), np.int64),
        recent=np.full((RECENT_EVENTS, d), largest, np.int32),
        moved=np.zeros(d, np.int64),
        check_at=np.full(d, FIRST_CHECK, np.int64),
        check_gap=np.full(d, MIN_CHECK_GAP, np.int64),
        progress=np.zeros(1, BINS_PROGRESS),
        new_edges=np.full((d, CODES), largest, np.int32),
        new_counts=np.zeros(d, np.int64),
        new_codes=np.zeros((d, CODES), np.uint8),
        column=np.zeros(S, np.int32),
        spare=np.zeros(S, np.int32),
        digit_counts=np.zeros(257, np.int64),
    )


def _schedule(sizes: Sizes, d: int, seed: int) -> Schedule:
    K = len(sizes.structures)
    shares = np.array([one.share for one in sizes.structures])
    return Schedule(
        time=np.zeros((), np.int64),
        cursor=np.zeros(K, np.int64),
        grown=np.zeros(K, np.int64),
        status=np.zeros(K, np.int64),
        commit_at=np.zeros(K, np.int64),
        earliest_commit=np.zeros(K, np.int64),
        budget_ns=np.full((), sizes.budget),
        credit=np.zeros(K),
        credit_per_event=np.zeros(K),
        share=shares / shares.sum(),
        drift_at=np.zeros((), np.int64),
        warning_at=np.zeros((), np.int64),
        moved_at=np.zeros(2, np.int64),
        loss_statistics=np.zeros(3),
        structure_losses=np.zeros((K, len(sizes.rates))),
        mean_square_gradient=np.zeros(K),
        gradient_squares=np.zeros(K),
        spent_ns=np.zeros(()),
        mean_columns=np.zeros(()),
        feature_gains=np.zeros((K, d)),
        columns_used=np.full(K, d, np.int64),
        bins_scanned=np.full(K, d * CODES // 2, np.int64),
        leaf_count=np.ones(K, np.int64),
        generator=generator(seed),
    )


def _structure_params(sizes: Sizes, d: int, R: int) -> StructureParams:
    def of(field: str, kind: Any) -> Any:
        return np.array([getattr(one, field) for one in sizes.structures], kind)

    window, share, most = of("window", np.int64), of("share", np.float64), R - events_ahead(R)
    return StructureParams(
        window=np.where(window == 0, most, np.minimum(window, most)),
        depth=of("depth", np.int64),
        leaves=of("leaves", np.int64),
        min_rows=of("least_rows", np.int64),
        bins=of("bins", np.int64),
        features=np.where(of("lags", np.int64) > 0, d, d - LABEL_MEANS),
        row_fraction=of("part", np.float64),
        eta=of("eta", np.float64),
        share=share / share.sum(),
        min_hessian=of("least_h", np.float64),
        l2=of("lam", np.float64),
        leaf_rates=np.array(sizes.rates),
        label_mean_rates=np.array(sizes.lag_rates),
        budget_ns=np.array(sizes.budget),
        background_min_ns=np.array(BACKGROUND_MIN_NS),
        link=np.array(sizes.link, np.int64),
    )
