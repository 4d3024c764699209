"""One booster for each class against the rest."""

from __future__ import annotations

import numpy as np
import pytest

import kaboost
from kaboost.models.booster import losses
from tests.boosters import copied, learned, restored, state_bytes
from tests.models.reference_streams import stream_m

BANK = {"kind": "linear", "n": 4, "step": "sgd", "lr": 0.3, "features": "cyclic"}
RULES = (
    {"kind": "sgb", "eta": 2.0},
    {"kind": "gentle"},
    {"kind": "bbm"},
    {"kind": "adaboost_ol"},
    {"kind": "adaboost_ol_w"},
    {"kind": "oza_boost"},
)


def spec(rule="adaboost_ol_w", **more):
    return {"rule": rule, "bank": BANK, "multiclass": "one_vs_rest", "seed": 3, **more}


def classes(events=300):
    X, k = stream_m()
    return X[:events], k[:events]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["kind"])
def test_is_a_booster_for_each_class(rule):
    """Scores, prefixes and sums are those of boosters that learn class k against the others."""
    booster, scores = learned(spec(rule), *classes(), m=3)
    X, k = classes()
    binary = {word: given for word, given in spec(rule).items() if word != "multiclass"}
    alone = [kaboost.build(binary, d=4, task="binary") for _ in range(3)]
    for c, one in enumerate(alone):
        predicted = kaboost.learn_many(one, X, (k == c).astype(int))
        np.testing.assert_array_equal(scores[:, c : c + 1], predicted)
        np.testing.assert_array_equal(
            kaboost.prefixes_many(booster, X)[:, :, c : c + 1], kaboost.prefixes_many(one, X)
        )
        np.testing.assert_array_equal(
            kaboost.predict_many(booster, X)[:, c : c + 1], kaboost.predict_many(one, X)
        )

    seen = booster.progress
    assert seen.events == 300
    assert seen.mean_loss == pytest.approx(sum(one.progress.mean_loss for one in alone))
    np.testing.assert_allclose(
        seen.prefix_losses, np.sum([one.progress.prefix_losses for one in alone], axis=0)
    )
    totals = [one.progress.edge_total for one in alone]
    pooled = np.average([one.progress.edges for one in alone], axis=0, weights=totals)
    np.testing.assert_allclose(seen.edges, pooled)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["kind"])
def test_learns_several_classes(rule):
    """Better than the commonest class; probabilities sum to 1 and are largest for the largest
    score.
    """
    booster, scores = learned(spec(rule), *classes(800), m=3)
    k, predicted = classes(800)[1], kaboost.predictions(booster, scores)

    assert (scores.argmax(axis=1)[400:] != k[400:]).mean() < 0.5
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(predicted.argmax(axis=1), scores.argmax(axis=1))


def test_probabilities():
    """The binary ones, normalised; uniform where all are 0."""
    booster = kaboost.build(spec({"kind": "sgb"}, loss="linear"), d=4, m=3)
    predicted = kaboost.predictions(booster, np.array([[0.5, -1.0, 0.0], [-1.0, -2.0, -3.0]]))

    np.testing.assert_allclose(predicted, [[0.6, 0.0, 0.4], [1 / 3] * 3])


