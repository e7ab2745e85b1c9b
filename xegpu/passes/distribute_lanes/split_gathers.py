"""Gather splitting: scattered descriptors of more elements than lanes become several (XeGPU.md, ``create_tdesc``).

    %o = vector.shape_cast %offsets : vector<1x32xindex> to vector<32xindex>
    %d = create_tdesc %A, %o : memref<256xf32>, vector<32xindex> -> tensor_desc<32x2xf32, #scatter>
    %v = load_gather %d, %m : tensor_desc<32x2xf32, #scatter>, vector<32xi1> -> vector<2x32xf32>
becomes, over 16 lanes, and so for elements 16 to 31 with %o1, %d1 and %m1
    %s0 = vector.extract_strided_slice %offsets {offsets = [0, 0], sizes = [1, 16]} : ... to vector<1x16xindex>
    %o0 = vector.shape_cast %s0 : vector<1x16xindex> to vector<16xindex>
    %d0 = create_tdesc %A, %o0 : memref<256xf32>, vector<16xindex> -> tensor_desc<16x2xf32, #scatter>
    %v0 = load_gather %d0, %m0 : tensor_desc<16x2xf32, #scatter>, vector<16xi1> -> vector<2x16xf32>
    %v = vector.insert_strided_slice of %v0 at [0, 0] and %v1 at [0, 16] : vector<2x32xf32>

The lines of 1, 2, 4, 8, 16 and 32 elements that the document allows so fit every subgroup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import func, ub
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, SSAValue

from xegpu.dialect.block_io import desc_of
from xegpu.dialect.gather_scatter import (
    CreateTdescOp,
    LoadGatherOp,
    StoreScatterOp,
    scatter_of,
)
from xegpu.dialect.hints import hinted
from xegpu.dialect.types import TensorDescType
from xegpu.ir.kernel_attributes import SUBGROUP_SIZE
from xegpu.ir.traversal import operations
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp, shape_of, vector_type
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xegpu.target.targets import Target

_CUT = "cut"
"""The form of a line that became several."""


@dataclass(frozen=True)
class SplitGathers:
    """Pass ``split-gathers``.

    Attributes:
        target: its subgroup size is the most elements that a descriptor keeps.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with descriptors of at most as many elements as lanes; itself if it has no larger ones."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        lanes = self.target.subgroup_size
        if SUBGROUP_SIZE in function.attributes or not any(
                _is_long(result.type, lanes) for operation in operations(function) for result in operation.results):
            return function
        return _SplitGathersRewriter(lanes).function(function)


def _is_long(type_: Attribute, subgroup: int) -> bool:
    return type(type_) is TensorDescType and type_.data.scatter is not None and type_.data.shape[0] > subgroup


