"""Section 7.4: convolution nets for 28 x 28 pictures, by im2col and matrices."""

from __future__ import annotations

import numpy as np

from tests.naive.draws import SplitMix64
from tests.naive.modes import slope


def patches(x):
    """The 144 patches of 5 x 5 at stride 2, (144, 25)."""
    picture = np.reshape(x, (28, 28))
    return np.array(
        [picture[r : r + 5, c : c + 5].ravel() for r in range(0, 24, 2) for c in range(0, 24, 2)]
    )


class ConvLearner:
    """7.4: sigmoid(K * x + b), then a dense layer; Adam."""

    def __init__(self, K, b, V, v, lr):
        self.theta, self.lr, self.t = [K, b, V, v], lr, 0
        self.M = [np.zeros_like(A) for A in self.theta]
        self.S = [np.zeros_like(A) for A in self.theta]

    def hidden(self, x):
        K, b, _, _ = self.theta
        return 1 / (1 + np.exp(-(K @ patches(x).T + b[:, None])))

    def predict(self, x):
        _, _, V, v = self.theta
        return list(V @ self.hidden(x).ravel() + v)

    def gradients(self, x, e):
        """d (e . h) / d theta."""
        z = self.hidden(x)
        da = (self.theta[2].T @ e).reshape(z.shape) * z * (1 - z)
        return [da @ patches(x), da.sum(axis=1), np.outer(e, z.ravel()), e]

    def learn(self, x, target, weight, mode):
        if weight == 0:
            return
        e = np.array(slope(self.predict(x), target, weight, mode))
        self.t += 1
        for A, M, S, G in zip(self.theta, self.M, self.S, self.gradients(x, e), strict=True):
            M[...] = 0.9 * M + 0.1 * G
            S[...] = 0.999 * S + 0.001 * G**2
            root = np.sqrt(S / (1 - 0.999**self.t))
            A -= self.lr * (M / (1 - 0.9**self.t)) / (root + 1e-8)


class ConvBank:
    def __init__(self, spec, d, m, seed):
        C, N, draw = spec["channels"], spec["n"], SplitMix64(seed)

        def layer(*shape, inputs):
            symmetric = [draw.sym() for _ in range(int(np.prod((N, *shape))))]
            return np.reshape(symmetric, (N, *shape)) / np.sqrt(inputs)

        K, b = layer(C, 25, inputs=25), layer(C, inputs=25)
        V, v = layer(m, 144 * C, inputs=144 * C), layer(m, inputs=144 * C)
        self.learners = [ConvLearner(*theta, spec["lr"]) for theta in zip(K, b, V, v, strict=True)]

    def see(self, x):
        """Learners share nothing."""
