"""Redistribution through shared local memory (XeTile.md, ``tile_conv_layout``, ``tile_transpose``, ``tile_reduce``).

    %w = tile_conv_layout %v {wg_map = #T}                                       %v has the map #S
becomes
    gpu.barrier
    store_tile %v_part, (init_tile %slm[offsets by #S])
    gpu.barrier
    %w_part = load_tile (init_tile %slm[offsets by #T])

Where every subgroup has its blocks of the new map already, nothing is exchanged. A tile that is larger than shared
local memory goes through it slab by slab, and a subgroup takes part where its blocks lie in the slab. A value that is
only reduced is not moved: each subgroup reduces its own blocks, and partial results go through shared local memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm, prod

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import MemRefType, VectorType, bf16, f16, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xegpu.analysis.webs import Webs
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import SHARED_SPACE
from xegpu.mlir.arith import CmpIOp
from xegpu.mlir.combining_kind import combined, keep_nnan
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule
from xegpu.support.errors import TargetError
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.types import TileParameters, TileType
from xetile.dialect.vector import TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes.wg_offsets import Distributed, local_blocks, offset


class DistributeSubgroupsRewriter(Rewriter):
    """The pass's rewriter of one function, with its buffers in shared local memory.

    Attributes:
        target: how much shared local memory there is.
        tiles: tiles, each with those it is moved and carried into.
        allocated: bytes of shared local memory that are allocated already.
        layout: rows and columns of subgroups in the first of the kernel's maps, None where it has none.
        replicated_stores: stores that wait for all subgroups.
    """

    def __init__(self, rules: dict[type[Operation], Rule], target: Target, tiles: Webs, allocated: int,
                 layout: Pair | None, replicated_stores: frozenset[Operation]) -> None:
        super().__init__(rules)
        self.target, self.tiles, self.allocated, self.layout = target, tiles, allocated, layout
        self.replicated_stores = replicated_stores
        self._buffers: dict[tuple[Pair, Attribute], SSAValue] = {}

    def free(self, shape: Pair, element: Attribute, share: int = 1) -> bool:
        """Whether a buffer of ``shape`` fits into ``1 / share`` of the memory that is left, or is there already."""
        bytes_ = prod(shape) * of_mlir(element).bytes
        return self.has_buffer(shape, element) or share * bytes_ <= self.target.slm_bytes - self.allocated

    def has_buffer(self, shape: Pair, element: Attribute) -> bool:
        """Whether there is a buffer of ``shape`` already."""
        return (shape, element) in self._buffers

    def buffer(self, shape: Pair, element: Attribute) -> SSAValue:
        """An array of ``shape`` in shared local memory, shared by all exchanges of that shape and element type."""
        if (shape, element) not in self._buffers:
            operation = memref.AllocOp([], [], MemRefType(element, shape, memory_space=SHARED_SPACE))
            operation.memref.name_hint = "exchanged"
            self._at_head(operation)
            self._buffers[shape, element] = operation.memref
            self.allocated += prod(shape) * of_mlir(element).bytes
        return self._buffers[shape, element]

    def only_if(self, conditions: Sequence[SSAValue], then: Callable[[], SSAValue | None],
                otherwise: SSAValue | None = None) -> SSAValue | None:
        """``scf.if``: ``then``'s value if all conditions hold, else ``otherwise``; just ``then`` without conditions."""
        if not conditions:
            return then()
        condition = conditions[0]
        for operand in conditions[1:]:
            condition = self.emit(arith.AndIOp(condition, operand))
        block, location = Block(), self.location
        self.blocks.append(block)
        self._known.append({})
        value = then()
        self._known.pop()
        self.blocks.pop()
        block.add_op(scf.YieldOp(*([] if value is None else [value])))
        if value is None or otherwise is None:
            self.emit(scf.IfOp(condition, [], Region(block)))
            return None
        self.location = location
        rest = Region(Block([scf.YieldOp(otherwise)]))
        return self.emit(scf.IfOp(condition, [value.type], Region(block), rest))


def barrier(rewriter: Rewriter) -> None:
    """Wait for every subgroup of the work-group."""
    rewriter.emit(gpu.BarrierOp())  # type: ignore[no-untyped-call]


