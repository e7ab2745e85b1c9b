"""Block sizes of tiles and vectors: the role of a tile, the messages that move it, the blocks of computation.

Operands of products are loaded with the target's largest block messages; vectors of other operations have the blocks
of the accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.memory_access import access_kind
from xegpu.analysis.webs import Webs, view_webs
from xegpu.dialect.block_io import ARRAYS
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.ir.memref import is_shared
from xegpu.ir.region_branch import REGION_BRANCHES, TERMINATORS
from xegpu.ir.use_def import array_of, root_definitions
from xegpu.passes.distribute_lanes.operand_roles import CONVERSIONS, is_widened
from xegpu.support.errors import XeError, located
from xegpu.target.targets import BlockShape, MmaShape, Target
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import AtomicRMWTileOp, LoadColumnsOp, LoadGatherOp
from xetile.dialect.mma import LoadMmaOp, TileMmaOp, TileMmaScaledOp
from xetile.dialect.vector import TilePackOp, TileUnpackOp
from xetile.dialect.wg_map import Pair
from xetile.passes import mma_scaled
from xetile.passes.blocking import vector

_MEMORY = (tile_ops.InitTileOp, tile_ops.LoadTileOp, tile_ops.StoreTileOp, tile_ops.PrefetchTileOp,
           tile_ops.UpdateTileOffsetOp)
_PRODUCTS = (TileMmaOp, TileMmaScaledOp)
_UNLINKED = frozenset((*_MEMORY, *vector.OPERATIONS, TilePackOp, TileUnpackOp, *REGION_BRANCHES, *TERMINATORS))
_PREFETCH_COLUMNS = {8: (32, 16), 16: (16,), 32: (16, 8)}
"""Columns of the prefetch messages of a target, by the bits of an element."""
_LINE_BYTES = 64
"""Bytes of a row of the widest messages, and of a cache line."""
_SLM_BYTES = 8 * 512
"""The most that one operation loads from shared local memory: eight messages."""
_SLM_ROWS = 64
"""Rows of a block of 8-bit elements of operand B in shared local memory: with the bytes of a block of 16 bits there, as
many messages of one operation have one address, and distances from it."""
_UNBLOCKED_ROWS = 32
"""The most rows of a block without 2D block messages."""


def _vector_links(operation: Operation) -> Iterator[SSAValue]:
    """Links of vector webs: element-wise operations link their vectors, products their accumulator and result."""
    if type(operation) in _PRODUCTS:
        assert isinstance(operation, _PRODUCTS)
        yield from (value for value in (operation.acc, operation.result) if value is not None)
    elif type(operation) not in _UNLINKED:
        values = (*operation.operands, *operation.results)
        yield from (value for value in values if isinstance(value.type, VectorType))


class BlockSizes:
    """The analysis of one function, before its vectors are blocked.

    Args:
        function: a kernel of one subgroup, on vectors of two dimensions.
        target: whose block messages and products decide the block sizes.
        kinds: access kinds of its arrays, as far as they are known.
    """

    def __init__(self, function: func.FuncOp, target: Target, kinds: Mapping[Any, str] | None = None) -> None:
        self.target, self.kinds = target, kinds or {}
        self.tiles = view_webs(function)
        self.vectors = Webs(function, _vector_links)

    def compute_block(self, shape: Pair) -> Pair:
        """Rows and columns of an accumulator's blocks: a repeat count by the lanes of a subgroup.

        Where rows are shorter than that, a block has at least the rows that fill a register.
        """
        lanes = self.target.subgroup_size
        columns = lanes if shape[1] % lanes == 0 else next(c for c in range(min(lanes, shape[1]), 0, -1)
                                                           if shape[1] % c == 0 and lanes % c == 0)
        rows, register = self.target.repeat(shape[0]), lanes // columns
        return register if rows < register and shape[0] % register == 0 else rows, columns

    def side(self, vector: SSAValue) -> str:
        """``"a"`` or ``"b"`` for a value that is loaded and only ever that side of products, else empty."""
        return self.vectors.note("side", vector, self._side)

    def _side(self, vector: SSAValue) -> str:
        members, uses = self.vectors.members(vector), self.vectors.uses(vector)
        loaded = all(isinstance(member.owner, tile_ops.LoadTileOp) and member.owner.padding is None
                     for member in members)
        if not loaded or not all(isinstance(use.operation, _PRODUCTS) for use in uses):
            return ""
        sides = {"ab"[use.index] for use in uses if use.index < 2} | {"c" for use in uses if use.index == 2}
        return sides.pop() if len(sides) == 1 and sides < {"a", "b"} else ""

    def widened(self, vector: SSAValue) -> str:
        """``"a"`` or ``"b"`` for a value that is loaded in 8 bits, and of which every use is a conversion to that
        operand of DPAS in 16 bits (``xegpu.widen``); else empty."""
        load = vector.owner
        if not isinstance(load, tile_ops.LoadTileOp) or load.padding is not None or not self.target.block_io:
            return ""
        parameters = tile_ops.tile_of(load.tile)
        sides = {self.widens(use.operation) for use in vector.uses}
        if len(sides) != 1 or parameters.encoding.inner_blocks is not None:
            return ""
        side = sides.pop()
        if parameters.encoding.order == (0, 1) and (side != "b" or parameters.shape[1] % self.target.subgroup_size):
            return ""
        return side if side and parameters.shape["ab".index(side) ^ 1] % 32 == 0 else ""

    def widens(self, operation: Operation) -> str:
        """``"a"`` or ``"b"`` for a conversion from 8 to 16 bits whose result is only ever that operand of DPAS."""
        if not isinstance(operation, CONVERSIONS) or not isinstance(operation.operands[0].type, VectorType):
            return ""
        source, result = (of_mlir(value.type.element_type) for value in (operation.operands[0], operation.results[0]))  # type: ignore
        uses = list(operation.results[0].uses)
        if not is_widened(operation, source, result) or not uses:
            return ""
        if all(isinstance(use.operation, tile_ops.StoreTileOp) and self.published_form(use.operation.tile)
               for use in uses):
            return "b"
        sides = {use.index for use in uses if isinstance(use.operation, TileMmaOp)}
        products = all(isinstance(use.operation, TileMmaOp) for use in uses)
        return "ab"[sides.pop()] if products and len(sides) == 1 and sides < {0, 1} else ""

    def published_form(self, tile: SSAValue) -> MmaShape | None:
        """The shape of the products whose operand B is stored to shared local memory through a tile, if all elements of
        the array are used so; None for other tiles."""
        return self.tiles.note("published", tile, self._published_form)

    def _published_form(self, tile: SSAValue) -> MmaShape | None:
        parameters, array = tile_ops.tile_of(tile), array_of(tile)
        if not is_shared(array.type) or parameters.encoding.order != (1, 0) or not all(
                isinstance(use.operation, tile_ops.StoreTileOp) for use in self.tiles.uses(tile)):
            return None
        readers = [use.operation.results[0] for use in array.uses if isinstance(use.operation, tile_ops.InitTileOp)
                   and any(isinstance(user.operation, tile_ops.LoadTileOp)
                           for user in self.tiles.uses(use.operation.results[0]))]
        roles = {self.role(reader) for reader in readers}
        form = self.mma_shape_of(readers[0]) if roles == {"b"} else None
        fits = form is not None and form.engine == "dpas" and parameters.shape[0] % form.k == 0 and \
            parameters.shape[1] % self.target.subgroup_size == 0
        return form if fits else None

    def is_published(self, tile: SSAValue) -> bool:
        """Whether all values stored through a tile are words of operand B for others to load: widened, or gathered as
        columns."""
        stored = [use.operation.operands[0].owner for use in self.tiles.uses(tile)]
        return self.published_form(tile) is not None and all(
            isinstance(owner, LoadColumnsOp) or self.widens(owner) == "b" for owner in stored)  # type: ignore[arg-type]

    def widened_tile(self, tile: SSAValue) -> str:
        """Common result of :meth:`widened` for all loads of a tile's web."""
        return self.tiles.note("widened", tile, self._widened_tile)

    def _widened_tile(self, tile: SSAValue) -> str:
        users = [use.operation for use in self.tiles.uses(tile)]
        sides = {self.widened(user.result) for user in users if isinstance(user, tile_ops.LoadTileOp)}
        stores = any(isinstance(user, (tile_ops.StoreTileOp, AtomicRMWTileOp)) for user in users)
        return sides.pop() if len(sides) == 1 and not stores else ""

    def role(self, tile: SSAValue) -> str:
        """The role of a tile's web: ``a``, ``b``, ``load``, ``store``, ``prefetch``, ``words`` or ``fused``."""
        return self.tiles.note("role", tile, self._role)

    def _role(self, tile: SSAValue) -> str:
        operations = {type(use.operation): use.operation for use in self.tiles.uses(tile)}
        if LoadMmaOp in operations:
            return "fused"
        if self.words(tile) is not None:
            return "words"
        if tile_ops.StoreTileOp in operations or AtomicRMWTileOp in operations:
            return "store"
        sides = {self.side(use.operation.results[0]) for use in self.tiles.uses(tile)
                 if isinstance(use.operation, tile_ops.LoadTileOp)}
        if not sides:
            return "prefetch"
        return sides.pop() or "load" if len(sides) == 1 else "load"

    def words(self, tile: SSAValue) -> BlockShape | None:
        """The VNNI-transforming message of a tile that is copied to a transpose in SLM (``vector.py``); else None."""
        parameters = tile_ops.tile_of(tile)
        if not self.tiles.note("transposes", tile, lambda tile: vector.copies_transpose(self.tiles, tile)):
            return None
        return self.target.largest_block("read_transform", parameters.dtype.bits, self.target.subgroup_size,
                                         parameters.shape)

    def mma_shape_of(self, tile: SSAValue) -> MmaShape | None:
        """The shape of the products that take the elements of a tile's web."""
        return self.tiles.note("form", tile, self._mma_shape_of)

    def _mma_shape_of(self, tile: SSAValue) -> MmaShape | None:
        for use in self.tiles.uses(tile):
            if isinstance(use.operation, tile_ops.LoadTileOp):
                for inner in self.vectors.uses(use.operation.result):
                    if isinstance(inner.operation, _PRODUCTS):
                        return self.mma_shape(inner.operation)
        return None

    def mma_shape(self, operation: TileMmaOp | TileMmaScaledOp) -> MmaShape:
        """The target's product shape for an operation.

        Raises:
            TargetError: the target has none for these element types.
        """
        if isinstance(operation, TileMmaScaledOp):
            mma_scaled.check_target(operation, self.target)
        types = [of_mlir(value.type.element_type) for value in (operation.a, operation.b, operation.result)]  # type: ignore
        try:
            return self.target.mma_shape(*types)
        except XeError as error:
            raise located(error, operation) from None

    def tile_blocks(self, tile: SSAValue) -> tuple[Pair, int]:
        """Rows and columns of a tile's blocks, and how many of them lie side by side in one message."""
        parameters, role = tile_ops.tile_of(tile), self.role(tile)
        shape, dtype = parameters.shape, parameters.dtype
        if role == "fused":
            return shape, 1
        if (block := self.words(tile)) is not None:
            return (block.rows, block.columns), 1 if parameters.encoding.order == (0, 1) else block.blocks
        if parameters.encoding.order == (0, 1):
            return self._transposed_blocks(tile, role)
        if role == "prefetch":
            return self._prefetch_blocks(shape, dtype)
        if side := self.widened_tile(tile):
            kind, columns = ("read", 32) if side == "a" else ("read_transform", self.target.subgroup_size)
            return self._message(kind, dtype, columns, shape)
        if role in "ab" and (form := self.mma_shape_of(tile)) is not None:
            columns = form.k if role == "a" else self.target.subgroup_size
            transform = role == "b" and form.engine == "dpas" and dtype.bits < 32
            if form.engine == "dpas" and not self.target.block_io:
                return self._step(role, form.k, shape)
            blocks, length = self._message("read_transform" if transform else "read", dtype, columns, shape)
            if transform and dtype.bits == 8 and shape[0] % _SLM_ROWS == 0 and self._is_alone_in_slm(tile):
                blocks = _SLM_ROWS, blocks[1]
            elif transform and dtype.bits == 16 and self._is_gathered(tile):
                blocks = form.k, blocks[1]
            return blocks, self._side_by_side(tile, shape, blocks, length)
        kind = "write" if role == "store" else "read"
        compute = self.compute_block(shape)
        if kind == "write":
            form = self.published_form(tile) if self.is_published(tile) else None
            return (compute if form is None else (form.k, self.target.subgroup_size)), 1
        if (wider := self._wider(tile, compute[1])) is not None:
            return (wider.rows, wider.columns), wider.blocks
        return self._message(kind, dtype, compute[1], shape)

    def _wider(self, tile: SSAValue, columns: int) -> BlockShape | None:
        """A message for rows that are shorter than those of any: its last blocks are left out. None if
        none is needed.

        Memory comes in lines of 64 bytes anyway, and the other way is row by row.
        """
        (rows, width), dtype = tile_ops.tile_of(tile).shape, tile_ops.tile_of(tile).dtype
        makers = [making.owner for making in root_definitions(tile)]
        if width % columns or self.target.largest_block("read", dtype.bits, columns, (rows, width)) is not None or \
                not all(isinstance(maker, tile_ops.InitTileOp) and access_kind(maker, self.kinds) == "block"
                        for maker in makers):
            return None
        line = _LINE_BYTES // dtype.bytes
        return self.target.largest_block("read", dtype.bits, columns, (rows, width + -width % line))

    def _is_gathered(self, tile: SSAValue) -> bool:
        """Whether a tile's array in shared local memory has rows or columns that subgroups gather: addresses and masks
        of what they gather next are in registers, too, and a block of a product's depth takes as few messages."""
        array = array_of(tile)
        return is_shared(array.type) and any(
            isinstance(store.operation, tile_ops.StoreTileOp) and isinstance(
                store.operation.operands[0].owner, (LoadColumnsOp, LoadGatherOp))
            for use in array.uses if isinstance(use.operation, tile_ops.InitTileOp)
            for store in self.tiles.uses(use.operation.results[0]))

    def _is_alone_in_slm(self, tile: SSAValue) -> bool:
        """Whether operand B lies in shared local memory, and A elsewhere: loads of both there share the registers."""
        products = [product.operation for use in self.tiles.uses(tile)
                    if isinstance(use.operation, tile_ops.LoadTileOp) for product in use.operation.result.uses]
        lefts = [product.a.owner for product in products if isinstance(product, TileMmaOp)]
        return is_shared(array_of(tile).type) and not any(
            isinstance(left, tile_ops.LoadTileOp) and is_shared(array_of(left.tile).type) for left in lefts)

    def has_message(self, tile: SSAValue, blocks: Pair) -> bool:
        """Whether a message can move the author's ``inner_blocks`` of a tile, without reblocking along its columns.

        Without 2D block IO, rows or elements are read one by one, and any power of two of them is a block; so in shared
        local memory.
        """
        parameters, role = tile_ops.tile_of(tile), self.role(tile)
        shape, dtype, (rows, columns) = parameters.shape, parameters.dtype, blocks
        if role in ("fused", "words") or parameters.encoding.order == (0, 1) or shape[0] % rows or shape[1] % columns:
            return False
        if role == "prefetch":
            return self.target.has_block("prefetch", dtype.bits, rows, columns, 1)
        kind, unit = self._operand_unit(tile, role)
        if columns != unit[1] or rows % unit[0] or rows * columns % self.target.subgroup_size:
            return False
        if self.target.block_io and not is_shared(array_of(tile).type):
            return self.target.has_block(kind, dtype.bits, rows, columns, 1)
        return rows & (rows - 1) == 0

    def _operand_unit(self, tile: SSAValue, role: str) -> tuple[str, Pair]:
        """The kind of a tile's messages by its role, and rows and columns of which their blocks are multiples."""
        shape, form = tile_ops.tile_of(tile).shape, self.mma_shape_of(tile) if role in "ab" else None
        if form is None:
            return "write" if role == "store" else "read", (1, self.compute_block(shape)[1])
        if role == "a":
            return "read", (self.target.repeat(shape[0]), form.k)
        transforms = form.engine == "dpas" and tile_ops.tile_of(tile).dtype.bits < 32
        return "read_transform" if transforms else "read", (form.k, self.target.subgroup_size)

    def _transposed_blocks(self, tile: SSAValue, role: str) -> tuple[Pair, int]:
        """Blocks of a tile whose columns are contiguous: one row of memory a lane, eight 32-bit words of it."""
        shape, dtype, lanes = tile_ops.tile_of(tile).shape, tile_ops.tile_of(tile).dtype, self.target.subgroup_size
        if role == "prefetch":
            (rows, columns), length = self._prefetch_blocks(shape[::-1], dtype)
            return (columns, rows), length
        if role == "store":
            return self.compute_block(shape), 1
        words = 8 * 32 // dtype.bits
        if self.widened_tile(tile) or self.comes_in_words(tile):
            return (words, lanes), 1
        form = self.mma_shape_of(tile) if role in "ab" else None
        if form is not None and form.engine == "dpas":
            if role == "b" and shape[0] % words == 0 and words == form.k:
                return (words, lanes), 1
            if role == "a" and dtype.bits == 16 and shape[0] % words == 0:
                return (words, lanes), 1
        columns = form.k if role == "a" and form is not None else self.compute_block(shape)[1]
        return self._message("none", dtype, columns, shape)

    def reads_transposed(self, tile: SSAValue, blocks: Pair, length: int) -> bool:
        """Whether a tile whose columns are contiguous is read along them: then its messages transpose."""
        role = self.role(tile)
        if self.widened_tile(tile):
            return True
        words = 8 * 32 // tile_ops.tile_of(tile).dtype.bits
        is_whole = blocks == (words, self.target.subgroup_size) and length == 1
        return role == "prefetch" or (is_whole and self.comes_in_words(tile)) or (
            role in "ab" and is_whole and (form := self.mma_shape_of(tile)) is not None and form.engine == "dpas")

    def comes_in_words(self, tile: SSAValue) -> bool:
        """Whether a tile whose columns are contiguous, and which is computed with, fills messages that transpose words
        of its columns."""
        return self.tiles.note("in words", tile, self._comes_in_words)

    def _comes_in_words(self, tile: SSAValue) -> bool:
        (rows, columns), dtype = tile_ops.tile_of(tile).shape, tile_ops.tile_of(tile).dtype
        if not self.target.block_io or dtype.bits not in (8, 16, 32) or self.role(tile) != "load" or \
                rows % (8 * 32 // dtype.bits) or columns % self.target.subgroup_size or is_shared(array_of(tile).type):
            return False
        return all(use.operation.padding is None for use in self.tiles.uses(tile)
                   if isinstance(use.operation, tile_ops.LoadTileOp))

    def _message(self, kind: str, dtype: DType, columns: int, shape: Pair) -> tuple[Pair, int]:
        block = self.target.largest_block(kind, dtype.bits, columns, shape)
        if block is not None:
            return (block.rows, block.columns), block.blocks
        rows = gcd(shape[0], _UNBLOCKED_ROWS)  # a power of two, as rows of operands are: none straddles two blocks
        if shape[1] % columns:
            return (rows, shape[1]), 1
        return (rows, columns), next(count for count in (8, 4, 2, 1) if shape[1] // columns % count == 0)

    def _side_by_side(self, tile: SSAValue, shape: Pair, block: Pair, length: int) -> int:
        """Blocks that one operation loads: from shared local memory as many as eight messages move, or ``length``."""
        if not is_shared(array_of(tile).type):
            return length
        most = _SLM_BYTES // (block[0] * block[1] * tile_ops.tile_of(tile).dtype.bytes)
        return next((count for count in reversed(ARRAYS)
                     if length < count <= most and shape[1] % (count * block[1]) == 0), length)

    def _step(self, role: str, depth: int, shape: Pair) -> tuple[Pair, int]:
        """Blocks of one DPAS step, without 2D block IO: rows are read just before their use, to save registers."""
        if role == "a":
            return (gcd(shape[0], _UNBLOCKED_ROWS), depth), 1
        columns = self.target.subgroup_size
        return (depth, columns), next(count for count in (8, 4, 2, 1) if shape[1] // columns % count == 0)

    def _prefetch_blocks(self, shape: Pair, dtype: DType) -> tuple[Pair, int]:
        options = [self.target.largest_block("prefetch", dtype.bits, columns, shape)
                   for columns in _PREFETCH_COLUMNS.get(dtype.bits, ())]
        found = [block for block in options if block is not None]
        if not found:
            return shape, 1
        best = max(found, key=lambda block: block.rows * block.columns * block.blocks)
        return (best.rows, best.columns), best.blocks
