"""Loop versioning: GEMM loops on tiles at run-time columns get a version for columns that 2D block messages take.

    scf.for %k = %0 to %n step %32 {
      %t = init_tile %W, [%k, %h + %c] ; %b = load_tile %t ; ... }     %h: a size, %c: a multiple of 32
becomes
    %even = %h >> 1 << 1
    scf.if %even == %h {
      scf.for %k = %0 to %n step %32 { %t = init_tile %W, [%k, %even + %c] ; ... }
    } else {
      scf.for %k = %0 to %n step %32 { ... as before } } {xegpu.versioned}

2D block messages take columns at multiples of four bytes. That a size of run time is such a multiple nothing says, but
most are: the second half of a matrix ``[W1 | W2]`` begins at such a column. A sum is a multiple where each of its terms
is, so each term from before the loop that is not known to be one is asked about, once.

It applies to loops in which subgroups do not wait for each other, since these may take different branches. The code of
the loop is in the kernel twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, ModuleOp, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from xegpu.analysis.block_position import is_inside
from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.analysis.memory_access import access_kind
from xegpu.ir.matchers import VERSIONED
from xegpu.mlir.arith import CmpIOp
from xegpu.rewrite.inserter import Inserter, copy_operation, rewrite_in_place
from xegpu.target.block2d import COLUMN_ALIGNMENT
from xetile.dialect import tile_ops
from xetile.dialect.types import TileType
from xetile.passes.loops.index_set_splitting import straight_product_loops

_ALONG = {"block": -1, "block-columns": -2}
"""Access kinds of 2D block messages, with the axis along which elements are side by side in memory."""


@dataclass(frozen=True)
class VersionColumns:
    """Pass ``version-columns``.

    Attributes:
        access: for each argument its access kind.
    """

    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such loops in two versions; the module itself if there are none."""
        return rewrite_in_place(module, _candidates, self._plan, _version)

    def _plan(self, loop: scf.ForOp) -> _Plan | None:
        function: Operation | None = loop
        while function is not None and function.name != "func.func":
            function = function.parent_op()
        assert function is not None
        kinds = dict(zip(function.regions[0].block.args, self.access, strict=True))
        terms: dict[SSAValue, int] = {}
        inits: dict[tile_ops.InitTileOp, None] = {}
        for load in loop.body.block.ops:
            init = _init_of(load.tile, loop) if isinstance(load, tile_ops.LoadTileOp) else None
            if init is not None and (found := _unknown_terms(init, loop, kinds)):
                inits |= dict.fromkeys([init])
                terms |= {term: max(terms.get(term, 1), multiple) for term, multiple in found.items()}
        return _Plan(terms, [init for init in inits if not is_inside(init.result, loop)]) if terms else None


@dataclass(frozen=True)
class _Plan:
    """Assumptions of a version.

    Attributes:
        terms: of columns, each with the required divisor.
        inits: tiles that begin at such columns, from before the loop.
    """

    terms: dict[SSAValue, int]
    inits: Sequence[tile_ops.InitTileOp]


def _candidates(around: Operation) -> Iterator[scf.ForOp]:
    for loop in straight_product_loops(around):
        parent = loop.parent_op()
        if not any(isinstance(result.type, TileType) and result.uses for result in loop.results) and \
                not (isinstance(parent, scf.IfOp) and VERSIONED in parent.attributes):
            yield loop


def _init_of(tile: SSAValue, loop: scf.ForOp) -> tile_ops.InitTileOp | None:
    """Initialization of a tile, in a loop or before it, which the loop moves by multiples of a message's column."""
    if isinstance(tile, BlockArgument) and tile.block is loop.body.block:
        tile = loop.iter_args[tile.index - 1]
    return tile.owner if isinstance(tile.owner, tile_ops.InitTileOp) else None


def _unknown_terms(init: tile_ops.InitTileOp, loop: scf.ForOp, kinds: Mapping[Any, str]) -> dict[SSAValue, int]:
    """The terms of a tile's column that must be multiples for the column to be one of four bytes; none if the column is
    known to be, or if that would not suffice."""
    dtype, axis = tile_ops.tile_of(init.result).dtype, _ALONG.get(access_kind(init, kinds))
    if axis is None or dtype.bits not in (8, 16) or len(init.offsets) < 2:
        return {}
    multiple = COLUMN_ALIGNMENT // dtype.bytes
    found = _terms(init.offsets[axis], loop, multiple)
    return dict.fromkeys(found, multiple) if found else {}


def _terms(value: SSAValue, loop: scf.ForOp, multiple: int) -> list[SSAValue] | None:
    """Terms of a sum that are not known to be multiples; None if one is not from before the loop."""
    if multiple_of(value) % multiple == 0:
        return []
    if not isinstance(value.type, IndexType) or isinstance(value.owner, arith.ConstantOp):
        return None
    if not is_inside(value, loop):
        return [value]
    if not isinstance(value.owner, (arith.AddiOp, arith.SubiOp)):
        return None
    left, right = (_terms(side, loop, multiple) for side in (value.owner.lhs, value.owner.rhs))
    return None if left is None or right is None else [*left, *right]


def _version(inserter: Inserter, loop: scf.ForOp, plan: _Plan) -> None:
    """Put a loop into the second branch of a condition, and a copy of it, for multiples, into the first."""
    values: dict[SSAValue, SSAValue] = {}
    holds: SSAValue | None = None
    for term, multiple in plan.terms.items():
        shifted = inserter.before(loop, arith.ShRSIOp(term, inserter.constant(multiple.bit_length() - 1)))
        values[term] = inserter.before(loop, arith.MuliOp(shifted, inserter.constant(multiple)), term.name_hint)
        same = inserter.before(loop, CmpIOp(values[term], term, "eq"))
        holds = same if holds is None else inserter.before(loop, arith.AndIOp(holds, same))
    assert holds is not None
    used = [number for number, result in enumerate(loop.results) if result.uses]
    copies = [copy_operation(operation, values) for operation in (*plan.inits, loop)]
    first = Block([*copies, scf.YieldOp(*(copies[-1].results[number] for number in used))])
    second = Block()
    branch = scf.IfOp(holds, [loop.results[number].type for number in used], Region(first), Region(second))
    branch.attributes[VERSIONED] = UnitAttr()
    inserter.before(loop, branch)
    for number, result in zip(used, branch.results, strict=True):
        result.name_hint = loop.results[number].name_hint
        loop.results[number].replace_all_uses_with(result)
    loop.detach()  # type: ignore[no-untyped-call]
    second.add_ops([loop, scf.YieldOp(*(loop.results[number] for number in used))])
