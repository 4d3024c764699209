"""Find the id that joins a topic of labels with the topic of their features."""

from collections.abc import Mapping, Sequence
from typing import Any

from kaboost.service.onboarding.columns import Column, columns
from kaboost.service.onboarding.formats import Readable
from kaboost.service.onboarding.plan import (
    Ask,
    Given,
    LabelTopic,
    choose_label,
    given_or_asked,
    named,
)
from kaboost.service.onboarding.roles import (
    guess_id,
    guess_timestamp,
    possible_ids,
    possible_times,
)


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
    pair = _best_pair([own] if own else left, [other] if other else right)
    if pair is None:
        what = "no field of both topics has the same values in the records that were read"
        pair = (
            own or _ask_id(left, f"Id of the features: {what}", "--id", ask),
            other or _ask_id(right, f"Id on {topic}, that of the features", "--labels-id", ask),
        )
    rest = [one for one in right if one is not pair[1]]
    moment = given_or_asked(
        rest,
        given.labels_timestamp,
        "--labels-timestamp",
        guess_timestamp(rest),
        "Time of the label",
        possible_times(rest),
        ask,
    )
    able = [one for one in rest if one is not moment]
    label = choose_label(able, right, given.label, ask)
    return LabelTopic(topic, pair[1], label, moment, labels.events), pair[0].name


def _ask_id(found: Sequence[Column], question: str, flag: str, ask: Ask) -> Column:
    """Ask for an id; the guess is the default."""
    guess = guess_id(found)
    names = ", ".join(one.name for one in (possible_ids(found) or found)[:5])
    answer = ask(f"{question} (candidates: {names})", guess.name if guess else None, flag)
    chosen = named(found, answer, flag)
    assert chosen is not None
    return chosen


def _best_pair(left: Sequence[Column], right: Sequence[Column]) -> tuple[Column, Column] | None:
    """Return the two columns that share most values, each value naming one record of features."""
    best: tuple[int, tuple[Column, Column] | None] = (0, None)
    for one in left:
        if not one.is_complete or one.uniqueness < 1 or not _are_ids(one):
            continue
        ids = set(map(str, one.values))
        for other in right:
            if _are_ids(other):
                shared = len(ids & set(map(str, other.present)))
                # More than a few: counters and flags share small numbers with any id.
                if shared > max(best[0], 0.2 * len(other.present)):
                    best = shared, (one, other)
    return best[1]


def _are_ids(column: Column) -> bool:
    return all(value.__class__ in (int, str) for value in column.present)
