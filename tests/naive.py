"""The slow, obvious twin of every kernel: plain loops over learners, written from the
specification, never from the code.
"""

from __future__ import annotations

import math


class SplitMix64:
    """Section 0: the generator of all reference values."""

    def __init__(self, seed):
        self.s = seed

    def next(self):
        self.s = (self.s + 0x9E3779B97F4A7C15) % 2**64
        z = self.s
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    def u(self):
        return (self.next() >> 11) * 2.0**-53

    def sym(self):
        return 2.0 * self.u() - 1.0

    def normal(self):
        first, second = self.u(), self.u()
        return math.sqrt(-2.0 * math.log(1.0 - first)) * math.cos(2.0 * math.pi * second)


def s(a):
    """The logistic function by the branch on the sign (section 1, Stability)."""
    return 1 / (1 + math.exp(-a)) if a >= 0 else math.exp(a) / (1 + math.exp(a))


class SquaredLoss:
    beta = 1.0

    def value(self, y, z):
        return sum(0.5 * (a - b) ** 2 for a, b in zip(y, z, strict=True))

    def gradient(self, y, z):
        return [a - b for a, b in zip(y, z, strict=True)]

    def start(self, seen, m):
        total = sum(w for _, w in seen)
        return [sum(w * z[c] for z, w in seen) / total if total else 0.0 for c in range(m)]


class LogisticLoss:
    beta = 0.25

    def value(self, y, u):
        a = -u[0] * y[0]
        return max(a, 0) + math.log1p(math.exp(-abs(a)))

    def gradient(self, y, u):
        return [-u[0] * s(-u[0] * y[0])]

    def start(self, seen, m):
        positive = sum(w for u, w in seen if u[0] > 0)
        negative = sum(w for u, w in seen if u[0] < 0)
        return [math.log((positive + 0.5) / (negative + 0.5)) if seen else 0.0]


class SoftmaxLoss:
    beta = 0.5

    def value(self, y, k):
        top = max(y)
        return top + math.log(sum(math.exp(a - top) for a in y)) - y[int(k[0])]

    def gradient(self, y, k):
        top = max(y)
        total = sum(math.exp(a - top) for a in y)
        return [math.exp(a - top) / total - (c == k[0]) for c, a in enumerate(y)]

    def start(self, seen, m):
        n = sum(w for _, w in seen)
        counts = [sum(w for k, w in seen if k[0] == c) for c in range(m)]
        return [math.log((a + 0.5) / (n + m / 2)) if seen else 0.0 for a in counts]


class L2Loss:
    """Any loss + r |y|^2: gradient + 2 r y, beta + 2 r."""

    def __init__(self, loss, r):
        self.loss, self.r, self.beta = loss, r, loss.beta + 2 * r
        self.start = loss.start

    def value(self, y, z):
        return self.loss.value(y, z) + self.r * sum(a * a for a in y)

    def gradient(self, y, z):
        return [g + 2 * self.r * a for g, a in zip(self.loss.gradient(y, z), y, strict=True)]


LOSSES = {"squared": SquaredLoss, "logistic": LogisticLoss, "softmax": SoftmaxLoss}


