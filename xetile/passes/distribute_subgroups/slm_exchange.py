"""Work-group values dealt out anew (XeTile.md, ``tile_conv_layout``, ``tile_transpose``, ``tile_reduce``).

    %w = tile_conv_layout %v {wg_map = #T}                                       %v is dealt out by #S
becomes
    gpu.barrier
    store_tile %v_part, (init_tile %slm[offsets by #S])
    gpu.barrier
    %w_part = load_tile (init_tile %slm[offsets by #T])

Where every subgroup holds already what the new map gives it, nothing moves. A tile that is larger than shared local
memory goes through it slab by slab, and a subgroup takes part where its blocks lie in the slab. A value of which only
sums (or other reductions) are wanted is not moved at all: each subgroup reduces what it holds, and partial results go
through shared local memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm, prod

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType, bf16, f16, f32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xegpu.analysis.webs import Webs
from xegpu.ir.combining_kind import combined
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.arith import CmpIOp
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule
from xegpu.support.errors import TargetError
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.types import TileParameters, TileType
from xetile.dialect.vector import TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes.wg_offsets import Distributed, choice, offset

SLM = IntegerAttr(3, i64)
"""The memory space of shared local memory."""


class DistributeSubgroupsRewriter(Rewriter):
    """The state of the pass on one function: the rewrite, and what shared local memory is taken.

    Attributes:
        target: how much shared local memory there is.
        tiles: tiles, each with those it is moved and carried into.
        taken: bytes of shared local memory that are taken already.
        layout: rows and columns of subgroups in the first of the kernel's maps, None where it has none.
    """

    def __init__(self, rules: dict[type[Operation], Rule], target: Target, tiles: Webs, taken: int,
                 layout: Pair | None) -> None:
        super().__init__(rules)
        self.target, self.tiles, self.taken, self.layout = target, tiles, taken, layout
        self._buffers: dict[tuple[Pair, Attribute], SSAValue] = {}

    def free(self, shape: Pair, element: Attribute) -> bool:
        """Whether a buffer of ``shape`` fits into shared local memory, or is there already."""
        bytes_ = prod(shape) * of_mlir(element).bytes
        return self.has_buffer(shape, element) or self.taken + bytes_ <= self.target.slm_bytes

    def has_buffer(self, shape: Pair, element: Attribute) -> bool:
        """Whether there is a buffer of ``shape`` already."""
        return (shape, element) in self._buffers

    def buffer(self, shape: Pair, element: Attribute) -> SSAValue:
        """An array of ``shape`` in shared local memory, shared by everything that passes through one like it."""
        if (shape, element) not in self._buffers:
            operation = memref.AllocOp([], [], MemRefType(element, shape, memory_space=SLM))
            operation.memref.name_hint = "exchanged"
            self._at_head(operation)
            self._buffers[shape, element] = operation.memref
            self.taken += prod(shape) * of_mlir(element).bytes
        return self._buffers[shape, element]

    def only_if(self, conditions: Sequence[SSAValue], then: Callable[[], SSAValue | None],
                otherwise: SSAValue | None = None) -> SSAValue | None:
        """What ``then`` gives where all conditions hold, else ``otherwise``; without conditions simply ``then``."""
        if not conditions:
            return then()
        condition = conditions[0]
        for other in conditions[1:]:
            condition = self.emit(arith.AndIOp(condition, other))
        block, place = Block(), self.place
        self.blocks.append(block)
        self._known.append({})
        value = then()
        self._known.pop()
        self.blocks.pop()
        block.add_op(scf.YieldOp(*([] if value is None else [value])))
        if value is None or otherwise is None:
            self.emit(scf.IfOp(condition, [], Region(block)))
            return None
        self.place = place
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
        rewriter.converted_values[operation.result] = source  # reducing is what exchanges, and exchanges less
        return
    target = Distributed(operation.wg_map.data, source.encoding.shape)
    rewriter.set(operation.result, dealt_anew(rewriter, source, target), target)


def transpose(rewriter: DistributeSubgroupsRewriter, operation: TileTransposeOp) -> None:
    """``tile_transpose``: each subgroup transposes its own blocks if the maps give it the right ones."""
    source = rewriter.lookup(operation.source)
    if source.encoding is None or operation.wg_map is None:
        rewriter.copy(operation)
        return
    target = Distributed(operation.wg_map.data, tile_ops.shape_of(operation.result))  # type: ignore[arg-type]
    if source.encoding.turned:
        values = tuple(rewriter.emit(TileTransposeOp(value)) for value in source.values)
    else:
        values = dealt_anew(rewriter, source, target, transposed=True)
    rewriter.set(operation.result, values, target)


def broadcast(rewriter: DistributeSubgroupsRewriter, operation: TileBroadcastOp) -> None:
    """``tile_broadcast``: each subgroup spreads the part of the row or column that lies along its block."""
    source = rewriter.lookup(operation.source)
    if source.encoding is None or operation.wg_map is None:
        rewriter.copy(operation)
        return
    axes = axes_of(operation)
    target = Distributed(operation.wg_map.data, tile_ops.shape_of(operation.result))  # type: ignore[arg-type]
    narrow = [[_along(origin, axes, 0) for origin in origins] for origins in target.held()]
    chosen = choice(source.encoding.held(), narrow)
    data = _along(target.wg_map.sg_data, axes, 1)
    assert chosen is not None, "the verifier compares the maps"
    assert source.encoding.wg_map.sg_data == data, "the verifier compares the maps"
    values = tuple(rewriter.emit(TileBroadcastOp(source.values[index], target.wg_map.sg_data, axes))
                   for index in chosen)
    rewriter.set(operation.result, values, target)


def _along(pair: Pair, axes: Sequence[int], value: int) -> Pair:
    """A pair with ``value`` at some of its axes."""
    rows, columns = (value if axis in axes else size for axis, size in enumerate(pair))
    return rows, columns


def reduce(rewriter: DistributeSubgroupsRewriter, operation: TileReduceOp) -> None:
    """``tile_reduce``: each subgroup what it holds; then the partial results of all, through shared local memory."""
    source = rewriter.lookup(operation.source)
    if source.encoding is None or operation.wg_map is None:
        rewriter.copy(operation)
        return
    target = Distributed(operation.wg_map.data, tile_ops.shape_of(operation.result))  # type: ignore[arg-type]
    element: Attribute = operation.result.type.element_type  # type: ignore[attr-defined]
    wide = f32 if operation.kind.data in ("add", "mul") and element in (f16, bf16) else element
    kind, axes = operation.kind.data, axes_of(operation)
    values = ConvertedValues(tuple(_converted(rewriter, value, wide) for value in source.values), source.encoding)
    for axis in axes:
        values = _own(rewriter, kind, values, axis)
        if values.encoding.shape[axis] > 1:
            values = _of_all(rewriter, kind, values, axis, target if axis == axes[-1] else None)
    anew = dealt_anew(rewriter, values, target)
    rewriter.set(operation.result, tuple(_converted(rewriter, value, element) for value in anew), target)


def _converted(rewriter: DistributeSubgroupsRewriter, value: SSAValue, element: Attribute) -> SSAValue:
    """Partial sums of narrow floats are kept in f32, and rounded once at the end."""
    type_ = value.type
    assert isinstance(type_, VectorType)
    if type_.element_type == element:
        return value
    kind = arith.ExtFOp if element == f32 else arith.TruncFOp
    return rewriter.emit(kind(value, VectorType(element, type_.get_shape())))


def _own(rewriter: DistributeSubgroupsRewriter, kind: str, values: ConvertedValues, axis: int) -> ConvertedValues:
    """Every subgroup's own blocks reduced along an axis; the result has a column (or row) for each owner."""
    form: Distributed = values.encoding
    kept: dict[int, list[SSAValue]] = {}
    for place, value in zip(form.rounds, values.values, strict=True):
        kept.setdefault(place[1 - axis], []).append(value)
    made = []
    for whole, *others in kept.values():
        for other in others:
            whole = rewriter.emit(combined(kind, whole, other))
        made.append(rewriter.emit(TileReduceOp(kind, whole, [axis])))
    dealt = Distributed(form.wg_map.collapsed([axis]), _along(form.shape, [axis], form.owners(axis)))
    return ConvertedValues(tuple(made), dealt)


