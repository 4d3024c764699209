"""Stacking and calibration: as their slow twins do, for any number of scores, and monotone."""

from __future__ import annotations

import numpy as np
import pytest

from kaboost.models.kernels.jit import kernel
from kaboost.models.losses import Logistic, Quantile, Squared
from kaboost.models.reboosted import stacking
from kaboost.models.reboosted.calibration import calibrate, calibrated, calibration, served_log_odds
from kaboost.models.reboosted.label_scale import LabelScale, label_scale
from kaboost.models.reboosted.learn import learn_stack
from kaboost.models.reboosted.predict import stacked_score
from kaboost.models.reboosted.score_losses import assess_scores, sharpness
from kaboost.models.reboosted.scratch import LearnScratch
from tests.naive.aggregate import Calibration, Stack, sigma


def scratch(stack, n):
    """What the kernels write into, for n scores."""
    R, S = stack.weights.shape[1], len(stack.mixture_losses)
    sizes = {"scores": n, "score_losses": n, "score_gradients": n, "weights": max(n, S)}
    sizes |= {"expert_scores": S, "expert_losses": S, "kalman_gain": R, "filter_inputs": R}
    return LearnScratch(**{name: np.zeros(sizes.get(name, 1)) for name in LearnScratch._fields})


def label_statistics(*numbers):
    """The label scale with its first fields."""
    fields = dict(zip(LabelScale._fields, map(np.array, numbers), strict=False))
    return label_scale()._replace(**fields)


@kernel
def value_sharpness(loss, scale):
    """The factor on losses of numbers."""
    return sharpness(loss, scale, 0)


@kernel
def event(stack, scale, loss, link, y, noise, a):
    """The score of an event, which is then learned by the stack."""
    served = stacked_score(link, stack, scale, a)
    assess_scores(loss, y, scale, link, a)
    learn_stack(stack, loss, stacking.Target(y, 1.0, noise, 1.0), sharpness(loss, scale, link), a)
    return served


@pytest.mark.parametrize("n", [1, 3, 20])
def test_logistic_stack_is_its_twin(n):
    """Log-odds of any number of scores are stacked as the specification writes it."""
    r, twin, mine = np.random.default_rng(n), Stack(n), stacking.stack(n)
    a, scale = scratch(mine, n), label_scale()
    for _ in range(300):
        f = r.normal(size=n)
        y = float(sigma(f.sum()) > r.random())
        a.scores[:] = f
        expected = twin.logistic(f, y)
        assert event(mine, scale, Logistic(0.0), 1, 2.0 * y - 1.0, 1.0, a) == pytest.approx(
            expected, abs=1e-7
        )

    assert mine.weights[:, : n + 1] == pytest.approx(twin.w, abs=1e-7)
    assert (mine.covariance == mine.covariance.transpose(0, 2, 1)).all()


@pytest.mark.parametrize("usual", [0.4, 0.1])
def test_value_stack_is_its_twin(usual):
    """Numbers are stacked around their mean, their losses measured by that of the mean; or by usual
    ones, where those are far below.
    """
    n = 4
    r, twin, mine = np.random.default_rng(0), Stack(n), stacking.stack(n)
    scale = label_statistics(3.0, 1.0, 0.5, 0.2, usual, 1.0)
    a = scratch(mine, n)
    for _ in range(300):
        f = 3.0 + r.normal(size=n)
        y = f[0] + 0.3 * r.normal()
        a.scores[:] = f
        expected = twin.value(f, y, 3.0, 0.2, (0.5, usual))
        assert event(mine, scale, Squared(0.0), 0, y, 0.2, a) == pytest.approx(expected, abs=1e-7)

    assert mine.weights[:, : n + 1] == pytest.approx(twin.w, abs=1e-7)


@pytest.mark.parametrize("q", [0.05, 0.3, 0.95])
def test_mirrored_quantiles_are_equally_sharp(q):
    """The usual loss is the mean of both sides: q of -y is 1 - q of y."""
    scale = label_statistics(0.0, 1.0, 0.4, 0.2, 0.05, 1.0)
    found = value_sharpness(Quantile(0.0, q), scale)

    assert found == pytest.approx(value_sharpness(Quantile(0.0, 1.0 - q), scale))
    assert found > 1.5


def test_stack_stays_stable():
    """After many events of nearly equal scores the covariance is symmetric, positive and small."""
    n = 6
    r, mine = np.random.default_rng(1), stacking.stack(n)
    a, scale = scratch(mine, n), label_scale()
    for _ in range(20_000):
        a.scores[:] = r.normal() + 1e-3 * r.normal(size=n)
        event(mine, scale, Logistic(0.0), 1, float(r.choice((-1.0, 1.0))), 1.0, a)

    for covariance in mine.covariance:
        assert (covariance == covariance.T).all()
        assert np.linalg.eigvalsh(covariance[: n + 1, : n + 1]).min() > 0.0
        assert np.abs(covariance).max() < 0.2


def test_a_warning_lets_weights_change_sign():
    """After 5,000 events variances are small; inflated, the filters follow a reversal at once."""
    n, lost = 6, {}
    scale = label_statistics(*np.ones(6))
    for inflated in (False, True):
        r, mine = np.random.default_rng(4), stacking.stack(n)
        a, off = scratch(mine, n), []
        for t in range(5_100):
            if t == 5_000 and inflated:
                stacking.inflate_covariance(mine)
            x = r.normal()
            a.scores[:] = x + 0.1 * r.normal(size=n)
            y = 1.0 + (x if t < 5_000 else -x) + 0.1 * r.normal()
            off.append(abs(event(mine, scale, Squared(0.0), 0, y, 0.01, a) - y))
        lost[inflated] = np.mean(off[5_000:])

    assert lost[True] < 0.25 < 0.5 < lost[False]


def test_covariance_is_bounded():
    """However often it is inflated, a variance exceeds its maximum by one inflation at most."""
    mine = stacking.stack(3)
    for _ in range(100):
        stacking.inflate_covariance(mine)

    assert (
        np.diagonal(mine.covariance[0]).max()
        < stacking.MAX_VARIANCE + 2 * stacking.INITIAL_VARIANCE
    )


def test_calibration_is_its_twin():
    """The map of log-odds moves as the specification writes it."""
    r, twin, mine = np.random.default_rng(2), Calibration(), calibration()
    for _ in range(3000):
        z = float(4.0 * r.normal())
        y = float(r.random() < sigma(0.4 * z + 1.0))
        assert sigma(served_log_odds(mine, z)) == pytest.approx(twin.step(z, y), abs=1e-9)
        calibrate(mine, z, y, 1.0)

    assert mine.knots == pytest.approx(twin.c, abs=1e-9)
    assert calibrated(mine.knots, 0.0) > 0.5


def test_calibration_is_monotone_at_every_moment():
    """No label, however unlikely, inverts the order of two scores."""
    r, mine = np.random.default_rng(3), calibration()
    grid = np.linspace(-12.0, 12.0, 97)
    for k in range(4000):
        z = float(9.0 * r.normal())
        calibrate(mine, z, float(r.random() < (0.9 if z < 0.0 else 0.1)), float(r.choice((1, 50))))
        assert (np.diff(mine.knots) >= 0.0).all()
        if k % 100 == 0:
            assert (np.diff([served_log_odds(mine, float(z)) for z in grid]) >= 0.0).all()
