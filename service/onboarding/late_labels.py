"""Find the id that joins a topic of labels with the topic of their features."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kaboost.service.onboarding.columns import Column, columns, nearly_all
from kaboost.service.onboarding.formats import Readable
from kaboost.service.onboarding.plan import (
    Ask,
    Given,
    LabelTopic,
    Question,
    choose_label,
    given_or_asked,
    named,
    refuse_time,
)
from kaboost.service.onboarding.roles import (
    guess_id,
    guess_timestamp,
    has_id_name,
    is_moment,
    names_records,
    possible_ids,
    possible_times,
)

FEW = 3  # common texts that are no accident
SHARED = 0.2  # the share of common numbers that is none: counters share small ones with any id


class Pair(NamedTuple):
    """A field of the features and one of the labels that may be the same id."""

    left: Column
    right: Column
    shared: int  # different values on both

    @property
    def is_same_name(self) -> bool:
        """Whether the last parts of both paths are the same, and more than `id`."""
        return self.left.path[-1] == self.right.path[-1] and len(self.left.words) > 1

    @property
    def is_likely(self) -> bool:
        """Whether so many common values are no accident."""
        if self.is_same_name and has_id_name(self.left):
            return True
        if self.shared >= FEW and any(isinstance(value, str) for value in self.right.present):
            return True
        return self.shared > SHARED * len(self.right.present)


def join_labels(
    features: Sequence[Mapping[str, Any]], topic: str, labels: Readable, given: Given, ask: Ask
) -> tuple[LabelTopic, str]:
    """Return the topic of labels, and the path of the id in the features.

    Parameters
    ----------
    features
        Records of the topic of features.
    topic, labels
        The topic of labels, and its records.
    given, ask
        What flags say, and how to ask for the rest.

    Raises
    ------
    ConfigError
        If an id cannot be guessed, and there is nobody to ask.
    """
    left, right = columns(features, ()), columns(labels.records, ())
    own, other = named(left, given.id, "--id"), named(right, given.labels_id, "--labels-id")
    pair = _find_pair([own] if own else left, [other] if other else right, topic, ask)
    rest = [one for one in right if one is not pair.right]
    question = Question(
        "--labels-timestamp",
        "Time of the label",
        guess_timestamp(rest),
        possible_times(rest),
        refuse_time,
    )
    moment = given_or_asked(rest, given.labels_timestamp, question, ask)
    able = [one for one in rest if one is not moment]
    label = choose_label(able, right, given.label, ask, topic=topic)
    warnings = (describe_shared(pair),) if not pair.shared else ()
    return LabelTopic(topic, pair.right, label, moment, labels.events, warnings), pair.left.name


def describe_shared(pair: Pair) -> str:
    """Describe ids of which none are common."""
    return (
        f"none of {pair.right.distinct} label ids ({pair.right.name}) is among the "
        f"{pair.left.distinct} ids of the features ({pair.left.name}) that were read: see whether "
        "both name the same thing, or read more with --records"
    )


def _find_pair(left: Sequence[Column], right: Sequence[Column], topic: str, ask: Ask) -> Pair:
    """Return the pair that is given or the likeliest one, or ask for it."""
    if len(left) == len(right) == 1:
        return Pair(left[0], right[0], _count_shared(left[0], right[0]))
    pairs = _ranked_pairs(left, right)
    if pairs and pairs[0].is_likely:
        return pairs[0]
    counts = "; ".join(
        f"{pair.left.name} and {pair.right.name} share {pair.shared}"
        for pair in pairs[:3]
        if pair.shared
    )
    read = max(len(one.values) for one in (*left, *right))
    what = (
        f"no field of both topics has enough common values in the first {read} records"
        f"{f' ({counts})' if counts else ''}; --records {10 * read} reads more"
    )
    own = left[0] if len(left) == 1 else _ask_id(left, f"Id of the features: {what}", "--id", ask)
    question = f"Id on {topic}, that of the features"
    if len(left) == 1:
        question += f": {what}"
    other = right[0] if len(right) == 1 else _ask_id(right, question, "--labels-id", ask)
    return Pair(own, other, _count_shared(own, other))


def _ask_id(found: Sequence[Column], question: str, flag: str, ask: Ask) -> Column:
    """Ask for an id; the guess is the default."""
    guess = guess_id(found)
    names = ", ".join(one.name for one in (possible_ids(found) or found)[:5])
    answer = ask(
        f"{question} (candidates: {names})",
        guess.name if guess else None,
        flag,
        lambda text: named(found, text, flag),
    )
    chosen = named(found, answer, flag)
    assert chosen is not None
    return chosen


def _ranked_pairs(left: Sequence[Column], right: Sequence[Column]) -> list[Pair]:
    """Return pairs of columns, the likeliest first; each value names one record of features."""
    able = [one for one in left if _are_ids(one) and (len(left) == 1 or names_records(one))]
    others = [one for one in right if _are_ids(one)]
    pairs = [Pair(one, other, _count_shared(one, other)) for one in able for other in others]
    return sorted(pairs, key=lambda pair: (not pair.is_likely, -pair.shared))


def _count_shared(left: Column, right: Column) -> int:
    return len(set(map(str, left.present)) & set(map(str, right.present)))


def _are_ids(column: Column) -> bool:
    return not is_moment(column) and nearly_all(
        value.__class__ in (int, str) for value in column.present
    )
