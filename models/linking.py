"""What only compiled code calls: lowered once, linked into each of its callers, and optimised and
made into machine code there alone.

Numba by itself does all of that for every function, and again for all it calls with every caller: a
chain of eight kernels was compiled eight times at its end. And it gives each a door for Python,
which takes a state apart array by array.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

BASE: Any = JITCodeLibrary  # numba's own code is not typed
COMPILER: Any = Compiler


class Linked(BASE):  # type: ignore[misc]
    """Code for other libraries to link; nothing of it can be run."""

    @property
    def codegen(self) -> Linked:
        """Itself: whoever asks wants to place constants that running code would look up."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Place nothing."""

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class Inner(COMPILER):  # type: ignore[misc]
    """The compiler of what only compiled code calls."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function into a library that is only linked."""
        self.state.library = Linked(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


def link_into_callers(compiled: Any) -> None:
    """Let kernels that name `compiled` link a twin of it, which Python cannot call.

    A constant among the arguments makes no version of its own: LLVM sees it anyway.
    """
    if not isinstance(compiled, CPUDispatcher):  # numba's JIT is off
        return
    options = {**compiled.targetoptions, "no_cpython_wrapper": True}
    inner: Any = CPUDispatcher(compiled.py_func, targetoptions=options, pipeline_class=Inner)

    def template(args: Any, keywords: Any) -> Any:
        return inner.get_call_template([types.unliteral(one) for one in args], keywords)

    outer: Any = compiled
    outer.get_call_template, outer.get_overload = template, inner.get_overload
