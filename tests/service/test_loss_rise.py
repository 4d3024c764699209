"""Rises of the recent loss and trends, on histories made by hand."""

import itertools
import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from kaboost.models.types import Mat
from kaboost.service.http.loss_rise import (
    HELD_SECONDS,
    NOTED_SECONDS,
    SETTLED_EVENTS,
    LossRise,
    find_rise,
)
from kaboost.service.http.quality import quality, trend

STRIDE, WINDOW = 25, 1_000
SECONDS = 0.3  # from one event to the next
NONE = np.empty((0, 8))


def history(loss: Callable[[int], float], events: int, stride: int = STRIDE, seed: int = 1) -> Mat:
    """Make a history of events whose losses are exponential, with these means; the prior's is 1."""
    draw = random.Random(seed)
    recent, rows = loss(0), []
    for event in range(1, events + 1):
        recent += (loss(event) * draw.expovariate(1.0) - recent) / min(event, WINDOW)
        if event % stride == 0:
            rows.append([event, event * SECONDS, 0.5, 1.0, 1.0, recent, 1.0, 1.0])
    return np.array(rows)


def rise_at(points: Mat, event: int, alarms: Sequence[int]) -> LossRise | None:
    """Look at a history when so many events were learned, and there were these alarms."""
    times = {each: each * SECONDS for each in alarms if each <= event}
    return find_rise(points[points[:, 0] <= event], times, event * SECONDS)


def turned(event: int) -> float:
    """A relation that changes after 10,000 events and is learned again within 2,000."""
    return 0.2 + 0.6 * math.exp(-(event - 10_000) / 500) if event >= 10_000 else 0.2


@pytest.mark.parametrize("alarms", [[10_150], [10_150, 12_400], []])
@pytest.mark.parametrize("stride", [25, 50])
def test_a_change_of_the_relation(alarms: list[int], stride: int) -> None:
    """With an alarm of the model or without; it is over once, and reported for a while."""
    points = history(turned, 18_000, stride)

    def at(event: int) -> list[object]:
        rise = rise_at(points, event, alarms)
        return [] if rise is None else [rise.is_alarm, rise.is_over]

    states = [at(event) for event in range(9_000, 18_000, 100)]
    changes = [now for before, now in itertools.pairwise(states) if before != now]
    is_alarm = bool(alarms)
    if changes[0] == [False, False] and is_alarm:
        del changes[0]  # the loss itself was seen before the alarm
    assert [[is_alarm, False], [is_alarm, True], []] == changes
    rise = rise_at(points, 10_800, alarms)
    assert rise is not None
    assert 0.15 < rise.before < 0.25
    assert "; loss 0." in rise.text
    assert HELD_SECONDS < 2_000 * SECONDS < NOTED_SECONDS < 7_000 * SECONDS


def test_a_rise_is_shown_for_a_while() -> None:
    """Also one that is over at once: somebody shall see it."""
    points = history(lambda event: 2.0 if 10_000 <= event < 10_100 else 0.2, 13_000)
    first = rise_at(points, 10_300, [10_080])
    points[:, 1] = 10_080 * SECONDS  # the time of the events stands
    held = find_rise(points, {10_080: 0.0}, HELD_SECONDS)
    over = find_rise(points, {10_080: 0.0}, HELD_SECONDS + 1.0)

    assert [False, True, True] == [each.recovered for each in (first, held, over) if each]
    assert [False, False, True] == [each.is_over for each in (first, held, over) if each]
    assert "recovered: 0.2" in held.text if held else ""


def test_a_topic_that_is_read_late_recovers_as_well() -> None:
    """Without an alarm only the times of the events are known: an hour ago, or in the future."""
    points = history(turned, 14_000)

    def states(late: float) -> list[bool | None]:
        found = (
            find_rise(points[points[:, 0] <= event], {}, event * SECONDS + late)
            for event in range(9_000, 14_000, 200)
        )
        return [rise and rise.is_over for rise in found]

    assert {None, False, True} == set(states(0.0))
    assert states(0.0) == states(3_600.0) == states(-3_600.0)


def test_a_new_level_is_usual_after_a_while() -> None:
    """Where the new relation cannot be learned as well as the one before."""
    points = history(lambda event: 0.2 if event < 10_000 else 0.5, 10_000 + SETTLED_EVENTS + 1_000)
    early = rise_at(points, 25_000, [10_200])

    assert early is not None
    assert "still high" in early.text
    assert rise_at(points, len(points) * STRIDE, [10_200]) is None


@pytest.mark.parametrize("seed", range(5))
def test_stable_losses_do_not_flap(seed: int) -> None:
    """No rise, and one trend, over a stream on which nothing changes."""
    points = history(lambda event: 0.3, 40_000, seed=seed)
    trends = [trend(points[:k], 0) for k in range(300, len(points), 4)]

    assert {"steady"} == set(trends)
    assert {None} == {rise_at(points, event, []) for event in range(1_000, 40_000, 1_000)}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("after", [0.3, 0.2])
def test_a_false_alarm_is_no_rise(seed: int, after: float) -> None:
    """Of a loss that stays or falls; the alarm has its mark in the curve."""
    points = history(lambda event: 0.3 if event < 10_000 else after, 18_000, seed=seed)

    assert {None} == {rise_at(points, event, [10_150]) for event in range(10_200, 18_000, 100)}


def test_trends_begin_and_end_once() -> None:
    """A loss that falls by half, relative to the baseline, and then stays."""
    points = history(lambda event: 0.4 if event < 20_000 else 0.2, 40_000)
    trends = [trend(points[:k], 0) for k in range(300, len(points))]
    changes = [now for before, now in itertools.pairwise(trends) if before != now]
    worse = history(lambda event: 0.2 if event < 12_000 else 0.4, 15_000)
    both = worse.copy()
    both[:, 6] *= both[:, 5]

    assert "steady" == trends[0]
    assert ["getting better", "steady"] == changes
    assert ["getting worse", "steady", ""] == [trend(worse, 0), trend(both, 0), trend(NONE, 0)]


def losses(model: float, prior: float, last: float) -> dict[str, dict[str, float]]:
    values = {"model": model, "prior": prior, "last_label": last}
    return {name: {"recent_loss": value} for name, value in values.items()}


def test_the_better_baseline_is_named() -> None:
    """Worse is named as worse, equal as equal; few events are not judged."""
    good = quality("binary", losses(0.5, 1.0, 0.8), 500, NONE)
    bad = quality("regression", losses(3.0, 2.0, 9.0), 500, NONE)
    even = quality("binary", losses(0.5, 0.5, 0.8), 500, NONE)

    assert "38 % better than repeating the last label" == good
    assert "50 % worse than always predicting the average" == bad
    assert "as good as always predicting the usual shares" == even
    assert "too few events to judge: 99 of 100" == quality("binary", {}, 99, NONE)
    assert "" == quality("binary", {}, 500, NONE)
    assert "nothing is left to learn" in quality("regression", losses(0.1, 0.0, 0.0), 500, NONE)
