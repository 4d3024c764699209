"""The slow, obvious twin of every kernel: plain loops over learners, written from the
specification, never from the code.
"""

from tests.naive.booster import NaiveBooster
from tests.naive.draws import SplitMix64

__all__ = ["NaiveBooster", "SplitMix64"]
