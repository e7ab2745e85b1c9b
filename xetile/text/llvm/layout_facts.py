"""Layout inference for kernels in LLVM's form: block shapes and layouts of vectors, by web.

A lane's vectors, and those that a reduction left 1D, do not determine their block; the operations that use them do.
Values that are computed together form a web, which shares these facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, gpu
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.webs import Webs
from xegpu.interop.llvm.dialect import ops
from xegpu.interop.llvm.dialect.gather_scatter import LoadOp, StoreOp
from xegpu.interop.llvm.dialect.matrix import LoadMatrixOp, StoreMatrixOp, flat_shape, matrix_of
from xegpu.interop.llvm.dialect.types import Layout, LayoutAttr, SliceAttr, desc_of, shape_of
from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.interop.llvm.export_vector import RESULT
from xegpu.interop.llvm.importer import LANES
from xegpu.ir.matchers import number
from xegpu.ir.region_branch import REGION_BRANCHES, TERMINATORS
from xegpu.mlir.vector import ShapeCastOp, TransposeOp
from xegpu.support.errors import Invalid
from xetile.dialect.wg_map import Pair, WgMap

_INFERS_SHAPE = (ShapeCastOp, TransposeOp, MultiReductionOp, BroadcastOp, *REGION_BRANCHES, *TERMINATORS)


@dataclass
class Fact:
    """Facts of a web: the block of its vectors, and their layout."""

    shape: Pair | None = None
    layout: Layout | None = None


class Facts:
    """Facts of one function's webs."""

    def __init__(self, function: func.FuncOp) -> None:
        self.of_lanes = any(_is_fragment(operation) for operation in function.walk())
        self._webs = Webs(function, self._links)
        self._known: dict[SSAValue, Fact] = {}
        pending = list(function.walk())
        for operation in (*pending, *pending):  # what a product is of may be known after its operands are
            self._note(operation)
        self.is_distributed = any(fact.layout is not None for fact in self._known.values())

    def _links(self, operation: Operation) -> Iterator[SSAValue]:
        if isinstance(operation, ops.DpasOp):
            yield from (value for value in (operation.acc, operation.result) if value is not None)
        elif isinstance(operation, MultiReductionOp):
            yield from (operation.acc, operation.result)
        elif isinstance(operation, ShapeCastOp) and self.of_lanes:
            yield from (operation.source, operation.result)
        elif not isinstance(operation, _INFERS_SHAPE) and not operation.name.startswith("xegpu."):
            values = (*operation.operands, *operation.results)
            yield from (value for value in values if isinstance(value.type, VectorType))

    def shape(self, value: SSAValue) -> Pair | None:
        """Rows and columns of the block that a vector is, or is a part of."""
        known = self._fact(value).shape
        sizes = value.type.get_shape() if isinstance(value.type, VectorType) else ()
        return flat_shape(sizes) if known is None and sizes and not self.of_lanes else known

    def layout(self, value: SSAValue) -> Layout | None:
        """Layout of a vector, if it is known."""
        return self._fact(value).layout

    def _fact(self, value: SSAValue) -> Fact:
        return self._known.setdefault(self._webs.root(value), Fact())

    def _is(self, value: SSAValue, shape: Pair | None, layout: object = None) -> None:
        """Record the block and layout of a value's web."""
        fact = self._fact(value)
        fact.shape = fact.shape or shape
        if isinstance(layout, SliceAttr):
            layout = reduced_layout(layout)
        if isinstance(layout, LayoutAttr) and layout.data.sg_layout:
            fact.layout = fact.layout or layout.data

    def _note(self, operation: Operation) -> None:
        """Record the facts that an operation determines."""
        for result in operation.results:
            if isinstance(result.type, VectorType) and RESULT in operation.attributes:
                self._is(result, None, operation.attributes[RESULT])
        if isinstance(operation, ops.LoadNdOp):
            self._load(operation)
        elif isinstance(operation, ops.StoreNdOp):
            desc = desc_of(operation.desc)
            shape = flat_shape(desc.shape) if self.of_lanes else _pair(desc.shape)
            self._is(operation.value, shape, operation.layout or desc.layout)
        elif isinstance(operation, ops.DpasOp):
            self._product(operation)
        elif isinstance(operation, TransposeOp):
            self._transposed(operation)
        elif isinstance(operation, ops.ConvertLayoutOp):
            self._is(operation.source, None, operation.input_layout)
            self._is(operation.result, None, operation.target_layout)
        elif isinstance(operation, (LoadOp, StoreOp, LoadMatrixOp, StoreMatrixOp)):
            loads = isinstance(operation, (LoadOp, LoadMatrixOp))
            moved = operation.result if loads else operation.value  # type: ignore[union-attr]
            fragment = self.of_lanes and isinstance(operation, (LoadMatrixOp, StoreMatrixOp)) and \
                isinstance(moved.type, VectorType)
            self._is(moved, (prod(shape_of(moved)), LANES) if fragment else None, operation.layout)
            if isinstance(operation, (LoadOp, StoreOp)) and not self.of_lanes:
                self._positions(operation, moved)
        elif isinstance(operation, (MultiReductionOp, BroadcastOp, ShapeCastOp)) and not self.of_lanes:
            self._infer_reshaped(operation)

    def _transposed(self, operation: TransposeOp) -> None:
        """Propagate a layout between a transpose and its operand."""
        for known, other in ((operation.result, operation.source), (operation.source, operation.result)):
            layout = self.layout(known)
            if layout is not None and len(layout.sg_layout or ()) == 2:
                self._is(other, None, LayoutAttr(exchanged_layout(layout)))

    def _positions(self, operation: LoadOp | StoreOp, moved: SSAValue) -> None:
        """Record the layout of offsets and mask, that of the elements; of chunks they have a row for each."""
        if not isinstance(operation.offsets.type, VectorType):
            return
        shape, layout = None, self.layout(moved)
        if operation.chunk > 1:
            shape = operation.offsets.type.get_shape()[0], 1
            if layout is not None and layout.sg_data is not None:
                layout = Layout(layout.sg_layout, (layout.sg_data[0], 1), order=layout.order)
        for value in (operation.offsets, operation.mask):
            self._is(value, shape, layout and LayoutAttr(layout))

    def _load(self, operation: ops.LoadNdOp) -> None:
        """Record the facts of a load or store."""
        desc = desc_of(operation.desc)
        shape = _pair(operation.result.type.get_shape()) if desc.block.array_length > 1 and \
            len(operation.result.type.get_shape()) == len(desc.shape) else \
            flat_shape(desc.shape) if self.of_lanes else _pair(desc.shape)
        transposed = shape and operation.transpose is not None
        self._is(operation.result, shape[::-1] if transposed and shape else shape, operation.layout or desc.layout)

    def _product(self, operation: ops.DpasOp) -> None:
        """Record the facts of a ``dpas``."""
        if len(shape_of(operation.result)) == 1:  # fragments: a column a lane, and as many rows as elements
            rows, part = shape_of(operation.result)[0], shape_of(operation.a)[0]
            if (inner := part * LANES // rows) and inner * rows == part * LANES:
                self._is(operation.a, (rows, inner))
                self._is(operation.b, (inner, LANES))
        a, b = self.shape(operation.a), self.shape(operation.b)
        self._is(operation.result, (a[0], b[1]) if a and b else None, operation.layout_cd)
        self._is(operation.a, None, operation.layout_a)
        self._is(operation.b, None, operation.layout_b)

    def _unreduced(self, operation: MultiReductionOp, shape: Pair, axis: int) -> None:
        """Propagate the layout of a reduction's result to its operand: a store's layout is an anchor."""
        known = self.layout(operation.result)
        if known is not None and (layout := _unreduced_layout(known, shape, axis)) is not None:
            self._is(operation.source, None, LayoutAttr(layout))

    def _infer_reshaped(self, operation: MultiReductionOp | BroadcastOp | ShapeCastOp) -> None:
        """Record the facts of other operations; a reduced vector keeps both dimensions, one of them 1."""
        source = operation.source
        if isinstance(operation, MultiReductionOp):
            shape = self.shape(source)
            if shape is None or len(source.type.get_shape()) != 2 or len(operation.axes) != 1:  # type: ignore
                return
            rows, columns = (1 if axis in operation.axes else size for axis, size in enumerate(shape))
            self._is(operation.result, (rows, columns))
            self._unreduced(operation, shape, operation.axes[0])
        elif isinstance(operation, ShapeCastOp) and isinstance(operation.result.type, VectorType):
            sizes = operation.result.type.get_shape()
            if len(source.type.get_shape()) == 1 and prod(sizes) in sizes:  # type: ignore[attr-defined]
                self._is(source, _pair(sizes))
        elif isinstance(operation, BroadcastOp) and isinstance(source.type, VectorType):
            sizes = source.type.get_shape()
            self._is(source, (1, sizes[0]) if len(sizes) == 1 else _pair(sizes))
            known, shape = self.layout(operation.vector), self.shape(source)
            if known is not None and shape is not None and known.sg_data is not None and len(known.sg_data) == 2:
                data = tuple(1 if size == 1 else part for size, part in zip(shape, known.sg_data, strict=True))
                self._is(source, None, LayoutAttr(Layout(known.sg_layout, data, order=known.order)))


def _unreduced_layout(layout: Layout, shape: Pair, axis: int) -> Layout | None:
    """Layout of a vector whose subgroups each have all of ``axis``, by that of its reduction; None if none has."""
    flat = flat_layout(layout, (1, shape[1]) if axis == 0 else (shape[0], 1))
    if flat is None or flat.sg_layout is None or flat.sg_data is None or flat.sg_layout[axis] != 1:
        return None
    data = [shape[axis] if each == axis else size for each, size in enumerate(flat.sg_data)]
    return Layout(flat.sg_layout, tuple(data), order=flat.order)


def divides_by_lanes(operation: Operation) -> bool:
    """Whether an operation makes the number of a subgroup of a thread's."""
    return isinstance(operation, (arith.DivUIOp, arith.DivSIOp)) and number(operation.rhs) == LANES


def _pair(sizes: tuple[int, ...]) -> Pair | None:
    return flat_shape(sizes) if len(sizes) > 1 else None


def flat_layout(layout: Layout, shape: Pair) -> Layout | None:
    """Layout of the block of two dimensions that a vector of any rank is; None where no layout says it."""
    def flat(sizes: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if sizes is None:
            return None
        return (sizes[0], 1) if len(sizes) == 1 and shape[1] == 1 else flat_shape(sizes)

    if len(next(iter(layout.specified.values()), ())) == 2:
        return layout
    if layout.sg_layout is None or prod(layout.sg_layout[:-2]) > 1 or not layout.is_row_major:
        return None
    return Layout(sg_layout=flat(layout.sg_layout), sg_data=flat(layout.sg_data))


def moved_value(operation: Operation) -> SSAValue | None:
    """Vector that a block access loads or stores; None for a prefetch."""
    if isinstance(operation, ops.LoadNdOp):
        return operation.result
    return operation.value if isinstance(operation, ops.StoreNdOp) else None


def _is_fragment(operation: Operation) -> bool:
    """Whether an operation works on the lane's fragment of a block."""
    if isinstance(operation, (ops.LoadNdOp, ops.StoreNdOp)):
        value, desc = operation.result if isinstance(operation, ops.LoadNdOp) else operation.value, \
            desc_of(operation.desc)
        return len(shape_of(value)) < len(desc.shape) or (len(desc.shape) == 1 and shape_of(value) < desc.shape)
    if isinstance(operation, (LoadMatrixOp, StoreMatrixOp)):
        moved = operation.result if isinstance(operation, LoadMatrixOp) else operation.value
        sizes = shape_of(moved) if isinstance(moved.type, VectorType) else ()
        return len(sizes) < len(matrix_of(operation.desc).shape) and prod(sizes) > 1
    if isinstance(operation, (gpu.ThreadIdOp, gpu.LaneIdOp)):
        return not all(divides_by_lanes(use.operation) for use in operation.result.uses)
    return isinstance(operation, ops.DpasOp) and len(operation.result.type.get_shape()) == 1  # type: ignore[attr-defined]


def map_from(layout: Layout | None, shape: Pair) -> WgMap | None:
    """Work-group map of a layout; None if the layout is of one subgroup.

    Raises:
        Invalid: no map does; that of the transposed tile does where :func:`is_column_numbered`.
    """
    if layout is None or layout.sg_layout is None:
        return None
    (rows, columns), data = layout.sg_layout, layout.sg_data
    height, width = data or (max(shape[0] // rows, 1), max(shape[1] // columns, 1))
    if is_column_numbered(layout, shape):
        raise Invalid("XT2405", f"{layout} numbers its subgroups along columns, and a wg_map numbers them along rows\n"
                      "use order = [1, 0]")
    return WgMap((rows, columns) if layout.is_row_major else (rows * columns, 1), (height, width))


def is_column_numbered(layout: Layout | None, shape: Pair) -> bool:
    """Whether subgroups are numbered column by column, where that matters."""
    if layout is None or layout.sg_layout is None or layout.is_row_major or 1 in layout.sg_layout:
        return False
    return layout.sg_data is None or layout.sg_data[1] != shape[1]  # where all share the columns, rows go round


def exchanged_layout(layout: Layout) -> Layout:
    """Layout of the transposed tile in which each subgroup owns the same elements."""
    order = layout.order or (1, 0)
    return Layout(layout.sg_layout and layout.sg_layout[::-1], layout.sg_data and layout.sg_data[::-1],
                  order=(1 - order[0], 1 - order[1]))


def reduced_layout(slice_: SliceAttr) -> LayoutAttr | None:
    """Layout of a reduced vector that keeps its dimensions, with size 1; None for a slice of another slice."""
    parent = slice_.data.parent
    if not isinstance(parent, LayoutAttr) or parent.data.sg_data is None:
        return None
    layout, dims = parent.data, slice_.data.dims
    data = tuple(1 if axis in dims else size for axis, size in enumerate(parent.data.sg_data))
    return LayoutAttr(Layout(layout.sg_layout, data, order=layout.order))


def transposed_layout(layout: Layout) -> Layout:
    """Layout of the transposed tile, whose subgroups are numbered row by row."""
    return Layout(sg_layout=layout.sg_layout and layout.sg_layout[::-1],
                  sg_data=layout.sg_data and layout.sg_data[::-1])
