"""Register pressure: live bytes of fragments, in program order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import prod

from xdsl.dialects import func, scf, ub
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import NoMemoryEffect

from xegpu.analysis.gemm_loops import is_gemm_loop
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, desc_of
from xegpu.dialect.dpas import DpasOp, MadOp
from xegpu.dialect.gather_scatter import LoadColumnsOp, LoadGatherOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import VERSIONED
from xegpu.ir.region_branch import LOOPS, for_loops
from xegpu.ir.traversal import of_kind, operations
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, ShapeCastOp

VIEWS = (ExtractOp, ExtractStridedSliceOp, ShapeCastOp)
"""Operations whose result aliases registers of their operand."""
_VIEWS = frozenset(VIEWS)
_READS = frozenset((LoadNdOp, PrefetchNdOp, LoadGatherOp))
_WITHOUT_REGISTERS = frozenset((*VIEWS, BroadcastOp, ub.PoisonOp))
"""Operations whose result takes no registers: a splat of a scalar, and poison."""
_BYTE = 32
"""Bits of register that an 8-bit element of a fragment of one takes: messages and arithmetic widen it."""
_LEAST = 32
"""Bits of a lane that a fragment takes at least: the compiler begins each in a register of its own."""


def fragment_bytes(function: func.FuncOp) -> int:
    """About the bytes of fragments that a lane keeps alive at once.

    Of a loop all that it carries and loads counts, except where it does nothing but load and multiply: there the
    compiler keeps loads where they are when registers run out.
    """
    loops = of_kind(function, *LOOPS)
    return max([live_bytes(function), *(loop_bytes(loop) for loop in loops
                                        if not (isinstance(loop, scf.ForOp) and is_gemm_loop(loop)))])


def loop_bytes(loop: Operation) -> int:
    """Upper bound in bytes of the fragments that a loop carries and loads in one iteration, branches included."""
    blocks = [region.block for region in loop.regions]
    loaded = (op.results[0] for block in blocks for op in ops_of_iteration(block)
              if type(op) is LoadNdOp or type(op) is LoadColumnsOp)
    return sum(bytes_of(value) for value in (*loop.operands, *loaded))


def live_bytes(function: func.FuncOp, *, grouped: bool = True) -> int:
    """Peak live bytes of fragments per lane, in a distributed kernel.

    Args:
        function: the kernel.
        grouped: whether loads without a write between them are issued together, as the compiler does where it has the
            registers; else each stands where it is.
    """
    return _peak(function.body.block, grouped)


def accumulated(function: func.FuncOp) -> tuple[int, scf.ForOp | None]:
    """Largest number of bytes of loop-carried fragments among loops with products, and that loop."""
    loops = [loop for loop in for_loops(function) if of_kind(loop, DpasOp, MadOp)]
    sizes = [(sum(bytes_of(value) for value in loop.iter_args), loop) for loop in loops]
    return max(sizes, key=lambda entry: entry[0], default=(0, None))


def ops_of_iteration(block: Block) -> Iterator[Operation]:
    """Operations of a block and of the branches in it, inner loops excluded."""
    for operation in block.ops:
        yield operation
        if type(operation) is scf.IfOp:
            for region in operation.regions:
                for inner in region.blocks:
                    yield from ops_of_iteration(inner)


def _peak(block: Block, grouped: bool) -> int:
    """Peak live bytes of values defined in the block, live-through values excluded; second versions of loops, which
    run now and then, do not count."""
    last, ahead = _last_uses(block), _loaded_ahead(block) if grouped else {}
    ends: dict[Operation, list[SSAValue]] = defaultdict(list)
    for value, operation in last.items():
        ends[operation].append(value)
    alive: dict[SSAValue, int] = {}
    alive |= {value: size for value in block.args if (size := bytes_of(value)) and value in last}
    total = peak = sum(alive.values())
    for operation in block.ops:
        early = {value: bytes_of(value) for value in ahead.get(operation, ()) if value in last}
        alive |= early
        total += sum(early.values())
        peak = max(peak, total)
        regions = operation.regions[:1] if VERSIONED in operation.attributes else operation.regions
        if within := [_peak(inner, grouped) for region in regions for inner in region.blocks]:
            carried = sum(alive.get(value, 0) for value in {*operation.operands})
            peak = max(peak, total - carried + max(within))
        for value in ends[operation]:
            total -= alive.pop(value, 0)
        if type(operation) not in _WITHOUT_REGISTERS:
            defined = {value: size for value in operation.results
                       if (size := bytes_of(value)) and value in last and value not in alive}
            alive |= defined
            total += sum(defined.values())
        peak = max(peak, total)
    return peak


def _loaded_ahead(block: Block) -> dict[Operation, list[SSAValue]]:
    """Groups of block loads without a write between them: the first load of each, with the results of all.

    The compiler issues such loads together and waits once, except in pure GEMM loops.
    """
    loop, found = block.parent_op(), dict[Operation, list[SSAValue]]()
    if isinstance(loop, scf.ForOp) and is_gemm_loop(loop):
        return found
    run: list[SSAValue] | None = None
    for operation in block.ops:
        if type(operation) is LoadColumnsOp or (
                type(operation) is LoadNdOp and desc_of(operation.desc).block.access == "block"):
            if run is None:
                run = found[operation] = []
            run.append(operation.results[0])
        elif not operation.has_trait(NoMemoryEffect) and type(operation) not in _READS:
            run = None
    return found


def _last_uses(block: Block) -> dict[SSAValue, Operation]:
    """Last use of each value: an operation of this block, whose body counts, also through views."""
    last: dict[SSAValue, Operation] = {}
    for operation in block.ops:
        for used in _all_operands(operation):
            last[root(used)] = operation
    return last


def _all_operands(operation: Operation) -> Iterable[SSAValue]:
    return (operand for inner in operations(operation) for operand in inner.operands)


def root(value: SSAValue) -> SSAValue:
    """Underlying value of a chain of views; of a value that is no view, the value itself."""
    while type(value.owner) in _VIEWS:  # faster than isinstance, which runs Python code of xDSL's metaclass
        value = value.owner.operands[0]  # type: ignore[union-attr]
    return value


def bytes_of(value: SSAValue) -> int:
    """Register bytes of a value per lane; 0 for values other than vectors."""
    if type(value.type) is not VectorType:
        return 0
    *units, per_lane = value.type.get_shape()
    word = per_lane * of_mlir(value.type.element_type).bits
    return max(prod(units) * (_BYTE if word == 8 else word), _LEAST) // 8
