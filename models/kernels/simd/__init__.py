"""Loops over learners that lie along vector lanes: takes a body for one row, gives a kernel that
keeps blocks of learners in registers. Every part of `kaboost.models` may import it.
"""

from kaboost.models.kernels.simd.over_learners import over_learners
from kaboost.models.kernels.simd.roles import Column, Dense, Lane, NewLane, NewRow, Number, Row, Sum
from kaboost.models.kernels.simd.tables import aligned
from kaboost.models.kernels.simd.vector_math import sqrt, where

__all__ = [
    "Column",
    "Dense",
    "Lane",
    "NewLane",
    "NewRow",
    "Number",
    "Row",
    "Sum",
    "aligned",
    "over_learners",
    "sqrt",
    "where",
]
