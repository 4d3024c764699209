"""Section 1: the fourteen losses from the specification's table, one score at a time."""

from __future__ import annotations

import math

from tests.naive.draws import s


def exp_tangent(a):
    """e^a up to 30, then the tangent line there (section 1, Stability)."""
    return math.exp(a) if a <= 30 else math.exp(30) * (1 + a - 30)


def log1pexp(a):
    return max(a, 0) + math.log1p(math.exp(-abs(a)))


def sign(a):
    return int(a > 0) - int(a < 0)


class Numbers:
    """Losses of numbers: a sum over outputs; the score is the prediction, y0 is 0."""

    beta = None

    def value(self, y, z):
        return sum(self.one(a, b) for a, b in zip(y, z, strict=True))

    def gradient(self, y, z):
        return [self.slope(a, b) for a, b in zip(y, z, strict=True)]

    def inverse_link(self, y):
        return list(y)

    def init_score(self, seen, m):
        return [0.0] * m


class FromMean(Numbers):
    """2.1: y0 is the weighted mean of the labels."""

    def init_score(self, seen, m):
        total = sum(w for _, w in seen)
        return [sum(w * z[c] for z, w in seen) / total if total else 0.0 for c in range(m)]


class SquaredLoss(FromMean):
    beta = 1.0

    def one(self, y, z):
        return 0.5 * (y - z) ** 2

    def slope(self, y, z):
        return y - z


class SquaredFullLoss(Numbers):
    beta = 2.0

    def one(self, y, z):
        return (y - z) ** 2

    def slope(self, y, z):
        return 2 * (y - z)


class AbsoluteLoss(FromMean):
    def one(self, y, z):
        return abs(y - z)

    def slope(self, y, z):
        return sign(y - z)


class QuantileLoss(Numbers):
    def __init__(self, q):
        self.q = q

    def one(self, y, z):
        return self.q * max(z - y, 0) + (1 - self.q) * max(y - z, 0)

    def slope(self, y, z):
        return -self.q if z > y else 1 - self.q if z < y else 0.0


class HuberLoss(FromMean):
    beta = 1.0

    def __init__(self, k):
        self.k = k

    def one(self, y, z):
        r = abs(y - z)
        return 0.5 * r**2 if r <= self.k else self.k * (r - self.k / 2)

    def slope(self, y, z):
        return max(-self.k, min(self.k, y - z))


class PNormLoss(Numbers):
    def __init__(self, p):
        self.p = p

    def one(self, y, z):
        return abs(y - z) ** self.p

    def slope(self, y, z):
        return self.p * abs(y - z) ** (self.p - 1) * sign(y - z)


class PoissonLoss(Numbers):
    def one(self, y, z):
        return exp_tangent(y) - z * y

    def slope(self, y, z):
        return math.exp(min(y, 30)) - z

    def inverse_link(self, y):
        return [math.exp(min(a, 30)) for a in y]

    def init_score(self, seen, m):
        n = sum(w for _, w in seen)
        sums = [sum(w * z[c] for z, w in seen) for c in range(m)]
        return [math.log((a + 0.5) / (n + 1)) if seen else 0.0 for a in sums]


class Margin:
    """Losses of one score for a label u of -1 or 1; y0 is 0."""

    beta = None

    def value(self, y, u):
        return self.one(y[0], u[0])

    def gradient(self, y, u):
        return [self.slope(y[0], u[0])]

    def inverse_link(self, y):
        return [(1 + max(-1, min(1, y[0]))) / 2]

    def init_score(self, seen, m):
        return [0.0]


class Odds(Margin):
    """2.1: y0 is the log odds of the labels, or half of them; the link is its inverse."""

    factor = 2

    def inverse_link(self, y):
        return [s(self.factor * y[0])]

    def init_score(self, seen, m):
        positive = sum(w for u, w in seen if u[0] > 0)
        negative = sum(w for u, w in seen if u[0] < 0)
        return [math.log((positive + 0.5) / (negative + 0.5)) / self.factor]


class LogisticLoss(Odds):
    beta = 0.25
    factor = 1

    def one(self, y, u):
        return log1pexp(-u * y)

    def slope(self, y, u):
        return -u * s(-u * y)


class Logistic2Loss(Odds):
    beta = 1.0

    def one(self, y, u):
        return log1pexp(-2 * u * y)

    def slope(self, y, u):
        return -2 * u * s(-2 * u * y)


class ExponentialLoss(Odds):
    def one(self, y, u):
        return exp_tangent(-u * y)

    def slope(self, y, u):
        return -u * math.exp(min(-u * y, 30))


class HingeLoss(Margin):
    def one(self, y, u):
        return max(0, 1 - u * y)

    def slope(self, y, u):
        return -u if u * y < 1 else 0.0

    def inverse_link(self, y):
        return [1.0 if y[0] >= 0 else -1.0]


class LinearLoss(Margin):
    beta = 0.0

    def one(self, y, u):
        return -u * y

    def slope(self, y, u):
        return -u


class MlsLoss(Margin):
    beta = 1.0

    def one(self, y, u):
        return 0.5 * max(1 - u * y, 0) ** 2

    def slope(self, y, u):
        return -u * max(1 - u * y, 0)


class SoftmaxLoss:
    beta = 0.5

    def value(self, y, k):
        top = max(y)
        return top + math.log(sum(math.exp(a - top) for a in y)) - y[int(k[0])]

    def gradient(self, y, k):
        return [p - (c == k[0]) for c, p in enumerate(self.inverse_link(y))]

    def inverse_link(self, y):
        top = max(y)
        total = sum(math.exp(a - top) for a in y)
        return [math.exp(a - top) / total for a in y]

    def init_score(self, seen, m):
        n = sum(w for _, w in seen)
        counts = [sum(w for k, w in seen if k[0] == c) for c in range(m)]
        return [math.log((a + 0.5) / (n + m / 2)) if seen else 0.0 for a in counts]


class L2Loss:
    """Any loss + r |y|^2: gradient + 2 r y, beta + 2 r."""

    def __init__(self, loss, r):
        self.loss, self.r = loss, r
        self.beta = None if loss.beta is None else loss.beta + 2 * r
        self.init_score, self.inverse_link = loss.init_score, loss.inverse_link

    def value(self, y, z):
        return self.loss.value(y, z) + self.r * sum(a * a for a in y)

    def gradient(self, y, z):
        return [g + 2 * self.r * a for g, a in zip(self.loss.gradient(y, z), y, strict=True)]


LOSSES = {
    "squared": SquaredLoss,
    "squared_full": SquaredFullLoss,
    "absolute": AbsoluteLoss,
    "quantile": QuantileLoss,
    "huber": HuberLoss,
    "poisson": PoissonLoss,
    "pnorm": PNormLoss,
    "logistic": LogisticLoss,
    "logistic2": Logistic2Loss,
    "hinge": HingeLoss,
    "exponential": ExponentialLoss,
    "linear": LinearLoss,
    "mls": MlsLoss,
    "softmax": SoftmaxLoss,
}


def twin(params):
    """Return the twin of a filled-in loss: {"kind": ..., "l2": ..., and its own parameter}."""
    own = {name: given for name, given in params.items() if name not in ("kind", "l2")}
    plain = LOSSES[params["kind"]](**own)
    return L2Loss(plain, params["l2"]) if params["l2"] else plain
