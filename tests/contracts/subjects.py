"""Every rule, bank and loss with the parameters that matter, a small stream for every loss, and an
independent list of the combinations that the theory forbids.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

import kaboost

# The first of a kind stands for it in the product of everything; the others run with one partner.
BANKS = (
    {"kind": "linear", "n": 3, "step": "sgd", "lr": 0.05},
    {"kind": "linear", "n": 3, "step": "nag"},
    {"kind": "linear", "n": 5, "step": "nag", "features": "cyclic"},
    {"kind": "linear", "n": 5, "step": "sgd", "features": "cyclic", "bias": False},
    {"kind": "linear", "n": 1, "step": "nag", "bias": False},
    {"kind": "linear", "n": 3, "step": "ogd", "radius": 2.0, "norm": 3.0},
    {"kind": "linear", "n": 3, "step": "ng", "lr": 0.3},
    {"kind": "linear", "n": 3, "step": "adagrad", "lr": 0.2},
    {"kind": "linear", "n": 3, "step": "adam", "lr": 0.05},
    {"kind": "linear", "n": 3, "step": "ftrl", "l1": 0.1, "l2": 0.01},
    {"kind": "linear", "n": 3, "step": "invariant", "lr": 0.1},
    {"kind": "linear", "n": 3, "step": "sgd", "lr": 0.1, "p": 0.5, "t0": 10.0},
    {"kind": "linear", "n": 5, "step": "ogd", "radius": 0.5, "t_max": 6.0, "features": "cyclic"},
    {"kind": "linear", "n": 5, "step": "ng", "features": "cyclic"},
    {"kind": "linear", "n": 5, "step": "adagrad", "features": "cyclic", "bias": False},
    {"kind": "linear", "n": 5, "step": "adam", "lr": 0.01, "features": "cyclic"},
    {"kind": "linear", "n": 5, "step": "ftrl", "l1": 0.3, "features": "cyclic"},
    {"kind": "linear", "n": 5, "step": "invariant", "features": "cyclic", "bias": False},
    {"kind": "linear", "n": 5, "step": "sgd", "lr": 0.1, "p": 1.0, "features": "cyclic"},
    {"kind": "stumps", "n": 3, "lr": 0.05},
    {"kind": "stumps", "n": 2, "lr": 0.02, "use_zeros": True, "decay": 0.9},
    {"kind": "coordinate_ftl", "n": 3},
    {"kind": "hedge", "n": 3, "rate": 0.2},
    {"kind": "nets", "n": 3, "optimiser": "adam", "lr": 0.01},
    {"kind": "nets", "n": 3, "optimiser": "sgd", "hidden": 3, "activation": "tanh", "lr": 0.05},
    {"kind": "nets", "n": 1, "optimiser": "adam", "activation": "leaky_relu"},
    {"kind": "refit_trees", "n": 2, "every": 15, "depth": 2},
    {"kind": "trees", "n": 3, "warmup": 12, "grace": 5, "bins": 6, "n_min": 2, "delta": 0.5},
    {"kind": "trees", "n": 2, "warmup": 9, "grace": 4, "n_min": 2, "split": "hoeffding"},
    {"kind": "hoeffding", "n": 3, "warmup": 12, "grace": 5, "bins": 6, "delta": 0.4, "tie": 0.5},
)
SMALL = {"trees": 3, "leaves": 4, "depth": 2, "least_rows": 20}
REBOOSTED = {
    "kind": "reboosted_trees",
    "max_memory": 16,
    "structures": [SMALL, {**SMALL, "leaves": 3}] * 2,  # the default has four: the same kernel
}
LOWERED = ({"kind": "logistic"}, {"kind": "quantile", "q": 0.8})  # and by none of LOSSES' forms
RULES = (
    {"kind": "sgb"},
    {"kind": "sgb", "eta": 0.2, "y0": 0.0},
    {"kind": "sgb", "eta": "edge", "gamma": 0.5, "y0_freeze": 7},
    {"kind": "sgb_residual"},
    {"kind": "sgb_residual", "average": "last", "schedule": "constant", "eta_scale": 0.3},
    {"kind": "sgb_residual", "average": "shifted", "radius": 2.0, "residual_decay": 0.5},
    {"kind": "ogb_span", "eta": 0.6, "label_bound": 3.0},
    {"kind": "ogb_span", "fit": "linear", "scale": 1.5, "t_max": 9},
    {"kind": "ogb_hull", "bound": 2.0},
    {"kind": "ogb_hull", "greedy_form": "residual"},
    {"kind": "latent", "spaces": 4},
    {"kind": "latent", "spaces": 3, "start": "consistent", "target": "chain", "guard": True},
    {"kind": "gentle"},
    {"kind": "gentle", "step": "exp", "w_max": 3.0},
    {"kind": "bbm"},
    {"kind": "bbm", "weight": "raw", "discrete": False, "gamma": 0.3},
    {"kind": "adaboost_ol"},
    {"kind": "adaboost_ol", "vote": "sampled", "feed": "reject"},
    {"kind": "adaboost_ol_w", "discrete": False, "t_max": 5.0},
    {"kind": "oza_boost"},
    {"kind": "oza_boost", "feed": "weight", "t_max": 8.0},
    {"kind": "oza_bag"},
    {"kind": "adwin_bag", "rate": 2.0, "delta": 1.0},
)
LOSSES = (
    ({"kind": "squared"}, 1),
    ({"kind": "squared", "l2": 0.01}, 3),
    ({"kind": "squared_full"}, 1),
    ({"kind": "absolute"}, 1),
    ({"kind": "quantile", "q": 0.8, "l2": 0.01}, 3),
    ({"kind": "huber", "k": 0.7}, 1),
    ({"kind": "poisson"}, 1),
    ({"kind": "pnorm", "p": 2.5}, 1),
    ({"kind": "logistic", "l2": 0.01}, 1),
    ({"kind": "logistic2"}, 1),
    ({"kind": "hinge", "l2": 0.05}, 1),
    ({"kind": "exponential"}, 1),
    ({"kind": "linear", "l2": 0.1}, 1),
    ({"kind": "mls"}, 1),
    ({"kind": "softmax"}, 3),
)
VOTES = {"gentle", "bbm", "adaboost_ol", "adaboost_ol_w", "oza_boost", "oza_bag", "adwin_bag"}
NUMBERS = {"squared", "squared_full", "absolute", "quantile", "huber", "pnorm"}
FIXED = {  # the rules that take some losses only
    "latent": {"logistic"},
    "gentle": {"exponential"},
    "bbm": {"logistic"},
    "adaboost_ol": {"logistic"},
    "adaboost_ol_w": {"logistic"},
    "oza_boost": {"logistic", "softmax"},
    "oza_bag": {"logistic", "softmax", *NUMBERS},
    "adwin_bag": {"logistic", "softmax"},
}
MARGIN = {"logistic", "logistic2", "hinge", "exponential", "linear", "mls"}
EVENTS, FEATURES = 20, 4
GROWN = 180  # events after which there are rebuilt trees: there are no bins before the hundredth


class Subject(NamedTuple):
    """One combination with a stream it can learn."""

    spec: dict
    m: int
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray

    @property
    def name(self):
        """What distinguishes the combination, for people."""
        words = [str(v) for part in ("rule", "bank", "loss") for v in self.spec[part].values()]
        return "-".join([*words, str(self.m)])


def labelled_events(kind, m, n=EVENTS):
    """Labels that the loss can learn, features with zeros, importances with zeros."""
    r = np.random.default_rng(5)
    X = r.normal(size=(n, FEATURES)) * (1.0, 3.0, 0.1, 1.0)
    X[r.random(X.shape) < 0.1] = 0.0
    z = X[:, 0] - 0.5 * X[:, 1] + 0.1 * r.normal(size=n)
    w = np.where(r.random(n) < 0.1, 0.0, r.choice([1.0, 1.0, 0.5, 2.0], n))
    if kind in MARGIN:
        return X, (z > 0).astype(float), w
    if kind == "softmax":
        return X, np.digitize(z, (-1.0, 1.0)).astype(float), w
    if kind == "poisson":
        z = np.floor(np.minimum(abs(z), 4.0))
    return X, (z if m == 1 else np.stack([z, abs(z), X[:, 2] ** 2], axis=1)), w


def firsts(parts):
    """The first of every kind; linear banks count by their step."""
    seen = {}
    for part in parts:
        kind = part[0] if isinstance(part, tuple) else part
        seen.setdefault((kind["kind"], kind.get("step")), part)
    return list(seen.values())


def make(rule, bank, loss, m):
    """The subject of one combination; ModelError where it is refused."""
    given = {"rule": rule, "bank": bank, "loss": loss, "seed": 7}
    kaboost.build(given, FEATURES, m)
    n = GROWN if bank["kind"] == "reboosted_trees" else EVENTS
    return Subject(kaboost.normalise_spec(given), m, *labelled_events(loss["kind"], m, n))


def product():
    """Every rule x bank x loss by kind, whether it can be or not; of linear banks two steps, the
    plain one and the default. Every other step has one partner, in `partners`.
    """
    banks = [bank for bank in firsts(BANKS) if bank.get("step") in (None, "sgd", "nag")]
    banks.append(REBOOSTED)
    for rule, bank, (loss, m) in itertools.product(firsts(RULES), banks, firsts(LOSSES)):
        yield rule, bank, loss, m
    for loss in LOWERED:
        yield RULES[0], REBOOSTED, loss, 1


def partners():
    """Every listed bank, rule and loss, each with a plain partner."""
    for bank in BANKS:
        yield fitting(RULES, (bank,), LOSSES)
    for rule in RULES[1:]:
        yield fitting((rule,), BANKS, LOSSES)
    for loss in LOSSES[1:]:
        yield fitting(RULES, BANKS, (loss,))


def cover():
    """Few combinations in which the first of every kind of bank, rule and loss is at least once:
    always that one of all which has most that no other has had.
    """
    parts = [
        (rule, bank, loss, m)
        for rule, bank, (loss, m) in itertools.product(firsts(RULES), firsts(BANKS), firsts(LOSSES))
        if not forbidden(rule, bank, loss, m)
    ]
    left = {str(each) for one in parts for each in one[:3]}
    while left:
        best = max(parts, key=lambda one: len(left & set(map(str, one[:3]))))
        left -= set(map(str, best[:3]))
        yield best


def fitting(rules, banks, losses):
    """The first combination of these that can be."""
    return next(
        (rule, bank, loss, m)
        for rule, bank, (loss, m) in itertools.product(rules, banks, losses)
        if not forbidden(rule, bank, loss, m)
    )


def forbidden(rule, bank, loss, m):
    """Whether theory forbids the combination (specification, 7.8), by kinds alone."""
    if bank is REBOOSTED:
        lowered = {"logistic", "poisson", *NUMBERS} - {"squared_full", "pnorm"}
        return rule["kind"] != "sgb" or loss["kind"] not in lowered or "l2" in loss or m > 1
    if bank["kind"] == "hoeffding" and (rule["kind"] not in VOTES or loss["kind"] in NUMBERS):
        return True
    if rule["kind"] in FIXED:
        return forbidden_votes(rule, bank, loss)
    return rule["kind"].startswith("ogb") and forbidden_ogb(bank, loss)


def forbidden_votes(rule, bank, loss):
    """Another loss than the rule's own, or learners of numbers where classes are asked for."""
    if loss["kind"] not in FIXED[rule["kind"]]:
        return True
    numbers = rule["kind"] in ("gentle", "latent") or loss["kind"] in NUMBERS
    return bank["kind"] == "coordinate_ftl" and not numbers


def forbidden_ogb(bank, loss):
    """No constants, no slopes to be fed, or learners that differ under a loss with a kink."""
    if loss["kind"] == "softmax":
        return True
    closed = bank["kind"] in ("coordinate_ftl", "refit_trees")
    if loss["kind"] in ("hinge", "absolute", "quantile"):
        unlike = bank["kind"] in ("nets", "conv") or bank.get("features") == "cyclic"
        return unlike or closed
    return closed and not loss["kind"].startswith("squared")
