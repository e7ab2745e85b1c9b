"""Load duplication: a tile that is used both as it is and, transposed, as operand B is loaded twice.

    %v = load_tile %t : -> vector<32x64xbf16>
    %w = tile_transpose %v : -> vector<64x32xbf16>
    %s = tile_mma %q, %w
    %o = tile_mma %p, %v, %acc
becomes
    %v = load_tile %t : -> vector<32x64xbf16>
    %v2 = load_tile %t2 : -> vector<32x64xbf16>          %t2 is a tile of its own, initialized and moved as %t is
    %w = tile_transpose %v2 : -> vector<64x32xbf16>
    %s = tile_mma %q, %w
    %o = tile_mma %p, %v, %acc

All loads of ``%t2`` are transposed, so that ``row-major`` makes transposing block messages of them. A transposition in
registers takes moves of single elements, several for each register; the second load comes from the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue, Use

from xegpu.analysis.memory_access import access_kind
from xegpu.analysis.webs import Webs, view_webs
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.vector import TileTransposeOp

_BLOCK_KINDS = ("block", "block-columns")
"""Arrays that block messages read in both orders; from others each load is element by element."""
_CONTIGUOUS_KINDS = (*_BLOCK_KINDS, "rows", "columns")
"""Arrays that a target without block messages reads in both orders by vectors: a row by a subgroup, or by a lane."""
_TILE_USERS = (tile_ops.LoadTileOp, tile_ops.PrefetchTileOp, tile_ops.UpdateTileOffsetOp)
"""Operations that may use a duplicated tile: no writes, which could come between the loads of one value."""


@dataclass(frozen=True)
class DuplicateLoads:
    """Pass ``duplicate-loads``.

    Attributes:
        target: whose messages read the arrays.
        access: for each argument its access kind.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such loads duplicated; the module itself if there are none."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        webs, kinds = view_webs(function), dict(zip(function.body.block.args, self.access, strict=True))
        inits: dict[SSAValue, list[tile_ops.InitTileOp]] = {}
        for operation in function.walk():
            if isinstance(operation, tile_ops.InitTileOp):
                inits.setdefault(webs.root(operation.result), []).append(operation)
        readable = _BLOCK_KINDS if self.target.block_io else _CONTIGUOUS_KINDS
        roots = {root for root, group in inits.items() if _has_both_uses(webs, root)
                 and all(access_kind(init, kinds) in readable for init in group)}
        return _DuplicateLoadsRewriter(webs, roots).function(function) if roots else function


def _has_both_uses(webs: Webs, tile: SSAValue) -> bool:
    """Whether loads from a tile's web are used both as they are and transposed, as operand B."""
    if not all(isinstance(use.operation, _TILE_USERS) for use in webs.uses(tile)):
        return False
    transposed = [_is_transposed_b(use) for use in _uses_of_loads(webs, tile)]
    return any(transposed) and not all(transposed)


def _uses_of_loads(webs: Webs, tile: SSAValue) -> Iterator[Use]:
    for use in webs.uses(tile):
        if isinstance(use.operation, tile_ops.LoadTileOp):
            yield from use.operation.result.uses


def _is_transposed_b(use: Use) -> bool:
    """Whether a use is a transposition whose result is nothing but operand B of products."""
    transpose = use.operation
    return isinstance(transpose, TileTransposeOp) and bool(transpose.result.uses) and all(
        isinstance(user.operation, TileMmaOp) and user.operation.b is transpose.result
        and transpose.result not in (user.operation.a, user.operation.acc) for user in transpose.result.uses)


class _DuplicateLoadsRewriter(Rewriter):
    """Rewriter of one function.

    Attributes:
        webs: the tiles of the old function.
        roots: representatives of the webs that are duplicated; their values have two replacements.
        duplicates: the second load of each load of these.
    """

    def __init__(self, webs: Webs, roots: set[SSAValue]) -> None:
        super().__init__({tile_ops.InitTileOp: _init_tile, tile_ops.LoadTileOp: _load_tile,
                          tile_ops.PrefetchTileOp: _prefetch_tile, TileTransposeOp: _tile_transpose})
        self.webs, self.roots = webs, roots
        self.duplicates: dict[SSAValue, SSAValue] = {}


def _init_tile(rewriter: _DuplicateLoadsRewriter, operation: tile_ops.InitTileOp) -> None:
    rewriter.copy(operation)
    if rewriter.webs.root(operation.result) not in rewriter.roots:
        return
    original = rewriter.single(operation.result)
    rewriter.copy(operation)
    rewriter.set(operation.result, (original, rewriter.single(operation.result)))


def _load_tile(rewriter: _DuplicateLoadsRewriter, operation: tile_ops.LoadTileOp) -> None:
    tiles = rewriter.lookup(operation.tile).values
    if len(tiles) == 1:
        rewriter.copy(operation)
        return
    loads = [tile_ops.LoadTileOp(tile, operation.padding) for tile in tiles]
    for load in loads:
        load.attributes.update(operation.attributes)
    original, duplicate = (rewriter.emit(load) for load in loads)
    rewriter.set(operation.result, original)
    rewriter.duplicates[operation.result] = duplicate


def _prefetch_tile(rewriter: _DuplicateLoadsRewriter, operation: tile_ops.PrefetchTileOp) -> None:
    prefetch = tile_ops.PrefetchTileOp(rewriter.lookup(operation.tile).values[0])
    prefetch.properties.update(operation.properties)
    prefetch.attributes.update(operation.attributes)
    rewriter.emit(prefetch)


def _tile_transpose(rewriter: _DuplicateLoadsRewriter, operation: TileTransposeOp) -> None:
    (use,) = (use for use in operation.source.uses if use.operation is operation)
    if operation.source not in rewriter.duplicates or not _is_transposed_b(use):
        rewriter.copy(operation)
        return
    transpose = TileTransposeOp(rewriter.duplicates[operation.source])
    transpose.properties.update(operation.properties)
    transpose.attributes.update(operation.attributes)
    rewriter.set(operation.result, rewriter.emit(transpose))
