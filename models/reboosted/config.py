"""Sizes and tuning constants of the default model, in one table.

Constants with no other source were tuned on the streams of `bench/quality.py`; the structures, too.
What the cost model counts in nanoseconds stands in `kaboost.models.reboosted.trees.cost`.
"""

from __future__ import annotations

from typing import NamedTuple

# Sizes of the state
SAMPLE_ROWS = 8192  # rows of keys, evenly over the window, that edges of bins come from
BLOCK_EVENTS = 8192  # the window is a multiple of this
MAX_WINDOW = 32 * BLOCK_EVENTS  # events
MAX_EVENTS_AHEAD = 4096  # most events that come in while a tree is grown from older ones
EVENTS_AHEAD_DIVISOR = 8  # and no more than this part of the window
HISTOGRAM_BYTES = 1 << 24  # most bytes for the histograms of a tree; leaves beyond it cannot split
HISTOGRAM_MEMORY_DIVISOR = 8  # and no more than this part of the memory of a class
MAX_STRUCTURES = 8
PREFIX_BLOCK = 256  # events of the window that traverse a tree together

# Bins
FIRST_BINS_EVENTS = 100  # events before the first bins
REBIN_EVERY = 100_000  # events between two makings of bins; before that they double
NEW_FEATURE_ROWS = 64  # sampled rows after which a feature that has come up late gets bins
NEW_FEATURE_DIVISOR = 16  # but not before this part of the events so far: re-coding costs
RECENT_EVENTS = 512  # last events whose keys are kept; a power of 2
CHECK_EVENTS = 128  # last events by which it is judged whether bins tell a feature's values apart
CROWDED_SHARE = 0.25  # of their values: bins do not, if one holds more and they differ
MIN_CROWD = 10  # values
FIRST_CHECK = 256  # events before the first such check
MIN_CHECK_GAP, GAP_DIVISOR = 256, 16  # events between bins that one feature asks for: from the
# first, twice as many each time that it asks at once, up to that part of the events so far
CHECKED_PER_EVENT = 2  # features checked in one event, at most
RECENT_SHARE = 0.5  # of the edges that go to recent values, where a feature has moved
MOVED_BINS_NS = 400.0  # ns an event that bins for features that moved may cost, but at a drift
RUN_STRIDE = 16  # keys that are examined together, where most are missing

# Offsets of features
MIN_MOVE_GAP, MOVE_GAP_DIVISOR = 128, 16  # events between two moves of one feature's offset, as
# between the bins it asks for

# Screening of features
ALL_FEATURES_EVERY = 16  # trees: one in so many sees every feature
GAIN_DECAY = 0.7  # of feature gains, at every tree that sees all features
GAIN_COVERED = 0.95  # part of the sum of gains that the features of other trees have
MIN_FEATURES = 6  # of these trees, taken by gain
RANDOM_FEATURE_RATE = 0.1  # probability of each other feature
BISECTIONS = 40  # they separate gains down to 1e-12 of the largest

# One tree
MIN_GAIN = 1e-12  # of a split, of residuals of size 1; smaller residuals gain as much less
HALF_BINS_ROWS = 4000  # up to so many rows histograms have 32 bins
HALF_BINS = 32

# Schedule
MIN_EVENTS = 50  # events in the window before the first tree
BACKGROUND_MIN_NS = 1_000_000.0  # ns of a tree from which on it may be grown by the worker
START_BOOST = 9.0  # times the budget is added while little is known
START_EVENTS = 4000.0  # events since the start or the last drift over which the boost is whole
START_SPEEDUP = 0.5  # part of the window by which a sweep may then be shorter
SHORT_WINDOW_SPEEDUP = 0.25  # the same for short windows: each sweep resets what leaves learned
BUDGET_COLUMNS = 250.0  # present columns of an event from which on the budget grows with them
EVENTS_BEFORE_DRIFT = 200  # events before a detected drift that count as after it
MOVED_DRIFT_EVENTS = 500  # between a drift and features that moved, where they are one change
BASE_SHARE = 0.5  # of the budget that is shared by the settings; losses decide on the rest
SHARE_TEMPERATURE = -0.1  # of the softmax of losses over the structures
MAX_CREDIT = 2.0  # trees
SCHEDULE_EVERY = 16  # events between two updates of the schedule
SCHEDULE_ALWAYS_BEFORE = 2000  # events before which every event updates it
MIN_WORKER_EVENTS = 512  # events of a batch from which on a worker thread is worth its start


class Structure(NamedTuple):
    """Settings of one sequence of trees; specification of reboosted trees, 1."""

    window: int  # events it learns from; 0 for all that are kept
    trees: int
    leaves: int
    depth: int
    eta: float  # learning rate
    least_rows: int  # rows of a tree, at least
    part: float  # of the window, if that is more rows
    lags: bool  # whether it sees the decayed means of labels
    bins: int  # 64, or 32 for histograms of half the size
    share: float  # of the budget, relative to the other structures
    least_h: float  # smallest hessian of a child
    lam: float  # L2 penalty, added to hessians


STRUCTURES = (
    Structure(0, 80, 64, 8, 0.12, 8000, 0.3, True, 64, 2.0, 20.0, 5.0),
    Structure(0, 100, 256, 12, 0.1, 8000, 0.3, False, 64, 2.0, 1.0, 1.0),
    Structure(8000, 64, 16, 5, 0.15, 2000, 0.25, True, 32, 1.0, 3.0, 2.0),
    Structure(1000, 64, 16, 4, 0.15, 500, 0.5, False, 32, 1.0, 1.0, 1.0),
)


class Sizes(NamedTuple):
    """All settings that the sizes of the state follow from."""

    structures: tuple[Structure, ...]
    rates: tuple[float, ...]  # (5,) of the leaf learners
    lag_rates: tuple[float, ...]  # (5,) of the decayed label means
    budget: float  # ns an event
    memory: int  # bytes
    events: int  # of the longest window
    link: int  # scale of the scores: `StructureParams.link`
    classes: int = 1  # that the memory is planned for; without `columns`, models that share it
    columns: int = 0  # classes with a value each at every leaf; 0 where a leaf has one value

    @property
    def model_memory(self) -> int:
        """Bytes of one model."""
        return self.memory if self.columns else self.memory // self.classes
