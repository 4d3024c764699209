"""Banks: N weak learners of one kind as one NamedTuple of arrays. A bank takes features and targets
and gives one prediction per learner; `parts`, `build` and `batch` import it. A new bank is one file
and one line in ALL.
"""

from kaboost.models.banks.coordinate_ftl import COORDINATE_FTL
from kaboost.models.banks.hedge import HEDGE
from kaboost.models.banks.histogram_trees.hoeffding import HOEFFDING
from kaboost.models.banks.histogram_trees.trees import TREES
from kaboost.models.banks.linear.component import LINEAR_BANK
from kaboost.models.banks.nets.conv import CONV
from kaboost.models.banks.nets.dense import NETS
from kaboost.models.banks.refit_trees.bank import REFIT_TREES
from kaboost.models.banks.stumps import STUMPS

# in the order of the public list
ALL = (
    LINEAR_BANK,
    STUMPS,
    NETS,
    CONV,
    COORDINATE_FTL,
    HEDGE,
    REFIT_TREES,
    TREES,
    HOEFFDING,
)
