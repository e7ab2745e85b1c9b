"""Cooperative operands: an operand that subgroups would compute alike is computed once, and published in SLM.

    scf.for %n = %0 to %end step %64 {                                      each of eight subgroups converts all of V
      %v = load_tile (init_tile %V, [%n, %0]) : tile<64x64xf8E4M3FN, wg_map<sg_layout = [8, 1], sg_data = [64, 64]>>
      %b = arith.extf %v ; %d = tile_mma %a, %b, %c ; yield %d }
becomes
    store_tile (arith.extf (load_tile %share)), (init_tile %slm, [%0, %0]) ; gpu.barrier
    scf.for %n = %0 to %end step %64 iter_args(%half = %0) {                %share: V at %n, a share of it each
      %b = load_tile (init_tile %slm, [%half, %0]) ; %d = tile_mma %a, %b, %c
      %next = load_tile (init_tile %V, [%n + %64, %0]) : tile<64x64xf8E4M3FN, wg_map<[2, 4], [32, 16]>>
      store_tile (arith.extf %next), (init_tile %slm, [64 - %half, %0]) ; gpu.barrier
      yield %d, 64 - %half }

So are operands B that are converted from 8 bits, and those of rows that an index vector names, as the values of a paged
cache are.

A share of what is converted has whole blocks of the words that :class:`~xegpu.dialect.convert_layout.WidenOp` takes:
its result lies in registers as DPAS takes operand B, is stored as it lies, and loaded as it lies by all. Of what is
gathered a share is whole rows; of what is gathered and transposed, as keys are, it is blocks of the transpose, which
are gathered as columns and lie in registers so, too. The double buffer takes a barrier a step; the loads run a step
ahead, but never behind the last one where a step's place is looked up in a table. They come behind the first product
of a step where others follow, to wait for memory while those are done; gathers come last, since they take registers.

A conversion of one instruction a register (e5m2 to f16, which is a shift) stays where it is on targets whose messages
take no constant distance from an address: there, more messages and the barrier take what is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, UnitAttr, VectorType
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xegpu.dialect.sync import ControlBarrierArriveOp, NbarrierOp
from xegpu.ir.create import create_like
from xegpu.ir.kernel_attributes import block_arguments, function_of
from xegpu.ir.memref import SHARED_SPACE
from xegpu.ir.traversal import of_kind
from xegpu.mlir.arith import CmpIOp, SelectOp
from xegpu.mlir.vector import shape_of
from xegpu.passes.distribute_lanes.operand_roles import CONVERSIONS
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.types import TileParameters, TileType, WgMapAttr
from xetile.dialect.vector import TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes.cooperative_loads.redundant_operands import Operand, operand_of, operands_b
from xetile.passes.distribute_subgroups import slm_bytes
from xetile.passes.loops.index_set_splitting import straight_product_loops
from xetile.passes.loops.transpose_gathers.transposer import Transposer


@dataclass(frozen=True)
class CooperativeOperands:
    """Pass ``cooperative-operands``.

    Attributes:
        target: its block messages, and its shared local memory.
        access: access kind of each argument: block messages must reach converted operands.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such operands made in shares; the module itself if there are none."""
        if not of_kind(module, *CONVERSIONS, LoadGatherOp):
            return module
        return rewrite_in_place(module, _loops, self._plan, _share_operands, erases=True)

    def _plan(self, loop: scf.ForOp) -> list[Operand]:
        function = function_of(loop)
        if any(isinstance(each, (NbarrierOp, ControlBarrierArriveOp)) for each in function.walk()):
            return []
        arrays = block_arguments(function, self.access)
        least = 1 if self.target.immediate_offsets else 2
        found = [operand for value in operands_b(loop.body.block)
                 if (operand := operand_of(value, loop)) is not None and operand.cost >= least
                 and (operand.conversion is None or operand.tile.operands[0] in arrays)]
        free, fitting = self._free(function), list[Operand]()
        for operand in sorted(found, key=lambda operand: -operand.cost):
            if operand.bytes <= free:
                fitting.append(operand)
                free -= operand.bytes
        return [operand for operand in found if operand in fitting]

    def _free(self, function: func.FuncOp) -> int:
        """Bytes of shared local memory that reductions and exchanges of the kernel leave."""
        exchanges = any(isinstance(each, TileConvLayoutOp) or (
            isinstance(each, TileTransposeOp) and not _is_folded(each)) for each in function.walk())
        reduces = any(isinstance(each, TileReduceOp) for each in function.walk())
        total = self.target.slm_bytes
        return total - slm_bytes(function) - (total // 2 if exchanges else total // 8 if reduces else 0)


def _loops(around: Operation) -> Iterator[scf.ForOp]:
    """Loops of products without barriers that only load, also by gathers."""
    for loop in straight_product_loops(around, waits=True):
        if not any(isinstance(each, (BarrierOp, tile_ops.StoreTileOp)) for each in loop.walk()):
            yield loop


def _is_folded(transpose: TileTransposeOp) -> bool:
    """Whether a loaded value is transposed, before or behind its conversion."""
    owner = transpose.source.owner
    return isinstance(owner.operands[0].owner if isinstance(owner, CONVERSIONS) else owner,
                      (tile_ops.LoadTileOp, LoadGatherOp))


def _share_operands(inserter: Inserter, loop: scf.ForOp, operands: Sequence[Operand]) -> None:
    """Convert a step's operands in the step before it, those of the first step in front of the loop."""
    body = loop.body.block
    yielded = body.last_op
    assert isinstance(yielded, scf.YieldOp)
    arrays = [_array(inserter, operand) for operand in operands]
    is_careful = any(operand.reads_scalars for operand in operands)
    start = _if_any_step(inserter, loop) if is_careful else loop
    for operand, array in zip(operands, arrays, strict=True):
        value = _loaded(inserter, start, operand, loop, loop.lb)
        _publish(inserter, start, operand, value, array, inserter.constant(0))
    inserter.before(loop, BarrierOp())  # type: ignore[no-untyped-call]
    heights = [*dict.fromkeys(operand.shape[0] for operand in operands)]
    halves = {rows: body.insert_arg(IndexType(), len(body.args)) for rows in heights}
    anchors = [_anchor(operands, operand, yielded) for operand in operands]
    nexts = [_loaded(inserter, anchor, operand, loop, _next_step(inserter, anchor, loop, is_careful))
             for operand, anchor in zip(operands, anchors, strict=True)]
    others = {rows: inserter.subtract(yielded, inserter.constant(rows), half) for rows, half in halves.items()}
    for operand, array, value in zip(operands, arrays, nexts, strict=True):
        half = halves[operand.shape[0]]
        half.name_hint = "half"
        shared = _tile(inserter, operand.products[0], array, half, operand, operand.map)
        loaded = inserter.before(operand.products[0], tile_ops.LoadTileOp(shared), operand.value.name_hint)
        _publish(inserter, yielded, operand, value, array, others[operand.shape[0]])
        for product in operand.products:
            product.operands[1] = loaded
    inserter.before(yielded, BarrierOp())  # type: ignore[no-untyped-call]
    for operation in (each for operand in operands for each in (*operand.chain, *reversed(operand.sources))):
        if operation.parent is body and not any(result.uses for result in operation.results):
            erase(operation)
    yielded.operands = [*yielded.operands, *others.values()]
    _replace(loop, [inserter.constant(0)] * len(heights))


