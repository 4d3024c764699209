"""Explanations by name: they add up, name what is recent, and put what matters first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kaboost
from kaboost.models.reboosted.component import rates
from tests.models.test_reboosted import SMALL
from tests.specs import LINEAR

LAGS = tuple(f"label lag {rate:g}" for rate in rates("label_lags", None))
SCHEMA = {
    "plan": "category",
    "age": "number",
    "vip": "boolean",
    "noise": "number",
    "still": "number",
}
BANK = {"kind": "reboosted_trees", "structures": SMALL}
PLANS = tuple(f"plan {k}" for k in range(12))  # every second one matters
PAID = PLANS[1::2]
TASKS = ("binary", "regression")


def row(r):
    """An event's features, some of them missing, but for what never changes."""
    full = {
        "age": float(r.normal(40.0, 10.0)),
        "plan": str(r.choice(PLANS)),
        "vip": bool(r.random() < 0.5),
        "noise": float(r.normal()),
        "still": 7.0,
    }
    return {name: value for name, value in full.items() if name == "still" or r.random() < 0.9}


def label(x, r):
    """What age and plan, and nothing else, decide."""
    return 0.1 * (x.get("age", 40.0) - 40.0) + 2.0 * (x.get("plan") in PAID) + 0.3 * r.normal()


def taught(task="binary", events=1500, classes=None):
    """A model of some events."""
    spec = {"bank": BANK, "loss": "squared" if task == "regression" else "logistic"}
    if task == "multiclass":
        spec["multiclass"] = "one_vs_rest"
    model = kaboost.Model(task, spec, SCHEMA, classes)
    r = np.random.default_rng(1)
    rows = [row(r) for _ in range(events)]
    labels = [label(x, r) for x in rows]
    if task == "binary":
        labels = [int(y > 1.0) for y in labels]
    elif task == "multiclass":
        labels = [classes[int(y > 0.0) + int(y > 1.5)] for y in labels]
    else:
        labels = [1000.0 + 50.0 * y for y in labels]
    model.learn_many(rows, labels)
    return model


@pytest.fixture(scope="module", params=TASKS)
def model(request):
    """A model of each task."""
    return taught(request.param)


def whole(reason):
    """What a reason adds up to."""
    parts = [reason.base, *reason.contributions.values(), *reason.label_lags.values()]
    return sum(parts)


features = st.fixed_dictionaries(
    {},
    optional={
        "plan": st.one_of(st.none(), st.sampled_from([*PLANS, "new"])),
        "age": st.one_of(st.none(), st.floats(-1e6, 1e6)),
        "vip": st.one_of(st.none(), st.booleans()),
        "noise": st.floats(-5.0, 5.0),
        "still": st.floats(0.0, 9.0),
    },
)


@settings(deadline=None, max_examples=200)
@given(rows=st.lists(features, min_size=1, max_size=4))
def test_adds_up_to_the_served_score(model, rows):
    """Base, contributions and label lags are the served score, whatever is missing."""
    table = kaboost.models.features.rows.tabulate(SCHEMA, rows)
    scores = model.predict(table)[:, 0]
    found = model.explain_many(rows)

    assert [one.score for one in found] == scores.tolist()
    np.testing.assert_allclose([whole(one) for one in found], scores, rtol=0.0, atol=1e-9)
    for one in found:
        assert list(one.contributions) == list(SCHEMA)
        assert tuple(one.label_lags) == LAGS
        assert list(one.recent_label_parts) == ["plan"]
        assert one.contributions["still"] == 0.0


def test_says_what_decided(model):
    """Age and plan get what they are worth, a good part of the plan's by its recent labels."""
    old, young = (
        model.explain_one({"age": 60.0, "plan": "plan 3"}),
        model.explain_one({"age": 20.0}),
    )

    assert old.contributions["age"] > 0.0 > young.contributions["age"]
    assert old.contributions["plan"] > 5.0 * abs(old.contributions["noise"])
    assert old.recent_label_parts["plan"] > 0.3 * old.contributions["plan"]


def test_importance_puts_what_matters_first(model):
    """Age and plan lead; shares sum to one, label lags are named, what never varies has none."""
    found = model.importance()
    by_name = {one.name: one for one in found}

    assert {"age", "plan"} == {one.name for one in found[:2]}
    assert 1.0 == pytest.approx(sum(one.share for one in found))
    assert sorted((one.share for one in found), reverse=True) == [one.share for one in found]
    assert set(LAGS) == {one.name for one in found if one.kind == "label lag"}
    assert 0.0 == by_name["still"].share
    assert 0.2 < by_name["plan"].recent_label_part / by_name["plan"].share < 1.0
    assert by_name["age"].recent_label_part is None


def test_nothing_learned_explains_nothing():
    """A fresh model's scores are its base; no share is anybody's."""
    model = kaboost.Model(spec={"bank": BANK}, features=SCHEMA)
    found = model.explain_one({"age": 3.0})

    assert {0.0} == {*found.contributions.values(), *found.label_lags.values()}
    assert {0.0} == {one.share for one in model.importance()}


def test_every_class_has_its_own():
    """One versus rest explains the score of each class, of the predicted one unless told."""
    classes = ["low", "mid", "high"]
    model = taught("multiclass", classes=classes)
    r = np.random.default_rng(5)
    rows = [row(r) for _ in range(10)]
    table = kaboost.models.features.rows.tabulate(SCHEMA, rows)
    scores = model.predict(table)
    best = [classes.index(model.predict_one(x)) for x in rows]
    mean = np.mean([one.share for one in model.importance()[:2]])

    for k, name in enumerate(classes):
        found = model.explain_many(rows, name)
        np.testing.assert_allclose([whole(one) for one in found], scores[:, k], atol=1e-9)
    assert [one.score for one in model.explain_many(rows)] == scores[np.arange(10), best].tolist()
    assert mean > 0.2
    with pytest.raises(kaboost.ModelError, match="none"):
        model.explain_one(rows[0], "none")


@pytest.mark.parametrize(
    ("task", "message"), [("binary", "with it in task.labels"), ("regression", "leave it out")]
)
def test_a_label_that_there_is_none_of_is_refused(task, message):
    """Also where there is one score alone."""
    model = kaboost.Model(task, features={"age": "number"})
    with pytest.raises(kaboost.ModelError, match=message):
        model.explain_one({"age": 3.0}, "none")


def test_features_that_joined_are_named():
    """A feature that came up in mid-stream has its part, as those before it keep theirs."""
    model = kaboost.Model(spec={"bank": BANK}, features="auto")
    r = np.random.default_rng(1)
    rows = [row(r) for _ in range(3000)]
    for k, x in enumerate(rows):
        x.update({f"late {j}": float(r.normal()) for j in range(9 * (k > 500))})
    labels = [int(x.get("late 3", 0.0) + 0.02 * (x.get("age", 40.0) - 40.0) > 0.0) for x in rows]
    model.learn_many(rows, labels)
    table = model._tabulate(rows[-20:])
    found = model.explain_many(rows[-20:])

    assert model.encoder.width > len(model.encoder.columns)
    assert "late 3" == model.importance()[0].name
    for one, score in zip(found, model.predict(table)[:, 0], strict=True):
        assert list(one.contributions) == list(model.encoder.kinds)
        assert whole(one) == pytest.approx(score, rel=0.0, abs=1e-9)


def test_other_banks_are_refused():
    """The refusal names the bank to take."""
    model = kaboost.Model("binary", LINEAR, SCHEMA)
    for ask in (lambda: model.explain_one({}), model.importance):
        with pytest.raises(kaboost.ModelError, match="bank: reboosted_trees"):
            ask()
