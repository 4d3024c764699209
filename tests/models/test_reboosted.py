"""Reboosted trees: repeatable, resumable in a rebuild, bounded, and sound on odd features."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import kaboost
from kaboost.models.reboosted.booster import MAX_LABEL
from kaboost.models.reboosted.ensemble import served_trees
from kaboost.models.reboosted.schedule import update_schedule, window_events
from kaboost.models.reboosted.scratch import allocate, allocate_predict, slice_scratch
from kaboost.models.reboosted.trees.cost import tree_cost
from tests.boosters import restored, state_digest
from tests.models.number_streams import product_with_gaps

# As many as of the default: its kernels, of which each takes the compiler most of a minute.
SMALL = [
    {"trees": 6, "leaves": 8, "depth": 4, "least_rows": 200, "least_h": 1.0, "lam": 1.0},
    {"window": 90, "trees": 4, "leaves": 5, "depth": 3, "least_rows": 40, "part": 0.5,
     "lags": False, "bins": 32, "least_h": 1.0, "lam": 1.0},
    {"trees": 3, "leaves": 6, "depth": 3, "least_rows": 100, "least_h": 1.0, "lam": 1.0},
    {"window": 150, "trees": 2, "leaves": 3, "depth": 2, "least_rows": 60, "least_h": 1.0},
]  # fmt: skip
LARGE = [{"trees": 8, "leaves": 128, "depth": 16, "least_rows": 8000, "least_h": 1.0, "lam": 1.0}]
LOSSES = ("squared", "logistic", "absolute", "quantile", "huber", "poisson")


def build(structures=SMALL, d=5, loss="logistic", seed=1, **bank):
    """A fresh booster."""
    spec = {"kind": "reboosted_trees", "structures": structures, **bank}
    return kaboost.build({"bank": spec, "loss": loss, "seed": seed}, d)


def learned(n=700, **options):
    """A booster after n events."""
    loss = options.get("loss", "logistic")
    booster = build(**options)
    kaboost.learn_many(booster, *product_with_gaps(n, loss=loss))
    return booster


def test_same_events_and_seed_same_bytes():
    """A run repeats to the bit; another seed draws other rows."""
    first = state_digest(learned())

    assert first == state_digest(learned())
    assert first != state_digest(learned(seed=2))


def test_batches_do_not_show():
    """Events in one batch, one by one, or in any batches leave the same bytes."""
    X, y = product_with_gaps(700)
    booster = build()
    cuts = [0, 1, 2, 3, 150, 151, 409, 699, 700]
    for a, b in itertools.pairwise(cuts):
        kaboost.learn_many(booster, X[a:b], y[a:b])

    assert state_digest(booster) == state_digest(learned())


@pytest.mark.parametrize(("apart", "expected"), [(1e9, {0, 3, 4, 5}), (0.0, {0, 6})])
def test_resumes_in_the_middle_of_a_rebuild(apart, expected):
    """Checkpoints taken after every event of drawing, growing, raising, waiting and making bins go
    on to the same bytes.
    """
    X, y = (each[:7450] for each in product_with_gaps(9000, d=30))
    spec = {"bank": {"kind": "reboosted_trees", "structures": LARGE}, "loss": "logistic"}
    whole, parts, steps = kaboost.build(spec, 30), kaboost.build(spec, 30), set()
    for each in (whole, parts):
        each.trees.params.background_min_ns[...] = apart
    kaboost.learn_many(whole, X, y)
    kaboost.learn_many(parts, X[:6230], y[:6230])
    for k in range(6230, 7450):
        kaboost.learn_many(parts, X[k : k + 1], y[k : k + 1])
        step = (int(parts.builds[0].cursor[0].step), int(parts.trees.bins.progress[0].step))
        if step != (0, 0):
            steps.add(step)
            parts = restored(parts, spec)

    assert {step for step, _ in steps} >= expected
    assert len({cut for _, cut in steps}) > 1
    assert state_digest(parts) == state_digest(whole)


@pytest.mark.parametrize("loss", LOSSES)
def test_learns_every_loss(loss):
    """Every loss it takes is lowered below that of the best constant, compiled or not."""
    program = (
        "import json, numpy as np; import kaboost; from tests.models import test_reboosted as t;"
        f"b = t.learned(900, loss={loss!r});"
        f"X, y = t.product_with_gaps(900, loss={loss!r}); s = kaboost.predict_many(b, X);"
        "from kaboost.models.booster import losses;"
        "grid = [losses(b, np.full((900, 1), c), y).mean() for c in np.linspace(-3, 3, 121)];"
        "print(json.dumps([float(b.progress.mean_loss), min(grid), bool(np.isfinite(s).all())]))"
    )
    predicted = plainly("-c", program)
    mean, constant, finite = json.loads(predicted)

    assert finite
    assert mean < constant


def plainly(*arguments):
    """What this Python prints without the JIT."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": "."},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_compiled_equals_plain():
    """Compiled and plain Python leave the same bytes."""
    program = (
        "from tests.boosters import state_digest; from tests.models import test_reboosted as t;"
        " print(state_digest(t.learned()))"
    )

    assert plainly("-c", program).strip() == state_digest(learned())


