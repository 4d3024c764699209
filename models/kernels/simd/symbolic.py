"""A value of a loop's body while it is compiled: arithmetic on it emits LLVM instructions.

No instruction carries a fast-math flag, so that LLVM may neither reorder nor fuse them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

REAL, SHORT = ir.DoubleType(), ir.IntType(32)


class SymbolicVector:
    """A vector for each part of a block of learners, or one number for all of them."""

    def __init__(self, builder: Any, parts: Sequence[Any]) -> None:
        self.builder, self.parts = builder, list(parts)

    def __add__(self, other: Any) -> SymbolicVector:
        return self._merge("fadd", self, other)

    def __radd__(self, other: Any) -> SymbolicVector:
        return self._merge("fadd", other, self)

    def __sub__(self, other: Any) -> SymbolicVector:
        return self._merge("fsub", self, other)

    def __rsub__(self, other: Any) -> SymbolicVector:
        return self._merge("fsub", other, self)

    def __mul__(self, other: Any) -> SymbolicVector:
        return self._merge("fmul", self, other)

    def __rmul__(self, other: Any) -> SymbolicVector:
        return self._merge("fmul", other, self)

    def __truediv__(self, other: Any) -> SymbolicVector:
        return self._merge("fdiv", self, other)

    def __rtruediv__(self, other: Any) -> SymbolicVector:
        return self._merge("fdiv", other, self)

    def __gt__(self, other: Any) -> SymbolicVector:
        return self._merge("fcmp_ordered", self, other, ">")

    def __lt__(self, other: Any) -> SymbolicVector:
        return self._merge("fcmp_ordered", self, other, "<")

    def __le__(self, other: Any) -> SymbolicVector:
        return self._merge("fcmp_ordered", self, other, "<=")

    def __neg__(self) -> SymbolicVector:
        return SymbolicVector(self.builder, [self.builder.fneg(part) for part in self.parts])

    def __abs__(self) -> SymbolicVector:
        return self.call_intrinsic("llvm.fabs")

    def call_intrinsic(self, name: str) -> SymbolicVector:
        """Apply an LLVM function of one argument to every part."""
        kind, count = self.parts[0].type, lanes(self.parts[0])
        suffix = f"v{count}f64" if count > 1 else "f64"
        shape = ir.FunctionType(kind, [kind])
        function = self.builder.module.declare_intrinsic(f"{name}.{suffix}", fnty=shape)
        return SymbolicVector(self.builder, [self.builder.call(function, [p]) for p in self.parts])

    def select_lanes(self, yes: Any, no: Any) -> SymbolicVector:
        """Return `yes` where this condition holds and `no` elsewhere."""
        select = self.builder.select
        return SymbolicVector(self.builder, [select(*p) for p in self._align(self, yes, no)])

    def _merge(self, how: str, left: Any, right: Any, *words: str) -> SymbolicVector:
        act = getattr(self.builder, how)
        return SymbolicVector(
            self.builder, [act(*words, a, b) for a, b in self._align(left, right)]
        )

    def _align(self, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Give all values as many parts and lanes as the largest has."""
        vectors = [
            v.parts if isinstance(v, SymbolicVector) else [ir.Constant(REAL, float(v))]
            for v in values
        ]
        shape = max(vectors, key=lambda parts: (len(parts), lanes(parts[0])))
        return zip(*(spread(self.builder, parts, shape) for parts in vectors), strict=True)


def lanes(value: Any) -> int:
    """Return how many numbers an LLVM value holds."""
    return int(value.type.count) if isinstance(value.type, ir.VectorType) else 1


def spread(builder: Any, parts: Sequence[Any], shape: Sequence[Any]) -> Sequence[Any]:
    """Broadcast one number to all parts and lanes of `shape`; values of that shape stay."""
    if len(parts) == len(shape) and lanes(parts[0]) == lanes(shape[0]):
        return parts
    (part,), count = parts, lanes(shape[0])
    if count > 1:
        vector = ir.VectorType(part.type, count)
        nothing = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(nothing, part, ir.Constant(SHORT, 0))
        spots = ir.Constant(ir.VectorType(SHORT, count), [0] * count)
        part = builder.shuffle_vector(first, nothing, spots)
    return [part] * len(shape)
