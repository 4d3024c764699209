"""Banks: N weak learners of one kind as one struct of arrays."""

from models.banks.conv import CONV
from models.banks.coordinate_ftl import COORDINATE_FTL
from models.banks.hedge import HEDGE
from models.banks.hoeffding import HOEFFDING
from models.banks.linear import LINEAR_BANK
from models.banks.nets import NETS
from models.banks.reboosted import REBOOSTED_TREES
from models.banks.refit_trees import REFIT_TREES
from models.banks.stumps import STUMPS
from models.banks.trees import TREES

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
    REBOOSTED_TREES,
)
