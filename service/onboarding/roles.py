"""Guess the role of every column: label, id, timestamp, ignored, or one that reveals the label."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kaboost.models.features.schema import check_name
from kaboost.service.onboarding.columns import (
    MAJORITY,
    Column,
    as_number,
    guess_kind,
    is_time,
    is_truth,
    nearly_all,
    usual,
)

LABEL_WORDS = {
    "label": 10, "target": 10, "y": 9, "outcome": 8, "class": 8, "fraud": 7, "fraudulent": 7,
    "chargeback": 7, "churn": 7, "churned": 7, "click": 7, "clicked": 7, "converted": 7,
    "conversion": 7, "default": 6, "defaulted": 7, "won": 6, "win": 5, "failure": 7, "failed": 6,
    "anomaly": 7, "late": 6, "delayed": 6, "returned": 6, "cancelled": 6, "resolved": 5,
    "escalated": 6, "price": 4, "result": 5, "rating": 4, "priority": 3, "delay": 4,
}  # fmt: skip
LABEL_PREFIXES = {"is": 3, "was": 3, "will": 3, "has": 1}
SURE = 4  # the least score of a label that need not be asked for
ID_WORDS = {"id", "uuid", "guid", "key", "ref", "reference", "number", "no", "hash"}
TIME_WORDS = {"timestamp", "ts", "time", "at", "datetime", "date", "when", "occurred", "created"}
OTHER_TIMES = {"birth", "dob", "expiry", "expires", "due", "deadline", "promised", "updated"}
ENOUGH = 20  # records from which shares of distinct values mean something
NEARLY_ALL = 0.9  # the share of distinct values of a column that may identify records
REPEATS = 0.95  # the share of distinct values from which on a value hardly comes again
MANY = 0.4  # that of ids which count up: rows of a table that changes come again
ONE_SIDED = 0.9  # the share of one class from which on labels are nearly of one class
NEGATIVE = {
    "0", "-1", "false", "no", "n", "none", "negative", "neg", "ok", "good", "normal", "legit",
    "lost", "loss", "genuine", "healthy", "paid", "stayed", "active", "on_time", "ham", "miss",
    "rejected",
}  # fmt: skip
OPPOSITES = {"true": "false", "yes": "no", "y": "n", "t": "f", "on": "off"}
OPPOSITES |= {no: yes for yes, no in OPPOSITES.items()}


class LabelGuess(NamedTuple):
    """A column that may be the label."""

    column: Column
    score: int


def rank_labels(columns: Sequence[Column], *, constant: bool = False) -> list[LabelGuess]:
    """Return the columns that may be the label, the likeliest first.

    Parameters
    ----------
    columns
        The columns.
    constant
        Whether the label may have one value only, as where nothing but chargebacks is reported.
    """
    last, least = len(columns) - 1, 1 if constant else 2
    ranked = [LabelGuess(one, _label_score(one, k == last, least)) for k, one in enumerate(columns)]
    possible = [guess for guess in ranked if guess.score > 0]
    return sorted(possible, key=lambda guess: -guess.score)


def _label_score(column: Column, is_last: bool, least: int) -> int:
    kind = guess_kind(column).name
    distinct = column.distinct
    is_key = kind == "category" and distinct > max(50, 0.5 * len(column.present))
    if distinct < least or kind in ("text", "datetime", "auto") or is_key or column.is_opaque:
        return 0
    if set(column.words[-1:]) & {"id", "uuid", "ts", "timestamp"}:
        return 0
    by_name = max((LABEL_WORDS.get(word, 0) for word in column.words), default=0)
    by_prefix = LABEL_PREFIXES.get(column.words[0], 0) if column.words else 0
    exact = 2 if by_name and len(column.words) <= 1 + bool(by_prefix) else 0
    return 1 + by_name + by_prefix * bool(by_name or distinct == 2) + exact + is_last


def guess_task(label: Column) -> str:
    """Return the task that the values of a label mean."""
    values = _label_values(label)
    different = set(values)
    if len(different) == 2 or different <= {0, 1}:
        return "binary"
    if all(as_number(value) is not None for value in values):
        return "regression"
    return "binary" if len(different) == 1 else "multiclass"


def _label_values(label: Column) -> list[Any]:
    """Return the values of a label of the type that nearly all have, texts of numbers converted."""
    values = usual(label.present)
    return list(map(_converted, values)) if _are_converted(values) else values


def is_converted(label: Column) -> bool:
    """Return whether the label is a number or a boolean that is written in text."""
    return _are_converted(usual(label.present))


def _are_converted(values: Sequence[Any]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    return bool(texts) and all(as_number(text) is not None or is_truth(text) for text in texts)


def classes(label: Column, task: str) -> list[Any] | None:
    """Return `task.labels` for a label, the negative class first; None for the default."""
    if task == "regression":
        return None
    values = sorted(set(_label_values(label)), key=lambda value: (str(type(value)), value))
    if task == "multiclass":
        return values
    if set(values) <= {0, 1}:
        return None
    if len(values) == 1:  # a binary task has two
        other = opposite(values[0])
        return both_classes(values[0], f"not_{values[0]}" if other is None else other)
    return _negative_first(values, label)


def only_class(label: Column, task: str) -> Any | None:
    """Return the class of all labels of a binary task whose other class they do not tell; None
    where there are two, or the other one is known.
    """
    values = set(_label_values(label)) if task == "binary" else set()
    only = next(iter(values), None)
    return None if len(values) != 1 or only in (0, 1) or opposite(only) is not None else only


def opposite(label: Any) -> str | None:
    """Return the other one of true and false, yes and no and so on, written alike.

    Examples
    --------
    >>> opposite("Y"), opposite("yes"), opposite("True"), opposite("FRAUD")
    ('N', 'no', 'False', None)
    """
    other = OPPOSITES.get(label.lower()) if isinstance(label, str) else None
    if other is None:
        return None
    return other.upper() if label.isupper() else other.title() if label.istitle() else other


def both_classes(only: Any, other: Any) -> list[Any]:
    """Return the class of all labels and the other one, the negative class first."""
    return [only, other] if str(only).lower() in NEGATIVE else [other, only]


def written(label: Any) -> str:
    """Return a label as records have it."""
    return str(label).lower() if isinstance(label, bool) else str(label)


class OneSided(NamedTuple):
    """Labels that are nearly all of one class."""

    label: Any  # the class that nearly all are of
    number: int  # of its labels
    total: int
    other: Any  # the other class


def find_one_sided(label: Column, task: str, named: Sequence[Any] | None) -> OneSided | None:
    """Return the class that nearly all labels of a binary task have, if there is one.

    The negative class is one only where no label is positive: positives may be rare.
    """
    if task != "binary":
        return None
    negative, positive = named or (0, 1)
    values = _label_values(label)
    positives = sum(value == positive for value in values)
    if values and all(isinstance(value, bool) for value in values):
        negative, positive = False, True
    if positives >= ONE_SIDED * len(values):
        return OneSided(positive, positives, len(values), negative)
    return None if positives else OneSided(negative, len(values), len(values), positive)


def _converted(value: Any) -> Any:
    number = as_number(value)
    if number is None:
        return value.strip().lower() == "true" if isinstance(value, str) else value
    return int(number) if number.is_integer() else number


def _negative_first(values: list[Any], label: Column) -> list[Any]:
    frequency = {str(value): count for (_, value), count in label.counts.items()}

    def rank(value: Any) -> tuple[bool, int]:
        word = str(value).lower()
        is_negative = word in NEGATIVE or word.startswith(("not_", "no_", "non_"))
        return not is_negative, -frequency.get(str(value), 0)

    return sorted(values, key=rank)


def guess_id(columns: Sequence[Column]) -> Column | None:
    """Return the column that names a record: there in nearly every one, hardly repeated."""
    able = [one for one in columns if names_records(one) and _is_key(one)]
    named = [one for one in able if has_id_name(one)]
    # An exact name, then the first: producers write the id of the record before those of others.
    named.sort(key=lambda one: one.words not in (["id"], ["event", "id"], ["uuid"]))
    opaque = [one for one in able if one.is_opaque]
    return next(iter([*named, *opaque]), None)


def names_records(column: Column) -> bool:
    """Return whether nearly every record has a value, and nearly every value comes once.

    A value may come again: an event that is sent twice is what ids are for.
    """
    return column.is_complete and column.uniqueness >= MAJORITY


def possible_ids(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that may name a record: nearly all values are there and different."""
    return [
        one
        for one in columns
        if one.present
        and _is_key_like(one)
        and not is_moment(one)
        and one.distinct >= NEARLY_ALL * len(one.values)
        and (guess_kind(one).name != "text")
    ]


