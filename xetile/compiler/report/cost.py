"""Cost of a recorded kernel: operations and bytes of a loop iteration, for one product or a kernel without loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import VectorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.dialect.scalar import LoadScalarOp
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.ir.matchers import number
from xegpu.ir.memref import is_shared
from xegpu.ir.region_branch import for_loops
from xegpu.ir.use_def import array_of
from xegpu.mlir.vector import shape_of
from xetile.dialect.gather_scatter import AtomicRMWTileOp, LoadGatherOp, StoreScatterOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.tile_ops import LoadTileOp, StoreTileOp, flat_shape, tile_of
from xetile.dialect.wg_map import Pair
from xetile.passes.distribute_subgroups import is_distributed, subgroups_of

_SINGLE = (LoadGatherOp, AtomicRMWTileOp, LoadScalarOp)
"""Operations that read single elements."""


@dataclass(frozen=True)
class Work:
    """Cost of one work-group.

    Attributes:
        tile: rows and columns of the result that it writes; None if it writes none, or several of different shapes.
        result: element type of what it writes.
        a, b: element types of the product's operands as they are loaded; None without a product in a loop.
        depth: bits of an element of A as the product takes it.
        step: K of one pass of the recorded loop; 0 where the loop is not one product of the tile.
        loops: loops that are in the kernel.
        flops: operations of the products that one subgroup computes in a pass.
        loaded: bytes that the subgroups load in a pass, or in all where there is no loop.
        distinct: bytes of these that are different ones and not in shared local memory.
        beside: bytes of gathers, numbers and atomic updates in a pass that are not operands of its products.
        once: the same outside the loop, those of scatters included.
        stored: bytes that it writes, in all operations of the kernel once.
    """

    tile: Pair | None
    result: DType | None
    a: DType | None
    b: DType | None
    depth: int
    step: int
    loops: int
    flops: int
    loaded: int
    distinct: int
    beside: int
    once: int
    stored: int

    @property
    def is_product(self) -> bool:
        """Whether the kernel is C = A @ B: one loop along K, and one tile of C."""
        return self.step > 0


def work_of(recorded: func.FuncOp, distributed: func.FuncOp, subgroups: int) -> Work:
    """Cost of one work-group of a kernel.

    Args:
        recorded: the kernel at the stage ``xetile``.
        distributed: the same at the stage ``distribute-subgroups``.
        subgroups: subgroups of a work-group.
    """
    across = (1, 1) if is_distributed(recorded) else subgroups_of(recorded)
    loops, body = _hot(recorded)
    each = 1 if is_distributed(recorded) else prod(across)
    tile, result, stored = _stored(recorded, across)
    products = [op for op in body.walk() if isinstance(op, TileMmaOp)]
    total = sum(map(_flops, products)) * each
    alone = loops == 1 and total > 0
    step, rest = divmod(total, 2 * prod(tile)) if tile and alone else (0, 0)
    a, b = (_loaded_type(products[0].a), _loaded_type(products[0].b)) if products else (None, None)
    return Work(tile, result, a, b, _element_dtype(products[0].a).bits if products else 0, 0 if rest else step, loops,
                sum(_flops(op) for op in _hot(distributed)[1].walk() if isinstance(op, TileMmaOp)),
                _loaded(_hot(distributed)[1]) * subgroups, _loaded(body, memory=True) * each,
                _beside(body) * each, (_beside(recorded) - _beside(body)) * each if loops else 0, stored * each)


def trip_count(recorded: func.FuncOp, shapes: Sequence[Sequence[int | None]]) -> int | None:
    """Trip count of a kernel's hot loop for arrays of these shapes; None if they do not determine it.

    Args:
        recorded: the kernel at the stage ``xetile``.
        shapes: for each argument, the sizes of the array; empty for a number.
    """
    loop = _hot(recorded)[1]
    if not isinstance(loop, scf.ForOp):
        return None
    first, end, step = (_bound(value, shapes) for value in (loop.lb, loop.ub, loop.step))
    return None if first is None or end is None or not step else max(0, -((first - end) // step))


def _bound(value: SSAValue, shapes: Sequence[Sequence[int | None]]) -> int | None:
    """Value of a loop bound: a constant, or the size of an argument; None for others."""
    operation = value.owner
    if not isinstance(operation, memref.ExtractStridedMetaDataOp):
        return number(value)
    array, sizes = operation.source, list[SSAValue](operation.sizes)
    return shapes[array.index][sizes.index(value)] if isinstance(array, BlockArgument) and value in sizes else None


def _hot(function: func.FuncOp) -> tuple[int, Operation]:
    """Number of loops, and the innermost one with products, else the innermost, else the function."""
    loops = for_loops(function)
    with_products = [loop for loop in loops if any(isinstance(op, TileMmaOp) for op in loop.walk())]
    return len(loops), next(reversed(with_products or loops), function)


def _stored(function: func.FuncOp, across: Pair) -> tuple[Pair | None, DType | None, int]:
    """Tile of the result, its type, and the bytes of all stores; adjacent tiles count as one."""
    stores = [tile_of(op.tile) for op in _ops(function, StoreTileOp)]
    shapes = {(tile.shape, tile.dtype) for tile in stores}
    size = sum(_bytes(op) for op in function.walk()
               if isinstance(op, (StoreTileOp, StoreScatterOp, AtomicRMWTileOp)) and not _is_shared(op))
    if len(shapes) != 1 or len(stores) != 1 or any(isinstance(parent, scf.ForOp) for parent in _parents(function)):
        return None, None, size
    (((rows, columns), dtype),) = shapes
    return (rows * across[0], columns * across[1]), dtype, size


def _parents(function: func.FuncOp) -> Iterator[Operation | None]:
    """Operations that contain the stores of a kernel."""
    return (op.parent_op() for op in _ops(function, StoreTileOp))


def _ops(within: Operation, kind: type[StoreTileOp]) -> Iterator[StoreTileOp]:
    return (op for op in within.walk() if isinstance(op, kind))


def _flops(product: TileMmaOp) -> int:
    (rows, depth), columns = flat_shape(shape_of(product.a)), flat_shape(shape_of(product.b))[1]
    return 2 * rows * depth * columns


def _loaded(within: Operation, *, memory: bool = False) -> int:
    """Bytes that operations load, atomic updates included; with ``memory`` not those of shared local memory."""
    return sum(_bytes(op) for op in within.walk()
               if isinstance(op, (LoadTileOp, *_SINGLE)) and not (memory and _is_shared(op)))


def _beside(within: Operation) -> int:
    """Bytes of global memory that move by elements, operands of products excepted; an update reads and writes them."""
    operands = {_load(operand) for op in within.walk() if isinstance(op, TileMmaOp) for operand in (op.a, op.b)}
    moved = [op for op in within.walk() if isinstance(op, (StoreScatterOp, *_SINGLE)) and op not in operands]
    return sum(_bytes(op) * (1 + isinstance(op, AtomicRMWTileOp)) for op in moved if not _is_shared(op))


def _bytes(op: Operation) -> int:
    """Bytes of the elements that an operation accesses."""
    if isinstance(op, LoadScalarOp):
        return of_mlir(op.result.type).bytes
    assert isinstance(op, (LoadTileOp, StoreTileOp, LoadGatherOp, StoreScatterOp, AtomicRMWTileOp))
    tile = tile_of(op.tile)
    return prod(tile.shape) * tile.dtype.bits // 8


def _is_shared(op: Operation) -> bool:
    """Whether an operation accesses shared local memory."""
    return not isinstance(op, LoadScalarOp) and is_shared(array_of(op.tile).type)  # type: ignore[attr-defined]


def _element_dtype(value: SSAValue) -> DType:
    assert isinstance(value.type, VectorType)
    return of_mlir(value.type.element_type)


def _loaded_type(value: SSAValue) -> DType:
    """Element type of an operand in memory: that of its load, through conversions."""
    load = _load(value)
    return _element_dtype(value if load is None else load.results[0])


def _load(value: SSAValue) -> Operation | None:
    """The load or gather of a value, through operations of one vector; None if it has several."""
    found = value
    while isinstance(found.owner, Operation) and not isinstance(found.owner, (LoadTileOp, LoadGatherOp)):
        vectors = [operand for operand in found.owner.operands if isinstance(operand.type, VectorType)]
        if len(vectors) != 1:
            return None
        found = vectors[0]
    return found.owner if isinstance(found.owner, Operation) else None