def _of_all(rewriter: DistributeSubgroupsRewriter, kind: str, values: ConvertedValues, axis: int,
            target: Distributed | None) -> ConvertedValues:
    """Partial results of all owners along ``axis``, reduced by each subgroup for the part that it needs."""
    form: Distributed = values.encoding
    map_ = form.wg_map if target is None else target.wg_map
    wide = WgMap(map_.sg_layout, _along(map_.sg_data, [axis], form.shape[axis]))
    loaded = dealt_anew(rewriter, values, Distributed(wide, form.shape))
    made = tuple(rewriter.emit(TileReduceOp(kind, value, [axis])) for value in loaded)
    return ConvertedValues(made, Distributed(map_.collapsed([axis]), _along(form.shape, [axis], 1)))


def dealt_anew(rewriter: DistributeSubgroupsRewriter, source: ConvertedValues, target: Distributed, *,
               transposed: bool = False) -> tuple[SSAValue, ...]:
    """The parts of a value under another map: those that a subgroup holds, else through shared local memory.

    Args:
        rewriter: the rewrite.
        source: the value's parts, of form :class:`Dealt`.
        target: the new form.
        transposed: whether ``target`` is a form of the transposed value.

    Raises:
        TargetError: blocks of the two maps do not fit into shared local memory together.
    """
    chosen = _chosen(source.encoding, target, transposed)
    if chosen is not None:
        values = [source.values[index] for index in chosen]
        transpose = TileTransposeOp
        return tuple(rewriter.emit(transpose(value)) for value in values) if transposed else tuple(values)
    return _through_slm(rewriter, source, target, transposed)


