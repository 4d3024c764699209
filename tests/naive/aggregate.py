"""Stacking and calibration as the specification of reboosted trees has them, slow and obvious."""

import numpy as np


def sigma(z):
    """The logistic function."""
    return 1.0 / (1.0 + np.exp(-z))


def log_loss(z, y):
    """Log-loss of log-odds z for y in {0, 1}."""
    return np.logaddexp(0.0, np.where(y > 0, -z, z))


def softmax(losses):
    """Weights e^(-loss / 2), summing to 1."""
    w = np.exp(-0.5 * (losses - losses.min()))
    return w / w.sum()


class Stack:
    """Three Kalman filters, an exponentially weighted average, and their mixture."""

    def __init__(self, n):
        self.w = np.array([[1.0 / n] * n + [0.0]] * 3)
        self.P = np.array([0.01 * np.eye(n + 1)] * 3)
        self.L = np.zeros(n)
        self.mixed = np.zeros(4)

    def logistic(self, f, y):
        """Return the log-odds of the mixture for scores f, then learn y in {0, 1}."""
        x = np.append(f, 1.0)
        z = np.append(self.w @ x, softmax(self.L) @ f)
        p = softmax(self.mixed) @ sigma(z)
        for j, q in enumerate((1e-6, 1e-5, 1e-7)):
            s = sigma(z[j])
            h = max(s * (1.0 - s), 1e-3)
            self.correct(j, x, (y - s) / h, 1.0 / h, q)
        self.L = 0.99 * self.L + np.minimum(log_loss(f, y), 10.0)
        self.mixed = 0.998 * self.mixed + np.minimum(log_loss(z, y), 10.0)
        return np.log(p / (1.0 - p))

    def value(self, f, y, mean, noise, losses):
        """Return the value of the mixture for scores f, then learn the number y; `losses` are that
        of the mean label and the usual distance.
        """
        base, usual = losses
        sharp = max(1.0, 0.3 * base / (3.0 * 0.5 * usual**2))
        x = np.append(f - mean, np.sqrt(noise))
        z = np.append(self.w @ x + mean, softmax(self.L) @ f)
        mixture = softmax(self.mixed) @ z
        for j, q in enumerate((1e-6, 1e-5, 1e-7)):
            self.correct(j, x, y - z[j], noise, q)
        lost = np.minimum(0.5 * (f - y) ** 2 / (0.3 * base), 10.0)
        self.L = 0.99 * self.L + sharp * lost
        lost = np.minimum(0.5 * (z - y) ** 2 / (0.3 * base), 10.0)
        self.mixed = 0.998 * self.mixed + sharp * lost
        return mixture

    def correct(self, j, x, error, noise, drift):
        """One step of a Kalman filter."""
        G = self.P[j] @ x
        total = noise + x @ G
        self.w[j] += G * error / total
        self.P[j] -= np.outer(G, G) / total
        low = np.diag(self.P[j]) < 0.1
        self.P[j][np.diag(low)] += drift


class Calibration:
    """Fifteen knots, moved by AdaGrad and kept in order."""

    def __init__(self):
        right = np.array([0.4, 0.9, 1.5, 2.3, 3.5, 5.3, 8.0])
        self.at = np.concatenate([-right[::-1], [0.0], right])
        self.c, self.S, self.losses = self.at.copy(), np.zeros(15), np.zeros(2)

    def step(self, z, y):
        """Return the probability served for log-odds z, then learn y in {0, 1}."""
        image = np.interp(z, self.at, self.c)
        trust = sigma(0.5 * (self.losses[0] - self.losses[1]))
        p = trust * sigma(image) + (1.0 - trust) * sigma(z)
        self.losses = 0.999 * self.losses + [log_loss(z, y), log_loss(image, y)]
        near = np.clip(z, -8.0, 8.0)
        j = min(int(np.searchsorted(self.at, near, "right")) - 1, 13)
        rest = (near - self.at[j]) / (self.at[j + 1] - self.at[j])
        slope = sigma(image) - y
        for knot, share in ((j, 1.0 - rest), (j + 1, rest)):
            g = slope * share
            self.S[knot] = 0.9995 * self.S[knot] + g * g
            self.c[knot] -= 0.2 * g / np.sqrt(1.0 + self.S[knot])
        if slope < 0.0:
            for knot in (j + 1, j):
                self.c[knot] = self.c[knot : knot + 2].min()
        else:
            for knot in (j, j + 1):
                self.c[knot] = self.c[max(knot - 1, 0) : knot + 1].max()
        return p
