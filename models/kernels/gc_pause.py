"""Run the garbage collector rarely while kernels compile: the compiler makes millions of objects
that live on, and a collection every 700 objects took a tenth of the compile time.
"""

from __future__ import annotations

import gc
from typing import Any

from numba.core import event

GC_THRESHOLD = 50_000  # objects between two collections; 40 MB more at the peak
LISTENER: Any = event.Listener  # Any, because numba is not typed


class GcPause(LISTENER):  # type: ignore[misc]
    """Listens to the start and end of a compilation; they nest, under numba's lock."""

    def __init__(self) -> None:
        self._depth, self._before = 0, 0

    def on_start(self, _: Any) -> None:
        """Raise the threshold at the outermost compilation, unless it is off or higher."""
        self._depth += 1
        if self._depth == 1:
            self._before = gc.get_threshold()[0]
            if 0 < self._before < GC_THRESHOLD:
                gc.set_threshold(GC_THRESHOLD)

    def on_end(self, _: Any) -> None:
        """Restore the threshold after the outermost compilation, unless it has changed."""
        self._depth -= 1
        if self._depth == 0 and gc.get_threshold()[0] == GC_THRESHOLD:
            gc.set_threshold(self._before)


def pause_gc_while_compiling() -> None:
    """Install the listener for every compilation of this process."""
    event.register("numba:compile", GcPause())