class LinearLearner:
    """7.1: one linear learner; with `sees`, only that feature and the bias."""

    def __init__(self, d, m, lr, bias, sees, scales, step):
        self.rows = d + bias
        self.w = [[0.0] * self.rows for _ in range(m)]
        self.S = [[0.0] * self.rows for _ in range(m)]
        self.t = self.n = 0.0
        self.lr, self.bias, self.sees, self.scales, self.step = lr, bias, sees, scales, step

    def features(self, x):
        kept = [v if self.sees in (None, j) else 0.0 for j, v in enumerate(x)]
        return kept + [1.0] * self.bias

    def predict(self, x):
        x = self.features(x)
        if self.step == "sgd":
            return [sum(a * b for a, b in zip(row, x, strict=True)) for row in self.w]
        return [
            sum(a * (b if abs(b) <= k else math.copysign(k, b)) for a, b, k in terms)
            for terms in (zip(row, x, self.known(), strict=True) for row in self.w)
        ]

    def known(self):
        return [*self.scales[: self.rows - self.bias], *[1.0] * self.bias]

    def rescale(self, old, new):
        for row in self.w:
            for j in range(self.rows - self.bias):
                if new[j] > old[j]:
                    row[j] *= old[j] / new[j]

    def learn(self, x, e):
        """e (m,) is weight * derivative of the fed loss in h."""
        x, scale = self.features(x), self.known()
        if self.step == "sgd":
            for c, row in enumerate(self.w):
                for j in range(self.rows):
                    row[j] -= self.lr * e[c] * x[j]
            return
        self.t += 1
        self.n += sum((b / k) ** 2 for b, k in zip(x, scale, strict=True) if b)
        for c, row in enumerate(self.w):
            for j in range(self.rows):
                G = e[c] * x[j]
                self.S[c][j] += G * G
                if self.n and scale[j] * math.sqrt(self.S[c][j]) > 0:
                    rate = self.lr * math.sqrt(self.t / self.n)
                    row[j] -= rate * G / (scale[j] * math.sqrt(self.S[c][j]))


class LinearBank:
    def __init__(self, spec, d, m, seed):
        self.scales, self.d = [0.0] * d, d
        self.learners = [
            LinearLearner(
                d, m, spec["lr"], spec["bias"],
                i % d if spec["features"] == "cyclic" else None, self.scales, spec["step"],
            )
            for i in range(spec["n"])
        ]  # fmt: skip

    def predict(self, x):
        return [one.predict(x) for one in self.learners]

    def update(self, x, h, targets, weights):
        new = [max(a, abs(b)) for a, b in zip(self.scales, x, strict=True)]
        for one in self.learners:
            if one.step == "nag":
                one.rescale(self.scales, new)
        self.scales[:] = new
        for one, said, target, w in zip(self.learners, h, targets, weights, strict=True):
            if w > 0:
                one.learn(x, [w * (a - b) for a, b in zip(said, target, strict=True)])


class NetLearner:
    """7.3: h = W2 act(W1 x + b1) + b2 with Adam or SGD."""

    def __init__(self, W1, b1, W2, b2, spec):
        self.theta = {"W1": W1, "b1": b1, "W2": W2, "b2": b2}
        self.spec, self.t = spec, 0
        self.M, self.V = {}, {}

    def hidden(self, x):
        W1, b1 = self.theta["W1"], self.theta["b1"]
        a = [
            sum(p * q for p, q in zip(row, x, strict=True)) + b
            for row, b in zip(W1, b1, strict=True)
        ]
        kind = self.spec["activation"]
        if kind == "sigmoid":
            z = [s(v) for v in a]
            return z, [v * (1 - v) for v in z]
        if kind == "tanh":
            z = [math.tanh(v) for v in a]
            return z, [1 - v * v for v in z]
        return [v if v > 0 else 0.01 * v for v in a], [1.0 if v > 0 else 0.01 for v in a]

    def predict(self, x):
        z, _ = self.hidden(x)
        W2, b2 = self.theta["W2"], self.theta["b2"]
        return [
            sum(p * q for p, q in zip(row, z, strict=True)) + b
            for row, b in zip(W2, b2, strict=True)
        ]

    def learn(self, x, e):
        z, slope = self.hidden(x)
        H, m = len(z), len(e)
        da = [sum(self.theta["W2"][c][k] * e[c] for c in range(m)) * slope[k] for k in range(H)]
        gradients = {
            "W1": [[da[k] * v for v in x] for k in range(H)],
            "b1": da,
            "W2": [[e[c] * v for v in z] for c in range(m)],
            "b2": e,
        }
        self.t += 1
        for name, gradient in gradients.items():
            self.step(name, gradient)

    def step(self, name, gradient):
        lr, value = self.spec["lr"], self.theta[name]
        for place, g in flat(gradient):
            if self.spec["optimiser"] == "sgd":
                move = lr * g
            else:
                M = self.M[name, place] = 0.9 * self.M.get((name, place), 0.0) + 0.1 * g
                V = self.V[name, place] = 0.999 * self.V.get((name, place), 0.0) + 0.001 * g * g
                move = lr * (M / (1 - 0.9**self.t)) / (math.sqrt(V / (1 - 0.999**self.t)) + 1e-8)
            row = value if len(place) == 1 else value[place[0]]
            row[place[-1]] -= move


