"""Whether the recent loss has risen above its earlier level: the relation of features and label has
changed.

It begins with a drift alarm of the model after which the recent loss has risen (alarms may be
false), or without one (not every model has alarms) where it is clearly above its level. It ends for
good once the loss has come most of the way back, or after SETTLED_EVENTS, when the new level counts
as the usual one; and not within HELD_SECONDS, in which nobody could read it. So it does not flap.
All is a function of the history and the annotations, the same in every worker.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kaboost.models.types import Mat, Vec

EVENT, TIME, MODEL_LOSS, PRIOR_LOSS = 0, 1, 5, 6  # columns of the history: see `History.table`
WINDOW_EVENTS = 1_000  # of the recent loss, about
BEFORE_EVENTS = 3_000  # before a rise, whose recent losses are the earlier level
LATE_EVENTS = 300  # by which an alarm may come late: such losses are not of the level before
LEAST_POINTS = 20  # of a level
LEAST_EVENTS = 2_000  # that were learned before the level counts: until then the loss is falling
RISE_SHARE, RISE_DEVIATIONS = 0.4, 8.0  # of the level, and of the deviations of its points
ALARM_SHARE, ALARM_DEVIATIONS = 0.15, 3.0  # the same for a rise with an alarm
LEAST_OF_PRIOR = 0.05  # share of the prior's recent loss: of tiny losses one event is a rise
BACK_SHARE = 0.3  # of the rise: the loss has come back below it
SETTLED_EVENTS = 20_000
HELD_SECONDS = 30.0  # since a rise, in which it is shown at least
NOTED_SECONDS = 900.0  # since a rise, in which its recovery is reported


class LossRise(NamedTuple):
    """A rise of the recent loss."""

    event: int  # at which it was noticed
    is_alarm: bool  # by a drift alarm of the model
    before: float  # the recent loss before
    peak: float
    now: float
    age: float = 0.0  # seconds since it was noticed; of event time where there was no alarm
    ended: float = math.inf  # event at which the loss had come back

    @property
    def recovered(self) -> bool:
        """Whether the loss has come back."""
        return self.ended < math.inf

    @property
    def is_over(self) -> bool:
        """Whether it is no heading any more."""
        return self.recovered and self.age > HELD_SECONDS

    @property
    def text(self) -> str:
        """What has happened, in one sentence."""
        noticed = "drift alarm" if self.is_alarm else "the recent loss has risen"
        losses = f"{noticed} at event {self.event:,}; loss {self.before:.2g} -> {self.peak:.2g}"
        if self.is_over:
            return f"recovered from a change of the relation: {losses} -> {self.now:.2g}"
        if self.recovered:
            return f"{losses}; recovered: {self.now:.2g} now"
        is_falling = self.now < self.peak - 0.15 * (self.peak - self.before)
        return f"{losses}; " + (f"recovering: {self.now:.2g} now" if is_falling else "still high")


class _Curve(NamedTuple):
    """The recent loss over events, and the widths that are looked at, in events."""

    events: Vec
    losses: Vec
    prior: Vec  # recent loss of the average
    before: float
    late: float
    settled: float


def find_rise(points: Mat, alarms: Mapping[int, float], now: float) -> LossRise | None:
    """Return the last rise, None where there is none that still matters.

    Parameters
    ----------
    points
        Of the history, (n, 8) as of `History.table`.
    alarms
        Events of the drift alarms of the model, with their times of the wall clock.
    now
        Of the wall clock, in seconds since 1970.
    """
    points = points[np.isfinite(points[:, MODEL_LOSS])]
    if len(points) < LEAST_POINTS:
        return None
    events, stride = points[:, EVENT], float(points[-1, EVENT] - points[-2, EVENT])
    curve = _Curve(
        events,
        points[:, MODEL_LOSS],
        points[:, PRIOR_LOSS],
        before=max(BEFORE_EVENTS, 2 * LEAST_POINTS * stride),
        late=max(LATE_EVENTS, stride),
        settled=max(SETTLED_EVENTS, 4 * LEAST_POINTS * stride),
    )
    first = max(events[-1] - curve.settled, LEAST_EVENTS)
    begins = [(float(each), True) for each in alarms if each >= first]
    begins += [(each, False) for each in _crossings(curve, first)]
    found: LossRise | None = None
    for begin, is_alarm in sorted(begins):
        if found is None or begin > found.ended:
            found = _rise(curve, begin, is_alarm=is_alarm) or found
        elif is_alarm and not found.is_alarm:  # a crossing and an alarm of one rise
            found = found._replace(event=int(begin), is_alarm=True)
    if found is None:
        return None
    times = points[:, TIME]
    place = min(int(events.searchsorted(found.event)), len(times) - 1)
    # Event time without an alarm: a topic may be read late.
    age = now - alarms[found.event] if found.is_alarm else float(times[-1] - times[place])
    found = found._replace(age=max(0.0, age))
    return None if found.recovered and found.age > NOTED_SECONDS else found


def _rise(curve: _Curve, begin: float, *, is_alarm: bool) -> LossRise | None:
    """Describe the rise at an event; None where too little was before, or an alarm was false."""
    events, losses = curve.events, curve.losses
    # The last ones: right after a start the loss is still falling.
    level = losses[events <= begin - curve.late][-LEAST_POINTS:]
    since = losses[events >= begin]
    if len(level) < LEAST_POINTS or not len(since):
        return None
    before, top = float(np.median(level)), int(since.argmax())
    peak = max(float(since[top]), before)
    spread = 1.4826 * float(np.median(np.abs(level - before)))
    if is_alarm and peak - before <= max(ALARM_SHARE * before, ALARM_DEVIATIONS * spread):
        return None
    back = np.flatnonzero(since[top:] <= before + BACK_SHARE * (peak - before))
    ended = float(events[events >= begin][top + back[0]]) if len(back) else math.inf
    return LossRise(int(begin), is_alarm, before, peak, float(losses[-1]), ended=ended)


def _crossings(curve: _Curve, first: float) -> list[float]:
    """Return the events at which the loss has risen above the limit of the level before."""
    events, losses = curve.events, curve.losses
    stride = float(events[-1] - events[-2])
    late, width = round(max(1.0, WINDOW_EVENTS / stride)), round(curve.before / stride)
    begin = max(width + late, int(events.searchsorted(first)))
    if begin >= len(events):
        return []
    windows = sliding_window_view(losses[begin - late - width : len(losses) - late - 1], width)
    level = np.median(windows, axis=1)
    spread = 1.4826 * np.median(np.abs(windows - level[:, None]), axis=1)
    now, prior = (of[begin : begin + len(level)] for of in (losses, curve.prior))
    limits = RISE_SHARE * level, RISE_DEVIATIONS * spread, LEAST_OF_PRIOR * np.nan_to_num(prior)
    above = now > level + np.max(limits, axis=0)
    at = np.flatnonzero(np.diff(above.astype(int), prepend=int(above[0])) == 1)
    return [float(each) for each in events[begin + at]]
