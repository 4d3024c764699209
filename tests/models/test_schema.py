"""Schemas that infer kinds, and models whose features come up as the stream goes on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaboost import Model, ModelError
from kaboost.models.build import check
from kaboost.models.features.columns import Columns, reserved_width
from kaboost.models.features.new_features import find_new_features
from kaboost.models.features.schema import Schema, infer_kind, kind_hint, parse_schema
from tests.boosters import array_bytes
from tests.models.test_rows import Frame

# Four structures, as the default model has: the same compiled code.
TREES = {
    "kind": "reboosted_trees",
    "max_memory": 12,
    "structures": [{"trees": 2, "leaves": 8}] * 4,
}
SPEC = {"bank": TREES, "seed": 3}


def rows(count, late=300):
    """A number, a category and a boolean that is often missing; from `late` on ten more numbers."""
    r = np.random.default_rng(5)
    found, labels = [], []
    for k in range(count):
        x = {"a": float(r.normal()), "city": "xyz"[r.integers(3)]}
        if r.random() < 0.3:
            x["vip"] = bool(r.random() < 0.5)
        if k >= late:
            x |= {f"n{j}": float(r.normal()) for j in range(10)}
        found.append(x)
        labels.append(int(x["a"] + (x["city"] == "x") + 2.0 * x.get("n7", 0.0) > 0.3))
    return found, labels


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "boolean"), (0, "number"), (1e308, "number"), ("a", "category"), (None, None),
        ([1], None), ("", None), (" NaN", None), (2**53, "category"), (-(2**53) + 1, "number"),
    ],
)  # fmt: skip
def test_kind_of_a_first_value(value, kind):
    """JSON's own types; null, texts for it and what has none say nothing."""
    assert kind == infer_kind(value)


def test_words_for_inferring():
    """`auto`, the star beside pins, and what neither can be."""
    assert parse_schema("auto") == parse_schema({"*": "auto"}) == Schema({}, 0)
    assert parse_schema({"zip": "category", "*": "auto"}) == Schema({"zip": "category"}, 1)
    assert parse_schema({"zip": "category"}) == Schema({"zip": "category"}, None)
    for wrong in ({}, "automatic", {"zip": "auto"}, None):
        with pytest.raises(ModelError, match="features"):
            parse_schema(wrong)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"a": "float"}, "features.a: .*did you mean 'number'"),
        ({"a": "Int64"}, "did you mean 'number'"),
        ({"a": "string"}, "did you mean 'category'"),
        ({"a": "timestamp"}, "did you mean 'datetime'"),
        ({"a": "bolean"}, "did you mean 'boolean'"),
        ({"a": "Auto"}, r"write '\*': auto"),
        ("Auto", "'Auto' is not 'auto'"),
        ({"*": "float"}, "'float' is not 'auto'.*name every feature"),
        ({"*": "number"}, "'number' is not 'auto'.*name every feature"),
        ({"a": "cat"}, "did you mean 'category'"),
    ],
)
def test_what_was_meant_is_named(told, says):
    """Kinds go by other words elsewhere; the nearest spelling of one is not what it means."""
    with pytest.raises(ModelError, match=says):
        parse_schema(told)


def test_a_word_that_means_nothing_gets_no_guess():
    """A guess out of nowhere would mislead."""
    with pytest.raises(ModelError) as told:
        parse_schema({"a": "zzz"})
    assert "did you mean" not in str(told.value)


@pytest.mark.parametrize("name", ["", "*", "half \ud83d of a pair", "x" * 201, 3])
def test_names_that_no_feature_can_have(name):
    """What joins in Python has a name that the service takes as well."""
    model = Model(spec=SPEC)
    with pytest.raises(ModelError, match="features: the name"):
        model.learn_one({name: 1.0}, 1)
    assert model.kinds == {}


def test_a_model_shows_what_it_is():
    """Task, parts and what was seen; kinds as they were inferred."""
    model = Model(spec=SPEC)
    model.learn_many([{"age": 3}, {"city": "Faro"}], [0, 1])

    assert model.kinds == {"age": "number", "city": "category"}
    assert repr(model) == (
        "Model('binary', rule 'sgb', bank 'reboosted_trees', 2 features, 2 events learned)"
    )


