"""Losses: the values of the specification, their twins, calculus, theory, labels, extremes, and the
same bits compiled or not.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import kaboost
from kaboost.models.kernels.jit import kernel
from kaboost.models.losses import LOSSES, has_probability
from kaboost.models.losses.summed import power
from kaboost.models.verbs import (
    constants,
    convexity,
    curvature,
    encode_labels,
    gradient,
    init_score,
    inverse_link,
    radius,
    smoothness,
    update_init,
    value,
    value_gradient_prefixes,
)
from tests.naive.losses import twin

SUBJECTS = (
    {"kind": "squared"},
    {"kind": "squared_full"},
    {"kind": "absolute"},
    {"kind": "quantile", "q": 0.8},
    {"kind": "huber", "k": 0.7},
    {"kind": "poisson"},
    {"kind": "pnorm", "p": 2.0},
    {"kind": "pnorm", "p": 3.0},
    {"kind": "pnorm", "p": 2.5},
    {"kind": "logistic"},
    {"kind": "logistic2"},
    {"kind": "hinge"},
    {"kind": "exponential"},
    {"kind": "linear"},
    {"kind": "mls"},
    {"kind": "softmax"},
)
NUMBERS = ("squared", "squared_full", "absolute", "quantile", "huber", "poisson", "pnorm")
MARGINS = ("logistic", "logistic2", "hinge", "exponential", "linear", "mls")


def named(params):
    return "-".join(str(value) for value in params.values())


every = pytest.mark.parametrize("params", SUBJECTS, ids=named)
with_l2 = pytest.mark.parametrize("l2", [0.0, 0.05])
scalar = pytest.mark.parametrize("params", SUBJECTS[:-1], ids=named)
score = st.floats(-6.0, 6.0)
LOGISTIC_AT = (0.5543552444685271, -0.425557483188341, 0.2444583116907459)
LOGISTIC2_AT = (1.0374879504858856, 1.2913126124515908, 0.915136961826629)


def make(kind, **params):
    """Make a loss with its defaults where nothing is given."""
    return LOSSES[kind].make(**{p.name: params.get(p.name, p.default) for p in LOSSES[kind].params})


def labels(kind, m=1):
    """Return some labels that every loss accepts, encoded."""
    if kind in MARGINS:
        return [np.array([-1.0]), np.array([1.0])]
    if kind == "softmax":
        return [np.array([float(k)]) for k in range(m)]
    some = (0.0, 1.0, 2.5) if kind == "poisson" else (-1.3, 0.0, 2.0)
    return [np.array([z, 0.5, 1.0][:m]) for z in some]


def outputs(kind):
    return 1 if kind in MARGINS else 3


def at(verb, loss, s, y):
    """Call a verb that fills, or one that returns, with plain numbers."""
    s, y = np.array(s, dtype=float), np.array(y, dtype=float)
    if verb in (value, curvature):
        return verb(loss, s, y)
    filled = np.empty(len(s))
    verb(loss, s, y, filled)
    return filled


@pytest.mark.parametrize(
    ("params", "y", "label", "expected"),
    [
        ({"kind": "squared"}, 0.3, 1, (0.245, -0.7)),
        ({"kind": "logistic"}, 0.3, 1, LOGISTIC_AT),
        ({"kind": "logistic"}, 40, -1, (40, 1)),
        ({"kind": "logistic"}, -800, 1, (800, -1)),
        ({"kind": "logistic2"}, 0.3, -1, LOGISTIC2_AT),
        ({"kind": "hinge", "l2": 0.05}, 0.3, 1, (0.7045, -0.97)),
        ({"kind": "absolute", "l2": 0.05}, 0.3, 1, (0.7045, -0.97)),
        ({"kind": "pnorm", "p": 3}, 0.3, 1, (0.343, -1.47, 4.2)),
        ({"kind": "mls"}, 0.3, -1, (0.845, 1.3)),
        ({"kind": "exponential"}, 0.3, -1, (1.3498588075760032,) * 3),
        ({"kind": "huber", "k": 0.7}, 0.3, 1.5, (0.595, -0.7)),
        ({"kind": "quantile", "q": 0.8}, 0.3, 1, (0.56, -0.8)),
        ({"kind": "poisson"}, 0.3, 2, (0.7498588075760032, -0.6501411924239968)),
        ({"kind": "exponential"}, -31, 1, (2 * math.exp(30), -math.exp(30), 0)),
        ({"kind": "poisson"}, 31, 2, (2 * math.exp(30) - 62, math.exp(30) - 2, 0)),
        ({"kind": "hinge"}, 1, 1, (0, 0, 0)),
        ({"kind": "absolute"}, 1, 1, (0, 0, 0)),
        ({"kind": "quantile", "q": 0.8}, 1, 1, (0, 0, 0)),
    ],
)  # fmt: skip
def test_values_of_the_specification(params, y, label, expected):
    """10.1, the tangent lines beyond 30 and the subgradients at kinks: value, gradient, second
    derivative.
    """
    loss = make(**params)
    actual = (
        at(value, loss, [y], [label]),
        at(gradient, loss, [y], [label])[0],
        at(curvature, loss, [y], [label]),
    )

    assert actual[: len(expected)] == pytest.approx(expected, rel=2e-14)


@with_l2
@every
@given(scores=st.lists(score, min_size=3, max_size=3))
def test_twins_agree(params, l2, scores):
    """Value, gradient and link are those of the plain twin, for one output and for three."""
    kind, plain = params["kind"], twin({**params, "l2": l2})
    loss = make(**params, l2=l2)
    for m in {1, outputs(kind)} - ({1} if kind == "softmax" else set()):
        s = scores[:m]
        assert at(link_of, loss, s, s) == pytest.approx(plain.inverse_link(s), rel=1e-14)
        for y in labels(kind, m):
            assert at(value, loss, s, y) == pytest.approx(plain.value(s, y), rel=1e-12, abs=1e-13)
            assert at(gradient, loss, s, y) == pytest.approx(
                plain.gradient(s, y), rel=1e-12, abs=1e-13
            )


def link_of(loss, s, _, p):
    inverse_link(loss, s, p)


@with_l2
@every
@given(scores=st.lists(score, min_size=3, max_size=3))
def test_derivatives_are_difference_quotients(params, l2, scores):
    """Gradient and curvature are central differences of value and gradient, away from kinks."""
    kind, eps = params["kind"], 1e-5
    m = 3 if kind == "softmax" else 1
    loss, s = make(**params, l2=l2), np.array(scores[:m])
    for y in labels(kind, m):
        assume(all(abs(s[0] - kink) > 1e-3 for kink in kinks(params, y[0])))
        k = int(y[0]) if kind == "softmax" else 0
        g = at(gradient, loss, s, y)
        for c in range(m):
            step = np.where(np.arange(m) == c, eps, 0.0)
            rise = at(value, loss, s + step, y) - at(value, loss, s - step, y)
            assert g[c] == pytest.approx(rise / (2 * eps), rel=1e-6, abs=1e-7)
        step = np.where(np.arange(m) == k, eps, 0.0)
        bend = at(gradient, loss, s + step, y) - at(gradient, loss, s - step, y)
        assert at(curvature, loss, s, y) == pytest.approx(bend[k] / (2 * eps), rel=1e-5, abs=1e-7)


def kinks(params, label):
    """Scores where the loss, or its slope, has a corner."""
    if params["kind"] == "huber":
        return (label - params["k"], label + params["k"])
    return (label,) if params["kind"] in (*NUMBERS, "hinge", "mls") else ()


@with_l2
@every
@given(a=st.lists(score, min_size=3, max_size=3), b=st.lists(score, min_size=3, max_size=3))
def test_convexity_and_smoothness(params, l2, a, b):
    """l(b) lies above the tangent at a by lambda/2 |b - a|^2 and not above it by beta/2 |b - a|^2,
    at kinks too.
    """
    kind = params["kind"]
    m = 3 if kind == "softmax" else 1
    loss, a, b = make(**params, l2=l2), np.array(a[:m]), np.array(b[:m])
    for y in labels(kind, m):
        gap = at(value, loss, b, y) - at(value, loss, a, y) - at(gradient, loss, a, y) @ (b - a)
        half = 0.5 * (b - a) @ (b - a)
        tolerance = 1e-9 * (1.0 + abs(at(value, loss, b, y)) + abs(at(value, loss, a, y)))
        assert gap >= convexity(loss) * half - tolerance
        if smoothness(loss) is not None:
            assert gap <= smoothness(loss) * half + tolerance


@with_l2
@pytest.mark.parametrize(
    ("params", "beta", "strong"),
    [
        ({"kind": "squared"}, 1, 1), ({"kind": "squared_full"}, 2, 2),
        ({"kind": "absolute"}, None, 0), ({"kind": "quantile"}, None, 0),
        ({"kind": "huber"}, 1, 0), ({"kind": "poisson"}, None, 0),
        ({"kind": "pnorm", "p": 3.0}, None, 0), ({"kind": "pnorm", "p": 2.0}, None, 2),
        ({"kind": "logistic"}, 0.25, 0), ({"kind": "logistic2"}, 1, 0),
        ({"kind": "hinge"}, None, 0), ({"kind": "exponential"}, None, 0),
        ({"kind": "linear"}, 0, 0), ({"kind": "mls"}, 1, 0), ({"kind": "softmax"}, 0.5, 0),
    ],
    ids=str,
)  # fmt: skip
def test_global_constants(params, l2, beta, strong):
    """beta and lambda are those of the table, each with 2 r of l2; beta is None where it is local
    or absent.
    """
    loss = make(**params, l2=l2)

    assert smoothness(loss) == (None if beta is None else beta + 2 * l2)
    assert convexity(loss) == strong + 2 * l2


@pytest.mark.parametrize("Z", [1.0, 5.0])
@pytest.mark.parametrize("b", [1.0, 1.5, 3.0])
@with_l2
@scalar
def test_constants_are_suprema(params, l2, b, Z):
    """On a grid of scores and labels L_b, beta_b and eps_b are never exceeded, and reached."""
    loss, known = make(**params, l2=l2), constants(make(**params, l2=l2), b, Z)
    scores = np.linspace(-b, b, 61)
    far = np.concatenate([side * (b + np.array([1e-7, 0.1, 1.0, 10.0])) for side in (1.0, -1.0)])
    slopes, bends, costs = [], [], [0.0]
    for z in grid(params["kind"], Z):
        slopes += [abs(at(gradient, loss, [s], [z])[0]) for s in scores]
        bends += [at(curvature, loss, [s], [z]) for s in scores]
        for s in far:
            fall = at(value, loss, [math.copysign(b, s)], [z]) - at(value, loss, [s], [z])
            costs.append(fall / (abs(s) - b))

    assert max(slopes) == pytest.approx(known.lipschitz, rel=1e-12)
    if known.smoothness is not None:
        assert max(bends) == pytest.approx(known.smoothness, rel=1e-12)
    assert max(costs) <= known.projection * (1 + 1e-6) + 1e-6
    if l2 == 0.0:
        assert max(costs) == pytest.approx(known.projection, rel=1e-6, abs=1e-6)


def grid(kind, Z):
    if kind in MARGINS:
        return (-1.0, 1.0)
    return np.linspace(0.0 if kind == "poisson" else -Z, Z, 5)


@pytest.mark.parametrize(
    ("params", "eta", "N", "D", "Z", "expected"),
    [
        ({"kind": "linear"}, 0.3, 20, 1.0, 1.0, 6.0),
        ({"kind": "pnorm", "p": 3.0}, 0.3, 20, 1.0, 1.0, 1.0),
        ({"kind": "squared"}, 0.3, 20, 1.0, 1.0, 1.0),
        ({"kind": "squared"}, 0.3, 20, 1.0, 5.0, (-1 + math.sqrt(1 + 6.0)) / 0.6),
        ({"kind": "squared"}, 0.3, 20, 2.0, 5.0, (-2 + math.sqrt(4 + 12.0)) / 0.6),
        ({"kind": "squared_full"}, 0.3, 20, 1.0, 5.0, (-1 + math.sqrt(1 + 6.0)) / 0.6),
        ({"kind": "squared"}, 0.3, 5, 1.0, 5.0, 1.5),
        ({"kind": "mls"}, 0.3, 20, 1.0, 1.0, 1.0),
        ({"kind": "logistic"}, 0.3, 20, 1.0, 1.0, math.log(4 / 0.3)),
        ({"kind": "logistic"}, 0.3, 20, 2.0, 1.0, 2 * math.log(4 / 0.3)),
        ({"kind": "logistic"}, 0.1, 20, 1.0, 1.0, 2.0),
        ({"kind": "logistic2"}, 0.01, 1000, 1.0, 1.0, math.log(200) / 2),
        ({"kind": "logistic2"}, 0.5, 20, 1.0, 1.0, 1.0),
        ({"kind": "huber", "k": 0.7}, 0.3, 20, 1.0, 1.0, 1.0),
        ({"kind": "exponential"}, math.exp(-2), 20, 1.0, 1.0, 1.0),
        ({"kind": "hinge"}, 0.3, 20, 1.0, 1.0, 6.0),
        ({"kind": "absolute"}, 0.3, 20, 2.0, 1.0, 12.0),
        ({"kind": "quantile", "q": 0.8}, 0.3, 20, 1.0, 1.0, 6.0),
        ({"kind": "squared"}, 0.25, 4, 1.0, 9.0, 1.0),
    ],
)  # fmt: skip
def test_radius_of_the_table(params, eta, N, D, Z, expected):
    """B of the table of section 1, where it is a closed form."""
    assert radius(make(**params), eta, N, D, Z) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("eta", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("D", [1.0, 2.0])
@pytest.mark.parametrize("Z", [1.0, 6.0])
@with_l2
@scalar
def test_radius_solves_its_equation(params, l2, eta, D, Z):
    """B holds eta beta_B B^2 >= eps_B D or is eta N D; a smaller one does not, but for the bounds
    that logistic losses take instead.
    """
    loss, N = make(**params, l2=l2), 500
    B = radius(loss, eta, N, D, Z)

    def surplus(b):
        actual = constants(loss, b, Z)
        return -1.0 if actual.smoothness is None else (
            eta * actual.smoothness * b * b - actual.projection * D
        )  # fmt: skip

    assert D <= B <= eta * N * D
    assert B == eta * N * D or surplus(B) >= 0.0
    if B > D and params["kind"] not in ("logistic", "logistic2"):
        assert surplus(B * (1 - 1e-9)) < 0.0


def test_radius_stays_finite_for_many_learners():
    """Curvatures that grow without bound neither overflow nor lose the root."""
    for params in ({"kind": "poisson"}, {"kind": "exponential"}, {"kind": "pnorm", "p": 100.0}):
        assert 1.0 <= radius(make(**params), 0.001, 10**9, 1.0, 50.0) <= 1e6


def test_softmax_is_refused_by_online_gradient_boosting():
    """Section 1 has no constants for it: the error says what to take instead."""
    softmax = make("softmax")
    for refused in (lambda: constants(softmax, 1.0), lambda: radius(softmax, 0.5, 4, 1.0)):
        with pytest.raises(kaboost.ModelError, match="one_vs_rest"):
            refused()


def tallied(loss, kind, seen):
    """Return y0 after labels y of weight w."""
    m = outputs(kind)
    counts, y0, total = np.zeros(m), np.full(m, 9.0), 0.0
    init_score(loss, total, counts, y0)
    assert (y0 == 0.0).all()
    for y, w in seen:
        total += w
        update_init(loss, y, w, total, counts)
    init_score(loss, total, counts, y0)
    return y0


def weighed(kind):
    """Labels, the first and the last ones often, with weights."""
    some = labels(kind, outputs(kind))
    return [(some[i % len(some) if i % 3 else 0], (0.5, 1.0, 2.0)[i % 3]) for i in range(30)]


@every
def test_start_is_the_twins(params):
    """y0 is the weighted statistic of 2.1; of one class, or of zeros alone, it is finite."""
    kind = params["kind"]
    loss, plain = make(**params), twin({**params, "l2": 0.0})
    for seen in (weighed(kind), weighed(kind)[:1] * 9):
        expected = plain.init_score(seen, outputs(kind))

        np.testing.assert_allclose(tallied(loss, kind, seen), expected, rtol=1e-12, atol=1e-15)
        assert np.isfinite(expected).all()


@pytest.mark.parametrize(
    "kind", ["squared", "poisson", "logistic", "logistic2", "exponential", "softmax"]
)
def test_start_minimises_what_was_tallied(kind):
    """The loss of all labels has slope 0 at y0, with half an event of every class (of the mean 1/2,
    a whole one, for counts) beside them.
    """
    m, loss, seen = outputs(kind), make(kind), weighed(kind)
    half = {"squared": [], "poisson": [(np.full(m, 0.5), 1.0)]}
    beside = half.get(kind, [(y, 0.5) for y in labels(kind, m)])
    y0 = tallied(loss, kind, seen)
    slope = sum(w * at(gradient, loss, y0, y) for y, w in seen + beside)

    np.testing.assert_allclose(slope, 0.0, atol=1e-9)


EXTREMES = (-1.7e308, -1e200, -800.0, 0.0, 800.0, 1e200, 1.7e308)


@every
@with_l2
def test_extremes_are_numbers(params, l2):
    """No score and no label gives nan or a loss that falls without end, and nothing warns."""
    kind, loss = params["kind"], make(**params, l2=l2)
    m = 3 if kind == "softmax" else 1
    taught = labels(kind, m) if kind not in NUMBERS else [np.array([z]) for z in EXTREMES]
    for s in EXTREMES:
        scores = np.array([s, 0.0, -s][:m])
        predicted = at(link_of, loss, scores, scores)
        assert np.isfinite(predicted).all()
        assert not has_probability(loss) or ((predicted >= 0.0) & (predicted <= 1.0)).all()
        for y in taught:
            y = abs(y) if kind == "poisson" else y
            encoded = encode_labels(loss, y, m)[0]
            assert at(value, loss, scores, encoded) >= -1.8e308
            assert not np.isnan(at(gradient, loss, scores, encoded)).any()
            assert at(curvature, loss, scores, encoded) >= 0.0


@pytest.mark.parametrize(
    ("kind", "m", "y", "message"),
    [
        ("logistic", 1, [0.0, 2.0], "2 does not fit.*0 and 1"),
        ("hinge", 1, [0.0, -1.0], "0 does not fit.*0 and 1, or -1 and 1"),
        ("mls", 1, [[0.0, 1.0]], "2 columns"),
        ("exponential", 1, [np.nan], "nan does not fit"),
        ("softmax", 3, [0.0, 3.0], "3 does not fit.*0 to 2"),
        ("softmax", 3, [0.5, 1.0], "0.5 does not fit.*0 to 2"),
        ("softmax", 2, [[0.0, 1.0]], "2 columns"),
        ("squared", 1, [np.inf, 1.0], "not finite"),
        ("pnorm", 2, [1.0, 1.0], "m = 2"),
        ("poisson", 1, [0.0, -0.5], "-0.5 is no count"),
        ("poisson", 1, [np.nan], "not finite"),
    ],
)
def test_labels_that_do_not_fit_are_refused(kind, m, y, message):
    """A label outside the loss's range is refused with its value and what the loss takes."""
    with pytest.raises(kaboost.ModelError, match=message):
        encode_labels(make(kind), np.array(y), m)


