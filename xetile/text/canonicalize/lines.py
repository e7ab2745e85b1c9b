"""Vectors of one dimension as tiles of one row or one column.

    %r = vector.multi_reduction <add>, %v, %zero [1] : vector<64x32xf32> to vector<64xf32>
    %c = vector.shape_cast %r : vector<64xf32> to vector<64x1xf32>
    %b = vector.broadcast %row : vector<32xf32> to vector<64x32xf32>
becomes
    %s = xetile.tile_reduce <add> %v [1] : vector<64x32xf32> -> vector<64x1xf32>
    %c = arith.addf %s, %zero : vector<64x1xf32>
    %b = xetile.tile_broadcast %row [0] : vector<1x32xf32> -> vector<64x32xf32>

Whether a vector is a row or a column is decided for all that are computed with each other: a column if rows of a tile
are reduced to it, or if it is cast to one; else a row. What is needed in the other form is transposed. A reduction to a
scalar becomes a tile of one element, which element-wise operations and broadcasts take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.webs import Webs
from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.ir.region_branch import REGION_BRANCHES, TERMINATORS
from xegpu.mlir.combining_kind import combined
from xegpu.mlir.vector import ShapeCastOp, shape_of_type
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp
from xetile.dialect.types import WgMapAttr
from xetile.dialect.vector import TileTransposeOp
from xetile.dialect.wg_map import WgMap
from xetile.text.operand_parser import RESULT_MAP

ROW, COLUMN, ONE = "a row", "a column", "one element"
"""Encodings of a vector of one dimension, and of a scalar that is reduced."""


def has_lines(function: func.FuncOp) -> bool:
    """Whether a function computes vectors of one dimension, or reduces to a scalar."""
    return any(isinstance(operation, MultiReductionOp) or any(_is_line(result) for result in operation.results)
               for operation in function.walk())


def lines_to_tiles(function: func.FuncOp) -> None:
    """Rewrite vectors of one dimension to tiles, in place.

    Raises:
        ShapeError: a reduced scalar is used where only a scalar can be.
    """
    new = _Lines(function).function(function)
    body, old = new.body, function.detach_region(function.body)
    new.detach_region(body)
    function.add_region(body)
    old.drop_all_references()


def _is_line(value: SSAValue) -> bool:
    return isinstance(value.type, VectorType) and len(value.type.get_shape()) == 1


def _computed_together(operation: Operation) -> Iterator[SSAValue]:
    """Vectors of one dimension that have one form."""
    if isinstance(operation, MultiReductionOp):
        yield from (value for value in (operation.acc, operation.result) if _is_line(value))
    elif not isinstance(operation, (BroadcastOp, ShapeCastOp, *REGION_BRANCHES, *TERMINATORS)):
        yield from (value for value in (*operation.operands, *operation.results) if _is_line(value))


def _map_attribute(operation: Operation) -> WgMap | None:
    found = next((operation.attributes[name] for name in RESULT_MAP if name in operation.attributes), None)
    return found.data if isinstance(found, WgMapAttr) else None


class _Lines(Rewriter):
    """Conversion of one function."""

    keeps_unused = True

    def __init__(self, function: func.FuncOp) -> None:
        super().__init__(_RULES)
        self._webs = Webs(function, _computed_together)
        self._votes: dict[SSAValue, Counter[str]] = {}
        for operation in function.walk():
            if isinstance(operation, MultiReductionOp) and len(operation.axes) == 1:
                self._vote(operation.result, COLUMN if operation.axes == (1,) else ROW)
            if isinstance(operation, ShapeCastOp):
                line, other = (operation.result, operation.source) if _is_line(operation.result) else \
                    (operation.source, operation.result)
                self._vote(line, COLUMN if shape_of_type(other.type)[-1:] == (1,) else ROW)

    def _vote(self, value: SSAValue, form: str) -> None:
        if _is_line(value):
            self._votes.setdefault(self._webs.root(value), Counter())[form] += 1

    def form_of(self, value: SSAValue) -> str:
        """Row or column."""
        votes = self._votes.get(self._webs.root(value), Counter())
        return COLUMN if votes[COLUMN] > votes[ROW] else ROW

    def in_form(self, value: SSAValue, form: str) -> SSAValue:
        """A line as a row or a column."""
        parts = self.lookup(value)
        return self._transposed(self.single(value), parts.encoding, form)

    def _transposed(self, value: SSAValue, has: str, form: str) -> SSAValue:
        if has == form or shape_of_type(value.type) == (1, 1):
            return value
        owner = value.owner
        if isinstance(owner, BroadcastOp) and not isinstance(owner.source.type, VectorType):
            spread = BroadcastOp(owner.source, VectorType(owner.source.type, shape_of_type(value.type)[::-1]))
            return self.emit(spread)
        return self.emit(TileTransposeOp(value))

    def set_line(self, old: SSAValue, new: SSAValue, has: str) -> None:
        """Set the replacement of a line, which is a row or a column, in the form of its web."""
        form = self.form_of(old)
        self.set(old, self._transposed(new, has, form), form)

    def visit(self, operation: Operation) -> None:
        """Rewrite one operation; the conditions and bounds of control flow are scalars."""
        controls = (operation.cond,) if isinstance(operation, scf.IfOp) else \
            (operation.lb, operation.ub, operation.step) if isinstance(operation, scf.ForOp) else ()
        if any(self.lookup(value).encoding == ONE for value in controls):
            self._copy_of_one(operation)
        super().visit(operation)

    def copy(self, operation: Operation) -> None:
        """Clone an operation: on lines in one form, or on scalars that are reduced as tiles of one element."""
        forms = [self.lookup(operand).encoding for operand in operation.operands]
        if ONE in forms:
            self._copy_of_one(operation)
            return
        line = next((result for result in operation.results if _is_line(result)), None)
        if line is not None and any(form in (ROW, COLUMN) for form in forms):
            form = self.form_of(line)
            for operand, has in zip(operation.operands, forms, strict=True):
                if has in (ROW, COLUMN):
                    self.converted_values[operand] = ConvertedValues((self.in_form(operand, form),), form)
        super().copy(operation)

    def _copy_of_one(self, operation: Operation) -> None:
        """Clone an element-wise operation of scalars, one of which is reduced."""
        scalars = not any(isinstance(value.type, VectorType) for value in (*operation.operands, *operation.results))
        if not scalars or operation.name.partition(".")[0] not in ("arith", "math") or len(operation.results) != 1:
            self.fail("XT2620", f"{operation.name} takes a scalar that a tile was reduced to",
                      "such a scalar may be computed with by arith and math, and broadcast to a vector: store a tile "
                      "of it, and load it as a scalar where one is needed")
        operands = []
        for operand in operation.operands:
            value = self.single(operand)
            operands.append(value if self.lookup(operand).encoding == ONE else
                            self.emit(BroadcastOp(value, VectorType(value.type, (1, 1)))))
        type_ = VectorType(operation.results[0].type, (1, 1))
        self.set(operation.results[0], self.like(operation, operands, [type_]).results[0], ONE)

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """A yielded line in the form that the loop or the other branch has."""
        if parts.encoding == like.encoding:
            return parts
        if ONE in (parts.encoding, like.encoding):
            self.fail("XT2620", "a loop or a condition carries a scalar that a tile was reduced to",
                      "carry a vector of one element: reduce with vector.multi_reduction to vector<1xf32>, or one "
                      "dimension after the other")
        (value,) = parts.values
        return ConvertedValues((self._transposed(value, parts.encoding, like.encoding),), like.encoding)


def _multi_reduction(rewriter: _Lines, operation: MultiReductionOp) -> None:
    source, kind, axes = rewriter.single(operation.source), operation.kind.data, operation.axes
    if rewriter.lookup(operation.source).encoding in (ROW, COLUMN):
        axes = (0, 1)
    if len(shape_of_type(source.type)) != 2 or not axes:
        rewriter.fail("XT2621", f"a reduction of {operation.source.type} along {list(operation.axes)}",
                      "reduce a vector of one or two dimensions along at least one")
    map_ = _map_attribute(operation)
    reduced = TileReduceOp(kind, source, axes)
    if map_ is not None:  # its verifier compares it with the source's
        reduced.properties["wg_map"] = WgMapAttr(map_)
    result = rewriter.emit(reduced)
    has = ONE if len(axes) == 2 else COLUMN if axes == (1,) else ROW
    acc = rewriter.lookup(operation.acc)
    if has == ONE:
        start = rewriter.single(operation.acc)
        if acc.encoding != ONE:
            start = rewriter.emit(BroadcastOp(start, VectorType(start.type, (1, 1))))
        rewriter.set(operation.result, rewriter.emit(combined(kind, result, start)), ONE)
        return
    form = rewriter.form_of(operation.result)
    result = rewriter._transposed(result, has, form)
    rewriter.set(operation.result, rewriter.emit(combined(kind, result, rewriter.in_form(operation.acc, form))), form)


def _broadcast(rewriter: _Lines, operation: BroadcastOp) -> None:
    source, type_ = rewriter.lookup(operation.source), operation.vector.type
    shape = type_.get_shape()
    attributes = dict(operation.attributes)
    if _is_line(operation.source) and len(shape) == 1 and shape == shape_of_type(operation.source.type):
        rewriter.set_line(operation.vector, source.values[0], source.encoding)
    elif source.encoding in (ROW, COLUMN, ONE) and len(shape) in (1, 2):
        form = rewriter.form_of(operation.vector) if len(shape) == 1 else None
        full = shape if form is None else (1, *shape) if form == ROW else (*shape, 1)
        line = source.values[0] if source.encoding == ONE else rewriter.in_form(operation.source, ROW)
        axes = [axis for axis in (0, 1) if shape_of_type(line.type)[axis] != full[axis]]
        if any(shape_of_type(line.type)[axis] != 1 for axis in axes):
            rewriter.fail("XT1220", f"{operation.source.type} is not broadcast to {type_}",
                          "the last dimension of both is the same")
        new = TileBroadcastOp(line, full, axes, _map_attribute(operation)) if axes else None
        rewriter.set(operation.vector, line if new is None else rewriter.emit(new), form)
    elif len(shape) == 1 and not isinstance(operation.source.type, VectorType):
        form = rewriter.form_of(operation.vector)
        spread = BroadcastOp(rewriter.single(operation.source),
                             VectorType(type_.element_type, _tile_shape(shape[0], form)))
        spread.attributes.update(attributes)
        rewriter.set(operation.vector, rewriter.emit(spread), form)
    else:
        rewriter.copy(operation)


def _tile_shape(size: int, form: str) -> tuple[int, int]:
    return (1, size) if form == ROW else (size, 1)


def _shape_cast(rewriter: _Lines, operation: ShapeCastOp) -> None:
    """Lines to tiles of one row or column, and back; other casts are on tiles."""
    source, shape = rewriter.single(operation.source), shape_of_type(operation.result.type)
    if not _is_line(operation.source) and not _is_line(operation.result):
        rewriter.copy(operation)
        return
    if len(shape) > 2 or len(shape_of_type(source.type)) != 2:
        rewriter.copy(operation)
        return
    form = rewriter.form_of(operation.result) if len(shape) == 1 else None
    wanted = shape if form is None else _tile_shape(shape[0], form)
    if shape_of_type(source.type) == wanted:
        new = source
    elif shape_of_type(source.type) == wanted[::-1] and 1 in wanted:
        new = rewriter._transposed(source, ROW, COLUMN)
    else:
        cast = ShapeCastOp(source, wanted)
        cast.attributes.update(operation.attributes)
        new = rewriter.emit(cast)
    rewriter.set(operation.result, new, form)


def _constant(rewriter: _Lines, operation: arith.ConstantOp) -> None:
    dense, type_ = operation.value, operation.result.type
    if not isinstance(type_, VectorType) or len(type_.get_shape()) != 1 or \
            not isinstance(dense, DenseIntOrFPElementsAttr):
        Rewriter.copy(rewriter, operation)
        return
    form = rewriter.form_of(operation.result)
    tile: Any = VectorType(type_.element_type, _tile_shape(type_.get_shape()[0], form))
    new = arith.ConstantOp(DenseIntOrFPElementsAttr(tile, dense.data))
    new.attributes.update(operation.attributes)
    rewriter.set(operation.result, rewriter.emit(new), form)


_RULES: Mapping[type[Operation], Rule] = {
    MultiReductionOp: _multi_reduction, BroadcastOp: _broadcast, ShapeCastOp: _shape_cast, arith.ConstantOp: _constant,
}