def test_other_banks_say_what_to_do():
    """Columns of a fixed number cannot grow."""
    with pytest.raises(ModelError, match=r"reboosted_trees only.*name every feature"):
        Model("binary", {"bank": "linear"}, "auto")


def test_discovery_in_frames_is_that_in_dicts():
    """A frame's NaN is a dict's absent key; rows of weight 0 say nothing."""
    frame = Frame(a=[1.0, 2.0, 3.0], b=[None, "x", "y"], c=[None, None, True])
    dicts = [{"a": 1.0}, {"a": 2.0, "b": "x"}, {"a": 3.0, "b": "y", "c": True}]
    for given_rows in (frame, dicts):
        assert [(1, {"b": "category"}), (2, {"c": "boolean"})] == find_new_features(
            {"a": "number"}, given_rows, [1.0, 1.0, 1.0]
        )
        assert [(2, {"b": "category", "c": "boolean"})] == find_new_features(
            {"a": "number"}, given_rows, [1.0, 0.0, 1.0]
        )
    with pytest.raises(ModelError, match=r"features\.b: \[1\] has no kind"):
        find_new_features({"a": "number"}, [{"b": [1]}], [1.0])


def test_features_that_come_up_are_learned():
    """They join in order of sight, kinds and all; what came before them is not forgotten."""
    x, y = rows(900)
    model = Model("binary", SPEC)
    predicted = model.learn_many(x, y)
    wrong = (predicted[:, 1] > 0.5) != np.array(y)

    assert list(model.encoder.kinds) == [*dict.fromkeys(name for row in x for name in row)]
    assert (model.encoder.schema.inferred, model.encoder.kinds["vip"]) == (
        list(model.encoder.kinds), "boolean",
    )  # fmt: skip
    assert model.encoder.width == int(model.booster.shape[0]) == reserved_width(14)
    assert wrong[200:300].mean() < 0.15
    assert wrong[300:320].mean() > 0.2  # the new ones decide
    assert wrong[340:400].mean() < 0.2  # they have no bins yet, but the linear learners see them
    assert wrong[800:].mean() < 0.2


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 200))
def test_no_trace_of_batches(size):
    """However the stream is cut, every byte of the state is the same."""
    x, y = rows(420)
    whole, cut = Model("binary", SPEC), Model("binary", SPEC)
    predicted = whole.learn_many(x, y)
    parts = [cut.learn_many(x[k : k + size], y[k : k + size]) for k in range(0, len(x), size)]

    np.testing.assert_array_equal(predicted, np.concatenate(parts))
    assert array_bytes(whole.to_arrays()) == array_bytes(cut.to_arrays())


def test_saved_before_and_continued(tmp_path):
    """A model saved before features join goes on as if it had never stopped."""
    x, y = rows(500)
    whole, part = Model("binary", SPEC), Model("binary", SPEC)
    whole.learn_many(x, y)
    part.learn_many(x[:250], y[:250])
    part.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    again.learn_many(x[250:], y[250:])

    assert array_bytes(whole.to_arrays()) == array_bytes(again.to_arrays())
    assert whole.describe() == again.describe()


def test_pinned_kinds_stay():
    """A pin goes before what a value looks like; everything else is inferred."""
    model = Model("binary", SPEC, {"zip": "category", "*": "auto"})
    with pytest.raises(ModelError, match=r"features\.zip: 80\.5 is not a name"):
        model.learn_one({"zip": 80.5}, 1)
    model.learn_one({"zip": 8005, "a": 1.0}, 1)

    assert model.encoder.kinds == {"zip": "category", "a": "number"}
    assert model.encoder.schema.inferred == ["a"]


def test_nothing_is_learned_of_rows_that_cannot_be():
    """A later value of another kind, or no memory: told before the first row is learned."""
    model = Model("binary", SPEC)
    before = array_bytes(model.to_arrays())
    with pytest.raises(ModelError, match=r"features\.a in rows\[200\]: 'b' is not a number"):
        model.learn_many([{"a": 1.0}] * 200 + [{"a": "b"}], [0, 1] * 100 + [0])
    with pytest.raises(ModelError, match="max_memory"):
        model.learn_many([{f"x{j}": 1.0 for j in range(3000)}], [0])

    assert before == array_bytes(model.to_arrays())
    assert not model.encoder.kinds


