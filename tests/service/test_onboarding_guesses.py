"""What `kaboost init` guesses of awkward records: labels of one class, single bad records, ids."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from kaboost.service.cli import _asking
from kaboost.service.config.settings import Settings, load
from kaboost.service.errors import ConfigError
from kaboost.service.events.mapping import RecordMapping
from kaboost.service.onboarding.columns import columns, guess_kind
from kaboost.service.onboarding.configuration import Origin, render
from kaboost.service.onboarding.decoding import Trial
from kaboost.service.onboarding.formats import Readable
from kaboost.service.onboarding.init import Request, _explain, run
from kaboost.service.onboarding.late_labels import join_labels
from kaboost.service.onboarding.plan import Given, Plan, make_late_plan, make_plan
from tests.service.topics import at

Record = dict[str, Any]
COUNT = 300


def refuse(question: str, default: str | None, flag: str, check: Callable[[str], object]) -> str:
    """Take the default, as `--yes` does."""
    if default is None:
        raise ConfigError(f"{flag}: {question}")
    check(default)
    return default


def payments(count: int = COUNT, first: int = 0) -> list[Record]:
    """Payments of customers who come again."""
    source = random.Random(first)
    return [
        {
            "payment_id": f"pay_{100_000 + first + k}",
            "created_at": at(k).isoformat(),
            "type": "payment.created",
            "amount": {"value": round(source.expovariate(1 / 80), 2), "currency": "EUR"},
            "customer": {"id": f"cus_{source.randrange(1_500):06d}"},
            "device": {"os": source.choice(["ios", "android"])},
        }
        for k in range(count)
    ]


def chargebacks(of: list[Record], label: Callable[[int], Any], name: str = "fraud") -> list[Record]:
    """Labels of payments, with ids of their own."""
    return [
        {
            "payment": {"payment_id": one["payment_id"]},
            "chargeback_id": f"cb_{k}",
            name: label(k),
            "reason": ["4837", "4853", "10.4"][k % 3],
            "at": at(k, 60.0).isoformat(),
        }
        for k, one in enumerate(of)
    ]


def late_plan(features: list[Record], labels: list[Record], **given: str) -> Plan:
    """Plan for two topics as `init --yes` does."""
    flags = Given(**given)
    joined, id_ = join_labels(features, "l", Readable({}, labels, []), flags, refuse)
    return make_late_plan(features, "none", joined, flags._replace(id=id_), refuse)


def written(folder: Path, records: list[Record], **given: str) -> tuple[Settings, str, list[str]]:
    """Run `init --yes` on a file: the settings, their text, and what was shown."""
    path = folder / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    output, shown = folder / "k.yaml", list[str]()
    run(
        Request("127.0.0.1:9", None, path, None, output, True, Given(**given)), refuse, shown.append
    )
    return load(output), output.read_text(), shown


@pytest.mark.parametrize(
    ("name", "label", "classes", "expired"),
    [
        ("fraud", lambda k: True, None, False),
        ("fraud", lambda k: "true", None, False),
        ("fraud", lambda k: 1, None, 0),
        ("fraud", lambda k: "1", None, 0),
        ("fraud", lambda k: k % 20 > 0, None, False),
        ("outcome", lambda k: "FRAUD" if k % 20 else "OK", ["OK", "FRAUD"], "OK"),
        ("fraud", lambda k: "yes", ["no", "yes"], "no"),
        ("fraud", lambda k: "Y", ["N", "Y"], "N"),
        ("fraud", lambda k: k % 10 == 0, None, "drop"),  # both classes are reported
        ("fraud", lambda k: 0, None, "drop"),
    ],
)
def test_labels_of_one_class_have_the_other_for_the_rest(
    name: str, label: Callable[[int], Any], classes: list[str] | None, expired: Any
) -> None:
    """Where nearly all labels are positive, features without one are negative."""
    features = payments()
    plan = late_plan(features, chargebacks(features, label, name))

    assert plan.labels is not None
    assert (name, "binary", classes) == (plan.label.name, plan.task, plan.classes)
    assert (type(expired), expired) == (type(plan.labels.expired), plan.labels.expired)


def test_the_other_class_is_asked_for_where_no_label_names_it() -> None:
    """Nobody has heard of `not_FRAUD`: `--expired` says what features without a label are."""
    features = payments()
    labels = chargebacks(features, lambda k: "FRAUD", "outcome")

    with pytest.raises(ConfigError, match="--expired: all 300 labels are FRAUD: what is the other"):
        late_plan(features, labels)
    with pytest.raises(ConfigError, match="--expired FRAUD: write drop, or the class other than"):
        late_plan(features, labels, expired="FRAUD")
    plan = late_plan(features, labels, expired="genuine")
    assert plan.labels is not None
    assert (["genuine", "FRAUD"], "genuine") == (plan.classes, plan.labels.expired)
    dropped = late_plan(features, labels, expired="drop")
    assert dropped.labels is not None
    assert "drop" == dropped.labels.expired
    assert "not_FRAUD is in its place" in dropped.warnings[-1]


def test_labels_are_shown_as_they_are_written(tmp_path: Path) -> None:
    """A note on `true` does not say 1."""
    features = payments()
    plan = late_plan(features, chargebacks(features, lambda k: True))
    shown: list[str] = []

    _explain(plan, shown.append)
    text = render(plan, Origin("127.0.0.1:9", "payments", "topic payments", {}))

    assert "300 of 300 labels are true; features without a label" in "\n".join(shown)
    assert "are learned as false (labels.expired)" in "\n".join(shown)
    assert "expired: {label: false}  # 300 of 300 labels are true, so no label" in text
    (tmp_path / "k.yaml").write_text(text)
    assert {"label": False} == load(tmp_path / "k.yaml").labels.expired


def test_the_flag_decides_what_becomes_of_the_rest() -> None:
    """`--expired drop` learns nothing from features without a label."""
    features = payments()
    labels = chargebacks(features, lambda k: 1)

    plan = late_plan(features, labels, expired="drop")

    assert plan.labels is not None
    assert "drop" == plan.labels.expired
    with pytest.raises(ConfigError, match="--expired maybe: write drop, or one of 0, 1"):
        late_plan(features, labels, expired="maybe")


def test_no_label_on_the_topic_of_labels_is_named() -> None:
    """The message does not ask for the flag that was given."""
    features = payments()
    labels = [{"payment_id": one["payment_id"], "why": one["payment_id"][::-1]} for one in features]

    with pytest.raises(ConfigError) as refused:
        late_plan(features, labels)

    assert "--label: no column of l has values of a label; pass its path" == str(refused.value)


def test_a_label_that_comes_later_is_hinted_at() -> None:
    """Where no column is surely the label."""
    with pytest.raises(ConfigError, match="pass --labels-topic"):
        make_plan(payments(), "none", Given(), refuse)


@pytest.mark.parametrize(
    ("path", "bad"),
    [
        ("amount", {"value": "n/a", "currency": "EUR"}),
        ("amount", {"value": "12,5x", "currency": "EUR"}),
        ("created_at", "yesterday"),
        ("fraud", "1"),
        ("fraud", "maybe"),
        ("payment_id", {"id": 1}),
        ("payment_id", 1.5),
    ],
)
def test_one_bad_record_changes_no_guess(path: str, bad: Any, tmp_path: Path) -> None:
    """Guesses are those of nearly all records; the odd one is a fault."""
    records: list[Record] = [{**one, "fraud": k % 2} for k, one in enumerate(payments())]

    settings, _, shown = written(tmp_path, [*records, {**records[0], path: bad}])

    assert ("payment_id", "created_at", "fraud") == (
        settings.events.id, settings.events.timestamp, settings.events.label
    )  # fmt: skip
    assert ("binary", None) == (settings.task.kind, settings.task.labels)
    assert "number" == settings.features.columns["amount.value"]
    assert "built-in" not in "\n".join(shown)
    if bad in ("yesterday", 1.5):
        field = {"created_at": "timestamp", "payment_id": "id"}[path]
        assert f"  1 whose {field} is none and ignored: {json.dumps(bad)}" in shown
    if bad in ("maybe", {"value": "12,5x", "currency": "EUR"}):
        assert any(line.startswith("  1 dead letters, ") for line in shown)


def test_ids_that_come_again_are_features_and_constants_are_none(tmp_path: Path) -> None:
    """A customer is a category; what is the same in all records is left out, with the reason."""
    records = [{**one, "fraud": k % 2} for k, one in enumerate(payments())]

    settings, text, _ = written(tmp_path, records)

    assert "category" == settings.features.columns["customer.id"]
    assert ["type", "amount.currency"] == settings.events.ignore
    assert '"type"  # the same in all 300 records' in text


def test_what_is_ignored_is_no_feature(tmp_path: Path) -> None:
    """The paths that are written leave out what they name, whatever it is in the records."""
    constant = {
        "items": [{"sku": "a"}],
        "tags": ["new", "card"],
        "place": [1.5, 2.5],
        "price": {"scale": 2, "value": "ATE="},
        "a.b": [{"c": 1}],
        "/slash": 1,
        "meta": {"hops": [{"n": 1}, {"n": 2}], "dotted.key": "x"},
    }
    records = [{**one, **constant, "fraud": k % 2} for k, one in enumerate(payments())]

    settings, _, _ = written(tmp_path, records)

    ignored = settings.events.ignore
    assert {"items.count", "tags", "place.0", "price", "meta.hops.count"} < set(ignored)
    features = RecordMapping(settings.events).features_of(records[0], {})
    assert features.keys() == settings.features.columns.keys() - {"*"}


def test_the_id_is_found_where_few_labels_are_of_the_features_that_were_read() -> None:
    """Common texts are no accident, few as they are; without any the same name is a clue."""
    labels = chargebacks(payments(first=290), lambda k: 1)
    plan = late_plan(payments(), labels)
    assert plan.labels is not None
    assert plan.id is not None
    assert ("payment_id", "payment.payment_id") == (plan.id.name, plan.labels.id.name)
    assert [] == plan.warnings

    plan = late_plan(payments(), chargebacks(payments(first=9_000), lambda k: 1))
    assert plan.labels is not None
    assert "payment.payment_id" == plan.labels.id.name
    assert "none of 300 label ids (payment.payment_id) is among the 300 ids" in plan.warnings[0]


@pytest.mark.parametrize("as_text", [False, True])
def test_codes_are_categories_also_in_text(as_text: bool) -> None:
    """Whole numbers of a name that means a code; the same from a CSV file and from JSON."""
    codes = (5411, 5812, 4829)
    rows = [
        {
            "mcc": str(codes[k % 3]) if as_text else codes[k % 3],
            "zip": "7.5" if as_text else 7.5,
            "fraud": k % 2,
        }
        for k in range(30)
    ]
    found = {column.name: guess_kind(column).name for column in columns(rows, ())}

    assert ("category", "number") == (found["mcc"], found["zip"])


def test_a_few_common_texts_are_enough_and_a_few_numbers_are_not() -> None:
    """Counters share small numbers with any id."""
    features = [{"order": f"o{k}", "x": k / 7} for k in range(100)]
    labels = [{"ref": f"o{k}", "won": k % 2} for k in range(97, 197)]
    plan = late_plan(features, labels)
    assert plan.labels is not None
    assert "ref" == plan.labels.id.name

    numbers = [{**one, "order": k} for k, one in enumerate(features)]
    with pytest.raises(ConfigError, match="order and ref share 3"):
        late_plan(numbers, [{"ref": k, "won": k % 2} for k in range(97, 197)])


@pytest.mark.parametrize("first", [1_700_000_001, 1_700_000_000_001, 10**15 + 1])
@pytest.mark.parametrize("name", ["payment", "order_no"])
def test_whole_numbers_that_look_like_times_are_ids(first: int, name: str) -> None:
    """Their values cannot tell: without the word of a time in the name they join the topics, also
    next to the same time on both.
    """
    numbers = [first + 7 * k for k in range(300)]
    features = [{name: n, "created_at": n, "x": k / 7} for k, n in enumerate(numbers)]
    labels = [{"ref": n, "created_at": n, "won": k % 2} for k, n in enumerate(numbers[:280])]

    for flags in ({}, {"id": name, "labels_id": "ref"}):
        plan = late_plan(features, labels, **flags)

        assert plan.labels is not None
        assert plan.id is not None
        assert (name, "ref") == (plan.id.name, plan.labels.id.name)
        assert [] == plan.warnings
        assert plan.timestamp is not None
        assert "created_at" == plan.timestamp.name


def test_an_id_that_looks_like_a_time_is_no_time() -> None:
    """Its name says what it is."""
    records = [{"order_id": 10**15 + k, "x": k / 7, "won": k % 2} for k in range(100)]

    plan = make_plan(records, "none", Given(), refuse)

    assert plan.id is not None
    assert "order_id" == plan.id.name


def test_common_values_are_counted_where_the_id_is_asked_for() -> None:
    """The message says what was compared, and how to read more."""
    features = [{"order": f"o{k}", "x": k / 7} for k in range(100)]
    labels = [{"ref": f"o{k}", "won": k % 2} for k in range(98, 198)]

    with pytest.raises(ConfigError) as refused:
        late_plan(features, labels)

    assert "(order and ref share 2)" in str(refused.value)
    assert "--records 1000 reads more" in str(refused.value)


def test_nonsense_is_refused_or_reported() -> None:
    """A time that is none, and ids that have no common values."""
    features = payments()
    labels = chargebacks(features, lambda k: 1)

    with pytest.raises(ConfigError, match=r"--timestamp device.os: '(ios|android)' is no time"):
        late_plan(features, labels, timestamp="device.os")
    with pytest.raises(ConfigError, match=r"--labels-timestamp reason: '\S+' is no time"):
        late_plan(features, labels, labels_timestamp="reason")
    plan = late_plan(features, labels, id="customer.id", labels_id="chargeback_id")
    assert "none of 300 label ids (chargeback_id) is among" in plan.warnings[0]


def test_a_mistyped_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program does not end."""
    answers = iter(["fruad", "fraud"])
    monkeypatch.setattr(typer, "prompt", lambda question, default: next(answers))
    records = [{**one, "fraud": k % 2} for k, one in enumerate(payments())]

    def check(text: str) -> None:
        make_plan(records, "none", Given(label=text), refuse)

    assert "fraud" == _asking(False)("Label", None, "--label", check)


def test_trials_have_no_fields_that_hide_methods() -> None:
    """`count` of a tuple is a method, which would be printed."""
    assert {"count", "index"}.isdisjoint(Trial._fields)