def test_predicting_changes_nothing():
    """A prediction is what learning the event would have said, and leaves no trace."""
    X, y = product_with_gaps(720)
    booster = learned()
    before = state_digest(booster)
    predicted = kaboost.predict_many(booster, X[700:701])

    assert state_digest(booster) == before
    assert predicted.tobytes() == kaboost.learn_many(booster, X[700:701], y[700:701]).tobytes()


def test_own_label_does_not_show():
    """What is said of an event does not depend on its label."""
    X, y = product_with_gaps(701)
    one, other = learned(), learned()

    assert (
        kaboost.learn_many(one, X[700:], y[700:]) == kaboost.learn_many(other, X[700:], 1 - y[700:])
    ).all()


def test_weight_of_nothing_changes_nothing():
    """An event of importance 0 is predicted, and nothing moves."""
    X, y = product_with_gaps(720)
    booster = learned()
    before = state_digest(booster)
    kaboost.learn_many(booster, X[700:], y[700:], np.zeros(20))

    assert state_digest(booster) == before


def test_snapshot_needs_no_window():
    """Serving arrays are few, predict the same, and cannot learn."""
    booster = learned()
    spec = {"bank": {"kind": "reboosted_trees", "structures": SMALL}, "loss": "logistic"}
    kept = kaboost.serving_arrays(booster)
    served = kaboost.from_arrays(spec, kept)
    X, _ = product_with_gaps(50, seed=9)

    assert not [name for name in kept if ".window." in f".{name}" or "builds" in name]
    assert sum(array.nbytes for array in kept.values()) < 100_000
    assert (kaboost.predict_many(served, X) == kaboost.predict_many(booster, X)).all()


def test_missing_values_have_a_direction():
    """Where missing decides the label, it is learned, whichever way it points."""
    r = np.random.default_rng(4)
    X = r.normal(size=(3000, 5))
    gone = r.random(3000) < 0.3
    for y in (gone, gone ^ (X[:, 1] > 0.0)):
        holes = X.copy()
        holes[gone, 0] = np.nan
        booster = build()
        scores = kaboost.learn_many(booster, holes, y.astype(float))[:, 0]

        assert np.mean((scores[1000:] > 0) != y[1000:]) < 0.06


def test_odd_numbers_do_no_harm():
    """Constant columns, infinities and 1e308 leave everything finite; the rest is learned."""
    X, y = product_with_gaps(2000)
    X = np.nan_to_num(X)
    X[:, 3], X[:, 4] = 7.0, np.where(np.arange(2000) % 2, 1e308, -np.inf)
    booster = build()
    scores = kaboost.learn_many(booster, X, y)[:, 0]

    assert np.isfinite(scores).all()
    assert np.mean((scores[1000:] > 0) != y[1000:]) < 0.23
    for name, array in kaboost.to_arrays(booster).items():  # a prefix that is none has no loss
        sampled = name == "imputation.rows"  # rows as they came
        assert np.isfinite(array).all() or sampled or "prefix_loss" in name, name


@pytest.mark.parametrize("megabytes", [30, 60, 128])
def test_memory_is_bounded(megabytes):
    """The window shrinks to what fits: a multiple of 8,192 events."""
    booster = kaboost.build(
        {"bank": {"kind": "reboosted_trees", "max_memory": megabytes}, "loss": "logistic"}, 54
    )
    size = sum(array.nbytes for array in kaboost.to_arrays(booster).values())
    events = len(booster.trees.window.labels)

    assert size <= megabytes * 1e6
    assert events % 8192 == 0
    assert events == 262_144 or size > 0.8 * megabytes * 1e6