@pytest.mark.parametrize("kind", MARGINS)
def test_binary_labels_map_once(kind):
    """0 and 1 become -1 and 1, which stay."""
    for written in ([0.0, 1.0, 0.0], [-1.0, 1.0, -1.0]):
        encoded = encode_labels(make(kind), np.array(written), 1)

        assert encoded.tolist() == [[-1.0], [1.0], [-1.0]]


@pytest.mark.parametrize(("kind", "m"), [*((kind, 2) for kind in MARGINS), ("softmax", 1)])
def test_outputs_that_do_not_fit_are_refused(kind, m):
    """A binary loss has one output, softmax at least two; the reason names an alternative."""
    reason = LOSSES[kind].reject_reason({"loss": {"kind": kind}, "m": m})

    assert reason.startswith(kind)
    assert "take" in reason
    assert LOSSES[kind].reject_reason({"loss": {"kind": kind}, "m": 3 - m}) is None


def test_the_list_is_the_public_one():
    """The kinds are in the public order; some give probabilities, every one has a task."""
    probable = [kind for kind in LOSSES if has_probability(make(kind))]

    assert list(LOSSES) == [*NUMBERS, *MARGINS, "softmax"]
    assert probable == ["logistic", "logistic2", "exponential", "linear", "mls", "softmax"]


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 7.0, 0.5, 3.25])
def test_power(p):
    """r^p is that of Python, to what exp and log lose; 0^0 is 1."""
    for r in (0.0, 1e-200, 0.3, 1.0, 1.7, 42.0):
        assert power(r, p) == pytest.approx(r**p, rel=1e-13, abs=1e-300)


