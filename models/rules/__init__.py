"""Rules: from what weak learners say to what they should learn; one paper, one file."""

from models.rules.adaboost_ol import ADABOOST_OL, ADABOOST_OL_W
from models.rules.adwin_bag import ADWIN_BAG
from models.rules.bbm import BBM
from models.rules.gb import GB
from models.rules.gentle import GENTLE
from models.rules.hull import OGB_HULL
from models.rules.latent import LATENT
from models.rules.ogb import OGB_SPAN
from models.rules.ogb_batch import OGB_BATCH
from models.rules.oza import OZA_BAG, OZA_BOOST
from models.rules.sgb import SGB
from models.rules.sgb_residual import SGB_RESIDUAL

# In the order of the public list.
ALL = (
    SGB,
    SGB_RESIDUAL,
    OGB_SPAN,
    OGB_HULL,
    LATENT,
    GENTLE,
    BBM,
    ADABOOST_OL,
    ADABOOST_OL_W,
    OZA_BOOST,
    OZA_BAG,
    ADWIN_BAG,
    GB,
    OGB_BATCH,
)