def conv_layout(rewriter: DistributeSubgroupsRewriter, operation: TileConvLayoutOp) -> None:
    """``tile_conv_layout``: another map for the same values."""
    source = rewriter.lookup(operation.source)
    if source.encoding is None or operation.wg_map is None:
        rewriter.copy(operation)
        return
    if all(isinstance(use.operation, TileReduceOp) for use in operation.result.uses):
        rewriter.converted_values[operation.result] = source  # the reduction exchanges its partial results instead
        return
    target = Distributed(operation.wg_map.data, source.encoding.shape)
    rewriter.set(operation.result, redistributed(rewriter, source, target), target)


def transpose(rewriter: DistributeSubgroupsRewriter, operation: TileTransposeOp) -> None:
    """``tile_transpose``: each subgroup transposes its own blocks if these are the blocks of the result's map."""
    source = rewriter.lookup(operation.source)
    if source.encoding is None or operation.wg_map is None:
        rewriter.copy(operation)
        return
    target = Distributed(operation.wg_map.data, shape_of(operation.result))  # type: ignore[arg-type]
    if source.encoding.transposed:
        values = tuple(rewriter.emit(TileTransposeOp(value)) for value in source.values)
    else:
        values = redistributed(rewriter, source, target, transposed=True)
    rewriter.set(operation.result, values, target)


def broadcast(rewriter: DistributeSubgroupsRewriter, operation: TileBroadcastOp) -> None:
    """``tile_broadcast``: each subgroup broadcasts the part of the row or column along its block."""
    source = rewriter.lookup(operation.source)
    if source.encoding is None or operation.wg_map is None:
        rewriter.copy(operation)
        return
    axes = axes_of(operation)
    target = Distributed(operation.wg_map.data, shape_of(operation.result))  # type: ignore[arg-type]
    narrow = [[_along(origin, axes, 0) for origin in origins] for origins in target.block_origins()]
    positions = local_blocks(source.encoding.block_origins(), narrow)
    data = _along(target.wg_map.sg_data, axes, 1)
    assert positions is not None, "the verifier compares the maps"
    assert source.encoding.wg_map.sg_data == data, "the verifier compares the maps"
    values = tuple(rewriter.emit(TileBroadcastOp(source.values[index], target.wg_map.sg_data, axes))
                   for index in positions)
    rewriter.set(operation.result, values, target)


def _along(pair: Pair, axes: Sequence[int], value: int) -> Pair:
    """A pair with ``value`` at some of its axes."""
    rows, columns = (value if axis in axes else size for axis, size in enumerate(pair))
    return rows, columns


def reduce(rewriter: DistributeSubgroupsRewriter, operation: TileReduceOp) -> None:
    """``tile_reduce``: each subgroup reduces its blocks, then all partial results, through shared local memory."""
    source = rewriter.lookup(operation.source)
    if source.encoding is None or operation.wg_map is None:
        rewriter.copy(operation)
        return
    target = Distributed(operation.wg_map.data, shape_of(operation.result))  # type: ignore[arg-type]
    element: Attribute = operation.result.type.element_type  # type: ignore[attr-defined]
    accumulator = f32 if operation.kind.data in ("add", "mul") and element in (f16, bf16) else element
    axes = axes_of(operation)
    values = ConvertedValues(tuple(_cast(rewriter, value, accumulator) for value in source.values), source.encoding)
    for axis in axes:
        values = _reduce_own_blocks(rewriter, operation, values, axis)
        if values.encoding.shape[axis] > 1:
            values = _reduce_partial_results(rewriter, operation, values, axis, target if axis == axes[-1] else None)
    parts = redistributed(rewriter, values, target)
    rewriter.set(operation.result, tuple(_cast(rewriter, value, element) for value in parts), target)


def _cast(rewriter: DistributeSubgroupsRewriter, value: SSAValue, element: Attribute) -> SSAValue:
    """A value in another float type: partial sums of narrow floats are kept in f32, and rounded once at the end."""
    type_ = value.type
    assert isinstance(type_, VectorType)
    if type_.element_type == element:
        return value
    kind = arith.ExtFOp if element == f32 else arith.TruncFOp
    return rewriter.emit(kind(value, VectorType(element, type_.get_shape())))