def _anchor(operands: Sequence[Operand], operand: Operand, end: Operation) -> Operation:
    """The operation before which a step loads a share of the next one: its end for gathered rows, whose addresses and
    masks take registers; for others the one after its first product, or its only product."""
    if operand.is_gathered:
        return end
    first = operands[0].products[-1] if len(operands) > 1 else operands[0].products[0]
    behind = first.next_op if any(isinstance(each, TileMmaOp) for each in _after(first)) else first
    assert behind is not None
    return behind


def _next_step(inserter: Inserter, anchor: Operation, loop: scf.ForOp, is_careful: bool) -> SSAValue:
    """The loop's counter in the next step; with ``is_careful`` that of this one if it is the last."""
    counter = loop.body.block.args[0]
    after = inserter.add(anchor, counter, loop.step)
    if not is_careful:
        return after
    return inserter.before(anchor, SelectOp(inserter.before(anchor, CmpIOp(after, loop.ub, "slt")), after, counter))


def _if_any_step(inserter: Inserter, loop: scf.ForOp) -> Operation:
    """The end of a branch in front of a loop that is taken where the loop has a step."""
    end = scf.YieldOp()
    end.location = loop.location
    inserter.before(loop, scf.IfOp(inserter.before(loop, CmpIOp(loop.lb, loop.ub, "slt")), [], Region(Block([end]))))
    return end


def _after(operation: Operation) -> Iterator[Operation]:
    while operation.next_op is not None:
        operation = operation.next_op
        yield operation


