"""Deepening of K in fused load+mma on CPUs: longer steps, which load and store accumulators less often.

    for %k = %c0 to %K step %c32 iter_args(%a, %b, %acc) {
      %c = load_mma %a, %b, %acc : tile<32x32xbf16>, tile<32x64xbf16>
      %a1 = update_tile_offset %a, [0, 32] ; %b1 = update_tile_offset %b, [32, 0]
becomes
    for %k = %c0 to %K step %c64 iter_args(%a, %b, %acc) {
      %c = load_mma %a, %b, %acc : tile<32x64xbf16>, tile<64x64xbf16>
      %a1 = update_tile_offset %a, [0, 64] ; %b1 = update_tile_offset %b, [64, 0]

A loop that runs to the last column of A, or to their number rounded up to whole steps, may step over its end, where
loads are zeros. So the loop must have no other operations, start at the offset of A's tile, and have no results but
accumulators, which must not be rounded each step.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from xegpu.analysis.webs import Webs, view_webs
from xegpu.ir.dtypes import bf16, f16, f32, i32, of_mlir
from xegpu.ir.matchers import number, same_number
from xegpu.ir.memref import static_form
from xegpu.ir.region_branch import for_loops
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xegpu.target.gemm_microkernel import MicrokernelShape
from xetile.dialect import tile_ops
from xetile.dialect.mma import LoadMmaOp
from xetile.dialect.types import TileType

_FACTORS = (16, 8, 4, 2)
_DEEPEST = 128
"""The largest K tile: sums of 8-bit integers that are computed as floats stay exact, and longer ones are no faster."""
_DEEPEST_OF_FLOATS = 512
"""The largest K tile with f32 accumulators, and of micro-kernels: each step loads and stores them all, and packs a
smaller panel of B."""
_EXACT = 1 << 24
"""Sums of integers up to this are exact in float32, in which text without micro-kernels adds up products of bytes."""
_PANEL = 4096
"""The most elements of a panel of B that is widened while it is packed: as f32 half of a 32 KiB L1 cache."""
_ALLOWED = (LoadMmaOp, tile_ops.UpdateTileOffsetOp, tile_ops.PrefetchTileOp, arith.ConstantOp, scf.YieldOp)


@dataclass(frozen=True)
class DeepenK:
    """Pass ``deepen-k``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with longer K tiles where results are the same; itself if there are none."""
        return rewrite(module, _rewrite_function)


def _rewrite_function(function: func.FuncOp) -> func.FuncOp:
    rewriter = _DeepenKRewriter(function)
    return rewriter.function(function) if rewriter.factors else function


class _DeepenKRewriter(Rewriter):
    """Rewriter of one function."""

    def __init__(self, function: func.FuncOp) -> None:
        super().__init__({scf.ForOp: _loop, tile_ops.InitTileOp: _init_tile,
                          tile_ops.UpdateTileOffsetOp: _update_tile_offset})
        webs = view_webs(function)
        self.factors = {loop: factor for loop in for_loops(function) if (factor := _factor(loop, webs)) > 1}
        self.shapes: dict[SSAValue, tuple[int, int]] = {}
        for loop, factor in self.factors.items():
            for product in _products(loop):
                (m, k), n = tile_ops.tile_of(product.a).shape, tile_ops.tile_of(product.b).shape[1]
                self.shapes.update(dict.fromkeys(webs.members(product.a), (m, k * factor)))
                self.shapes.update(dict.fromkeys(webs.members(product.b), (k * factor, n)))

    def scaled(self, value: SSAValue, loop: scf.ForOp) -> SSAValue:
        """A constant, multiplied by a loop's factor."""
        return self.constant((number(value) or 0) * self.factors[loop])


def _products(loop: scf.ForOp) -> list[LoadMmaOp]:
    return [operation for operation in loop.body.block.ops if isinstance(operation, LoadMmaOp)]


def _factor(loop: scf.ForOp, webs: Webs) -> int:
    """The number of steps of a loop that are merged into one."""
    block, step, products = loop.body.block, number(loop.step), _products(loop)
    if step is None or not products or block.args[0].uses.get_length():
        return 1
    if not all(isinstance(operation, _ALLOWED) for operation in block.ops):
        return 1
    if not all(_is_sole_use(loop, position, webs) for position in range(len(loop.iter_args))):
        return 1
    if not all(_covers_k(loop, product, step) for product in products):
        return 1
    if deepest := min(_deepest_by_call(product) for product in products):
        return next((f for f in _FACTORS if step * f <= deepest), 1)
    tiles = [tile_ops.tile_of(product.b) for product in products]
    widened = max((tile.shape[1] for tile in tiles if tile.dtype is not f32), default=0)
    return next((f for f in _FACTORS if step * f <= _DEEPEST and step * f * widened <= _PANEL), 1)