class _SplitGathersRewriter(Rewriter):
    """Rewriter of one function."""

    keeps_unused = True

    def __init__(self, subgroup: int) -> None:
        super().__init__({BroadcastOp: _broadcast, ShapeCastOp: _shape_cast, CreateTdescOp: _create_tdesc,
                          LoadGatherOp: _load_gather, StoreScatterOp: _store_scatter})
        self.subgroup = subgroup

    def together(self, *operands: SSAValue) -> Iterator[tuple[SSAValue, ...]]:
        """Converted operands, part by part."""
        return zip(*(self.lookup(operand).values for operand in operands), strict=True)

    def corners(self, shape: Sequence[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """First row and column, and the shape, of each part of a block that is seen as one line, in its order."""
        columns = shape[1]
        part = (max(1, self.subgroup // columns), min(columns, self.subgroup))
        for first in range(0, shape[0] * columns, self.subgroup):
            yield divmod(first, columns), part

    def joined(self, parts: Sequence[SSAValue], corners: Sequence[tuple[int, int]], shape: Sequence[int]) -> SSAValue:
        """A block of parts."""
        type_ = parts[0].type
        assert isinstance(type_, VectorType)
        whole: SSAValue = self.emit(ub.PoisonOp(vector_type(shape, type_.element_type)))
        for part, corner in zip(parts, corners, strict=True):
            whole = self.emit(InsertStridedSliceOp(part, whole, corner))
        return whole


def _broadcast(rewriter: _SplitGathersRewriter, operation: BroadcastOp) -> None:
    """A line of one value: the same short one for each part."""
    type_ = operation.vector.type
    shape = shape_of(operation.vector)
    if len(shape) != 1 or shape[0] <= rewriter.subgroup or not isinstance(type_, VectorType):
        rewriter.copy(operation)
        return
    part = rewriter.emit(BroadcastOp(rewriter.single(operation.source), vector_type((rewriter.subgroup,),
                                                                                    type_.element_type)))
    rewriter.set(operation.vector, (part,) * (shape[0] // rewriter.subgroup), _CUT)


def _shape_cast(rewriter: _SplitGathersRewriter, operation: ShapeCastOp) -> None:
    """A block as a line, and a line as a block."""
    source, result = shape_of(operation.source), shape_of(operation.result)
    if len(result) == 1 and result[0] > rewriter.subgroup:
        block = rewriter.single(operation.source)
        slices = [rewriter.emit(ExtractStridedSliceOp(block, *corner)) for corner in rewriter.corners(source)]
        rewriter.set(operation.result, tuple(rewriter.emit(ShapeCastOp(part,
                                                                       (rewriter.subgroup,))) for part in slices), _CUT)
    elif len(source) == 1 and source[0] > rewriter.subgroup:
        corners, parts = list(rewriter.corners(result)), rewriter.lookup(operation.source).values
        blocks = [rewriter.emit(ShapeCastOp(part, size)) for part, (_, size) in zip(parts, corners, strict=True)]
        rewriter.set(operation.result, rewriter.joined(blocks, [corner for corner, _ in corners], result))
    else:
        rewriter.copy(operation)


def _create_tdesc(rewriter: _SplitGathersRewriter, operation: CreateTdescOp) -> None:
    if not _is_long(operation.result.type, rewriter.subgroup):
        rewriter.copy(operation)
        return
    source, desc = rewriter.single(operation.source), operation.result.type
    assert isinstance(desc, TensorDescType)
    part = desc.with_(shape=(rewriter.subgroup, *desc.data.shape[1:]))
    rewriter.set(operation.result, tuple(rewriter.emit(CreateTdescOp(source, offsets, part))
                                      for (offsets,) in rewriter.together(operation.offsets)), _CUT)


def _load_gather(rewriter: _SplitGathersRewriter, operation: LoadGatherOp) -> None:
    desc = desc_of(operation.desc)
    parts = tuple(rewriter.emit(hinted(LoadGatherOp(part, mask, operation.padding), operation))
                  for part, mask in rewriter.together(operation.desc, operation.mask))
    if scatter_of(desc).chunk_size == 1 or len(parts) == 1:
        rewriter.set(operation.result, parts, rewriter.lookup(operation.desc).encoding)
        return
    corners = [(0, first) for first in range(0, desc.shape[0], rewriter.subgroup)]
    rewriter.set(operation.result, rewriter.joined(parts, corners, shape_of(operation.result)))


def _store_scatter(rewriter: _SplitGathersRewriter, operation: StoreScatterOp) -> None:
    desc, values = desc_of(operation.desc), rewriter.lookup(operation.value).values
    descs = rewriter.lookup(operation.desc).values
    if len(descs) > len(values):  # a chunk's elements are rows of a block
        size = (scatter_of(desc).chunk_size, rewriter.subgroup)
        values = tuple(rewriter.emit(ExtractStridedSliceOp(values[0], (0, first), size))
                       for first in range(0, desc.shape[0], rewriter.subgroup))
    for value, part, mask in zip(values, descs, rewriter.lookup(operation.mask).values, strict=True):
        rewriter.emit(hinted(StoreScatterOp(value, part, mask), operation))