@pytest.mark.parametrize(("d", "m"), [(54, 1), (54, 7), (1000, 1)])
def test_too_little_memory_is_refused(d, m):
    """The refusal names field, value and remedy; what it tells to give is enough, and no more."""
    bank = {"kind": "reboosted_trees", "max_memory": 5}
    spec = {"bank": bank, "loss": "logistic"} | ({"multiclass": "one_vs_rest"} if m > 1 else {})
    with pytest.raises(kaboost.ModelError, match=r"bank.max_memory: 5 MB ") as refused:
        kaboost.build(spec, d, m)
    told = int(re.search(r"give (\d+) or more", str(refused.value))[1])

    with pytest.raises(kaboost.ModelError):
        kaboost.build({**spec, "bank": {**bank, "max_memory": told - 1}}, d, m)
    kaboost.build({**spec, "bank": {**bank, "max_memory": told}}, d, m)


@pytest.mark.parametrize(
    ("task", "rule"),
    [
        ("binary", "gentle"),
        ("binary", "oza_bag"),
        ("binary", "oza_boost"),
        ("binary", "bbm"),
        ("regression", "ogb_span"),
    ],
)
def test_other_rules_are_refused(task, rule):
    """The bank rebuilds in the order of SGB, and says so; also where no feature is known yet."""
    spec = {"rule": rule, "bank": "reboosted_trees"}
    with pytest.raises(kaboost.ModelError, match=f"take rule sgb, not {rule}"):
        kaboost.build(spec, 3, task=task)
    with pytest.raises(kaboost.ModelError, match=f"take rule sgb, not {rule}"):
        kaboost.Model(task, spec)


@pytest.mark.parametrize(("memory", "labels"), [(2, None), (4.5, None), (10, ["a", "b", "c"])])
def test_too_little_memory_for_features_to_come_is_refused(memory, labels):
    """With `features: auto` there is room for eight columns at least, or it is told how much that
    takes.
    """
    task, wrapper = ("multiclass", {"multiclass": "one_vs_rest"}) if labels else ("binary", {})

    def make(megabytes):
        bank = {"kind": "reboosted_trees", "max_memory": megabytes}
        return kaboost.Model(task, {"bank": bank, **wrapper}, labels=labels)

    with pytest.raises(kaboost.ModelError, match=f"bank.max_memory: {memory} MB ") as refused:
        make(memory)
    make(int(re.search(r"give (\d+) or more", str(refused.value))[1]))


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"trees": 0}, r"structures\[0\].trees: 0 is not a whole number from 1 to 1000"),
        ({"leaves": 2.5}, r"leaves: 2.5 is not"),
        ({"lags": 1}, r"lags: 1 is not true or false"),
        ({"bins": 40}, r"bins: 40 is not 32 or 64"),
        ({"eta": True}, r"eta: True is not"),
        ({"depth": 99}, r"depth: 99 is not a whole number from 1 to 16"),
    ],
)
def test_a_structure_out_of_range_is_refused(told, says):
    """What trees cannot be built of is named: structure, word, value and range."""
    with pytest.raises(kaboost.ModelError, match=says):
        build(structures=[told])


@pytest.mark.parametrize("told", [{"eta": 0.1}, {"y0": 0.0}, {"averaged": True}])
def test_what_the_rule_cannot_be_told_is_refused(told):
    """The structures have steps and starts of their own: nothing is silently ignored."""
    spec = {"rule": {"kind": "sgb", **told}, "bank": "reboosted_trees", "loss": "squared"}
    says = f"rule.{next(iter(told))}: reboosted_trees sets its step"
    with pytest.raises(kaboost.ModelError, match=says):
        kaboost.build(spec, 2)
    full = kaboost.normalise_spec({"bank": "reboosted_trees", "loss": "squared"})
    assert kaboost.normalise_spec(full) == full


def test_structures_are_checked():
    """A structure of unknown words is refused."""
    with pytest.raises(kaboost.ModelError, match="known are window, trees"):
        build(structures=[{"treees": 3}])