def test_a_loss_without_probability():
    """Hinge answers with the class of the largest score; its rows cost the sum of the classes'."""
    booster = kaboost.build(spec({"kind": "sgb"}, loss="hinge"), d=4, m=3)
    scores = np.array([[0.5, -2.0, 0.7], [0.0, 0.0, 0.0]])

    np.testing.assert_array_equal(kaboost.predictions(booster, scores), [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_allclose(losses(booster, scores, [0, 1]), [0.5 + 0 + 1.7, 3.0])


def test_rows_cost_the_log_loss():
    """-ln of the normalised probability of the label: what baselines are held against."""
    booster, scores = learned(spec(), *classes(), m=3)
    k = classes()[1]
    predicted = kaboost.predictions(booster, scores)

    np.testing.assert_allclose(losses(booster, scores, k), -np.log(predicted[np.arange(300), k]))


@pytest.mark.parametrize(
    "rule", ["oza_boost", {"kind": "adaboost_ol", "vote": "sampled"}, "latent"]
)
def test_batching_and_continuing(rule):
    """Any batching and a restart from arrays end in the same bytes, generators included."""
    X, k = classes()
    w = np.random.default_rng(1).choice([0.0, 1.0, 2.0], 300)
    straight, parts = (kaboost.build(spec(rule), d=4, m=3) for _ in range(2))
    kaboost.learn_many(straight, X, k, w)
    kaboost.learn_many(parts, X[:100], k[:100], w[:100])
    again = restored(parts, kaboost.normalise_spec(spec(rule)))
    kaboost.learn_many(again, X[100:], k[100:], w[100:])

    left = state_bytes(straight)
    assert {"shape", "classes.0.bank.w", "classes.2.progress.events"} <= left.keys()
    assert left == state_bytes(again)


def test_read_only_serving():
    """The serving arrays alone predict the same; learning on them is refused."""
    booster, _ = learned(spec("oza_boost"), *classes(), m=3)
    frozen = copied(kaboost.serving_arrays(booster), writeable=False)
    reader = kaboost.from_arrays(kaboost.normalise_spec(spec("oza_boost")), frozen)
    X, k = classes()

    assert len(frozen) < len(kaboost.to_arrays(booster))
    np.testing.assert_array_equal(kaboost.predict_many(reader, X), kaboost.predict_many(booster, X))
    with pytest.raises(kaboost.ModelError, match="read-only"):
        kaboost.learn_many(reader, X, k)


@pytest.mark.parametrize(
    ("y", "w"), [([0, 3], None), ([0, 1.5], None), ([0, 1], [1, -1]), ([0, np.nan], None)]
)
def test_what_does_not_fit_moves_nothing(y, w):
    """A bad label or weight is refused before any class learns."""
    booster = kaboost.build(spec(), d=4, m=3)
    with pytest.raises(kaboost.ModelError):
        kaboost.learn_many(booster, np.ones((2, 4)), y, w)

    assert booster.progress.events == 0
    assert all((one.bank.w == 0).all() for one in booster.classes)


@pytest.mark.parametrize(
    ("given", "m", "task", "reason"),
    [
        ({"multiclass": "ovr"}, 3, None, "'ovr' is not known; write one_vs_rest"),
        ({"multiclass": "one_vs_rest"}, 1, None, "needs two classes or more, not 1"),
        ({"multiclass": "one_vs_rest"}, 3, "binary", "does not support a binary task"),
        ({"multiclass": "one_vs_rest"}, 3, "regression", "does not support a regression task"),
        ({"multiclass": "one_vs_rest", "loss": "softmax"}, 3, None, "softmax does not support"),
        (
            {"multiclass": "one_vs_rest", "rule": "bbm", "loss": "hinge"},
            3,
            None,
            "bbm supports only certain",
        ),
        ({"multiclas": "one_vs_rest"}, 3, None, "did you mean 'multiclass'"),
    ],
)
def test_refusals(given, m, task, reason):
    """What is asked, why not, what to take instead."""
    with pytest.raises(kaboost.ModelError, match=reason):
        kaboost.build(given, d=4, m=m, task=task)


def test_specification():
    """The word stands in the normalised specification only where it is used; normalising twice
    changes nothing.
    """
    full = kaboost.normalise_spec(spec("gentle"), "multiclass")

    assert full["multiclass"] == "one_vs_rest"
    assert full["loss"]["kind"] == "exponential"
    assert kaboost.normalise_spec(full, "multiclass") == full
    assert "multiclass" not in kaboost.normalise_spec(
        {"multiclass": None, "loss": "softmax"}, "multiclass"
    )
    assert kaboost.normalise_spec(spec("sgb"))["loss"]["kind"] == "logistic"


def test_model(tmp_path):
    """Model learns, says, saves and goes on with it."""
    X, k = classes()
    rows = [dict(zip("abcd", x, strict=True)) for x in X.tolist()]
    names = np.array(["low", "high", "odd"])[k]
    model = kaboost.Model("multiclass", spec("oza_boost"), dict.fromkeys("abcd", "number"),
                         ["low", "high", "odd"])  # fmt: skip
    predicted = model.learn_many(rows[:200], names[:200])
    model.save(tmp_path / "model")
    again = kaboost.Model.load(tmp_path / "model")
    for each in (model, again):
        each.learn_many(rows[200:], names[200:])
    scores = model.predict(model_table(model, rows))
    _, _, bare, errors, _ = model.outcome(scores, k * 1.0)

    np.testing.assert_allclose(predicted.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict_proba_many(rows), again.predict_proba_many(rows))
    assert (model.predict_many(rows) == names).mean() == pytest.approx(1 - errors.mean())
    assert bare.mean() < np.log(3)


def model_table(model, rows):
    """Rows as the encoder wants them."""
    return kaboost.models.features.rows.tabulate(model.encoder.kinds, rows)
