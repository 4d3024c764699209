"""Sweeps over learners that lie along the vector lanes: `sweep`, the words its bodies are written
in, and tables that start where vectors load best.
"""

from models.lanes.roles import Column, Dense, Lane, NewLane, NewRow, Number, Row, Sum
from models.lanes.sweeps import sweep
from models.lanes.tables import aligned
from models.lanes.traced import sqrt, where

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
    "sqrt",
    "sweep",
    "where",
]
