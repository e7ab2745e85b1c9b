"""Rewriter of vectors of any rank to those of two dimensions: all dimensions but the last become rows.

    %v = vector.transfer_read ... : vector<4x8x16xf32>
    %w = vector.transpose %v, [1, 0, 2] : vector<4x8x16xf32> to vector<8x4x16xf32>
becomes
    %r = vector.transfer_read ... : vector<4x8x16xf32>
    %v = vector.shape_cast %r : vector<4x8x16xf32> to vector<32x16xf32>
    %w = slices of rows of %v, put together : vector<32x16xf32>

A scalar that is taken out of a vector, or that a vector is reduced to, becomes a vector of one element: element-wise
operations, loops and broadcasts take it, and no condition, offset or bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, VectorType, i1
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xegpu.mlir.arith import CmpIOp, ExtUIOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp, shape_of, shape_of_type
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.supervector import collapsed
from xetile.dialect.vector import IotaOp, TileTransposeOp
from xetile.dialect.wg_map import Pair
from xetile.text.canonicalize.vectors.scalars import taken_scalars

ONE = "one element"
"""Encoding of a scalar that is a vector of one element."""


def element_of(value: SSAValue) -> Any:
    """Element type of a vector."""
    assert isinstance(value.type, VectorType)
    return value.type.element_type


def strides_of(shape: Sequence[int]) -> list[int]:
    """Row-major strides of a shape, in elements."""
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def _run(rows: Sequence[int], count: int) -> tuple[int, int]:
    """Step and length of the first rows that lie at equal distances, by which ``count`` can be divided."""
    step = rows[1] - rows[0] if len(rows) > 1 else 1
    if step < 0 or (step > 1 and count % step):
        return 1, 1
    size = 1
    while size < len(rows) and rows[size] - rows[size - 1] == step:
        size += 1
    return step, size


class VectorFlattener(Rewriter):
    """Conversion of one function."""

    keeps_unused = True

    def __init__(self, rules: Any, function: func.FuncOp) -> None:
        super().__init__(rules)
        self.taken = taken_scalars(function)

    def body(self, old: Block, new: Block) -> list[ConvertedValues]:
        """Rewrite a block; vectors among a function's arguments become those of two dimensions at its begin."""
        if new is self.entry:
            with self.inside(new):
                for argument in old.args:
                    if (type_ := flat_type(argument.type)) is not argument.type:
                        cast = ShapeCastOp(self.single(argument), shape_of_type(type_))
                        self.converted_values[argument] = ConvertedValues((self.emit(cast),))
        return super().body(old, new)

    # Values.

    def number_of(self, value: float, element: Attribute) -> SSAValue:
        """Scalar constant."""
        attribute: Any = FloatAttr(float(value), element) if isinstance(element, AnyFloat) else \
            IntegerAttr(int(value), element)  # type: ignore[arg-type]
        if isinstance(element, IndexType):
            return self.constant(int(value))
        return self.emit(arith.ConstantOp(attribute))

    def splat(self, scalar: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A scalar, or a vector of one element, repeated to two dimensions."""
        if not isinstance(scalar.type, VectorType):
            return self.emit(BroadcastOp(scalar, VectorType(scalar.type, shape)))
        axes = [axis for axis in (0, 1) if shape[axis] != 1]
        return self.emit(TileBroadcastOp(scalar, shape, axes)) if axes else scalar

    def one(self, old: SSAValue) -> SSAValue:
        """Replacement of a scalar as a vector of one element."""
        return self.splat(self.single(old), (1, 1))

    def iota(self, axis: int, shape: Sequence[int]) -> SSAValue:
        """Row or column number of each element."""
        type_ = VectorType(IndexType(), shape)
        return self.shared(("iota", axis, type_), lambda: self.emit(IotaOp(type_, axis)))

    def is_at(self, axis: int, position: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Mask of the elements at one position along an axis."""
        return self.emit(CmpIOp(self.iota(axis, shape), self.splat(position, shape), "eq"))

    # Moves.

    def cast(self, value: SSAValue, shape: Pair) -> SSAValue:
        """The same elements in another shape."""
        if shape_of(value) == shape:
            return value
        owner = value.owner
        if isinstance(owner, ShapeCastOp):
            return self.cast(owner.source, shape) if len(shape_of(owner.source)) == 2 else \
                self.emit(ShapeCastOp(value, shape))
        return self.emit(ShapeCastOp(value, shape))

    def slice(self, value: SSAValue, at: Pair, sizes: Pair) -> SSAValue:
        """A part of a vector."""
        return value if shape_of(value) == sizes else self.emit(ExtractStridedSliceOp(value, at, sizes))

    def put(self, part: SSAValue, whole: SSAValue, at: Pair) -> SSAValue:
        """A vector with a part replaced."""
        return part if shape_of(part) == shape_of(whole) else self.emit(InsertStridedSliceOp(part, whole, at))

    def transposed(self, value: SSAValue) -> SSAValue:
        """The transpose of a matrix; of a row or a column the same elements."""
        rows, columns = shape_of(value)
        if 1 in (rows, columns):
            return self.cast(value, (columns, rows))
        return self._of_bits(value, lambda words: self.emit(TileTransposeOp(words)))

    def take_rows(self, value: SSAValue, rows: Sequence[int]) -> SSAValue:
        """Rows of a matrix, in any order and any number of times."""
        count, columns = shape_of(value)
        if [*rows] == [*range(count)]:
            return value
        if len(rows) > count and [*rows] == [*range(count)] * (len(rows) // count):
            row = self.cast(value, (1, count * columns))
            many = self.emit(TileBroadcastOp(row, (len(rows) // count, count * columns), [0]))
            return self.cast(many, (len(rows), columns))
        whole = self.splat(self.number_of(0, element_of(value)), (len(rows), columns))
        start = 0
        while start < len(rows):
            step, size = _run(rows[start:], count)
            whole = self.put(self._strided_rows(value, rows[start], step, size), whole, (start, 0))
            start += size
        return whole

    def _strided_rows(self, value: SSAValue, first: int, step: int, size: int) -> SSAValue:
        """Rows at equal distances, which a cast makes neighbours in a column of parts; at none, one row repeated."""
        rows, columns = shape_of(value)
        if step <= 1 or size == 1:
            part = self.slice(value, (first, 0), (size if step else 1, columns))
            return part if step or size == 1 else self.emit(TileBroadcastOp(part, (size, columns), [0]))
        wide = self.cast(value, (rows // step, step * columns))
        return self.slice(wide, (first // step, first % step * columns), (size, columns))

    def _of_bits(self, value: SSAValue, move: Any) -> SSAValue:
        """A move of truth values, by those of 8-bit integers."""
        if element_of(value) != i1:
            result: SSAValue = move(value)
            return result
        byte = IntegerType(8)
        moved = move(self.emit(ExtUIOp(value, VectorType(byte, shape_of(value)))))
        zeros = self.splat(self.number_of(0, byte), shape_of(moved))
        return self.emit(CmpIOp(moved, zeros, "ne"))

    # Operations.

    def visit(self, operation: Operation) -> None:
        """Rewrite one operation; conditions and bounds are scalars."""
        controls = (operation.cond,) if isinstance(operation, scf.IfOp) else \
            (operation.lb, operation.ub, operation.step) if isinstance(operation, scf.ForOp) else ()
        if any(self.lookup(value).encoding == ONE for value in controls):
            self.refuse_scalar(operation)
        super().visit(operation)

    def refuse_scalar(self, operation: Operation) -> None:
        """Fail for a scalar of a vector where only a scalar can be."""
        self.fail("XT2620", f"{operation.name} takes a scalar that a tile was reduced to",
                  "such a scalar may be computed with by arith and math, and broadcast to a vector: store a tile "
                  "of it, and load it as a scalar where one is needed")

    def copy(self, operation: Operation) -> None:
        """Clone an operation on vectors of two dimensions."""
        if any(self.lookup(operand).encoding == ONE for operand in operation.operands):
            self._copy_of_one(operation)
            return
        types = [flat_type(result.type) for result in operation.results]
        if all(new is old.type for new, old in zip(types, operation.results, strict=True)):
            super().copy(operation)
            return
        copied = self.like(operation, [self.single(operand) for operand in operation.operands], types)
        for before, after in zip(operation.results, copied.results, strict=True):
            self.set(before, after)

    def _copy_of_one(self, operation: Operation) -> None:
        """Clone an element-wise operation of scalars, one of which is a vector of one element."""
        scalars = not any(isinstance(value.type, VectorType) for value in (*operation.operands, *operation.results))
        if not scalars or operation.name.partition(".")[0] not in ("arith", "math") or len(operation.results) != 1:
            self.refuse_scalar(operation)
        type_ = VectorType(operation.results[0].type, (1, 1))
        self.set(operation.results[0], self.like(operation, [self.one(value) for value in operation.operands],
                                                 [type_]).results[0], ONE)

    def initial_values(self, loop: scf.ForOp) -> list[ConvertedValues]:
        """Initial values; scalars that the body takes out of vectors are vectors of one element."""
        inside = loop.body.block.args[1:]
        return [ConvertedValues((self.one(value),), ONE) if argument in self.taken else self.lookup(value)
                for value, argument in zip(loop.iter_args, inside, strict=True)]

    def joined_values(self, branches: Sequence[list[ConvertedValues]]) -> list[ConvertedValues]:
        """A condition's results: vectors of one element, where a branch yields one."""
        return [next((parts for parts in group if parts.encoding == ONE), group[-1])
                for group in zip(*branches, strict=True)]

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """A yielded scalar as a vector of one element."""
        if like.encoding == ONE and parts.encoding is None:
            return ConvertedValues((self.splat(parts.values[0], (1, 1)),), ONE)
        return super().match(parts, like)


def flat_type(type_: Attribute) -> Attribute:
    """A vector type of two dimensions; other types, and those of two dimensions, unchanged."""
    shape = shape_of_type(type_)
    if not isinstance(type_, VectorType) or len(shape) == 2:
        return type_
    return VectorType(type_.element_type, collapsed(shape))
