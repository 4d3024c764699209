"""While kernels compile, Python looks for garbage seldom: the compiler makes millions of objects
that live on, and to look through them every 700 took a tenth of a compile's time.
"""

from __future__ import annotations

import gc
from typing import Any

from numba.core import event

SELDOM = 50_000  # objects between two looks; 40 MB more at the peak
LISTENER: Any = event.Listener  # numba's own code is not typed


class Seldom(LISTENER):  # type: ignore[misc]
    """Hears when a compile begins and ends: they nest, under numba's lock."""

    def __init__(self) -> None:
        self._depth, self._before = 0, 0

    def on_start(self, _: Any) -> None:
        """Raise the first threshold with the outermost compile, where it is on and lower."""
        self._depth += 1
        if self._depth == 1:
            self._before = gc.get_threshold()[0]
            if 0 < self._before < SELDOM:
                gc.set_threshold(SELDOM)

    def on_end(self, _: Any) -> None:
        """Put back what the outermost compile found, unless somebody has set another since."""
        self._depth -= 1
        if self._depth == 0 and gc.get_threshold()[0] == SELDOM:
            gc.set_threshold(self._before)


def collect_seldom() -> None:
    """Do so from now on, in every compile of this process."""
    event.register("numba:compile", Seldom())
