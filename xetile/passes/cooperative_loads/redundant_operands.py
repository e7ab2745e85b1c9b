"""Redundancy analysis of operands B: those that all subgroups compute alike in a loop, with their backward slices.

Its result is what :mod:`xetile.passes.cooperative_loads.cooperative_operands` moves to the work-group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from xegpu.dialect.scalar import LoadScalarOp
from xegpu.ir.dtypes import bf16, e4m3, e5m2, f16, i8, of_mlir, u8
from xegpu.ir.matchers import number
from xegpu.mlir.vector import shape_of
from xegpu.passes.distribute_lanes.operand_roles import CONVERSIONS
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.vector import IotaOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes.loops.transpose_gathers.transposer import has_lines

_COSTS = {(e4m3, f16): 3, (e4m3, bf16): 5, (e5m2, f16): 1, (e5m2, bf16): 3, (i8, f16): 2, (i8, bf16): 2, (u8, f16): 2,
          (u8, bf16): 2}
"""Instructions of a conversion for each register of its operand, counted for pvc and bmg."""
_GATHERED = 16
"""The same of rows that are gathered element by element, and put together to words of two rows."""
_GATHERED_COLUMNS = 2
"""The same of rows that are gathered as columns: addresses of 64 bits, masks, and a message for eight registers."""
_BLOCK = (32, 16)
"""Rows and columns of the words of operand B that are loaded and converted at once."""
_COLUMNS = (16, 16)
"""Rows and columns of operand B in 16 bits of which a lane gathers a column."""
_LEAST = 2048
"""Least bytes of an operand of a subgroup in a step: to make fewer takes less than a barrier."""
_MAPPED = (BroadcastOp, IotaOp, TileBroadcastOp, InitScatteredTileOp, tile_ops.InitTileOp)
"""Operations whose attributes or types say how a vector is distributed."""
_LOADS = (tile_ops.LoadTileOp, LoadGatherOp)
_ELEMENTWISE = ("arith", "math")


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand B that a work-group makes once.

    Attributes:
        products: its products in the loop, in order.
        chain: operations that compute it from its load, from the last one to the load.
        conversion: the one of them that converts it from 8 bits to 16; None where it is gathered.
        sources: the operations that compute the load's tile, in order: they are repeated for another step.
        advance: for a tile that the loop carries, the elements that each of its last offsets moves by a step of one.
        is_transposed: whether the loop transposes it between its load and its products.
        map: distributes it for the products.
        shares: distributes it where it is made.
        cost: instructions a register that make it.
    """

    products: tuple[TileMmaOp, ...]
    chain: tuple[Operation, ...]
    conversion: Operation | None
    sources: tuple[Operation, ...]
    advance: Pair | None
    is_transposed: bool
    map: WgMap
    shares: WgMap
    cost: int

    @property
    def load(self) -> Operation:
        """The load of its elements."""
        return self.chain[-1]

    @property
    def tile(self) -> Operation:
        """The initialization of the tile that is loaded."""
        return self.sources[-1]

    @property
    def value(self) -> SSAValue:
        """The operand of its products."""
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
        return any(isinstance(each, LoadScalarOp) for each in self.sources)

    @property
    def bytes(self) -> int:
        """Size of the double buffer."""
        return 2 * prod(self.shape) * of_mlir(self.element).bytes

    @property
    def is_gathered(self) -> bool:
        """Whether its rows are gathered; as columns if it is transposed, too."""
        return self.conversion is None

    def share_of(self, shape: Pair) -> WgMap:
        """The map of a vector that a gather is made of: of its rows and columns, or one of them, in shares."""
        down, across = (part if size == whole else size
                        for size, whole, part in zip(shape, self.shape, self.shares.sg_data, strict=True))
        return WgMap(self.shares.sg_layout, (down, across))


def operands_b(body: Block) -> list[SSAValue]:
    """Operands B of the products of a loop, in order."""
    return [*dict.fromkeys(each.b for each in body.ops if isinstance(each, TileMmaOp))]