def _deepest_by_call(product: LoadMmaOp) -> int:
    """The largest K tile of a product of floats, or of bytes that a micro-kernel multiplies; 0 for another product."""
    a, b = (tile_ops.tile_of(tile) for tile in (product.a, product.b))
    acc = of_mlir(product.result.type.element_type)  # type: ignore[attr-defined]
    if a.dtype is b.dtype and a.dtype in (f32, bf16, f16):
        return _DEEPEST_OF_FLOATS if acc is f32 else 0
    shape = MicrokernelShape(a.shape[0], b.shape[1], a.dtype, b.dtype)
    if not shape.has_bytes or not shape.fits or acc is not shape.accumulator:
        return 0
    largest = (1 << a.dtype.bits - a.dtype.signed) * (1 << b.dtype.bits - b.dtype.signed)
    return min(_EXACT // largest, _DEEPEST_OF_FLOATS)


def _is_sole_use(loop: scf.ForOp, position: int, webs: Webs) -> bool:
    """Whether a loop-carried tile is used in the loop only, or a loop-carried accumulator by its product only."""
    argument, end = loop.body.block.args[1 + position], loop.body.block.last_op
    assert isinstance(end, scf.YieldOp)
    yielded = end.operands[position].owner
    if not isinstance(argument.type, TileType):
        return isinstance(yielded, LoadMmaOp) and yielded.acc is argument and yielded.result.has_one_use() \
            and argument.has_one_use() and of_mlir(argument.type.element_type) in (f32, i32)  # type: ignore[attr-defined]
    moved = isinstance(yielded, tile_ops.UpdateTileOffsetOp) and yielded.tile is argument
    local = all(use.operation.parent is loop.body.block for use in webs.uses(argument))
    return moved and local and not loop.results[position].uses.get_length() \
        and all(number(offset) is not None for offset in yielded.offsets)  # type: ignore[union-attr]


def _covers_k(loop: scf.ForOp, product: LoadMmaOp, step: int) -> bool:
    """Whether a product's operands advance along K by their own depth, from the loop's start to the end of A."""
    if tile_ops.tile_of(product.a).shape[1] != step:
        return False
    if _advance(loop, product.a) != (0, step) or _advance(loop, product.b) != (step, 0):
        return False
    init = loop.iter_args[loop.body.block.args.index(product.a) - 1].owner  # type: ignore[arg-type]
    return isinstance(init, tile_ops.InitTileOp) and same_number(init.offsets[-1], loop.lb) \
        and _ends_at(init, loop.ub, step)


def _advance(loop: scf.ForOp, tile: SSAValue) -> tuple[int | None, ...]:
    """The offsets by which a loop-carried tile advances in a step; empty for any other value."""
    if tile not in loop.body.block.args:
        return ()
    moves = [use.operation for use in tile.uses if isinstance(use.operation, tile_ops.UpdateTileOffsetOp)]
    return tuple(number(offset) for offset in moves[0].offsets) if len(moves) == 1 else ()


def _ends_at(init: tile_ops.InitTileOp, stop: SSAValue, step: int) -> bool:
    """Whether a loop's upper bound is the number of columns of a tile's array, or that rounded up to whole steps."""
    if init.shape:
        rounded = _before_rounding(stop, step)
        return same_number(init.shape[-1], stop) or (rounded is not None and same_number(init.shape[-1], rounded))
    static = static_form(init.source.type)
    return static is not None and number(stop) in (static[0][-1], -(-static[0][-1] // step) * step)


def _before_rounding(value: SSAValue, step: int) -> SSAValue | None:
    """``size`` of a value ``(size + (step - 1)) // step * step``; None for any other value."""
    quotient = _other_operand(value, arith.MuliOp, step)
    if quotient is None or not isinstance(quotient.owner, (arith.FloorDivSIOp, arith.ShRSIOp)):
        return None
    division = quotient.owner
    by = number(division.rhs)
    divisor = 1 << by if by is not None and isinstance(division, arith.ShRSIOp) else by
    return _other_operand(division.lhs, arith.AddiOp, step - 1) if divisor == step else None


def _other_operand(value: SSAValue, kind: type[arith.AddiOp | arith.MuliOp], constant: int) -> SSAValue | None:
    """The operand of a commutative operation beside a constant; None for any other value."""
    owner = value.owner
    if not isinstance(owner, kind):
        return None
    return next((other for other, own in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)) if number(own) == constant),
                None)


def _loop(rewriter: _DeepenKRewriter, loop: scf.ForOp) -> None:
    if loop not in rewriter.factors:
        rewriter.loop(loop)
        return
    step = rewriter.scaled(loop.step, loop)
    rewriter.loop(loop)
    new = rewriter.lookup(loop.results[0]).values[0].owner
    assert isinstance(new, scf.ForOp)
    new.operands[2] = step  # the constant may be a bound as well, or the step of other loops, which keep it


def _init_tile(rewriter: _DeepenKRewriter, operation: tile_ops.InitTileOp) -> None:
    tile = TileType(tile_ops.tile_of(operation.result))
    shape = rewriter.shapes.get(operation.result)
    rewriter.retyped(operation, tile if shape is None else tile.with_(shape=shape))


def _update_tile_offset(rewriter: _DeepenKRewriter, operation: tile_ops.UpdateTileOffsetOp) -> None:
    loop = operation.parent_op()
    offsets = [rewriter.scaled(offset, loop) if loop in rewriter.factors else rewriter.single(offset)  # type: ignore[arg-type]
               for offset in operation.offsets]
    rewriter.set(operation.result, rewriter.emit(tile_ops.UpdateTileOffsetOp(rewriter.single(operation.tile), offsets)))