def test_several_classes():
    """One versus rest learns classes, and saves and loads."""
    r = np.random.default_rng(5)
    X = r.normal(size=(1200, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    spec = {
        "bank": {"kind": "reboosted_trees", "structures": SMALL, "max_memory": 40},
        "loss": "logistic", "multiclass": "one_vs_rest",
    }  # fmt: skip
    booster = kaboost.build(spec, 3, 3)
    scores = kaboost.learn_many(booster, X, y)

    assert np.mean(scores[600:].argmax(axis=1) != y[600:]) < 0.15
    assert (
        kaboost.predict_many(restored(booster, spec), X) == kaboost.predict_many(booster, X)
    ).all()


def test_prefix_losses_and_edges():
    """Every structure reports the loss of every prefix and the edge of every tree."""
    progress = learned(6000).progress

    assert progress.prefix_losses.shape == (4, 7)
    assert progress.edges.shape == (4, 6)
    assert progress.prefix_losses[0, 6] < progress.prefix_losses[0, 0]
    assert (progress.edges[0] > 0.0).all()


@pytest.mark.parametrize("outlier", [1e4, 1e9, -1e300])
def test_one_outlier_spoils_nothing(outlier):
    """A label far beyond all others costs its own event, and hardly the next ones."""
    X, y = product_with_gaps(3000, loss="squared")
    y = y + 100.0
    y[2000] = outlier
    predicted = kaboost.learn_many(build(loss="squared"), X, y)[:, 0]
    off = abs(predicted - y)

    assert off[2001:2500].mean() < 1.5 * off[1500:2000].mean()
    assert off[2500:].mean() < 1.2 * off[1500:2000].mean()


@pytest.mark.parametrize("at", [0, 5, 20, 40, 99])
@pytest.mark.parametrize("outlier", [1e6, 1e20, 1e300])
def test_an_early_outlier_stays_within_numbers(at, outlier):
    """However early a label is far beyond all others, no answer is much larger; once there were
    twenty labels, the answers after it are as good as before.
    """
    X, y = product_with_gaps(400, loss="squared")
    y[at] = outlier
    booster = build(loss="squared")
    predicted = kaboost.learn_many(booster, X, y)[:, 0]

    assert np.isfinite(predicted).all()
    assert np.isfinite(kaboost.predict_many(booster, X)).all()
    # The first label alone sets the unit: until there are more, nothing says that it is far.
    assert abs(predicted).max() <= 31.0 * (outlier if at == 0 else min(outlier, MAX_LABEL))
    if at >= 20:
        assert abs(predicted - y)[200:].mean() < abs(y[200:] - y[200:].mean()).mean()


def test_a_new_level_is_followed():
    """Labels that were constant and then are others for good are no outliers for long.

    A tree that is rebuilt on both levels may still have values between them for an event or two.
    """
    y = np.r_[np.full(1000, 3.0), np.full(1000, 50.0)]
    predicted = kaboost.learn_many(build(loss="squared"), np.zeros((2000, 5)), y)[:, 0]

    off = abs(predicted[1300:] - 50.0)
    assert np.sum(off > 0.5) <= 20
    assert off.max() < 10.0


def test_scratch_of_predictions_is_sliced_as_that_of_learning():
    """Every field has the shape of learning's for one event, and none shares memory with another;
    `contributions` are not needed.
    """
    booster = build()
    whole = allocate(booster.trees, booster.stack, 5)
    whole = flat(whole._replace(leaves=whole.leaves[0]))
    arrays = allocate_predict(booster.trees, booster.stack, 5)
    plain = getattr(slice_scratch, "py_func", slice_scratch)
    sliced = flat(plain(served_trees(booster.trees), booster.stack, 5, arrays))
    assert sliced.pop("contributions").size == 0
    for name, array in sliced.items():
        assert array.shape == whole[name].shape, name
        assert array.dtype == whole[name].dtype, name
    for one, other in itertools.combinations(sliced.values(), 2):
        assert not np.shares_memory(one, other)
    assert sum(array.size for array in sliced.values()) == sum(array.size for array in arrays)


def flat(scratch):
    """Arrays of scratch by name, those of its input row as well."""
    fields = scratch._asdict()
    return fields.pop("inputs")._asdict() | fields


def test_values_are_counted():
    """What is missing does not count for the budget; the five lags do."""
    one = kaboost.build({"bank": "reboosted_trees", "loss": "logistic"}, 300)
    r = np.random.default_rng(3)
    X = np.full((400, 300), np.nan)
    for row in X:
        row[r.choice(300, 12, replace=False)] = 1.0
    kaboost.learn_many(one, X, np.where(r.random(400) < 0.5, -1.0, 1.0))

    assert one.trees.schedule.mean_columns == pytest.approx(17.0)


@pytest.mark.parametrize(("filled", "times"), [(5.0, 1.0), (500.0, 2.0)])
def test_work_grows_with_values_and_falls_with_events(filled, times):
    """Of a stream without an end the budget is what it is told, in proportion for many values; at
    the start sweeps are shorter than their windows, if the work allows.
    """
    d = 495
    one = kaboost.build({"bank": "reboosted_trees", "loss": "logistic"}, d)
    params, schedule = one.trees.params, one.trees.schedule
    sizes, R = np.array([80, 100, 64, 64]), int(params.window.max())
    schedule.columns_used[:], schedule.leaf_count[:] = d, 64
    schedule.share[:], schedule.mean_columns[()] = 0.001, filled

    def sweeps(t):
        update_schedule(params, schedule, sizes, t, R)
        return sizes / schedule.credit_per_event

    late = 10**9
    events = [window_events(params, schedule, k, late, R) for k in range(4)]
    cost = np.array([tree_cost(params, schedule, k, events[k]) for k in range(4)])
    np.testing.assert_allclose(sweeps(late), sizes * cost / (4.0 * times), rtol=1e-4)
    params.budget_ns[()] = 1e12
    np.testing.assert_allclose(sweeps(500), [250.0, 250.0, 375.0, 375.0])
    np.testing.assert_allclose(sweeps(late), np.minimum(params.window, R), rtol=1e-5)


def test_prefixes_that_are_none_are_nothing():
    """A structure of fewer trees than the largest has no loss for those it lacks."""
    progress = learned(2000).progress

    assert np.isnan(progress.prefix_losses[1, 5:]).all()
    assert np.isfinite(progress.prefix_losses[1, :5]).all()


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"leaf_rates": [0.1]}, r"bank\.leaf_rates: \[0\.1\] is no list of 4 numbers from 0 to 2"),
        ({"leaf_rates": [0.7, 0.1, 0.4, 3.0]}, "from 0 to 2"),
        ({"label_lags": [1, 1, 1, 1, True]}, "from 0 to 1"),
        ({"label_lags": "fast"}, r"bank\.label_lags: 'fast' is no list"),
    ],
)
def test_rates_are_checked(told, says):
    """As many numbers as there are, in their range, and what the default is."""
    with pytest.raises(kaboost.ModelError, match=says):
        build(**told)


