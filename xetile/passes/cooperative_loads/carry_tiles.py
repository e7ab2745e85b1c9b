"""Tiles that a loop of products makes anew in each step become loop-carried tiles.

    for %k = %0 to %n step %32 {
      %t = init_tile %A, [%m, %k]
      %a = load_tile %t }
becomes
    %t0 = init_tile %A, [%m, %0]
    for %k = %0 to %n step %32 (%t = %t0) {
      %a = load_tile %t
      yield update_tile_offset %t, [%0, %32] }

Where nothing is loaded in shares then (:mod:`.shared_operands`), the kernel stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Region, SSAValue

from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, rewrite
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.passes.cooperative_loads.analysis import cooperative_loops, is_made_in


@dataclass(frozen=True)
class CarryTiles:
    """The pass.

    Attributes:
        target: its block messages and its shared local memory.
        access: for each argument how it may be reached.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such tiles carried, if one of them is loaded in shares; else itself."""
        return rewrite(module, self._function)

    def _function(self, function: func.FuncOp) -> func.FuncOp:
        if not any(_made_anew(loop) for loop in function.walk() if isinstance(loop, scf.ForOp)):
            return function
        new = _CarryTilesRewriter().function(function)
        return new if cooperative_loops(new, self.access, self.target) else function


def _made_anew(loop: scf.ForOp) -> list[tile_ops.InitTileOp]:
    """The tiles that a loop of products makes anew in each step, and could carry."""
    body = loop.body.block
    if not any(isinstance(operation, TileMmaOp) for operation in body.ops):
        return []
    return [operation for operation in body.ops
            if isinstance(operation, tile_ops.InitTileOp) and _moves(operation, body)]


class _CarryTilesRewriter(Rewriter):
    """One function's rewrite.

    Attributes:
        tiles: what carries the tiles that were made in a loop.
    """

    def __init__(self) -> None:
        super().__init__({tile_ops.InitTileOp: _init_tile})
        self.tiles: dict[tile_ops.InitTileOp, SSAValue] = {}

    def loop(self, loop: scf.ForOp) -> None:
        """A loop, with more tiles carried."""
        old = loop.body.block
        inits = _made_anew(loop)
        if not inits:
            super().loop(loop)
            return
        carried = [self.lookup(value) for value in loop.iter_args]
        count, place = len(carried), self.place
        carried += [ConvertedValues((self._first(init, loop),)) for init in inits]
        block = Block(arg_types=[IndexType(), *(value.type for parts in carried for value in parts.values)])
        self.set(old.args[0], block.args[0])
        block.args[0].name_hint = old.args[0].name_hint
        self.regroup(old.args[1:], carried[:count], block.args[1:])
        tiles = block.args[len(block.args) - len(inits):]
        self.tiles.update(zip(inits, tiles, strict=True))
        yielded, self.place = self.body(old, block), place
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
        """The tile of the first step, made in front of the loop."""
        counter, start = loop.body.block.args[0], self.single(loop.lb)
        offsets = []
        for offset in init.offsets:
            beside = _beside(offset, counter)
            if offset is counter:
                offsets.append(start)
            else:
                offsets.append(self.single(offset) if beside is None else self.add(start, self.single(beside)))
        sizes, strides = ([self.single(value) for value in group] for group in (init.shape, init.strides))
        made = tile_ops.InitTileOp(self.single(init.source), offsets, sizes, strides, init.result.type)  # type: ignore[arg-type]
        made.attributes.update(init.attributes)
        made.result.name_hint = init.result.name_hint
        self.place, before = init.location, self.place
        value = self.emit(made)
        self.place = before
        return value

    def _next(self, init: tile_ops.InitTileOp, loop: scf.ForOp, tile: SSAValue) -> SSAValue:
        """The tile of the step after."""
        counter, step = loop.body.block.args[0], self.single(loop.step)
        by = [step if offset is counter or _beside(offset, counter) is not None else self.constant(0)
              for offset in init.offsets[-2:]]
        return self.emit(tile_ops.UpdateTileOffsetOp(tile, by))


def _init_tile(rewriter: _CarryTilesRewriter, operation: tile_ops.InitTileOp) -> None:
    if operation in rewriter.tiles:
        rewriter.set(operation.result, rewriter.tiles[operation])
    else:
        rewriter.copy(operation)


def _moves(init: tile_ops.InitTileOp, body: Block) -> bool:
    """Whether a tile that a body makes stands at the loop's counter along one dimension, or at that and what stays."""
    counter = body.args[0]
    rest = [value for value in init.operands if value is not counter and _beside(value, counter) is None]
    moving = [offset for offset in init.offsets[-2:] if offset is counter or _beside(offset, counter) is not None]
    stays = len(rest) == len(init.operands) - 1 and not any(is_made_in(value, body) for value in rest)
    return stays and len(moving) == 1


def _beside(value: SSAValue, counter: SSAValue) -> SSAValue | None:
    """What is added to a loop's counter to give a value, if it stays the same in the loop."""
    made, body = value.owner, counter.owner
    if not isinstance(made, arith.AddiOp) or made.parent is not body:
        return None
    others = [operand for operand in made.operands if operand is not counter]
    return others[0] if len(others) == 1 and not is_made_in(others[0], body) else None