def _replace(loop: scf.ForOp, more: Sequence[SSAValue]) -> None:
    """Replace a loop by one whose body has more arguments, which begin so."""
    region, count = loop.detach_region(loop.body), len(loop.results)
    new = scf.ForOp(loop.lb, loop.ub, loop.step, [*loop.iter_args, *more], region)
    new.attributes.update(loop.attributes)
    new.location = loop.location
    assert loop.parent is not None
    loop.parent.insert_op_before(new, loop)
    for old, result in zip(loop.results, new.results[:count], strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    erase(loop)


def _array(inserter: Inserter, operand: Operand) -> SSAValue:
    """The double buffer of an operand, one half below the other."""
    rows, columns = operand.shape
    alloc = memref.AllocOp([], [], MemRefType(operand.element, (2 * rows, columns), memory_space=SHARED_SPACE))
    head = inserter.function.body.block.first_op
    while isinstance(head, (arith.ConstantOp, memref.AllocOp)):
        head = head.next_op
    assert head is not None
    return inserter.before(head, alloc, "shared")


def _loaded(inserter: Inserter, anchor: Operation, operand: Operand, loop: scf.ForOp, at: SSAValue) -> SSAValue:
    """Load a subgroup's share of an operand at a value of the loop's counter."""
    values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: at}

    def copied(operation: Operation) -> SSAValue:
        new = create_like(operation, [values.get(value, value) for value in operation.operands],
                          [_type_of_share(operand, result) for result in operation.results])
        wg_map = operation.properties.get("wg_map", operation.attributes.get("wg_map"))
        if isinstance(wg_map, WgMapAttr) and not operand.is_transposed:
            map_ = WgMapAttr(operand.share_of(_pair(operation.results[0])))
            (new.properties if "wg_map" in operation.properties else new.attributes)["wg_map"] = map_
        new.attributes.pop(tile_ops.IN_BOUNDS, None)  # of the steps that there are
        value = inserter.before(anchor, new)
        values.update(zip(operation.results, new.results, strict=True))
        return value

    for source in operand.sources:
        tile = copied(source)
    if operand.advance is not None and at is not loop.lb:
        steps = inserter.subtract(anchor, at, loop.lb)
        by = [inserter.multiply(anchor, steps, times) for times in operand.advance]
        tile = inserter.before(anchor, tile_ops.UpdateTileOffsetOp(tile, by))
    values[operand.load.operands[0]] = tile
    share = copied(operand.load)
    if operand.is_gathered and operand.is_transposed:
        share = _as_columns(inserter, operand, share)
        for operation in (operand.load, *reversed(operand.sources)):
            if not (copy := values[operation.results[0]]).uses:
                assert isinstance(copy.owner, Operation)
                erase(copy.owner)
    share.name_hint = "share"
    return share


def _as_columns(inserter: Inserter, operand: Operand, rows: SSAValue) -> SSAValue:
    """A gather of a subgroup's share of the transpose of a gather."""
    load = rows.owner
    assert isinstance(load, LoadGatherOp)
    init = load.tile.owner
    assert isinstance(init, InitScatteredTileOp)
    transposed = Transposer(inserter, load, operand.share_of)
    type_ = TileType(tile_ops.tile_of(load.tile)).with_(shape=operand.shape, wg_map=operand.shares)
    tile = transposed.insert(InitScatteredTileOp(init.source, transposed(init.indices), type_))
    return transposed.insert(LoadGatherOp(tile, transposed(load.mask)))


def _type_of_share(operand: Operand, value: SSAValue) -> Attribute:
    """The type of a value that an operand is made of, where subgroups make shares."""
    if not isinstance(value.type, TileType):
        return value.type
    tile = tile_ops.tile_of(value)
    if operand.conversion is not None:
        return TileType(tile).with_(wg_map=operand.shares.transposed() if operand.is_transposed else operand.shares)
    rows, columns = tile.shape
    return value.type if operand.is_transposed else TileType(tile).with_(wg_map=operand.share_of((rows, columns)))


def _publish(inserter: Inserter, anchor: Operation, operand: Operand, value: SSAValue, array: SSAValue,
             half: SSAValue) -> None:
    """Store a share, converted, to the rows of shared local memory from ``half`` on."""
    if operand.is_transposed and not operand.is_gathered:
        value = inserter.before(anchor, TileTransposeOp(value, operand.shares))
    if operand.conversion is not None:
        type_ = VectorType(operand.element, operand.shape)
        value = inserter.before(anchor, create_like(operand.conversion, [value], [type_]))
    into = _tile(inserter, anchor, array, half, operand, operand.shares)
    inserter.before(anchor, tile_ops.StoreTileOp(value, into))


def _tile(inserter: Inserter, anchor: Operation, array: SSAValue, half: SSAValue, operand: Operand,
          map_: WgMap) -> SSAValue:
    """A tile of half of a double buffer."""
    type_ = TileType(TileParameters(operand.shape, operand.element)).with_(wg_map=map_)
    init_tile = tile_ops.InitTileOp(array, [half, inserter.constant(0)], [], [], type_)
    init_tile.attributes = {tile_ops.IN_BOUNDS: UnitAttr(), **init_tile.attributes}
    return inserter.before(anchor, init_tile)


def _pair(value: SSAValue) -> Pair:
    rows, columns = shape_of(value)
    return rows, columns
