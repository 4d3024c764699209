"""Polynomials to the last place, and compiled loops over learners against plain ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.numeric import dot, exp_negative, log1p_unit, residual, retreat
from kaboost.models.kernels.simd import (
    Column,
    Dense,
    Lane,
    NewLane,
    NewRow,
    Number,
    Row,
    Sum,
    over_learners,
    sqrt,
    where,
)
from kaboost.models.types import LINEAR, LOGISTIC, SQUARE

# around every size of block: single learners, one vector, a vector that starts early, two blocks
SIZES = (1, 2, 3, 4, 5, 7, 8, 20, 31, 32, 33, 34, 36, 50, 65, 100)


@over_learners
def kick(w: NewRow, S: NewRow, x: Column, s: Dense, e: Lane, r: Number) -> tuple[NewRow, NewRow]:
    """A step that uses every kind of parameter."""
    g = e * x
    square = S + g * g
    size = s * sqrt(square)
    return w - r * g / where(size > 0.0, size, 1.0), square


@over_learners
def pair(total: Sum, w: Row, z: Row) -> Sum:
    """Products of two tables."""
    return total + w * z


@over_learners
def limit(v: NewLane, top: Lane, shrink: Number) -> NewLane:
    """No table at all."""
    return -where(abs(v) <= top, v * shrink, 2.0 - 1.0 / (1.0 - top))


@kernel
def run_all(w, S, x, s, e, h):
    """Run every body of this file from compiled code."""
    dot(w, x, h)
    retreat(w, x, e)
    kick(w, S, x, s, h, 0.3)
    pair(w, S, e)
    limit(h, e, 0.7)


def case(rows, d, N, seed=0):
    r = np.random.default_rng(seed)
    w, S = r.normal(size=(rows, N)), r.random((rows, N))
    x, s = r.normal(size=d), 0.1 + r.random(rows)
    x[r.random(d) < 0.3] = 0.0
    return w, S, x, s, r.normal(size=N), np.zeros(N)


def loop(w, S, x, s, e, h):
    """Compute what `run_all` does, one learner after the other."""
    rows, N = w.shape
    for i in range(N):
        xs = [x[j] if j < len(x) else 1.0 for j in range(rows)]
        h[i] = 0.0
        for j in range(rows):
            h[i] += w[j, i] * xs[j]
        for j in range(rows):
            w[j, i] -= e[i] * xs[j]
        for j in range(rows):
            if xs[j] != 0.0:
                g = h[i] * xs[j]
                S[j, i] += g * g
                size = s[j] * math.sqrt(S[j, i])
                w[j, i] -= 0.3 * g / (size if size > 0.0 else 1.0)
        e[i] = 0.0
        for j in range(rows):
            e[i] += w[j, i] * S[j, i]
        h[i] = -(h[i] * 0.7 if abs(h[i]) <= e[i] else 2.0 - 1.0 / (1.0 - e[i]))


@pytest.mark.parametrize("rows", [3, 4])
@pytest.mark.parametrize("N", SIZES)
def test_blocks_equal_the_loop_bit_for_bit(N, rows):
    """Blocks of every size, skipped rows of 0, a bias row: each learner as if it were alone."""
    swept, looped, plain = (case(rows, 3, N) for _ in range(3))
    run_all(*swept)
    loop(*looped)
    getattr(run_all, "py_func", run_all)(*plain)

    for a, b, c in zip(swept, looped, plain, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()


@pytest.mark.parametrize("d", [8, 9, 54, 63, 64, 65, 129])
@pytest.mark.parametrize("bias", [0, 1])
def test_masks_select_the_rows(d, bias):
    """Around every edge of a mask of 64, with no and with nearly all zeros: equal to the loop."""
    for full in (0.0, 0.05, 1.0):
        made = [case(d + bias, d, 5, seed=d) for _ in range(2)]
        for _, _, x, *_ in made:
            x[np.random.default_rng(d).random(d) >= full] = 0.0
            x[x == 0.0] += full == 1.0
        run_all(*made[0])
        loop(*made[1])

        for a, b in zip(*made, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("i", [0, 3, 8])
def test_view_of_one_learner_leaves_the_others(i):
    """Only the learner of a view changes; the others keep their bits."""
    w, S, x, s, e, h = case(4, 3, 9)
    before, one = w.copy(), slice(i, i + 1)
    run_all(w[:, one], S[:, one], x, s, e[one], h[one])

    assert (np.delete(w, i, axis=1) == np.delete(before, i, axis=1)).all()
    assert (w[:, i] != before[:, i]).any()


def test_rows_of_zero_are_skipped():
    """A weight that is not finite has no effect where its feature is 0."""
    w, h = np.array([[math.inf, math.nan], [2.0, 3.0]]), np.empty(2)
    dot(w, np.array([0.0, 2.0]), h)
    retreat(w, np.array([0.0, 1.0]), np.array([math.nan, 1.0]))

    assert [4.0, 6.0] == h.tolist()
    assert math.isinf(w[0, 0])
    assert 2.0 == w[1, 1]


def test_unknown_role_is_refused():
    """A body whose annotations are no roles is refused."""
    with pytest.raises(TypeError, match="NewLane"):

        @over_learners
        def wrong(w: float) -> float:
            return w


@pytest.mark.parametrize("mode", [SQUARE, LINEAR, LOGISTIC])
def test_residual_leaves_weight_0_alone(mode):
    """weight * e of section 7, and 0 for a learner of weight 0 whatever its target."""
    h, target = np.array([[0.5, -2.0, 0.1]]), np.array([[1.0, -1.0, math.nan]])
    residual(h, target, np.array([1.0, 2.0, 0.0]), mode)
    slopes = {
        SQUARE: [-0.5, -2.0],
        LINEAR: [1.0, -2.0],
        LOGISTIC: [-1 / (1 + math.exp(0.5)), 2 / (1 + math.exp(2.0))],
    }

    np.testing.assert_allclose(target[0], [*slopes[mode], 0.0], rtol=1e-15)


def places(actual, exact):
    """Return the largest distance in units of the last place."""
    return float(np.max(np.abs(actual - exact) / np.spacing(exact.astype(np.float64))))


def test_exp_to_the_last_place():
    """1.2 units, on both sides of every reduction; e^-708 from there on; nan stays nan."""
    r = np.random.default_rng(0)
    a = -np.concatenate([10 ** r.uniform(-12, 2.849, 2000), r.uniform(0, 3, 2000), [0.0, 708.0]])
    actual = np.array([exp_negative(v) for v in a])

    assert places(actual, np.exp(a.astype(np.longdouble))) <= 1.2
    assert exp_negative(-math.inf) == exp_negative(-708.0) > 0.0
    assert 1.0 == exp_negative(0.0)
    assert math.isnan(exp_negative(math.nan))


def test_log_to_the_last_place():
    """3 units, exact at both ends; nan stays nan."""
    r = np.random.default_rng(0)
    near = 0.41421356237309503 + np.arange(-50, 50) * 1e-16
    t = np.concatenate([10 ** r.uniform(-300, 0, 2000), r.uniform(0, 1, 2000), near])
    actual = np.array([log1p_unit(v) for v in t])

    assert places(actual, np.log1p(t.astype(np.longdouble))) <= 3.0
    assert [0.0, math.log(2.0)] == [log1p_unit(0.0), log1p_unit(1.0)]
    assert math.isnan(log1p_unit(math.nan))
