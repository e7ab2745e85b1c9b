"""Cooperative conversions: what several subgroups multiply is converted from 8 bits once, and published in SLM.

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

A share has whole blocks of the words that :class:`~xegpu.dialect.convert_layout.WidenOp` converts, so that its result
lies in registers as DPAS takes operand B, is stored as it lies, and loaded as it lies by all. The double buffer takes a
barrier a step; the loads run a step ahead, but never behind the last one where a step's place is looked up in a table.
They come behind the first product of a step where others follow, to wait for memory while those are done.

A conversion of one instruction a register (e5m2 to f16, which is a shift) stays where it is: messages and the barrier
would take what is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, UnitAttr, VectorType
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import Pure

from xegpu.dialect.hints import hinted
from xegpu.dialect.scalar import LoadScalarOp
from xegpu.dialect.sync import ControlBarrierArriveOp, NbarrierOp
from xegpu.ir.create import create_like
from xegpu.ir.dtypes import bf16, e4m3, e5m2, f16, i8, of_mlir, u8
from xegpu.ir.matchers import number
from xegpu.ir.memref import SHARED_SPACE
from xegpu.mlir.arith import CmpIOp, SelectOp
from xegpu.mlir.vector import shape_of
from xegpu.passes.distribute_lanes.operand_roles import CONVERSIONS
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.types import TileParameters, TileType
from xetile.dialect.vector import TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes.distribute_subgroups import slm_bytes
from xetile.passes.loops.index_set_splitting import straight_product_loops

_COSTS = {(e4m3, f16): 3, (e4m3, bf16): 5, (e5m2, f16): 1, (e5m2, bf16): 3, (i8, f16): 2, (i8, bf16): 2, (u8, f16): 2,
          (u8, bf16): 2}
"""Instructions a register of what is converted, counted for pvc and bmg."""
_WORTH = 2
"""Least instructions a register for which a barrier a step is taken."""
_BLOCK = (32, 16)
"""Rows and columns of the words of operand B that are loaded and converted at once."""
_LEAST = 2048
"""Least bytes of an operand of a subgroup in a step: to convert fewer takes less than a barrier."""


@dataclass(frozen=True)
class CooperativeConversions:
    """The pass.

    Attributes:
        target: its block messages, and its shared local memory.
        access: for each argument its access kind: block messages must reach what is loaded.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such operands converted in shares; the module itself if there are none."""
        if not any(isinstance(operation, CONVERSIONS) for operation in module.walk()):
            return module
        return rewrite_in_place(module, straight_product_loops, self._plan, _share_operands)

    def _plan(self, loop: scf.ForOp) -> list[Operand]:
        function = _function_of(loop)
        if any(isinstance(each, (NbarrierOp, ControlBarrierArriveOp)) for each in function.walk()):
            return []
        arrays = {argument for argument, kind in zip(function.body.block.args, self.access, strict=True)
                  if kind == "block"}
        found = [operand for value in _operands_b(loop.body.block)
                 if (operand := operand_of(value, loop)) is not None and operand.init.source in arrays]
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


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand B that a work-group converts once.

    Attributes:
        products: its products in the loop, in order.
        chain: what makes it, from the last operation to the load.
        conversion: the one of them that converts it from 8 bits to 16.
        init: initializes its tile, in the loop or in front of it.
        advance: for a tile that the loop carries, the elements that each of its last offsets moves by a step of one.
        is_transposed: whether the loop transposes it between its load and its products.
        map: distributes it for the products.
        shares: distributes it for the conversion.
    """

    products: tuple[TileMmaOp, ...]
    chain: tuple[Operation, ...]
    conversion: Operation
    init: tile_ops.InitTileOp
    advance: Pair | None
    is_transposed: bool
    map: WgMap
    shares: WgMap

    @property
    def load(self) -> tile_ops.LoadTileOp:
        """The load of its elements of 8 bits."""
        load = self.chain[-1]
        assert isinstance(load, tile_ops.LoadTileOp)
        return load

    @property
    def value(self) -> SSAValue:
        """What its products take."""
        return self.products[0].b

    @property
    def shape(self) -> Pair:
        """Rows and columns."""
        return _pair(self.value)

    @property
    def element(self) -> Attribute:
        """The element type that is multiplied."""
        type_ = self.value.type
        assert isinstance(type_, VectorType)
        element: Attribute = type_.element_type
        return element

    @property
    def reads_scalars(self) -> bool:
        """Whether a step's place is looked up, as that of a page, in a table that may end with the last one."""
        body = self.load.parent
        assert body is not None
        return any(isinstance(each, LoadScalarOp) for each in _slice(self.init, body) or ())

    @property
    def bytes(self) -> int:
        """Size of the double buffer."""
        return 2 * prod(self.shape) * of_mlir(self.element).bytes

    @property
    def cost(self) -> int:
        """Instructions a register of the conversion."""
        return _cost(self.conversion)