def is_moment(column: Column) -> bool:
    """Return whether a column is a time. Whole numbers that look like times may be ids as well:
    then the name decides.
    """
    if not is_time(column):
        return False
    words = set(column.words)
    named = bool(words & (TIME_WORDS | OTHER_TIMES)) and not has_id_name(column)
    return named or not nearly_all(value.__class__ is int for value in column.present)


def possible_times(columns: Sequence[Column]) -> list[Column]:
    """Return the columns with a time in every record."""
    return [one for one in columns if one.is_complete and is_time(one)]


def _is_key(column: Column) -> bool:
    """Return whether nearly all values are text or nearly all whole numbers, and no moments."""
    texts = nearly_all(isinstance(value, str) and value for value in column.present)
    whole = nearly_all(value.__class__ is int for value in column.present)
    return (texts or whole) and not is_moment(column)


def has_id_name(column: Column) -> bool:
    """Return whether the name of a column is that of an id."""
    return bool(set(column.words) & ID_WORDS)


def guess_timestamp(columns: Sequence[Column]) -> Column | None:
    """Return the column with the time of the record."""
    ranked = [(one, _time_score(one)) for one in columns if one.is_complete and is_time(one)]
    best = max(ranked, key=lambda pair: pair[1], default=None)
    return best[0] if best and best[1] > 0 else None