def _reduce_own_blocks(rewriter: DistributeSubgroupsRewriter, operation: TileReduceOp, values: ConvertedValues,
                       axis: int) -> ConvertedValues:
    """Reduction of each subgroup's blocks along an axis; the result has a column (or row) for each owner."""
    form: Distributed = values.encoding
    lines: dict[int, list[SSAValue]] = {}
    for position, value in zip(form.rounds, values.values, strict=True):
        lines.setdefault(position[1 - axis], []).append(value)
    reduced = []
    for block, *rest in lines.values():
        for operand in rest:
            block = rewriter.emit(combined(operation.kind.data, block, operand))
        reduced.append(rewriter.emit(keep_nnan(TileReduceOp(operation.kind.data, block, [axis]), operation)))
    form = Distributed(form.wg_map.collapsed([axis]), _along(form.shape, [axis], form.owners(axis)))
    return ConvertedValues(tuple(reduced), form)


def _reduce_partial_results(rewriter: DistributeSubgroupsRewriter, operation: TileReduceOp, values: ConvertedValues,
                            axis: int, target: Distributed | None) -> ConvertedValues:
    """Reduction of all owners' partial results along ``axis``, in each subgroup for its blocks of ``target``."""
    form: Distributed = values.encoding
    map_ = form.wg_map if target is None else target.wg_map
    line_map = WgMap(map_.sg_layout, _along(map_.sg_data, [axis], form.shape[axis]))
    loaded = redistributed(rewriter, values, Distributed(line_map, form.shape))
    reduced = tuple(rewriter.emit(keep_nnan(TileReduceOp(operation.kind.data, value, [axis]), operation))
                    for value in loaded)
    return ConvertedValues(reduced, Distributed(map_.collapsed([axis]), _along(form.shape, [axis], 1)))


def redistributed(rewriter: DistributeSubgroupsRewriter, source: ConvertedValues, target: Distributed, *,
               transposed: bool = False) -> tuple[SSAValue, ...]:
    """The parts of a value under another map: local if every subgroup has them, else through shared local memory.

    Args:
        rewriter: the rewrite.
        source: the value's parts, with an encoding :class:`Distributed`.
        target: the new encoding.
        transposed: whether ``target`` is an encoding of the transposed value.

    Raises:
        TargetError: blocks of the two maps do not fit into shared local memory together.
    """
    positions = _local_positions(source.encoding, target, transposed)
    if positions is not None:
        values = [source.values[index] for index in positions]
        transpose = TileTransposeOp
        return tuple(rewriter.emit(transpose(value)) for value in values) if transposed else tuple(values)
    return _through_slm(rewriter, source, target, transposed)


def is_local(form: Distributed, target: Distributed) -> bool:
    """Whether each subgroup has all its blocks of the transpose already."""
    return _local_positions(form, target, True) is not None


def _local_positions(form: Distributed, target: Distributed, transposed: bool) -> list[int] | None:
    """Positions of a subgroup's target blocks among its own; None if some subgroup lacks one."""
    if _swapped(target.wg_map.sg_data, transposed) != form.wg_map.sg_data:
        return None
    required = [[_swapped(origin, transposed) for origin in origins] for origins in target.block_origins()]
    return local_blocks(form.block_origins(), required)


def _swapped(pair: Pair, transposed: bool) -> Pair:
    return (pair[1], pair[0]) if transposed else pair


def _through_slm(rewriter: DistributeSubgroupsRewriter, source: ConvertedValues, target: Distributed,
                 transposed: bool) -> tuple[SSAValue, ...]:
    form: Distributed = source.encoding
    element: Attribute = source.values[0].type.element_type  # type: ignore[attr-defined]
    data = _swapped(target.wg_map.sg_data, transposed)
    slab = _slab(rewriter, form, data, element)
    untouched = not rewriter.has_buffer(slab, element) and len(rewriter.blocks) == 1
    array = rewriter.buffer(slab, element)
    parts: list[SSAValue] = []
    for row in range(0, form.shape[0], slab[0]):
        for column in range(0, form.shape[1], slab[1]):
            buffer = _SlmSlab(rewriter, array, form.shape, slab, (row, column))
            if not untouched:  # other subgroups may still read the slab before
                barrier(rewriter)
            untouched = False
            for value, round_ in zip(source.values, form.rounds, strict=True):
                buffer.store(value, (offset(rewriter, form, 0, round_[0]), offset(rewriter, form, 1, round_[1])))
            barrier(rewriter)
            loaded = []
            for position, round_ in enumerate(target.rounds):
                start = offset(rewriter, target, 0, round_[0]), offset(rewriter, target, 1, round_[1])
                before = parts[position] if parts else None
                loaded.append(buffer.load(data, (start[1], start[0]) if transposed else start, before))
            parts = loaded
    return tuple(rewriter.emit(TileTransposeOp(part)) for part in parts) if transposed else tuple(parts)


