"""Section 6.7: ADWIN bagging; the window as the plain list of all its values."""

from __future__ import annotations

import math
from statistics import fmean, pvariance

from tests.naive.nets import NetLearner
from tests.naive.oza import OzaBagRule
from tests.naive.vote_scores import targets


class Adwin:
    """Bifet and Gavalda 2007: buckets hold their values, the oldest bucket first."""

    def __init__(self, delta):
        self.delta, self.buckets, self.ticks, self.changed = delta, [], 0, False

    def update(self, value):
        if self.changed:
            self.__init__(self.delta)
        self.buckets.append([value])
        size = 1
        while len(same := [b for b in self.buckets if len(b) == size]) > 5:
            first = self.buckets.index(same[0])
            self.buckets[first : first + 2] = [self.buckets[first] + self.buckets[first + 1]]
            size *= 2
        self.ticks += 1
        if self.ticks % 32 == 0 and len(self.values) > 10:
            while any(self.cut(k) for k in range(1, len(self.buckets))):
                del self.buckets[0]
                self.changed = True
        return self.changed

    @property
    def values(self):
        return [v for bucket in self.buckets for v in bucket]

    @property
    def estimate(self):
        return fmean(self.values)

    def cut(self, k):
        old = [v for bucket in self.buckets[:k] for v in bucket]
        new = [v for bucket in self.buckets[k:] for v in bucket]
        if min(len(old), len(new)) < 5:
            return False
        log = math.log(2 * math.log(len(self.values)) / self.delta)
        m = 1 / (len(old) - 4) + 1 / (len(new) - 4)
        epsilon = math.sqrt(2 * m * pvariance(self.values) * log) + 2 / 3 * log * m
        return abs(fmean(old) - fmean(new)) > epsilon


class AdwinBagRule(OzaBagRule):
    """The learner with the largest error starts afresh when any learner's errors change."""

    def __init__(self, spec, d, m, loss, bank):
        super().__init__(spec, d, m, loss, bank)
        self.whole, self.d = spec, d
        self.detectors = [Adwin(self.spec["delta"]) for _ in range(self.N)]
        self.renewed = 0

    def learn(self, x, label, w):
        h, target, tasks, changed = self.weak_predictions(x), targets(label, self.m), [], False
        self.bank.see(x)
        for i, detector in enumerate(self.detectors):
            wrong = not self.right(i, x, label)
            changed = detector.update(float(wrong)) or changed
            tasks.append((target, self.learn_copies(i, x, target, w)))
        if changed:
            errors = [detector.estimate for detector in self.detectors]
            worst = errors.index(max(errors))
            self.bank.learners[worst] = self.new_learner(worst)
            self.detectors[worst] = Adwin(self.spec["delta"])
            self.renewed += 1
        return h, tasks

    def new_learner(self, i):
        spec = self.whole["bank"]
        if spec["kind"] != "nets":
            one = type(self.bank)(spec, self.d, self.m, 0).learners[i]
            for shared in {"scales", "bins"} & vars(one).keys():
                setattr(one, shared, getattr(self.bank, shared))
            return one
        sizes = ((spec["hidden"], self.d), (self.m, spec["hidden"]))
        layers = []
        for units, inputs in sizes:
            bound = 1 / math.sqrt(inputs)
            layers.append([[bound * self.draw.sym() for _ in range(inputs)] for _ in range(units)])
            layers.append([bound * self.draw.sym() for _ in range(units)])
        return NetLearner(*layers, spec)