def _time_score(column: Column) -> int:
    words = set(column.words)
    if words & OTHER_TIMES or not words & TIME_WORDS:
        return 0
    values = usual(column.present)
    numbers = [as_number(value) for value in values]
    moments: list[Any] = values if None in numbers else numbers
    steps = list(pairwise(moments))
    ordered = sum(a <= b for a, b in steps) >= 0.9 * len(steps)
    is_exact = words <= TIME_WORDS | {"event"}
    return 1 + 2 * int(ordered) + int(is_exact)


def reason_to_ignore(column: Column) -> str | None:
    """Return why a column teaches nothing; None for a feature."""
    kind = guess_kind(column).name
    if (why := check_name(column.name)) is not None:
        return f"its name {why}"
    if len(column.present) < ENOUGH:
        return None
    if column.is_constant:
        return f"the same in all {len(column.present)} records; remove this line if it varies"
    if kind not in ("category", "number") or column.uniqueness < MANY:
        return None
    by_name = has_id_name(column) and _is_key_like(column)
    if column.uniqueness < REPEATS and not (by_name and _counts_up(column)):
        return None  # such as the id of a customer, who comes again
    if column.is_opaque:
        return f"an id: UUIDs or digests, {column.distinct} different"
    if by_name:
        return f"an id, by its name: {column.distinct} different values in {len(column.present)}"
    if kind == "category":
        return f"different in nearly every record: {column.distinct} in {len(column.present)}"
    return None


def _counts_up(column: Column) -> bool:
    values = column.present
    texts = any(isinstance(value, str) for value in values)
    keys = list(map(str, values)) if texts else values
    return nearly_all(a <= b for a, b in pairwise(keys))


def _is_key_like(column: Column) -> bool:
    return nearly_all(value.__class__ in (int, str) for value in column.present)


def reveals(column: Column, label: Column) -> bool:
    """Return whether a column has the label's values under other names, or the same ones."""
    pairs = [
        (str(a).lower(), str(b).lower())
        for a, b in zip(column.values, label.values, strict=True)
        if a is not None and b is not None
    ]
    if len(pairs) < ENOUGH:
        return False
    if all(a == b for a, b in pairs):
        return True
    names = len({a for a, _ in pairs})
    return 1 < names <= 20 and len(set(pairs)) == names == len({b for _, b in pairs})
