"""Tiles that a loop of products makes anew in each step, as tiles that it carries and moves.

    for %k = %0 to %n step %32 {
      %t = init_tile %A, [%m, %k]
      %a = load_tile %t }
becomes
    %t0 = init_tile %A, [%m, %0]
    for %k = %0 to %n step %32 (%t = %t0) {
      %a = load_tile %t
      yield update_tile_offset %t, [%0, %32] }

It is for those who look at what a loop carries (:mod:`.shared_operands`), and no stage of its own.
"""

from __future__ import annotations

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, Region, SSAValue

from xegpu.rewrite.rewriter import Parts, Rebuilder
from xetile.dialect import tile_ops


def carry(function: func.FuncOp) -> func.FuncOp:
    """The function with such tiles carried."""
    return _Carrier().function(function)


class _Carrier(Rebuilder):
    """One function's rewrite.

    Attributes:
        tiles: what carries the tiles that were made in a loop.
    """

    def __init__(self) -> None:
        super().__init__({tile_ops.InitTileOp: _init})
        self.tiles: dict[tile_ops.InitTileOp, SSAValue] = {}

    def loop(self, loop: scf.ForOp) -> None:
        """A loop, with more tiles carried."""
        old = loop.body.block
        inits = [operation for operation in old.ops if isinstance(operation,
                                                                  tile_ops.InitTileOp) and _moves(operation, old)]
        if not inits or not any(isinstance(operation, tile_ops.TileMmaOp) for operation in old.ops):
            super().loop(loop)
            return
        carried = [self.get(value) for value in loop.iter_args]
        count, place = len(carried), self.place
        carried += [Parts((self._first(init, loop),)) for init in inits]
        block = Block(arg_types=[IndexType(), *(value.type for parts in carried for value in parts.values)])
        self.set(old.args[0], block.args[0])
        block.args[0].name_hint = old.args[0].name_hint
        self.regroup(old.args[1:], carried[:count], block.args[1:])
        tiles = block.args[len(block.args) - len(inits):]
        self.tiles.update(zip(inits, tiles, strict=True))
        yielded, self.place = self.body(old, block), place
        with self.inside(block):
            yielded += [Parts((self._next(init, loop, tile),)) for init, tile in zip(inits, tiles, strict=True)]
        self.close(block, yielded, carried)
        start, stop, step = (self.one(value) for value in (loop.lb, loop.ub, loop.step))
        new = scf.ForOp(start, stop, step, [value for parts in carried for value in parts.values], Region(block))
        new.attributes.update(loop.attributes)
        self.emit(new)
        self.regroup(loop.res, carried[:count], new.res)

    def _first(self, init: tile_ops.InitTileOp, loop: scf.ForOp) -> SSAValue:
        """The tile of the first step, made in front of the loop."""
        counter, start = loop.body.block.args[0], self.one(loop.lb)
        offsets = []
        for offset in init.offsets:
            beside = _beside(offset, counter)
            if offset is counter:
                offsets.append(start)
            else:
                offsets.append(self.one(offset) if beside is None else self.add(start, self.one(beside)))
        sizes, strides = ([self.one(value) for value in group] for group in (init.shape, init.strides))
        made = tile_ops.InitTileOp(self.one(init.source), offsets, sizes, strides, init.result.type)  # type: ignore[arg-type]
        made.attributes.update(init.attributes)
        made.result.name_hint = init.result.name_hint
        self.place, before = init.location, self.place
        value = self.emit(made)
        self.place = before
        return value

    def _next(self, init: tile_ops.InitTileOp, loop: scf.ForOp, tile: SSAValue) -> SSAValue:
        """The tile of the step after."""
        counter, step = loop.body.block.args[0], self.one(loop.step)
        by = [step if offset is counter or _beside(offset, counter) is not None else self.constant(0)
              for offset in init.offsets[-2:]]
        return self.emit(tile_ops.UpdateTileOffsetOp(tile, by))


def _init(build: _Carrier, operation: tile_ops.InitTileOp) -> None:
    if operation in build.tiles:
        build.set(operation.result, build.tiles[operation])
    else:
        build.copy(operation)


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


def is_made_in(value: SSAValue, body: Block | Operation) -> bool:
    """Whether a value is made in the body of a loop."""
    owner = value.owner
    return owner is body or (isinstance(owner, Operation) and owner.parent is body)