def test_predictions_pass_over_what_is_not_known_yet():
    """Features that no learned event had say nothing; the prior answers before any event."""
    model = Model("binary", SPEC)
    assert model.predict_proba_one({"new": 1.0, "*": "x"}) == {0: 0.5, 1: 0.5}
    model.learn_many(*rows(150))

    known = {"a": 0.5, "city": "x"}
    assert model.predict_proba_one(known) == model.predict_proba_one(known | {"new": [1]})


def test_classes_widen_together():
    """One booster a class: all of them take what comes up."""
    x, y = rows(330, late=310)
    labels = ["low" if label else "high" for label in y]
    model = Model("multiclass", SPEC | {"multiclass": "one_vs_rest"}, labels=["low", "high"])
    predicted = model.learn_many(x, labels)

    assert {int(one.shape[0]) for one in model.booster.classes} == {model.encoder.width}
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0)


def test_room_grows_by_a_quarter():
    """There is always room for one more column, and not much more than needed."""
    widths = [reserved_width(n) for n in range(500)]

    assert all(n < width <= max(16, 1.5 * n + 16) for n, width in enumerate(widths))
    assert widths == sorted(widths)
    assert len(set(widths)) < 20


def test_columns_keep_their_places():
    """A category that joins has its two columns at the end, and those before stay."""
    first = Columns("auto").extended({"city": "category", "a": "number"})
    later = first.extended({"job": "category", "vip": "boolean"})

    assert first.columns == ("city mean label", "city order", "a")
    assert later.columns == (*first.columns, "job mean label", "job order", "vip")


def test_room_depends_on_what_joined_alone():
    """As many features fit at once as one after another, of whatever kinds, and then none."""
    whole, steps = Model("binary", SPEC), Model("binary", SPEC)
    found = {f"x{j}": ("category", "number", "boolean")[j % 3] for j in range(400)}
    kept = whole.affordable_features(found)
    whole.add_features(kept)
    for name, kind in found.items():
        if steps.affordable_features({name: kind}):
            steps.add_features({name: kind})

    assert 50 < len(kept) < 400
    assert list(kept) == list(steps.encoder.kinds) == list(found)[: len(kept)]
    assert array_bytes(whole.to_arrays()) == array_bytes(steps.to_arrays())
    assert not whole.affordable_features({"one more": "boolean"})


def test_as_many_join_as_may_be_declared():
    """But for the one that might have been a category, whose two columns there is room for."""
    whole = Model("binary", SPEC)
    whole.add_features(whole.affordable_features({f"x{j}": "number" for j in range(400)}))
    kept = len(whole.kinds)
    declared = {f"x{j}": "number" for j in range(kept + 1)}

    check(whole.spec, kept + 1)
    with pytest.raises(ModelError, match=f"of {kept + 2} features"):
        check(whole.spec, kept + 2)
    assert Model("binary", SPEC, {**declared, "*": "auto"}).encoder.width == kept + 1
    with pytest.raises(ModelError, match=f"of {kept + 2} features"):
        Model("binary", SPEC, {**declared, "one more": "number", "*": "auto"})


def test_a_row_of_weight_nothing_may_say_anything():
    """In one batch or one by one: its value decides no kind."""
    batch, single = Model("binary", SPEC), Model("binary", SPEC)
    batch.learn_many([{"a": "x"}, {"a": 1.0}], [0, 1], [0.0, 1.0])
    single.learn_one({"a": "x"}, 0, 0.0)
    single.learn_one({"a": 1.0}, 1, 1.0)

    assert array_bytes(batch.to_arrays()) == array_bytes(single.to_arrays())
    with pytest.raises(ModelError, match="name 3 is not a text"):
        single.learn_one({3: 5}, 1)


@pytest.mark.parametrize("given", [True, ["number"], 1.0, None])
def test_what_is_no_word_is_near_none(given):
    """Of what is not even a text nobody can tell which kind it stands for."""
    assert "" == kind_hint(given)
