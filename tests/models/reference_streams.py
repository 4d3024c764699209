"""The streams of the specification, section 10, and the linear bank that most of its rows use."""

from __future__ import annotations

import math

import numpy as np

from tests.naive import SplitMix64


def stream_r(noise):
    """10.2: d = 5, x_j = sym() in order, z = x.(1, -2, .5, 3, -1) (+ noise), 4000 events of seed
    11.
    """
    draw, X, z = SplitMix64(11), [], []
    for _ in range(4000):
        x = [draw.sym() for _ in range(5)]
        X.append(x)
        z.append(float(np.dot(x, (1, -2, 0.5, 3, -1))) + (noise * draw.normal() if noise else 0.0))
    return np.array(X), np.array(z)


def stream_m():
    """10.2: three classes, the argmax of three noisy linear scores, 3000 events of seed 61."""
    draw, X, k = SplitMix64(61), [], []
    rows = np.array([(2, 0, 0, 1), (0, 2, 0, -1), (-1, -1, 2, 0)], float)
    for _ in range(3000):
        x = np.array([draw.sym() for _ in range(4)])
        X.append(x)
        k.append(int(np.argmax(rows @ x + [0.3 * draw.normal() for _ in range(3)])))
    return np.array(X), np.array(k)


def stream_x():
    """10.5: u = sign(x0 x1), 4000 events of seed 31."""
    draw, X = SplitMix64(31), []
    for _ in range(4000):
        X.append([draw.sym() for _ in range(4)])
    X = np.array(X)
    return X, np.where(X[:, 0] * X[:, 1] >= 0, 1, -1)


def stream_c():
    """10.6: u = sign(x.(1, -1, 1, 1, -1, 1)), one in twenty turned, 4000 events of seed 12."""
    draw, X, u = SplitMix64(12), [], []
    for _ in range(4000):
        X.append([draw.sym() for _ in range(6)])
        label = 1 if np.dot(X[-1], (1, -1, 1, 1, -1, 1)) >= 0 else -1
        u.append(-label if draw.u() < 0.05 else label)
    return np.array(X), np.array(u)


def linear(n, step, lr, **more):
    return {"kind": "linear", "n": n, "step": step, "lr": lr, "bias": False, **more}


def stream_f(events):
    """10.2: Friedman's function of ten uniforms, with normal noise, of seed 41."""
    draw, X, z = SplitMix64(41), [], []
    for _ in range(events):
        x = [draw.u() for _ in range(10)]
        noiseless = 10 * math.sin(math.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2
        X.append(x)
        z.append(noiseless + 10 * x[3] + 5 * x[4] + draw.normal())
    return np.array(X), np.array(z)


def stream_h():
    """10.4: z = x.(.3, -.3, .2, .1, -.1), in the hull of +-x_j, 4000 events of seed 22."""
    draw = SplitMix64(22)
    X = np.array([[draw.sym() for _ in range(5)] for _ in range(4000)])
    return X, X @ np.array([0.3, -0.3, 0.2, 0.1, -0.1])