def test_rates_are_used():
    """Leaves that stand still leave every offset 0; a lag of rate 1 is the last label."""
    still = build(leaf_rates=[0, 0, 0, 0], label_lags=[1, 0.5, 0.1, 0.2, 0])
    X, y = product_with_gaps(300)
    kaboost.learn_many(still, X, y)

    assert all(not one.rows[:, :, 1:5].any() for one in still.trees.structures)
    assert still.trees.label_means[0] == 0.5 + 0.5 * np.sign(y[-1] - 0.5)
    assert still.trees.label_means[4] == 0.0


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e4, 1e8])
@pytest.mark.parametrize("loss", ["squared", "absolute", "quantile", "huber"])
def test_units_of_labels_do_not_matter(loss, scale):
    """Labels in cents or in millions are learned as well as in any unit, by trees with cuts: what a
    leaf needs at least is a number of events.
    """
    r = np.random.default_rng(5)
    X = r.random((6000, 4))
    f = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2
    y = f + r.normal(size=len(f))
    told = {"kind": "quantile", "q": 0.5} if loss == "quantile" else loss
    spec, off = {"bank": {"kind": "reboosted_trees"}, "loss": told, "seed": 1}, []
    for unit in (1.0, scale):
        booster = kaboost.build(spec, 4)
        predicted = kaboost.learn_many(booster, X, y * unit)[:, 0] / unit
        off.append(float(abs(predicted - f)[3000:].mean()))

    assert (booster.trees.schedule.leaf_count > 4).all()
    assert off[1] < 1.5 * off[0]
    assert off[1] < 0.3 * abs(f - f.mean()).mean()