def _operands_b(body: Block) -> list[SSAValue]:
    """What the products of a loop take as operand B, in order."""
    return [*dict.fromkeys(each.b for each in body.ops if isinstance(each, TileMmaOp))]


def operand_of(value: SSAValue, loop: scf.ForOp) -> Operand | None:
    """An operand B as one that a work-group may convert in shares; None if it cannot, or it does not pay.

    Args:
        value: what products of the loop take.
        loop: a loop of a kernel whose tiles are not distributed yet.
    """
    body = loop.body.block
    uses = [use.operation for use in value.uses]
    products = [each for each in body.ops if isinstance(each, TileMmaOp) and each.b is value]
    map_, conversion, transposed, owner, chain = None, None, False, value.owner, list[Operation]()
    while isinstance(owner, (TileTransposeOp, *CONVERSIONS)) and owner.parent is body:
        if isinstance(owner, TileTransposeOp):
            if transposed or owner.wg_map is None:
                return None
            transposed, map_ = True, owner.wg_map.data
        elif conversion is not None:
            return None
        else:
            conversion = owner
        if owner.results[0] is not value and not owner.results[0].has_one_use():
            return None
        chain.append(owner)
        owner = owner.operands[0].owner
    if conversion is None or not isinstance(owner, tile_ops.LoadTileOp) or owner.parent is not body or \
            not owner.result.has_one_use() or len(uses) != len(products) or owner.padding is not None or \
            _cost(conversion) < _WORTH or any(isinstance(each.a.owner, CONVERSIONS) and _cost(each.a.owner)
                                             for each in products):
        return None
    tile = tile_ops.tile_of(owner.tile)
    map_ = tile.encoding.wg_map if map_ is None else map_
    found = _origin(owner.tile, loop)
    if map_ is None or found is None or tile.encoding.order != (1, 0) or tile.encoding.inner_blocks is not None:
        return None
    rows, columns = _pair(value)
    down, across = map_.sg_layout
    is_shared = down > 1 and map_.sg_data == (rows, columns // across)
    shares = _shares((rows, columns), map_.subgroups) if is_shared else None
    if shares is None or prod(map_.sg_data) * 2 < _LEAST:
        return None
    return Operand(tuple(products), (*chain, owner), conversion, *found, transposed, map_, shares)


def _cost(conversion: Operation) -> int:
    """Instructions a register of a conversion from 8 bits to 16; 0 for another one."""
    source, result = (of_mlir(value.type.element_type) if isinstance(value.type, VectorType) else None
                      for value in (conversion.operands[0], conversion.results[0]))
    return _COSTS.get((source, result), 0)  # type: ignore[arg-type]


def _origin(tile: SSAValue, loop: scf.ForOp) -> tuple[tile_ops.InitTileOp, Pair | None] | None:
    """(init, advance) of a tile that a loop initializes from its counter, or that it carries; None for another."""
    body = loop.body.block
    if isinstance(tile.owner, tile_ops.InitTileOp):
        return (tile.owner, None) if tile.owner.parent is body and _slice(tile.owner, body) is not None else None
    if not isinstance(tile, BlockArgument) or tile.block is not body or tile.index == 0:
        return None
    init, step = loop.iter_args[tile.index - 1].owner, number(loop.step)
    users = [use.operation for use in tile.uses]
    moves = [user for user in users if isinstance(user, tile_ops.UpdateTileOffsetOp)]
    assert body.last_op is not None
    if not isinstance(init, tile_ops.InitTileOp) or len(users) != 2 or len(moves) != 1 or not step or \
            body.last_op.operands[tile.index - 1] is not moves[0].result:
        return None
    by = [number(offset) for offset in moves[0].offsets]
    if any(each is None or each % step for each in by):
        return None
    down, across = (each // step for each in by if each is not None)
    return init, (down, across)


def _slice(operation: Operation, body: Block) -> list[Operation] | None:
    """The operations of a loop that one depends on, and itself, in order; None if they cannot be done for another
    step."""
    found: dict[Operation, None] = {}

    def visit(inner: Operation) -> bool:
        fits = isinstance(inner, (tile_ops.InitTileOp, LoadScalarOp)) or (inner.has_trait(Pure) and not inner.regions)
        for value in inner.operands:
            if value.owner is body and value is not body.args[0]:
                return False
            if isinstance(value.owner, Operation) and value.owner.parent is body and value.owner not in found and \
                    not visit(value.owner):
                return False
        found[inner] = None
        return fits

    return [*found] if visit(operation) else None


def _shares(shape: Pair, subgroups: int) -> WgMap | None:
    """The map in which each subgroup has as many blocks of an operand; None if there is none."""
    (rows, columns), (height, width) = shape, _BLOCK
    if rows % height or columns % width or (rows // height) * (columns // width) % subgroups:
        return None
    down = next((count for count in range(rows // height, 0, -1)
                 if rows // height % count == 0 and subgroups % count == 0
                 and columns // width % (subgroups // count) == 0), None)
    return None if down is None else WgMap((down, subgroups // down), (rows // down, columns // (subgroups // down)))


def _is_folded(transpose: TileTransposeOp) -> bool:
    """Whether a loaded value is transposed, before or behind its conversion."""
    owner = transpose.source.owner
    return isinstance(owner.operands[0].owner if isinstance(owner, CONVERSIONS) else owner, tile_ops.LoadTileOp)


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
    first = operands[0].products[-1] if len(operands) > 1 else operands[0].products[0]
    behind = first.next_op if any(isinstance(each, TileMmaOp) for each in _after(first)) else first
    assert behind is not None
    after = inserter.add(behind, body.args[0], loop.step)
    if is_careful:
        after = inserter.before(behind, SelectOp(inserter.before(behind, CmpIOp(after, loop.ub, "slt")), after,
                                                 body.args[0]))
    nexts = [_loaded(inserter, behind, operand, loop, after) for operand in operands]
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
    for operation in (each for operand in operands for each in operand.chain):
        erase(operation)
    yielded.operands = [*yielded.operands, *others.values()]
    _replace(loop, [inserter.constant(0)] * len(heights))


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
    body = loop.body.block
    values: dict[SSAValue, SSAValue] = {body.args[0]: at}
    sizes = operand.shares.transposed() if operand.is_transposed else operand.shares
    type_ = TileType(tile_ops.tile_of(operand.load.tile)).with_(wg_map=sizes)
    for each in (_slice(operand.init, body) or []) if operand.init.parent is body else [operand.init]:
        types = [type_] if each is operand.init else [result.type for result in each.results]
        copied = create_like(each, [values.get(value, value) for value in each.operands], types)
        if each is operand.init:
            copied.attributes = {name: value for name, value in each.attributes.items() if name != tile_ops.IN_BOUNDS}
        inserter.before(anchor, copied)
        values.update(zip(each.results, copied.results, strict=True))
    tile = values[operand.init.result]
    if operand.advance is not None and at is not loop.lb:
        steps = inserter.subtract(anchor, at, loop.lb)
        by = [inserter.multiply(anchor, steps, times) for times in operand.advance]
        tile = inserter.before(anchor, tile_ops.UpdateTileOffsetOp(tile, by))
    return inserter.before(anchor, hinted(tile_ops.LoadTileOp(tile), operand.load), "share")


def _publish(inserter: Inserter, anchor: Operation, operand: Operand, value: SSAValue, array: SSAValue,
             half: SSAValue) -> None:
    """Convert a share, and store it to the rows of shared local memory from ``half`` on."""
    if operand.is_transposed:
        value = inserter.before(anchor, TileTransposeOp(value, operand.shares))
    type_ = VectorType(operand.element, operand.shape)
    converted = inserter.before(anchor, create_like(operand.conversion, [value], [type_]))
    into = _tile(inserter, anchor, array, half, operand, operand.shares)
    inserter.before(anchor, tile_ops.StoreTileOp(converted, into))


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


def _function_of(operation: Operation) -> func.FuncOp:
    function: Operation | None = operation
    while not isinstance(function, func.FuncOp):
        assert function is not None
        function = function.parent_op()
    return function
