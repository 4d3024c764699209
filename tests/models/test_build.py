"""Specifications: defaults filled in, unknown words refused with the nearest known, pairs refused
with the reason.
"""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from tests.specs import LINEAR


def test_default_of_each_task():
    """No specification is sgb over reboosted trees, and the loss of the task; of several classes
    each has its own.
    """
    for task, loss, wrapper in (
        ("regression", "squared", None),
        ("binary", "logistic", None),
        ("multiclass", "logistic", "one_vs_rest"),
    ):
        full = kaboost.normalise_spec(None, task)
        assert (full["bank"]["kind"], full["bank"]["max_memory"]) == ("reboosted_trees", 128.0)
        assert (full["rule"]["kind"], full["loss"]["kind"], full["seed"]) == ("sgb", loss, 1)
        assert full.get("multiclass") == wrapper
        assert kaboost.normalise_spec({"rule": "sgb", "seed": 1}, task) == full
        assert kaboost.normalise_spec(full, task) == full


@pytest.mark.parametrize(
    "given",
    [
        {"rule": "bbm"},
        {"rule": {"kind": "sgb", "eta": 0.1}},
        {"loss": "hinge"},
        {"loss": {"kind": "logistic", "l2": 0.1}},
    ],
)
def test_default_bank_of_what_trees_do_not_take(given):
    """Beside another rule, a told one, another loss or l2 the default bank is linear."""
    assert kaboost.normalise_spec(given, "binary")["bank"] == {
        "kind": "linear", "n": 20, "step": "nag", "lr": 0.5, "bias": True, "features": "all",
    }  # fmt: skip
    assert kaboost.normalise_spec({"loss": "softmax"}, "multiclass")["bank"]["kind"] == "linear"


def test_normal_form_is_stable():
    """Normalising a normal form changes nothing, and a bare word means the kind of that name."""
    spec = {"rule": "sgb", "bank": "nets", "loss": {"kind": "softmax", "l2": 0.1}}
    full = kaboost.normalise_spec(spec)

    assert kaboost.normalise_spec(full) == full
    assert full["bank"]["lr"] == 0.001
    assert full["rule"]["eta"] == pytest.approx(0.3 / 0.7)


