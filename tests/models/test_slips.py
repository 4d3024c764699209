"""What users of the library get wrong is told with its place and its remedy."""

import numpy as np
import pytest

from kaboost import Model
from kaboost.models.types import ModelError
from tests.models.test_rows import Frame


def test_a_frame_of_other_columns_is_refused():
    """Where features join, a column that none knows is passed over; one of them has to be known."""
    model = Model("binary")
    model.learn_many([{"amount": float(k), "country": "PT"} for k in range(50)], [0, 1] * 25)
    for row in ({"amuont": 3.0, "country": "PT"}, {"amuont": [3], "country": "PT"}):
        assert model.predict_proba_one(row) == model.predict_proba_one({"country": "PT"})
    with pytest.raises(
        ModelError, match=r"features.Amount: unknown feature; did you mean 'amount'"
    ):
        model.predict_many(Frame(Amount=[1.0, 2.0]))
    assert len(model.predict_many(Frame(Amount=[1.0, 2.0], country=["PT", "PT"]))) == 2


def test_what_is_no_amount_is_told_as_that():
    """Of a number that is none no kind is doubted; of a text where numbers were, it is."""
    model = Model("binary")
    rows = [{"amount": float(k)} for k in range(300)]  # from 200 on the kind is certain
    model.learn_many(rows, [k % 2 for k in range(300)])
    with pytest.raises(ModelError, match=r"nan is not finite.*missing$"):
        model.predict_one({"amount": float("nan")})
    with pytest.raises(ModelError, match=r"nan is not finite.*missing$"):
        model.predict_one({"amount": np.float32("nan")})
    for wrong in ("3", "much"):
        with pytest.raises(ModelError, match="inferred from its first values"):
            model.predict_one({"amount": wrong})


@pytest.mark.parametrize(
    ("name", "says"), [(5, "5 is not a text; rename it"), ("", "must not be empty")]
)
def test_a_name_that_no_feature_can_have_is_refused(name, says):
    """Any text but none is a name, where a schema tells it."""
    with pytest.raises(ModelError, match=f"features: .*{says}"):
        Model(features={name: "number"})
    assert Model(features={'5" pipe': "number"}).predict_one({'5" pipe': 1.0}) in (0, 1)


def test_of_many_names_a_hundred_are_looked_at():
    """To compare an unknown name takes 20 us a known one: not with thousands, row after row."""
    model = Model(features={f"c{j}": "number" for j in range(300)})
    with pytest.raises(ModelError, match=r"unknown feature; known are c0, .*, c99, \.\.$"):
        model.predict_one({"zz": 1.0})


def test_weights_are_numbers():
    """A text is no importance, as it is no label."""
    model = Model("binary")
    with pytest.raises(ModelError, match="w: holds a value that is not a number"):
        model.learn_many([{"amount": 1.0}] * 2, [0, 1], ["1", "3"])
    with pytest.raises(ModelError, match="w: holds a value that is not a number"):
        model.learn_one({"amount": 1.0}, 0, "2")


def test_save_needs_a_place(tmp_path):
    """A folder in the place of the file, and one that is not there, are named; nothing is left."""
    model = Model("binary")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelError, match="folder: is a folder; name a file in it"):
        model.save(tmp_path / "folder")
    with pytest.raises(ModelError, match="none does not exist"):
        model.save(tmp_path / "none" / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
