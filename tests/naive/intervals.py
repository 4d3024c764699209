"""Prediction intervals in NumPy, from docs/adr/0015: one object, event by event."""

import math

import numpy as np

LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99])
TAILS = (1 - LEVELS) / 2
START = [0.51, 0.60, 0.70, 0.81, 0.96, 1.08, 1.21, 1.29]
RATES = np.array([0.05, 0.01, 0.0015])


class Naive:
    """The tails of residuals in units of a scale; `say` before `learn`, event by event."""

    def __init__(self) -> None:
        self.below, self.above = np.array(START), np.array(START)
        self.first: list[float] = []
        self.scales, self.shares = np.zeros(3), np.full(3, 1 / 3)
        self.typical = self.mean = self.variance = self.tilt = self.weight = 0.0
        self.count = 0

    def say(self, p: float) -> tuple[list[float], list[float]]:
        """Lower and upper ends of all levels around a prediction."""
        if self.count < 20:
            return [-math.inf] * 8, [math.inf] * 8
        scale = self.shares @ self.scales
        low, high = -reached(self.below, scale), reached(self.above, scale)
        middle = (low[0] + high[0]) / 2
        stretch = math.exp(self.tilt * self.place(p))
        lows = [p + stretch * min(middle, *low[: j + 1]) for j in range(8)]
        return lows, [p + stretch * max(middle, *high[: j + 1]) for j in range(8)]

    def place(self, p: float) -> float:
        """How many deviations a prediction lies from the mean one."""
        deviation = math.sqrt(self.variance)
        return float(np.clip((p - self.mean) / deviation, -3, 3)) if deviation else 0.0

    def learn(self, p: float, y: float, w: float) -> None:
        """Learn one event of positive weight."""
        rate = max(0.001, 1 / (self.count + 1))
        self.weight = self.weight if self.count else w
        self.weight += rate * (min(w, 4 * self.weight) - self.weight)
        v, place = min(w / self.weight, 4.0), self.place(p)
        r = (y - p) / math.exp(self.tilt * place)
        if self.count < 20:
            self.first.append(abs(r))
            if len(self.first) == 20:
                self.typical = float(np.median(self.first))
                self.scales[:] = self.typical
        else:
            scale = float(self.shares @ self.scales)
            self.follow(r, scale, v)
            if scale > 0:
                slope = 6 * (r / scale) ** 2 / (5 + (r / scale) ** 2) - 1
                self.tilt = float(np.clip(self.tilt + 0.003 * v * slope * place, -1, 1))
            self.rescale(abs(r), v)
        most = math.inf if self.count < 20 else 5 * math.sqrt(self.variance)
        away = float(np.clip(p - self.mean, -most, most))
        self.mean += rate * away
        self.variance += rate * ((1 - rate) * away**2 - self.variance)
        self.count += 1

    def follow(self, r: float, scale: float, v: float) -> None:
        """Quantile tracking: out by the level where it was missed, in by the rest where it held."""
        step = v * max(0.004, (self.count + 10) ** -0.7) if self.count < 2700 else v * 0.004
        for bends, e in ((self.below, -r), (self.above, r)):
            ends = reached(bends, scale)
            bends += step * np.where(e > ends, 1 - TAILS, np.where(e < ends, -TAILS, 0.0))

    def rescale(self, size: float, v: float) -> None:
        """Three scales by the slope of Student's t, mixed by its likelihood with a fixed share."""
        if self.typical == 0:
            self.typical = size
            self.scales[:] = size
            return
        self.typical += 0.01 * (min(size, 10 * self.typical) - self.typical)
        x = np.minimum(max(size, self.typical / 8) / self.scales, 1e6)
        likely = self.shares / self.scales / (1 + x**2 / 5) ** 3
        self.shares = (1 - 1e-4) * likely / likely.sum() + 1e-4 / 3
        self.scales *= 1 + v * RATES * (6 * x**2 / (5 + x**2) - 1)
        for k in (1, 2):
            near = self.scales[k - 1]
            self.scales[k] = np.clip(self.scales[k], near / 8, near * 8)


def reached(bends: np.ndarray, scale: float) -> np.ndarray:
    """How far tails reach."""
    return np.asarray(scale * bends * (1 + abs(bends)))
