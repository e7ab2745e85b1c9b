"""Transposes of computed vectors: of positions and masks, which are rows and columns put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.ir.create import create_like
from xegpu.ir.memref import is_shared
from xegpu.mlir.elementwise import RECORDS
from xegpu.mlir.vector import ShapeCastOp, shape_of, vector_type
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, copy_operation
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp
from xetile.dialect.reduction import TileBroadcastOp, axes_of
from xetile.dialect.types import WgMapAttr
from xetile.dialect.vector import IotaOp, TileTransposeOp
from xetile.dialect.wg_map import Pair, WgMap

_MAPPED = (BroadcastOp, IotaOp, TileBroadcastOp, TileTransposeOp)
"""Operations that say how their vector is distributed."""


def gathers_in(around: Operation) -> Iterator[LoadGatherOp]:
    """The gathers inside an operation."""
    return (operation for operation in around.walk() if isinstance(operation, LoadGatherOp))


def is_transposed(load: Operation) -> bool:
    """Whether a gather is only used transposed, of positions that are rows and columns put together."""
    if not isinstance(load, LoadGatherOp) or not isinstance(init := load.tile.owner, InitScatteredTileOp):
        return False
    users = [use.operation for use in load.result.uses]
    return bool(users) and all(isinstance(user, TileTransposeOp) for user in users) and \
        tile_ops.tile_of(load.tile).encoding.wg_map is None and len(shape_of(load.mask)) == 2 and \
        all(has_lines(value) for value in (init.indices, load.mask))


def is_published(load: Operation) -> bool:
    """Whether a gather of a subgroup is only stored, to shared local memory."""
    if not isinstance(load, LoadGatherOp) or not isinstance(load.tile.owner, InitScatteredTileOp) or \
            not load.result.has_one_use() or len(shape_of(load.result)) != 2:
        return False
    (store,) = [use.operation for use in load.result.uses]
    return isinstance(store, tile_ops.StoreTileOp) and isinstance(init := store.tile.owner, tile_ops.InitTileOp) and \
        is_shared(init.source.type) and tile_ops.tile_of(load.tile).encoding.wg_map is None


def has_lines(value: SSAValue) -> bool:
    """Whether a vector is computed from rows, columns and numbers alone, whose transposes cost little."""
    if min(shape_of(value)) == 1:
        return True
    owner = value.owner
    if isinstance(owner, (BroadcastOp, TileBroadcastOp, IotaOp)):
        return True
    return isinstance(owner, Operation) and type(owner) in RECORDS and all(
        has_lines(operand) for operand in owner.operands if isinstance(operand.type, VectorType))


class Transposer:
    """Inserts transposes of computed vectors.

    Args:
        inserter: for the function.
        anchor: the operation in front of which they are inserted.
        map_of: the map of a transpose of a shape, where vectors are distributed over subgroups.
    """

    def __init__(self, inserter: Inserter, anchor: Operation, map_of: Callable[[Pair], WgMap] | None = None) -> None:
        self.inserter, self.anchor, self._map_of = inserter, anchor, map_of
        self._made: dict[SSAValue, SSAValue] = {}

    def insert(self, operation: Operation) -> SSAValue:
        """Insert an operation; its first result."""
        if self._map_of is not None and isinstance(operation, _MAPPED):
            rows, columns = shape_of(operation.results[0])
            places = operation.attributes if isinstance(operation, BroadcastOp) else operation.properties
            places["wg_map"] = WgMapAttr(self._map_of((rows, columns)))
        return self.inserter.before(self.anchor, operation)

    def __call__(self, value: SSAValue) -> SSAValue:
        """The transpose of a vector; numbers stay."""
        if not isinstance(value.type, VectorType):
            return value
        if value not in self._made:
            self._made[value] = self._transposed(value)
        return self._made[value]

    def _transposed(self, value: SSAValue) -> SSAValue:
        owner, shape = value.owner, shape_of(value)[::-1]
        type_ = vector_type(shape, value.type.element_type)  # type: ignore[attr-defined]
        if isinstance(owner, BroadcastOp):
            return self.insert(BroadcastOp(owner.source, type_))
        if isinstance(owner, TileBroadcastOp):
            return self.insert(TileBroadcastOp(self(owner.source), shape, [1 - axis for axis in axes_of(owner)]))
        if isinstance(owner, IotaOp):
            return self.insert(IotaOp(type_, 1 - owner.axis.value.data, owner.start))
        if isinstance(owner, Operation) and type(owner) in RECORDS:
            return self.insert(create_like(owner, [self(operand) for operand in owner.operands], [type_]))
        if isinstance(owner, ShapeCastOp) and min(shape) == 1:
            return owner.source if shape_of(owner.source) == shape else self.insert(ShapeCastOp(owner.source, shape))
        if isinstance(owner, tile_ops.LoadTileOp) and isinstance(owner.tile.owner, tile_ops.InitTileOp):
            # by a tile of its own, all of whose loads are transposed, as row-major wants it
            known: dict[SSAValue, SSAValue] = {}
            for operation in (owner.tile.owner, owner):
                self.inserter.before(owner, copy_operation(operation, known))
            value = known[value]
        return self.insert(TileTransposeOp(value))


def replace_transposes(load: LoadGatherOp, columns: SSAValue) -> None:
    """Let a vector take the place of a gather's transposes."""
    columns.name_hint = load.result.name_hint
    for transpose in [use.operation for use in load.result.uses]:
        transpose.results[0].replace_all_uses_with(columns)
        erase(transpose)
    erase(load)