def operand_of(value: SSAValue, loop: scf.ForOp) -> Operand | None:
    """An operand B as one that a work-group may make in shares; None if it cannot.

    Args:
        value: what products of the loop take.
        loop: a loop of a kernel whose tiles are not distributed yet.
    """
    body = loop.body.block
    products = [each for each in body.ops if isinstance(each, TileMmaOp) and each.b is value]
    chain = _chain(value, body)
    if not chain or len(products) != len(list(value.uses)) or any(_cost(each.a.owner) for each in products):
        return None
    load, transposes = chain[-1], [each for each in chain if isinstance(each, TileTransposeOp)]
    conversion = next((each for each in chain if isinstance(each, CONVERSIONS)), None)
    tile = tile_ops.tile_of(load.operands[0])
    map_ = tile.encoding.wg_map
    if transposes:
        map_ = None if transposes[0].wg_map is None else transposes[0].wg_map.data
    (rows, columns), is_gathered = _pair(value), isinstance(load, LoadGatherOp)
    if map_ is None or map_.sg_layout[0] == 1 or map_.sg_data != (rows, columns // map_.sg_layout[1]) or \
            prod(map_.sg_data) * 2 < _LEAST or tile.encoding.order != (1, 0) or tile.encoding.inner_blocks is not None:
        return None
    found: tuple[tuple[Operation, ...], Pair | None] | None
    if is_gathered:
        found = None if conversion is not None or tile.dtype not in (f16, bf16) else \
            _gathered(load, body, (columns, rows) if transposes else (rows, columns))
        if transposes:
            shares, cost = _shares((rows, columns), map_.subgroups, _COLUMNS, range(1, rows + 1)), _GATHERED_COLUMNS
            found = found if found is not None and all(map(has_lines, (found[0][-1].operands[1], load.operands[1]))) \
                else None
        else:
            shares, cost = _row_shares((rows, columns), map_.subgroups), _GATHERED
    else:
        found = None if conversion is None or len(transposes) > 1 else _origin(load.operands[0], loop)
        shares = _shares((rows, columns), map_.subgroups, _BLOCK, range(rows, 0, -1))
        cost = 0 if conversion is None else _cost(conversion)
    if found is None or shares is None or not cost:
        return None
    return Operand(tuple(products), chain, conversion, *found, bool(transposes), map_, shares, cost)


def _chain(value: SSAValue, body: Block) -> tuple[Operation, ...]:
    """The conversions and transposes that make a value of a load in a loop, and that, the last one first; or none."""
    chain = list[Operation]()
    owner = value.owner
    while isinstance(owner, (TileTransposeOp, *CONVERSIONS, *_LOADS)) and owner.parent is body:
        if owner.results[0] is not value and not owner.results[0].has_one_use():
            return ()
        chain.append(owner)
        if isinstance(owner, _LOADS):
            return tuple(chain) if owner.padding is None and len(set(map(type, chain))) == len(chain) else ()
        owner = owner.operands[0].owner
    return ()


def _cost(conversion: Operation | Block) -> int:
    """Instructions a register of a conversion from 8 bits to 16; 0 for something else."""
    if not isinstance(conversion, CONVERSIONS):
        return 0
    source, result = (of_mlir(value.type.element_type) if isinstance(value.type, VectorType) else None
                      for value in (conversion.operands[0], conversion.results[0]))
    return _COSTS.get((source, result), 0)  # type: ignore[arg-type]


def _origin(tile: SSAValue, loop: scf.ForOp) -> tuple[tuple[Operation, ...], Pair | None] | None:
    """(operations, advance) of a tile that a loop initializes from its counter, or carries; None for another one."""
    body = loop.body.block
    if isinstance(tile.owner, tile_ops.InitTileOp):
        sources = _slice(tile.owner, body) if tile.owner.parent is body else None
        return None if sources is None else (sources, None)
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
    return (init,), (down, across)


def _gathered(load: Operation, body: Block, shape: Pair) -> tuple[tuple[Operation, ...], None] | None:
    """The operations that make the scattered tile and the mask of a gather of rows, the tile last; None if they have
    other vectors than rows, columns, and both."""
    sources = _slice(load, body, vectors=True)
    if sources is None:
        return None
    sizes = [{1, size} for size in shape]
    fits = all(_has_maps(each) and all(size in known for size, known in zip(extents, sizes, strict=True))
               for each in sources for extents in _extents(each))
    ordered = [each for each in sources if each is not load and each is not load.operands[0].owner]
    tile = load.operands[0].owner
    return ((*ordered, tile), None) if fits and isinstance(tile, InitScatteredTileOp) else None


def _extents(operation: Operation) -> list[Pair]:
    """Shapes of the vectors and tiles that an operation makes."""
    return [_pair(result) if isinstance(result.type, VectorType) else tile_ops.tile_of(result).shape  # type: ignore[misc]
            for result in operation.results if isinstance(result.type, VectorType) or isinstance(
                operation, (tile_ops.InitTileOp, InitScatteredTileOp))]


def _has_maps(operation: Operation) -> bool:
    """Whether it is known how the maps of an operation's results are changed."""
    return isinstance(operation, (*_MAPPED, *_LOADS)) or \
        operation.name.split(".")[0] in _ELEMENTWISE


def _slice(operation: Operation, body: Block, *, vectors: bool = False) -> tuple[Operation, ...] | None:
    """The operations of a loop that one depends on, and itself, in order; None if they cannot be done for another step.

    With ``vectors`` also those that make vectors in front of the loop.
    """
    found: dict[Operation, None] = {}

    def belongs(value: SSAValue) -> bool:
        owner = value.owner
        return isinstance(owner, Operation) and owner not in found and (
            owner.parent is body or (vectors and isinstance(value.type, VectorType)))

    def visit(inner: Operation) -> bool:
        kinds = (tile_ops.InitTileOp, LoadScalarOp, *(_LOADS if vectors else ()))
        if not isinstance(inner, kinds) and (not inner.has_trait(Pure) or inner.regions):
            return False
        for value in inner.operands:
            if isinstance(value.owner, Block) and (value.owner is body or vectors) and (
                    isinstance(value.type, VectorType) or (value.owner is body and value is not body.args[0])):
                return False
            if belongs(value) and not visit(value.owner):  # type: ignore[arg-type]
                return False
        found[inner] = None
        return True

    return (*found,) if visit(operation) else None


def _shares(shape: Pair, subgroups: int, block: Pair, counts: Iterable[int]) -> WgMap | None:
    """The map in which each subgroup has as many blocks of an operand; None if there is none.

    Args:
        shape: of the operand.
        subgroups: how many there are.
        block: rows and columns of a block.
        counts: how many shares there may be down the operand, the best first.
    """
    (rows, columns), (height, width) = shape, block
    if rows % height or columns % width or (rows // height) * (columns // width) % subgroups:
        return None
    down = next((count for count in counts if rows // height % count == 0 and subgroups % count == 0
                 and columns // width % (subgroups // count) == 0), None)
    return None if down is None else WgMap((down, subgroups // down), (rows // down, columns // (subgroups // down)))


def _row_shares(shape: Pair, subgroups: int) -> WgMap | None:
    """The map in which each subgroup has as many whole rows, in pairs; None if there is none."""
    return None if shape[0] % (2 * subgroups) else WgMap((subgroups, 1), (shape[0] // subgroups, shape[1]))


def _pair(value: SSAValue) -> Pair:
    rows, columns = shape_of(value)
    return rows, columns
