"""Functions that the body of a loop over learners may call, on NumPy rows and symbolic vectors."""

from __future__ import annotations

from typing import Any

import numpy as np


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Return `yes` in the lanes where the condition holds and `no` in the others."""
    if hasattr(condition, "select_lanes"):
        return condition.select_lanes(yes, no)
    return np.where(condition, yes, no)


def sqrt(value: Any) -> Any:
    """Return the square root, lane by lane."""
    return value.call_intrinsic("llvm.sqrt") if hasattr(value, "call_intrinsic") else np.sqrt(value)
