"""Loop-carried tiles: a tile that a GEMM loop initializes in each step becomes loop-carried, and is advanced.

    for %k = %0 to %n step %32 {
      %t = init_tile %A, [%m, %k]
      %a = load_tile %t }
becomes
    %t0 = init_tile %A, [%m, %0]
    for %k = %0 to %n step %32 (%t = %t0) {
      %a = load_tile %t
      yield update_tile_offset %t, [%0, %32] }

A kernel that gets no cooperative loads by this (:mod:`xetile.passes.cooperative_loads`) is unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Region, SSAValue

from xegpu.ir.region_branch import for_loops
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, rewrite
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.passes.cooperative_loads.analysis import cooperative_loops, is_defined_in


@dataclass(frozen=True)
class CarryTiles:
    """Pass ``carry-tiles``.

    Attributes:
        target: its block messages and its shared local memory.
        access: for each argument its access kind.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such tiles carried, if this allows a cooperative load; else itself."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        if not any(_induced_tiles(loop) for loop in for_loops(function)):
            return function
        new = _CarryTilesRewriter().function(function)
        return new if any(cooperative_loops(new, self.access, self.target)) else function


def _induced_tiles(loop: scf.ForOp) -> list[tile_ops.InitTileOp]:
    """The tiles that a loop of products initializes from its induction variable, and could carry."""
    body = loop.body.block
    if not any(isinstance(operation, TileMmaOp) for operation in body.ops):
        return []
    return [operation for operation in body.ops
            if isinstance(operation, tile_ops.InitTileOp) and _is_induced(operation, body)]


class _CarryTilesRewriter(Rewriter):
    """Rewriter of one function.

    Attributes:
        tiles: the loop-carried tile for each of the replaced ``init_tile``.
    """

    def __init__(self) -> None:
        super().__init__({tile_ops.InitTileOp: _init_tile})
        self.tiles: dict[tile_ops.InitTileOp, SSAValue] = {}

    def loop(self, loop: scf.ForOp) -> None:
        """A loop, with its induced tiles carried."""
        old = loop.body.block
        inits = _induced_tiles(loop)
        if not inits:
            super().loop(loop)
            return
        carried = [self.lookup(value) for value in loop.iter_args]
        count, location = len(carried), self.location
        carried += [ConvertedValues((self._first(init, loop),)) for init in inits]
        block = Block(arg_types=[IndexType(), *(value.type for parts in carried for value in parts.values)])
        self.set(old.args[0], block.args[0])
        block.args[0].name_hint = old.args[0].name_hint
        self.regroup(old.args[1:], carried[:count], block.args[1:])
        tiles = block.args[len(block.args) - len(inits):]
        self.tiles.update(zip(inits, tiles, strict=True))
        yielded, self.location = self.body(old, block), location
        with self.inside(block):
            yielded += [ConvertedValues((self._next(init, loop, tile),)) for init, tile in zip(inits, tiles,
                                                                                               strict=True)]
        self.close(block, yielded, carried)
        start, stop, step = (self.single(value) for value in (loop.lb, loop.ub, loop.step))
        new = scf.ForOp(start, stop, step, [value for parts in carried for value in parts.values], Region(block))
        new.attributes.update(loop.attributes)
        self.emit(new)
        self.regroup(loop.res, carried[:count], new.res)

    def _first(self, init: tile_ops.InitTileOp, loop: scf.ForOp) -> SSAValue:
        """The tile of the first step, initialized in front of the loop."""
        iv, start = loop.body.block.args[0], self.single(loop.lb)
        offsets = []
        for offset in init.offsets:
            addend = _invariant_addend(offset, iv)
            if offset is iv:
                offsets.append(start)
            else:
                offsets.append(self.single(offset) if addend is None else self.add(start, self.single(addend)))
        sizes, strides = ([self.single(value) for value in group] for group in (init.shape, init.strides))
        first = tile_ops.InitTileOp(self.single(init.source), offsets, sizes, strides, init.result.type)  # type: ignore[arg-type]
        first.attributes.update(init.attributes)
        first.result.name_hint = init.result.name_hint
        self.location, before = init.location, self.location
        value = self.emit(first)
        self.location = before
        return value

    def _next(self, init: tile_ops.InitTileOp, loop: scf.ForOp, tile: SSAValue) -> SSAValue:
        """The tile of the next step."""
        iv, step = loop.body.block.args[0], self.single(loop.step)
        by = [step if offset is iv or _invariant_addend(offset, iv) is not None else self.constant(0)
              for offset in init.offsets[-2:]]
        return self.emit(tile_ops.UpdateTileOffsetOp(tile, by))


def _init_tile(rewriter: _CarryTilesRewriter, operation: tile_ops.InitTileOp) -> None:
    if operation in rewriter.tiles:
        rewriter.set(operation.result, rewriter.tiles[operation])
    else:
        rewriter.copy(operation)


def _is_induced(init: tile_ops.InitTileOp, body: Block) -> bool:
    """Whether one offset of a tile is the induction variable, or that plus an invariant, and all else is invariant."""
    iv = body.args[0]
    rest = [value for value in init.operands if value is not iv and _invariant_addend(value, iv) is None]
    moving = [offset for offset in init.offsets[-2:] if offset is iv or _invariant_addend(offset, iv) is not None]
    stays = len(rest) == len(init.operands) - 1 and not any(is_defined_in(value, body) for value in rest)
    return stays and len(moving) == 1


def _invariant_addend(value: SSAValue, iv: SSAValue) -> SSAValue | None:
    """The loop-invariant addend of a value that is the induction variable plus it; None for other values."""
    add, body = value.owner, iv.owner
    if not isinstance(add, arith.AddiOp) or add.parent is not body:
        return None
    addends = [operand for operand in add.operands if operand is not iv]
    return addends[0] if len(addends) == 1 and not is_defined_in(addends[0], body) else None

