"""Find the id that joins a topic of labels with the topic of their features."""

from collections.abc import Mapping, Sequence
from typing import Any

from kaboost.service.errors import ConfigError
from kaboost.service.onboarding.columns import Column, columns
from kaboost.service.onboarding.formats import Readable
from kaboost.service.onboarding.plan import Ask, Given, LabelTopic, choose_label, named
from kaboost.service.onboarding.roles import guess_id, guess_timestamp


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
        If no id is on both topics.
    """
    left, right = columns(features, ()), columns(labels.records, ())
    own = named(left, given.id, "--id")
    pair = _best_pair([own] if own else left, right)
    if pair is None:
        own = own or guess_id(left)
        other = guess_id(right)
        if own is None or other is None:
            raise ConfigError(
                f"--id: no field of both topics has the same values as one of {topic}; pass the "
                "path of the id with --id, and send labels with that id"
            )
        pair = own, other
    rest = [one for one in right if one is not pair[1]]
    moment = guess_timestamp(rest)
    able = [one for one in rest if one is not moment]
    label = choose_label(able, right, given.label, ask)
    return LabelTopic(topic, pair[1], label, moment, labels.events), pair[0].name


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