# Compiled where numba compiles: plain Python otherwise.
@kernel
def sweep(loss, F, Y, actual):
    """Fill actual (labels, 2 + 3m, prefixes): value and gradient, each also by
    `value_gradient_prefixes`, and inverse link.
    """
    m, n = F.shape
    G, L, s, g, p = np.empty((m, n)), np.empty(n), np.empty(m), np.empty(m), np.empty(m)
    for k in range(Y.shape[0]):
        value_gradient_prefixes(loss, F, Y[k], G, L)
        for i in range(n):
            for c in range(m):
                s[c] = F[c, i]
            gradient(loss, s, Y[k], g)
            inverse_link(loss, s, p)
            actual[k, 0, i] = value(loss, s, Y[k])
            actual[k, 1, i] = L[i]
            for c in range(m):
                actual[k, 2 + c, i] = g[c]
                actual[k, 2 + m + c, i] = G[c, i]
                actual[k, 2 + 2 * m + c, i] = p[c]


@kernel
def powers(r, p, actual):
    """Fill actual (n,) with r^p."""
    for i in range(r.shape[0]):
        actual[i] = power(r[i], p[i])


def swept(params, l2):
    """Sweep scores of all sizes, zeros of both signs and every kink."""
    kind, m, r = params["kind"], outputs(params["kind"]), np.random.default_rng(5)
    Y = np.array(labels(kind, m))
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 2.0, -1.3, 30.0, 31.0, -30.0, 1e9, -1e9, 1e-9]
    F = np.ascontiguousarray(
        np.concatenate([r.normal(size=(m, 80)) * 3, r.permuted([special] * m, axis=1)], axis=1)
    )
    actual = np.empty((len(Y), 2 + 3 * m, F.shape[1]))
    sweep(make(**params, l2=l2), F, Y, actual)
    return actual


