"""Kernels that only other kernels call: lowered once, linked into their callers, optimised there.

By default numba optimises every function by itself and again within each of its callers: the last
kernel of a chain of eight was compiled eight times. It also makes Python wrappers, which unpack a
state array by array (docs/adr/0016).
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

BASE: Any = JITCodeLibrary  # Any, because numba is not typed
COMPILER: Any = Compiler


class LinkOnlyLibrary(BASE):  # type: ignore[misc]
    """Code for other libraries to link, without machine code."""

    @property
    def codegen(self) -> LinkOnlyLibrary:
        """The library itself: callers only want to place constants for running code."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Do nothing: there is no running code."""

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class LinkOnlyCompiler(COMPILER):  # type: ignore[misc]
    """The compiler of kernels that only compiled code calls."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function into a library that is only linked."""
        self.state.library = LinkOnlyLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


def link_into_callers(compiled: Any) -> None:
    """Let kernels that name `compiled` link a second version of it, which Python cannot call.

    A constant argument gets no specialisation: LLVM propagates constants anyway.
    """
    options = {**compiled.targetoptions, "no_cpython_wrapper": True}
    inner: Any = CPUDispatcher(
        compiled.py_func, targetoptions=options, pipeline_class=LinkOnlyCompiler
    )

    def template(args: Any, keywords: Any) -> Any:
        return inner.get_call_template([types.unliteral(arg) for arg in args], keywords)

    outer: Any = compiled
    outer.get_call_template, outer.get_overload = template, inner.get_overload
