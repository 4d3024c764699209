"""Cost model: what the work on bins and trees takes, in nanoseconds. It sets the schedule and
bounds the work of one event, and never looks at a clock, so that runs repeat bit for bit.

All constants were fitted to one core of a shared server with AVX-512 (specification of reboosted
trees, 3). Another machine does the same work in the same events, only faster or slower.
"""

from __future__ import annotations

import math

from kaboost.models.kernels.jit import kernel
from kaboost.models.reboosted.config import HALF_BINS, HALF_BINS_ROWS
from kaboost.models.reboosted.state import Schedule, StructureParams

# Bounds, ns
SLICE_NS = 300_000.0  # of work on one tree in one event
EVENT_BUDGET_NS = 900_000.0  # of work on all trees in one event
CUTTING_SLICE_NS = 600_000.0  # of making edges in one event
WORKER_SLICE_NS = 50_000.0  # of the worker's work between two checks of whether to stop
SLACK = 4.0  # times the cost of a tree that may pass before it is committed

# Making bins
READ_NS = 5.0  # a row of the sample
SORT_NS = 12.0  # a key
FIT_NS = 800.0  # an old edge
CUT_NS = 2000.0  # a feature
RECODE_NS = 0.3  # a code of the window
RECODED_PER_EVENT = 1 << 20  # codes
EXACT_RECODE_FACTOR = 32  # times as much for a code that is made from its key

# Before a tree grows
LABEL_NS = 1.5
CHOOSE_FEATURE_NS = 50.0
COPY_ROW_NS = 40.0
COPY_CODE_NS = 0.75
PACK_NS = 3.0  # a row

# Growing a tree
CLEAR_CELL_NS = 0.2
ADD_NS = 0.35  # a code of a row to a histogram in the first cache
ADD_CACHE2_NS = 1.2  # in the second
ADD_MEMORY_NS = 3.0  # beyond both
CACHE1_CELLS = 1 << 12  # cells of 8 bytes that the first cache holds
CACHE2_CELLS = 1 << 17
COUNT_ROW_NS = 8.0
CELL_NS = 1.6  # a bin that is scanned, in one pass of three
FEW_CODES_BINS = 3  # bins that are scanned in the time to start on a column of few codes
LEAF_NS = 0.4  # a node, when the best leaf is looked for
PARTITION_NS = 18.0  # a row
PARTITION_FAR_NS = 35.0  # a row of more than CACHED_COLUMNS
CACHED_COLUMNS = 256  # columns up to which a row's codes are soon in the cache
MIN_CELLS, MIN_ROWS, MIN_COLUMNS = 4096, 8, 16  # of a piece of work, however little time is left

# Adding a tree to the prefixes
STEP_NS = 1.8  # a step down for one event
STEP_FAR_NS = 9.0  # where there are more than CACHED_COLUMNS

# The mean cost of a tree, which sets the schedule; pieces cost as if all memory were far
TREE_ROW_NS = 12.0  # beside COPY_ROW_NS
TREE_CODE_NS = 0.4  # a code of a row at the root
TREE_LEVEL_SHARE = 0.4  # of that more for every doubling of the leaves
TREE_BIN_NS = 1.3  # a bin of the histogram of a node
TREE_STEP_NS = 0.8  # a step down for an event of the window


@kernel
def sample_size(params: StructureParams, k: int, m: int) -> int:
    """Return how many of m events a tree of structure k sees."""
    return min(m, max(int(params.min_rows[k]), int(params.row_fraction[k] * m)))


@kernel
def tree_bins(params: StructureParams, k: int, n: int) -> int:
    """Return the bins of a tree over n rows: few rows do not fill many."""
    return int(params.bins[k]) if n > HALF_BINS_ROWS else HALF_BINS


@kernel
def tree_cost(params: StructureParams, schedule: Schedule, k: int, m: int) -> float:
    """Return the ns that one tree of structure k costs on average over a window of m events."""
    n, columns = float(sample_size(params, k, m)), float(schedule.columns_used[k])
    leaves = float(schedule.leaf_count[k])
    levels = 1.0 + TREE_LEVEL_SHARE * math.log2(leaves)
    rows = n * (COPY_ROW_NS + columns * TREE_CODE_NS * levels + TREE_ROW_NS)
    scans = 2.0 * leaves * float(schedule.bins_scanned[k]) * TREE_BIN_NS
    return rows + scans + m * TREE_STEP_NS * float(params.depth[k])