def _slab(rewriter: DistributeSubgroupsRewriter, form: Distributed, data: Pair, element: Attribute) -> Pair:
    """Shape of the largest part that fits into shared local memory and divides no block of either map.

    It takes at most half of the free memory, if a part of that size exists, so that later exchanges find room, too.
    """
    steps = [lcm(form.wg_map.sg_data[axis], data[axis]) for axis in (0, 1)]
    sizes = [[size for size in range(step, extent + 1, step) if extent % size == 0]
             for step, extent in zip(steps, form.shape, strict=True)]
    fitting = [(h, w) for h in sizes[0] for w in sizes[1] if rewriter.free((h, w), element)]
    if not fitting:
        bytes_ = steps[0] * steps[1] * of_mlir(element).bytes
        target = rewriter.target
        raise TargetError("XT2521",
                          f"distributing {form} in blocks of {tile_ops.text(data)} takes {bytes_} bytes of shared "
                          f"local memory, and {target.slm_bytes - rewriter.allocated} of {target.name}'s "
                          f"{target.slm_bytes} are left",
                          "choose an sg_data that divides the other's, so that smaller parts fit",
                          rewriter.where())
    half = [shape for shape in fitting if rewriter.free(shape, element, share=2)]
    return max(half or fitting, key=lambda shape: (prod(shape), shape[1]))


class _SlmSlab:
    """A slab of a distributed value in shared local memory.

    Args:
        rewriter: the rewrite.
        array: the slab's array.
        extent: shape of the value.
        shape, origin: of the slab.
    """

    def __init__(self, rewriter: DistributeSubgroupsRewriter, array: SSAValue, extent: Pair, shape: Pair,
                 origin: Pair) -> None:
        self.rewriter, self.array, self.extent, self.shape, self.origin = rewriter, array, extent, shape, origin

    def store(self, value: SSAValue, start: tuple[SSAValue, SSAValue]) -> None:
        """Store a block if it lies in the slab."""
        rewriter = self.rewriter

        def then() -> None:
            rewriter.emit(tile_ops.StoreTileOp(value, self._tile(value.type.get_shape(), start)))  # type: ignore[attr-defined]

        rewriter.only_if(self._in_slab(start), then)

    def load(self, shape: Pair, start: tuple[SSAValue, SSAValue], before: SSAValue | None) -> SSAValue:
        """Load a block if it lies in the slab, else keep ``before``.

        Without ``before`` it is loaded unconditionally: elements outside the slab are zeros.
        """
        rewriter, conditions = self.rewriter, self._in_slab(start) if before is not None else []
        value = rewriter.only_if(conditions, lambda: rewriter.emit(tile_ops.LoadTileOp(self._tile(shape, start))),
                                 before)
        assert value is not None
        return value

    def _tile(self, shape: Pair, start: tuple[SSAValue, SSAValue]) -> SSAValue:
        rewriter = self.rewriter
        offsets = [rewriter.add(at, -first) for at, first in zip(start, self.origin, strict=True)]
        parameters = TileParameters(shape, self.array.type.element_type)  # type: ignore[attr-defined]
        return rewriter.emit(tile_ops.InitTileOp(self.array, offsets, [], [], TileType(parameters)))

    def _in_slab(self, start: tuple[SSAValue, SSAValue]) -> list[SSAValue]:
        """Conditions for a block to lie in the slab: none along an axis that the slab covers completely."""
        rewriter, conditions = self.rewriter, []
        for at, first, size, extent in zip(start, self.origin, self.shape, self.extent, strict=True):
            if size < extent:
                relative = rewriter.add(at, -first)
                conditions.append(rewriter.emit(CmpIOp(relative, rewriter.constant(size), "ult")))
        return conditions
