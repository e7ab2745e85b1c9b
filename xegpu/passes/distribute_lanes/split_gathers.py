"""Descriptors of more elements than a subgroup has lanes, to several of as many (XeGPU.md, ``create_tdesc``).

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

from xegpu.analysis.simt import SUBGROUP_SIZE
from xegpu.dialect.block_io import desc_of
from xegpu.dialect.gather_scatter import (
    AtomicRMWOp,
    CreateTdescOp,
    LoadGatherOp,
    PrefetchOp,
    StoreScatterOp,
    UpdateOffsetOp,
    scatter_of,
)
from xegpu.dialect.hints import hinted
from xegpu.dialect.types import TensorDescType
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp, shape_of, vector_type
from xegpu.rewrite.rewriter import Rebuilder, rewrite
from xegpu.target.targets import Target

_CUT = "cut"
"""The form of a line that became several."""


@dataclass(frozen=True)
class SplitGathers:
    """The pass.

    Attributes:
        target: its subgroup size is the most elements that a descriptor keeps.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with descriptors of at most as many elements as lanes; itself if it has no larger ones."""
        return rewrite(module, self._function)

    def _function(self, function: func.FuncOp) -> func.FuncOp:
        lanes = self.target.subgroup_size
        if SUBGROUP_SIZE in function.attributes or not any(
                _is_long(result.type, lanes) for operation in function.walk() for result in operation.results):
            return function
        return _Cutter(lanes).function(function)


def _is_long(type_: Attribute, subgroup: int) -> bool:
    return isinstance(type_, TensorDescType) and type_.data.scatter is not None and type_.data.shape[0] > subgroup


class _Cutter(Rebuilder):
    """One function's rewrite."""

    keeps_unused = True

    def __init__(self, subgroup: int) -> None:
        super().__init__({BroadcastOp: _broadcast, ShapeCastOp: _shape_cast, CreateTdescOp: _create_tdesc,
                          UpdateOffsetOp: _update_offset,
                          PrefetchOp: _prefetch, LoadGatherOp: _load_gather, StoreScatterOp: _store_scatter,
                          AtomicRMWOp: _atomic_rmw})
        self.subgroup = subgroup

    def together(self, *operands: SSAValue) -> Iterator[tuple[SSAValue, ...]]:
        """What the operands became, part by part."""
        return zip(*(self.get(operand).values for operand in operands), strict=True)

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


def _broadcast(build: _Cutter, operation: BroadcastOp) -> None:
    """A line of one value: the same short one for each part."""
    type_ = operation.vector.type
    shape = shape_of(operation.vector)
    if len(shape) != 1 or shape[0] <= build.subgroup or not isinstance(type_, VectorType):
        build.copy(operation)
        return
    part = build.emit(BroadcastOp(build.one(operation.source), vector_type((build.subgroup,), type_.element_type)))
    build.set(operation.vector, (part,) * (shape[0] // build.subgroup), _CUT)


def _shape_cast(build: _Cutter, operation: ShapeCastOp) -> None:
    """A block as a line, and a line as a block."""
    source, result = shape_of(operation.source), shape_of(operation.result)
    if len(result) == 1 and result[0] > build.subgroup:
        block = build.one(operation.source)
        slices = [build.emit(ExtractStridedSliceOp(block, *corner)) for corner in build.corners(source)]
        build.set(operation.result, tuple(build.emit(ShapeCastOp(part, (build.subgroup,))) for part in slices), _CUT)
    elif len(source) == 1 and source[0] > build.subgroup:
        corners, parts = list(build.corners(result)), build.get(operation.source).values
        blocks = [build.emit(ShapeCastOp(part, size)) for part, (_, size) in zip(parts, corners, strict=True)]
        build.set(operation.result, build.joined(blocks, [corner for corner, _ in corners], result))
    else:
        build.copy(operation)


def _create_tdesc(build: _Cutter, operation: CreateTdescOp) -> None:
    if not _is_long(operation.result.type, build.subgroup):
        build.copy(operation)
        return
    source, desc = build.one(operation.source), operation.result.type
    assert isinstance(desc, TensorDescType)
    part = desc.with_(shape=(build.subgroup, *desc.data.shape[1:]))
    build.set(operation.result, tuple(build.emit(CreateTdescOp(source, offsets, part))
                                      for (offsets,) in build.together(operation.offsets)), _CUT)


def _update_offset(build: _Cutter, operation: UpdateOffsetOp) -> None:
    parts = tuple(build.emit(UpdateOffsetOp(*each)) for each in build.together(operation.desc, operation.offsets))
    build.set(operation.result, parts, build.get(operation.desc).form)


def _prefetch(build: _Cutter, operation: PrefetchOp) -> None:
    for each in build.together(operation.desc):
        build.emit(hinted(PrefetchOp(*each), operation))


def _load_gather(build: _Cutter, operation: LoadGatherOp) -> None:
    desc = desc_of(operation.desc)
    parts = tuple(build.emit(hinted(LoadGatherOp(part, mask, operation.padding), operation))
                  for part, mask in build.together(operation.desc, operation.mask))
    if scatter_of(desc).chunk_size == 1 or len(parts) == 1:
        build.set(operation.result, parts, build.get(operation.desc).form)
        return
    corners = [(0, first) for first in range(0, desc.shape[0], build.subgroup)]
    build.set(operation.result, build.joined(parts, corners, shape_of(operation.result)))


def _store_scatter(build: _Cutter, operation: StoreScatterOp) -> None:
    desc, values = desc_of(operation.desc), build.get(operation.value).values
    descs = build.get(operation.desc).values
    if len(descs) > len(values):  # a chunk's elements are rows of a block
        size = (scatter_of(desc).chunk_size, build.subgroup)
        values = tuple(build.emit(ExtractStridedSliceOp(values[0], (0, first), size))
                       for first in range(0, desc.shape[0], build.subgroup))
    for value, part, mask in zip(values, descs, build.get(operation.mask).values, strict=True):
        build.emit(hinted(StoreScatterOp(value, part, mask), operation))


def _atomic_rmw(build: _Cutter, operation: AtomicRMWOp) -> None:
    each = build.together(operation.value, operation.desc, operation.mask)
    parts = tuple(build.emit(AtomicRMWOp(operation.kind.data, *operands)) for operands in each)
    build.set(operation.result, parts, build.get(operation.desc).form)