def serves(form: Distributed, target: Distributed) -> bool:
    """Whether each subgroup holds already what it needs of the transpose."""
    return _chosen(form, target, True) is not None


def _chosen(form: Distributed, target: Distributed, transposed: bool) -> list[int] | None:
    """Which of its blocks each subgroup needs, if it holds all that it needs."""
    if _turned(target.wg_map.sg_data, transposed) != form.wg_map.sg_data:
        return None
    return choice(form.held(), [[_turned(origin, transposed) for origin in origins] for origins in target.held()])


def _turned(pair: Pair, transposed: bool) -> Pair:
    return (pair[1], pair[0]) if transposed else pair


def _through_slm(rewriter: DistributeSubgroupsRewriter, source: ConvertedValues, target: Distributed,
                 transposed: bool) -> tuple[SSAValue, ...]:
    form: Distributed = source.encoding
    element: Attribute = source.values[0].type.element_type  # type: ignore[attr-defined]
    data = _turned(target.wg_map.sg_data, transposed)
    slab = _slab(rewriter, form, data, element)
    untouched = not rewriter.has_buffer(slab, element) and len(rewriter.blocks) == 1
    array = rewriter.buffer(slab, element)
    parts: list[SSAValue] = []
    for row in range(0, form.shape[0], slab[0]):
        for column in range(0, form.shape[1], slab[1]):
            window = _Window(rewriter, array, form.shape, slab, (row, column))
            if not untouched:  # others may still read what was there before
                barrier(rewriter)
            untouched = False
            for value, round_ in zip(source.values, form.rounds, strict=True):
                window.store(value, (offset(rewriter, form, 0, round_[0]), offset(rewriter, form, 1, round_[1])))
            barrier(rewriter)
            loaded = []
            for position, round_ in enumerate(target.rounds):
                place = offset(rewriter, target, 0, round_[0]), offset(rewriter, target, 1, round_[1])
                before = parts[position] if parts else None
                loaded.append(window.load(data, (place[1], place[0]) if transposed else place, before))
            parts = loaded
    return tuple(rewriter.emit(TileTransposeOp(part)) for part in parts) if transposed else tuple(parts)


