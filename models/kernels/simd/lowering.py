"""Register a loop over learners with numba: its types, and the code that is emitted for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin

from kaboost.models.kernels.simd.codegen import View, emit
from kaboost.models.kernels.simd.roles import Plan


def register(plan: Plan, loop: Callable[..., None]) -> None:
    """Let compiled code call `loop` with the code emitted for `plan`."""

    class Typed(AbstractTemplate):
        key = loop

        def generic(self, arguments: Any, keywords: Any) -> Any:
            return signature(types.void, *arguments)

    infer_global(loop, types.Function(Typed))

    def lower(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        pairs = zip(typed.args, values, strict=True)
        emit(plan, builder, [view(context, builder, *pair) for pair in pairs])
        return context.get_dummy_value()

    lower_builtin(loop, types.VarArg(types.Any))(lower)


def view(context: Any, builder: Any, kind: Any, value: Any) -> View:
    """Return what the emitter needs of an argument."""
    if not isinstance(kind, types.Array):
        return View(context.cast(builder, value, kind, types.float64), [], None)
    array = context.make_array(kind)(context, builder, value)
    shape = cgutils.unpack_tuple(builder, array.shape, kind.ndim)
    stride = cgutils.unpack_tuple(builder, array.strides, kind.ndim)[0]
    return View(array.data, shape, stride)
