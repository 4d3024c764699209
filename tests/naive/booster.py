"""Section 0: one event at a time."""

from __future__ import annotations

from tests.naive.adaboost_ol import AdaBoostOlRule
from tests.naive.adwin_bag import AdwinBagRule
from tests.naive.bbm import BbmRule
from tests.naive.conv import ConvBank
from tests.naive.coordinate_ftl import CoordinateFtlBank
from tests.naive.gentle import GentleRule
from tests.naive.hedge import HedgeBank
from tests.naive.hoeffding import HoeffdingBank
from tests.naive.latent import LatentRule
from tests.naive.linear import LinearBank
from tests.naive.losses import twin
from tests.naive.modes import edge_terms
from tests.naive.nets import NetBank
from tests.naive.ogb import OgbHullRule, OgbSpanRule
from tests.naive.oza import OzaBagRule, OzaBoostRule
from tests.naive.refit_trees import RefitTreeBank
from tests.naive.sgb import SgbRule
from tests.naive.sgb_residual import SgbResidualRule
from tests.naive.stumps import StumpBank
from tests.naive.trees import TreeBank

BANKS = {
    "linear": LinearBank,
    "stumps": StumpBank,
    "nets": NetBank,
    "conv": ConvBank,
    "coordinate_ftl": CoordinateFtlBank,
    "hedge": HedgeBank,
    "refit_trees": RefitTreeBank,
    "trees": TreeBank,
    "hoeffding": HoeffdingBank,
}
RULES = {
    "sgb": SgbRule,
    "sgb_residual": SgbResidualRule,
    "ogb_span": OgbSpanRule,
    "ogb_hull": OgbHullRule,
    "latent": LatentRule,
    "gentle": GentleRule,
    "bbm": BbmRule,
    "adaboost_ol": AdaBoostOlRule,
    "adaboost_ol_w": AdaBoostOlRule,
    "oza_boost": OzaBoostRule,
    "oza_bag": OzaBagRule,
    "adwin_bag": AdwinBagRule,
}


class NaiveBooster:
    """Predict, record, learn: one event in this order.

    A bank has `learners` and `see(x)`, called before they learn from x; a learner has `predict(x)`
    and `learn(x, target, weight, mode)`; a rule has `combine(x)` and `learn(x, label, w)`.
    """

    def __init__(self, spec, d, m):
        self.loss = twin(spec["loss"])
        bank = BANKS[spec["bank"]["kind"]](spec["bank"], d, m, spec["seed"])
        self.rule = RULES[spec["rule"]["kind"]](spec, d, m, self.loss, bank)
        self.events = 0
        self.loss_sum = 0.0
        self.prefix_loss_sum = [0.0] * (spec["bank"]["n"] + 1)
        self.edge_total = [0.0] * spec["bank"]["n"]
        self.edge_missed = [0.0] * spec["bank"]["n"]

    def learn(self, x, label, w=1.0):
        P, served = self.rule.combine(x)
        if w == 0:
            return served
        value = getattr(self.rule, "value", self.loss.value)  # votes are judged by the rule
        self.events += 1
        self.loss_sum += w * value(served, label)
        for i, prefix in enumerate(P):
            self.prefix_loss_sum[i] += w * value(prefix, label)
        h, tasks = self.rule.learn(x, label, w)
        for i, (predicted, task) in enumerate(zip(h, tasks, strict=True)):
            total, missed = edge_terms(predicted, task, self.rule.mode, self.rule.bound, w)
            self.edge_total[i] += total
            self.edge_missed[i] += missed
        return served

    @property
    def edges(self):
        return [1 - e / t for e, t in zip(self.edge_missed, self.edge_total, strict=True)]