@pytest.mark.parametrize(
    ("rule", "n", "loss", "eta"),
    [
        ({"kind": "sgb"}, 32, "squared", 0.3),
        ({"kind": "sgb"}, 33, "squared", 0.1),
        ({"kind": "sgb"}, 20, "logistic", 1.0),
        ({"kind": "sgb", "eta": "edge", "gamma": 0.5}, 20, "squared", 0.5 / 6.0),
        ({"kind": "sgb", "eta": 7}, 20, "squared", 7.0),
    ],
)
def test_step_size(rule, n, loss, eta):
    """eta is as given, min(1, .3/beta) (.1/beta beyond 32 learners), or gamma / (beta (8 - 4
    gamma)).
    """
    spec = {"rule": rule, "bank": {"kind": "linear", "n": n}, "loss": loss}
    full = kaboost.normalise_spec(spec)
    assert kaboost.build(spec, d=2).rule.eta == pytest.approx(eta, rel=1e-15)
    assert full["rule"]["eta"] == ("edge" if "gamma" in rule else pytest.approx(eta, rel=1e-15))
    assert kaboost.normalise_spec(full) == full


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"ruel": "sgb"}, "did you mean 'rule'"),
        ({"rule": "sgd"}, "did you mean 'sgb'"),
        ({"bank": "linar"}, "did you mean 'linear'"),
        ({"bank": {"kind": "linear", "steps": "nag"}}, "did you mean 'step'"),
        ({"bank": {"kind": "linear", "step": "nagg"}}, "did you mean 'nag'"),
        ({"bank": {"kind": "linear", "n": 0}}, "whole number from 1"),
        ({"bank": {"kind": "linear", "n": 2.5}}, "whole number"),
        ({"bank": {"kind": "linear", "n": True}}, "whole number"),
        ({"bank": {"kind": "linear", "lr": float("nan")}}, "bank.lr"),
        ({"bank": {"kind": "linear", "lr": "fast"}}, "bank.lr"),
        ({"bank": {"kind": "linear", "bias": 1}}, "true or false"),
        ({"bank": {"n": 3}}, "has no kind; write bank: {kind: linear, ...}"),
        ({"bank": {"max_memory": 64}}, "{'max_memory': 64} has no kind; .*kind: reboosted_trees"),
        ({"bank": {"nonsense": 1}}, "has no kind; write bank: {kind: linear, ...}"),
        ({"bank": 3}, "has no kind"),
        ({"bank": {"kind": [1]}}, "is not known"),
        ({"rule": {"kind": "sgb", "eta": "edge"}}, "needs gamma"),
        ({"rule": {"kind": "sgb", "eta": 0.1, "gamma": 0.2}}, "gamma: is for eta: edge alone"),
        ({"rule": {"kind": "oza_bag", "feed": "weight", "rate": 2.0}}, "feed weight draws nothing"),
        ({"rule": {"kind": "sgb", "eta": 0.0}}, "rule.eta"),
        ({"rule": {"kind": "sgb", "y0": "walking"}}, "rule.y0"),
        ({"loss": {"kind": "squared", "l2": -1}}, "loss.l2"),
        ({"seed": -1}, "seed"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_unknown_words_are_refused(spec, says):
    """Every refusal names the key, the value and what to write instead."""
    with pytest.raises(kaboost.ModelError, match=says):
        kaboost.build({"loss": "squared", **spec}, d=2)


@pytest.mark.parametrize(
    ("loss", "meant"),
    [
        ("mse", "'squared'"),
        ("MAE", "'absolute'"),
        ("l1", "'absolute'"),
        ("l2", "'squared'"),
        ("log-loss", "'logistic'"),
        ("logloss", "'logistic'"),
        ("logistic_regression", "'logistic'"),
        ("xentropy", "'logistic' or 'softmax'"),
        ("mls2", "'mls'"),
    ],
)
def test_losses_of_other_libraries_are_pointed_to(loss, meant):
    """A loss by the name that other libraries give it is refused with its name here."""
    with pytest.raises(kaboost.ModelError, match=rf"did you mean {meant}\?$"):
        kaboost.build({"loss": loss}, d=2)


@pytest.mark.parametrize(
    "spec", [{"loss": "zzz"}, {"bank": "zzz"}, {"bank": {"kind": "linear", "zzz": 1}}]
)
def test_long_lists_are_pointed_to(spec):
    """A message names the nearest three and the command that lists all; a short list is whole."""
    with pytest.raises(kaboost.ModelError, match=r"; nearest are \w+, \w+, \w+; `kaboost models`"):
        kaboost.build({"loss": "squared", **spec}, d=2)
    with pytest.raises(kaboost.ModelError, match="known are rule, bank, loss, seed, multiclass"):
        kaboost.build({"zzz": 1}, d=2)


@pytest.mark.parametrize(
    ("loss", "m", "says"),
    [
        ("softmax", 1, "take logistic"),
        ("logistic", 3, "take softmax"),
        ("squared", 0, "m: 0 is not"),
    ],
)
def test_pairs_the_theory_forbids(loss, m, says):
    """A loss with the wrong number of outputs is refused with what to take instead."""
    with pytest.raises(kaboost.ModelError, match=says):
        kaboost.build({"loss": loss}, d=2, m=m)


def test_a_loss_that_does_not_answer_the_task_is_refused():
    """A regression is not learned by a classification loss."""
    with pytest.raises(kaboost.ModelError, match="take squared"):
        kaboost.normalise_spec({"loss": "logistic"}, "regression")
    with pytest.raises(kaboost.ModelError, match="give the task"):
        kaboost.build({"rule": "sgb"}, d=2)


def test_arrays_that_do_not_fit_are_refused():
    """A missing or misshapen array is named."""
    spec = kaboost.normalise_spec({**LINEAR, "loss": "squared"})
    arrays = kaboost.to_arrays(kaboost.build(spec, d=3))
    for broken, says in (
        ({k: v for k, v in arrays.items() if k != "bank.w"}, "'bank.w' is missing"),
        ({**arrays, "bank.w": np.zeros((1, 4, 19))}, "'bank.w' is"),
        ({**arrays, "rule.y0": arrays["rule.y0"].astype(np.float32)}, "'rule.y0' is"),
        ({k: v for k, v in arrays.items() if k != "shape"}, "'shape' is missing"),
    ):
        with pytest.raises(kaboost.ModelError, match=says):
            kaboost.from_arrays(spec, broken)


@pytest.mark.parametrize(
    ("X", "y", "w", "says"),
    [
        (np.ones((2, 3)), [1.0, 2.0], None, "X: has shape"),
        (np.ones(2), [1.0, 2.0], None, "X: has shape"),
        (np.full((2, 2), np.nan), [1.0, 2.0], None, "not finite"),
        (np.ones((2, 2)), [1.0], None, "as many of each"),
        (np.ones((2, 2)), [1.0, 2.0], [1.0], "as many of each"),
        ([["a", "b"]], [1.0], None, "X: holds a value that is not a number"),
        (np.ones((1, 2)), ["a"], None, "y: holds a value that is not a number"),
        (np.ones((1, 2)), [1.0], ["a"], "w: holds a value that is not a number"),
        (np.ones((2, 2)), [1.0, 2.0], [1.0, -1.0], "importance"),
        (np.ones((2, 2)), [1.0, 2.0], [1.0, np.inf], "importance"),
    ],
)
def test_arrays_of_events_are_checked(X, y, w, says):
    """A shape or value that does not fit is refused before anything is learned."""
    booster = kaboost.build({**LINEAR, "loss": "squared"}, d=2)
    with pytest.raises(kaboost.ModelError, match=says):
        kaboost.learn_many(booster, X, y, w)
    assert booster.progress.events == 0


def test_what_is_no_specification_is_refused():
    """A bare word for the whole model, or a size that is no whole number, is refused."""
    with pytest.raises(kaboost.ModelError, match="is not a specification"):
        kaboost.build("sgb", 4)
    with pytest.raises(kaboost.ModelError, match=r"d: 4\.0 is not"):
        kaboost.build({**LINEAR, "loss": "squared"}, d=4.0)
