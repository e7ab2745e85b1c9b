"""Shape casts of tiles through shared local memory.

    %w = vector.shape_cast %v {wg_map = #w} : vector<8x64xf32> to vector<16x32xf32>
becomes
    %s = memref.alloc() : memref<8x64xf32, 3>                                           at the head of the kernel
    gpu.barrier
    xetile.store_tile %v, (xetile.init_tile %s, [0, 0])
    gpu.barrier
    %w = xetile.load_tile (xetile.init_tile %s, [0, 0], [16, 32], [32, 1])

Where tiles are not distributed, each subgroup has a part of the array of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith, func, gpu, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StridedLayoutAttr,
    VectorType,
)
from xdsl.ir import Operation, SSAValue

from xegpu.ir.kernel_attributes import SUBGROUPS
from xegpu.ir.memref import SHARED_SPACE
from xegpu.mlir.vector import ShapeCastOp
from xegpu.rewrite.dce import erase
from xetile.dialect.tile_ops import InitTileOp, LoadTileOp, StoreTileOp
from xetile.dialect.types import TileEncoding, TileParameters, TileType, WgMapAttr
from xetile.dialect.wg_map import Pair, WgMap
from xetile.dialect.wg_map_inference import map_of
from xetile.text.canonicalize.diagnostics import fail_at
from xetile.text.gpu_module import counts_threads


def is_reshape(operation: Operation) -> bool:
    """Whether an operation is a cast between shapes of two dimensions."""
    return isinstance(operation, ShapeCastOp) and all(
        isinstance(value.type, VectorType) and len(value.type.get_shape()) == 2
        for value in (operation.source, operation.result))


def lower_reshape(function: func.FuncOp, cast: ShapeCastOp) -> None:
    """Replace a cast of a tile by a store to and a load from shared local memory.

    Args:
        function: the kernel.
        cast: the cast; its attribute ``wg_map`` is the map of the result.

    Raises:
        TextError: one side has a map and the other not; or it is not known how many subgroups store.
    """
    _Reshape(function, cast).lower()


class _Reshape:
    """Lowering of one cast."""

    def __init__(self, function: func.FuncOp, cast: ShapeCastOp) -> None:
        self._function, self._cast = function, cast
        map_ = cast.attributes.get("wg_map")
        self._maps = map_of(cast.source), map_.data if isinstance(map_, WgMapAttr) else None

    def lower(self) -> None:
        """Insert the operations, and erase the cast."""
        source, target = self._maps
        if (source is None) != (target is None):
            fail_at(self._cast, "XT2622", f"its source is distributed as {source}, and its result as {target}",
                    "give both a wg_map, or neither: how a tile of another shape is distributed is not derived")
        count = 1 if source is not None else self._subgroups()
        before, after = self._cast.source.type, self._cast.result.type
        assert isinstance(before, VectorType)
        assert isinstance(after, VectorType)
        small, large = ((shape[0], shape[1]) for shape in (before.get_shape(), after.get_shape()))
        element = before.element_type
        array = memref.AllocOp([], [], MemRefType(element, (count * small[0], small[1]),
                                                  memory_space=SHARED_SPACE))
        array.location = self._cast.location
        first = self._function.body.block.first_op
        assert first is not None
        self._function.body.block.insert_op_before(array, first)
        self._emit(gpu.BarrierOp())  # type: ignore[no-untyped-call]
        offsets = self._offsets(count, small[0])
        tile = self._emit(InitTileOp(array.memref, offsets, [], [], self._tile(small, element, source))).results[0]
        self._emit(StoreTileOp(self._cast.source, tile))
        self._emit(gpu.BarrierOp())  # type: ignore[no-untyped-call]
        any_ = MemRefType(element, [DYNAMIC_INDEX] * 2, StridedLayoutAttr([None] * 2), SHARED_SPACE)
        view = self._emit(memref.CastOp.get(array.memref, any_)).results[0]
        sizes, strides = ([self._number(n) for n in numbers] for numbers in
                          ((count * large[0], large[1]), (large[1], 1)))
        moved = self._emit(InitTileOp(view, self._offsets(count, large[0]), sizes, strides,
                                      self._tile(large, element, target))).results[0]
        loaded = self._emit(LoadTileOp(moved)).results[0]
        loaded.name_hint = self._cast.result.name_hint
        self._cast.result.replace_all_uses_with(loaded)
        erase(self._cast)

    @staticmethod
    def _tile(shape: Pair, element: object, map_: WgMap | None) -> TileType:
        return TileType(TileParameters(shape, element, TileEncoding(wg_map=map_)))  # type: ignore[arg-type]

    def _subgroups(self) -> int:
        """Subgroups of a work-group, each of which has a tile of its own."""
        known = self._function.attributes.get(SUBGROUPS)
        if isinstance(known, ArrayAttr):
            return prod(size.value.data for size in known)
        if counts_threads(self._function) is not None:
            fail_at(self._cast, "XT2623",
                    "each subgroup casts a tile of its own through shared local memory, and nothing says how many a "
                    "work-group has", "give the gpu.func the attribute known_block_size = "
                    "array<i32: 8, 4, 1>")
        return 1

    def _offsets(self, count: int, rows: int) -> Sequence[SSAValue]:
        zero = self._number(0)
        if count == 1:
            return [zero, zero]
        subgroup = self._emit(gpu.SubgroupIdOp()).results[0]  # type: ignore[no-untyped-call]
        return [self._emit(arith.MuliOp(subgroup, self._number(rows))).results[0], zero]

    def _number(self, number: int) -> SSAValue:
        return self._emit(arith.ConstantOp(IntegerAttr(number, IndexType()))).results[0]

    def _emit(self, operation: Operation) -> Operation:
        operation.location = self._cast.location
        assert self._cast.parent is not None
        self._cast.parent.insert_op_before(operation, self._cast)
        return operation
