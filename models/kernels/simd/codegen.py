"""Emit the compiled loops: over blocks of learners, and in each block over the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from kaboost.models.kernels.simd.roles import Plan
from kaboost.models.kernels.simd.symbolic import REAL, SymbolicVector

INDEX = ir.IntType(64)
TILE, GROUP = 64, 8  # rows of one mask, and as many as are compared at once
WIDTH = 4  # numbers in a vector of AVX; LLVM cuts it in two where the machine's are shorter
VECTORS = 8  # in the largest block: so many totals fit into sixteen registers


class View(NamedTuple):
    """An argument: the address of its numbers, or the number itself, of no shape."""

    data: Any
    shape: list[Any]
    stride: Any  # bytes from row to row

    def row(self, builder: Any, j: Any) -> Any:
        """Return the address of row j."""
        start = builder.ptrtoint(self.data, INDEX)
        address = builder.add(start, builder.mul(j, self.stride))
        return builder.inttoptr(address, self.data.type)


def emit(plan: Plan, builder: Any, views: Sequence[View]) -> None:
    """Emit a loop over blocks of learners, with separate code for every size of block.

    The last vector starts early where it would not be full, and overlaps the one before it: both
    are loaded before either is stored, so both store the same. Fewer learners than a vector holds
    are single numbers.
    """
    N = (plan.pick(views, "Row", "NewRow") or plan.pick(views, "NewLane"))[0].shape[-1]
    start = cgutils.alloca_once_value(builder, index(0))
    head, after, done = (builder.append_basic_block(name) for name in ("head", "after", "done"))
    builder.cbranch(builder.icmp_signed("<", index(0), N), head, done)
    builder.position_at_end(head)
    first = builder.load(start)
    count = block_size(builder, builder.sub(N, first))
    end = builder.add(first, count)
    builder.store(end, start)
    vectors = builder.udiv(builder.add(count, index(WIDTH - 1)), index(WIDTH))
    singly = builder.icmp_signed("<", count, index(WIDTH))
    switch = builder.switch(builder.select(singly, builder.neg(count), vectors), done)
    for size in (*range(1 - WIDTH, 0), *range(1, VECTORS + 1)):
        case = builder.append_basic_block("block")
        switch.add_case(index(size), case)
        builder.position_at_end(case)
        width = WIDTH if size > 0 else 1
        offsets = [builder.add(first, index(width * i)) for i in range(abs(size) - 1)]
        Block(plan, builder, views, [*offsets, builder.sub(end, index(width))], width).emit()
        builder.branch(after)
    builder.position_at_end(after)
    builder.cbranch(builder.icmp_signed("<", builder.load(start), N), head, done)
    builder.position_at_end(done)


def index(value: int) -> Any:
    """Return a constant of the type of indices."""
    return ir.Constant(INDEX, value)


def block_size(builder: Any, left: Any) -> Any:
    """Return the size of the next block: what remains after it is nothing or fills a vector."""
    beyond = builder.sub(left, index(WIDTH * VECTORS))
    short = builder.icmp_signed("<", beyond, index(WIDTH))
    size = builder.select(short, index(WIDTH * (VECTORS - 1)), index(WIDTH * VECTORS))
    return builder.select(builder.icmp_signed("<=", beyond, index(0)), left, size)


def least(builder: Any, a: Any, b: Any) -> Any:
    """Return the smaller of two indices."""
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def low_bits(builder: Any, count: Any) -> Any:
    """Return a number whose lowest `count` bits are set, of 64."""
    some = builder.lshr(index(-1), builder.and_(builder.sub(index(64), count), index(63)))
    return builder.select(builder.icmp_signed("==", count, index(0)), index(0), some)


def nonzero(module: Any) -> Any:
    """Return a function of an address and a count, at most TILE: bit k of its result is set where
    number k there is not 0; nan counts as not 0. All blocks call it: copies would compile slowly.
    """
    name = "kaboost.nonzero"
    if name in module.globals:
        return module.globals[name]
    kind = ir.FunctionType(INDEX, [REAL.as_pointer(), INDEX])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    numbers, count = function.args
    bits = cgutils.alloca_once_value(builder, index(0))

    def mark(k: Any, width: int) -> None:
        group = ir.VectorType(REAL, width)
        place = builder.bitcast(builder.gep(numbers, [k]), group.as_pointer())
        zeros = ir.Constant(group, None)
        differs = builder.fcmp_unordered("!=", builder.load(place, align=8), zeros)
        mask = builder.zext(builder.bitcast(differs, ir.IntType(width)), INDEX)
        builder.store(builder.or_(builder.load(bits), builder.shl(mask, k)), bits)

    last = builder.sub(count, index(GROUP))
    with builder.if_else(builder.icmp_signed("<", last, index(0))) as (few, many):
        with few, cgutils.for_range(builder, count) as loop:
            mark(loop.index, 1)
        with many:  # the last group starts early where it would not be full
            with cgutils.for_range_slice(builder, index(0), last, index(GROUP)) as (k, _):
                mark(k, GROUP)
            mark(last, GROUP)
    builder.ret(builder.load(bits))
    return function


class Block(NamedTuple):
    """The learners of one block: vectors of `width` numbers at `offsets`."""

    plan: Plan
    builder: Any
    views: Sequence[View]
    offsets: list[Any]
    width: int

    def emit(self) -> None:
        """Emit the body, once or for every row."""
        picked = {role: self.plan.pick(self.views, role) for role in self.plan.roles}
        values = {
            role: [self.load(view.data) for view in chosen]
            for role, chosen in picked.items()
            if role in ("Lane", "NewLane")
        }
        values["Number"] = [
            SymbolicVector(self.builder, [v.data]) for v in picked.get("Number", ())
        ]
        if self.plan.pick(self.views, "Row", "NewRow"):
            self.emit_rows(values)
        else:
            self.replace([v.data for v in picked["NewLane"]], self.plan.apply(values))

    def emit_rows(self, values: dict[str, list[Any]]) -> None:
        """Emit the loop over rows, and one for rows beyond the end of the first vector of numbers,
        which read 1; `values` are those that all rows share.
        """
        plan, builder = self.plan, self.builder
        totals = [cgutils.alloca_once(builder, self.kind) for _ in self.offsets]
        for total in totals:
            builder.store(ir.Constant(self.kind, None if self.width > 1 else 0.0), total)
        rows = plan.pick(self.views, "Row", "NewRow")[0].shape[0]
        vectors = plan.pick(self.views, "Column", "Dense")
        inner = vectors[0].shape[0] if vectors else rows
        if plan.pick(self.views, "Column"):
            self.emit_nonzero_rows(rows, inner, values, totals)
        else:
            with cgutils.for_range(builder, inner) as loop:
                self.emit_row(loop.index, values, totals, beyond=False)
            if vectors:
                with cgutils.for_range_slice(builder, inner, rows, index(1)) as (j, _):
                    self.emit_row(j, values, totals, beyond=True)
        if plan.sums:
            self.store(
                SymbolicVector(builder, [builder.load(t) for t in totals]), self.views[-1].data
            )

    def emit_nonzero_rows(
        self, rows: Any, inner: Any, values: dict[str, list[Any]], totals: list[Any]
    ) -> None:
        """Emit the loops over the rows whose column is not 0, in their order.

        A branch at every row would be mispredicted for one-hot features. So 64 rows are compared at
        once: where none is 0 a plain loop runs over those that have a number in the column; another
        loop runs over the set bits of the rest.
        """
        builder, left = self.builder, cgutils.alloca_once(self.builder, INDEX)
        with cgutils.for_range_slice(builder, index(0), rows, index(TILE)) as (start, _):
            count = least(builder, builder.sub(rows, start), index(TILE))
            inside = least(builder, builder.sub(inner, start), count)
            inside = builder.select(builder.icmp_signed("<", inside, index(0)), index(0), inside)
            every = low_bits(builder, inside)
            (column,) = self.plan.pick(self.views, "Column")
            marks = builder.call(
                nonzero(builder.module), [builder.gep(column.data, [start]), inside]
            )
            builder.store(marks, left)
            with builder.if_then(builder.icmp_unsigned("==", builder.load(left), every)):
                with cgutils.for_range(builder, inside) as loop:
                    self.emit_row(builder.add(start, loop.index), values, totals, beyond=False)
                builder.store(index(0), left)
            rest = builder.xor(low_bits(builder, count), every)
            builder.store(builder.or_(builder.load(left), rest), left)
            with self.each_bit(left) as bit:
                self.emit_row(builder.add(start, bit), values, totals, beyond=True)

    @contextmanager
    def each_bit(self, bits: Any) -> Iterator[Any]:
        """Emit a loop over the set bits, the lowest first; it clears them."""
        builder = self.builder
        head, body, done = (builder.append_basic_block(name) for name in ("next", "bit", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        left = builder.load(bits)
        builder.cbranch(builder.icmp_unsigned("!=", left, index(0)), body, done)
        builder.position_at_end(body)
        builder.store(builder.and_(left, builder.sub(left, index(1))), bits)
        yield builder.cttz(left, ir.Constant(ir.IntType(1), 1))
        builder.branch(head)
        builder.position_at_end(done)

    def emit_row(
        self, j: Any, values: dict[str, list[Any]], totals: list[Any], *, beyond: bool
    ) -> None:
        """Emit the body for row j: into the totals, or back into the rows."""
        plan, builder = self.plan, self.builder
        columns, dense = (self.numbers(role, j, beyond) for role in ("Column", "Dense"))
        read, replaced = (
            [table.row(builder, j) for table in plan.pick(self.views, role)]
            for role in ("Row", "NewRow")
        )
        values |= {"Row": [self.load(row) for row in read], "Column": columns}
        values |= {"NewRow": [self.load(row) for row in replaced], "Dense": dense}
        values["Sum"] = [SymbolicVector(builder, [builder.load(total) for total in totals])]
        made = plan.apply(values)
        if plan.sums:
            for part, total in zip(made.parts, totals, strict=True):
                builder.store(part, total)
        else:
            self.replace(replaced, made)

    def numbers(self, role: str, j: Any, beyond: bool) -> list[SymbolicVector]:
        """Load number j of every vector of a role; with `beyond`, 1 past the end of a vector."""
        builder, loaded = self.builder, []
        one = cgutils.global_constant(builder, "one", ir.Constant(REAL, 1.0))
        for vector in self.plan.pick(self.views, role):
            place = builder.gep(vector.data, [j])
            if beyond:
                inside = builder.icmp_signed("<", j, vector.shape[0])
                place = builder.select(inside, place, one)
            loaded.append(SymbolicVector(builder, [builder.load(place)]))
        return loaded

    def replace(self, places: list[Any], made: Any) -> None:
        """Store what the body returned; all it read was loaded before."""
        for place, new in self.plan.pairs(places, made):
            self.store(new, place)

    @property
    def kind(self) -> Any:
        """The LLVM type of one part."""
        return REAL if self.width == 1 else ir.VectorType(REAL, self.width)

    def load(self, row: Any) -> SymbolicVector:
        """Load the block's learners from a row at an address."""
        return SymbolicVector(
            self.builder, [self.builder.load(p, align=8) for p in self.places(row)]
        )

    def store(self, value: SymbolicVector, row: Any) -> None:
        """Store the block's learners into a row at an address."""
        for part, place in zip(value.parts, self.places(row), strict=True):
            self.builder.store(part, place, align=8)

    def places(self, row: Any) -> list[Any]:
        """Return the addresses of the block's parts in a row."""
        gep, cast = self.builder.gep, self.builder.bitcast
        return [cast(gep(row, [offset]), self.kind.as_pointer()) for offset in self.offsets]