def _slab(rewriter: DistributeSubgroupsRewriter, form: Distributed, data: Pair, element: Attribute) -> Pair:
    """Rows and columns of the largest part that fits into shared local memory and cuts no block of either map."""
    steps = [lcm(form.wg_map.sg_data[axis], data[axis]) for axis in (0, 1)]
    sizes = [[size for size in range(step, whole + 1, step) if whole % size == 0]
             for step, whole in zip(steps, form.shape, strict=True)]
    fitting = [(h, w) for h in sizes[0] for w in sizes[1] if rewriter.free((h, w), element)]
    if not fitting:
        bytes_ = steps[0] * steps[1] * of_mlir(element).bytes
        target = rewriter.target
        raise TargetError("XT2521",
                          f"distributing {form} in blocks of {tile_ops.text(data)} takes {bytes_} bytes of shared "
                          f"local memory, and {target.slm_bytes - rewriter.taken} of {target.name}'s "
                          f"{target.slm_bytes} are left",
                          "choose an sg_data that divides the other's, so that smaller parts fit",
                          rewriter.where())
    return max(fitting, key=lambda shape: (prod(shape), shape[1]))


class _Window:
    """A slab of a value in shared local memory.

    Args:
        rewriter: the rewrite.
        array: the slab's array.
        whole: shape of the value.
        shape, origin: of the slab.
    """

    def __init__(self, rewriter: DistributeSubgroupsRewriter, array: SSAValue, whole: Pair, shape: Pair,
                 origin: Pair) -> None:
        self.build, self.array, self.whole, self.shape, self.origin = rewriter, array, whole, shape, origin

    def store(self, value: SSAValue, place: tuple[SSAValue, SSAValue]) -> None:
        """A block, if it lies in the slab."""
        rewriter = self.build

        def then() -> None:
            rewriter.emit(tile_ops.StoreTileOp(value, self._tile(value.type.get_shape(), place)))  # type: ignore[attr-defined]

        rewriter.only_if(self._inside(place), then)

    def load(self, shape: Pair, place: tuple[SSAValue, SSAValue], before: SSAValue | None) -> SSAValue:
        """A block, if it lies in the slab, else what it was before.

        Where it was nothing before it is loaded in any case: what lies outside the slab loads as zeros.
        """
        rewriter, conditions = self.build, self._inside(place) if before is not None else []
        value = rewriter.only_if(conditions, lambda: rewriter.emit(tile_ops.LoadTileOp(self._tile(shape, place))),
                                 before)
        assert value is not None
        return value

    def _tile(self, shape: Pair, place: tuple[SSAValue, SSAValue]) -> SSAValue:
        rewriter = self.build
        offsets = [rewriter.add(at, -first) for at, first in zip(place, self.origin, strict=True)]
        parameters = TileParameters(shape, self.array.type.element_type)  # type: ignore[attr-defined]
        return rewriter.emit(tile_ops.InitTileOp(self.array, offsets, [], [], TileType(parameters)))

    def _inside(self, place: tuple[SSAValue, SSAValue]) -> list[SSAValue]:
        """Conditions for a block to lie in the slab: none along an axis that the slab covers whole."""
        rewriter, conditions = self.build, []
        for at, first, size, whole in zip(place, self.origin, self.shape, self.whole, strict=True):
            if size < whole:
                relative = rewriter.add(at, -first)
                conditions.append(rewriter.emit(CmpIOp(relative, rewriter.constant(size), "ult")))
        return conditions