@with_l2
@every
def test_assess_is_value_and_gradient(params, l2):
    """The pass over all prefixes gives the very bits of one after the other."""
    actual, m = swept(params, l2), outputs(params["kind"])

    assert actual[:, 1].tobytes() == actual[:, 0].tobytes()
    assert actual[:, 2 + m : 2 + 2 * m].tobytes() == actual[:, 2 : 2 + m].tobytes()


def digests():
    """Digest everything the losses say, per loss, and 10^5 powers."""
    actual = {
        f"{named(params)}-{l2}": swept(params, l2) for params in SUBJECTS for l2 in (0.0, 0.05)
    }
    r = np.random.default_rng(7)
    actual["powers"] = np.empty(100_000)
    powers(10.0 ** r.uniform(-9, 9, 100_000), r.uniform(0, 5, 100_000), actual["powers"])
    return {name: hashlib.sha256(bits.tobytes()).hexdigest() for name, bits in actual.items()}


@pytest.mark.long
def test_jit_off_equals_jit_on():
    """Plain Python gives the bytes that compiled kernels give, at kinks and extremes as well."""
    program = (
        "import sys, json; sys.path.insert(0, '.');"
        "from tests.models import test_losses; print(json.dumps(test_losses.digests()))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0" if numba.config.DISABLE_JIT else "1"},
        capture_output=True, check=True, text=True,
    )  # fmt: skip

    assert json.loads(other.stdout) == digests()