class NetBank:
    def __init__(self, spec, d, m, seed):
        H, N, draw = spec["hidden"], spec["n"], SplitMix64(seed)
        W1 = [[[draw.sym() / math.sqrt(d) for _ in range(d)] for _ in range(H)] for _ in range(N)]
        b1 = [[draw.sym() / math.sqrt(d) for _ in range(H)] for _ in range(N)]
        W2 = [[[draw.sym() / math.sqrt(H) for _ in range(H)] for _ in range(m)] for _ in range(N)]
        b2 = [[draw.sym() / math.sqrt(H) for _ in range(m)] for _ in range(N)]
        self.learners = [NetLearner(*theta, spec) for theta in zip(W1, b1, W2, b2, strict=True)]

    def predict(self, x):
        return [one.predict(x) for one in self.learners]

    def update(self, x, h, targets, weights):
        for one, said, target, w in zip(self.learners, h, targets, weights, strict=True):
            if w > 0:
                one.learn(x, [w * (a - b) for a, b in zip(said, target, strict=True)])


BANKS = {"linear": LinearBank, "nets": NetBank}


class SgbRule:
    """2.1: P[i+1] = P[i] - eta h[i]; target[i] = grad l(P[i])."""

    def __init__(self, spec, m):
        self.spec, self.m, self.seen = spec, m, []
        self.y0 = [0.0 if spec["y0"] == "running" else spec["y0"]] * m

    def forward(self, h):
        P = [list(self.y0)]
        for said in h:
            P.append([a - self.spec["eta"] * b for a, b in zip(P[-1], said, strict=True)])
        return P, P[-1]

    def targets(self, loss, P, h, label, w):
        return [loss.gradient(P[i], label) for i in range(len(h))], [w] * len(h)

    def adapt(self, loss, label, w):
        if self.spec["y0"] == "running" and len(self.seen) < self.spec["y0_freeze"]:
            self.seen.append((label, w))
            self.y0 = loss.start(self.seen, self.m)


RULES = {"sgb": SgbRule}


def flat(nested):
    for i, one in enumerate(nested):
        if isinstance(one, list):
            for j, g in enumerate(one):
                yield (i, j), g
        else:
            yield (i,), one


class NaiveBooster:
    """Section 0, one event in this order: predict, forward, record, targets, update, adapt."""

    def __init__(self, spec, d, m):
        r = spec["loss"]["l2"]
        plain = LOSSES[spec["loss"]["kind"]]()
        self.loss = L2Loss(plain, r) if r else plain
        self.bank = BANKS[spec["bank"]["kind"]](spec["bank"], d, m, spec["seed"])
        self.rule = RULES[spec["rule"]["kind"]](spec["rule"], m)
        self.events = 0
        self.loss_sum = 0.0
        self.prefix_loss_sum = [0.0] * (spec["bank"]["n"] + 1)
        self.target_square = [0.0] * spec["bank"]["n"]
        self.error_square = [0.0] * spec["bank"]["n"]

    def learn(self, x, label, w=1.0):
        h = self.bank.predict(x)
        P, served = self.rule.forward(h)
        if w == 0:
            return served
        self.events += 1
        self.loss_sum += w * self.loss.value(served, label)
        for i, prefix in enumerate(P):
            self.prefix_loss_sum[i] += w * self.loss.value(prefix, label)
        targets, weights = self.rule.targets(self.loss, P, h, label, w)
        for i, target in enumerate(targets):
            self.target_square[i] += w * sum(a * a for a in target)
            error = [a - b for a, b in zip(target, h[i], strict=True)]
            self.error_square[i] += w * sum(a * a for a in error)
        self.bank.update(x, h, targets, weights)
        self.rule.adapt(self.loss, label, w)
        return served

    @property
    def edges(self):
        return [1 - e / t for e, t in zip(self.error_square, self.target_square, strict=True)]
