"""Rules, one paper per file: how weak predictions become a score, and what each learner has to
learn. A rule takes predictions and a label and gives targets and weights; `parts` and `batch`
import it. A new rule is one file and one line in ALL.
"""

from kaboost.models.rules.adaboost_ol import ADABOOST_OL, ADABOOST_OL_W
from kaboost.models.rules.adwin_bag import ADWIN_BAG
from kaboost.models.rules.bbm import BBM
from kaboost.models.rules.gb import GB
from kaboost.models.rules.gentle import GENTLE
from kaboost.models.rules.latent import LATENT
from kaboost.models.rules.ogb_batch import OGB_BATCH
from kaboost.models.rules.ogb_hull import OGB_HULL
from kaboost.models.rules.ogb_span import OGB_SPAN
from kaboost.models.rules.oza import OZA_BAG, OZA_BOOST
from kaboost.models.rules.sgb import SGB
from kaboost.models.rules.sgb_residual import SGB_RESIDUAL

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
