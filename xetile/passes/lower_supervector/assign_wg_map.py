"""Distribution of vectors that are too large for one subgroup: each gets a ``wg_map``.

    %v = supervector.transfer_read %A[...], %p : -> vector<16x32x64xf32>
becomes
    %v = supervector.transfer_read %A[...], %p {wg_map = #xetile.wg_map<sg_layout = [16, 2], sg_data = [32, 32]>} : ...

A super-vector is no register (SuperVector.md): where a kernel says nothing of subgroups and only moves vectors and
calculates element by element, all its vectors are dealt out, so that a subgroup holds 4 KiB of the largest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation

from xegpu.analysis.uniformity import per_subgroup
from xegpu.ir.dtypes import of_mlir
from xegpu.rewrite.rewriter import rewrite
from xegpu.support.errors import XeError
from xetile.dialect.supervector import ContractOp, TransferReadOp, collapsed
from xetile.dialect.types import WgMapAttr
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes.distribute_subgroups import is_distributed

_LARGE, _HELD = 8 << 10, 4 << 10
"""Bytes of a vector that is dealt out, and those of it that a subgroup then holds."""
_LANES = 16
_MOST = 32
"""Lanes of a register's row, and the subgroups that a work-group has on every target, whatever registers they take."""
_SUBGROUPS = "xegpu.subgroups"


@dataclass(frozen=True)
class AssignWgMap:
    """The pass; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with maps on its vectors, if they are large and nothing speaks against it; else itself."""
        return rewrite(module, _function)


def _function(function: func.FuncOp) -> func.FuncOp:
    vectors = list(_vectors(function))
    largest = max((_bytes(type_) for type_ in vectors), default=0)
    if largest <= _LARGE or _SUBGROUPS in function.attributes or is_distributed(function) or not _is_plain(function):
        return function
    count = min(_MOST, 1 << (largest // _HELD).bit_length() - 1)
    shapes = {collapsed(type_.get_shape()) for type_ in vectors}
    while count > 1 and not all(_deals(count, shape) for shape in shapes):
        count //= 2
    if count == 1:
        return function
    made = function.clone()
    for operation in made.walk():
        _give(operation, count)
    return made


def _vectors(function: func.FuncOp) -> Iterator[VectorType]:
    for operation in function.walk():
        yield from (result.type for result in operation.results if isinstance(result.type, VectorType))


def _bytes(type_: VectorType) -> int:
    rows, columns = collapsed(type_.get_shape())
    return rows * columns * max(of_mlir(type_.element_type).bits, 8) // 8


def _is_plain(function: func.FuncOp) -> bool:
    """Whether a kernel only moves vectors and calculates element by element, the same in every subgroup."""
    foreign = (operation for operation in function.walk() if isinstance(operation, ContractOp)
               or operation.name.startswith(("xetile.", "gpu.barrier")))
    return next(foreign, None) is None and not per_subgroup(function)


def _map(count: int, shape: Pair) -> WgMap:
    """Halves of the longer side, as long as they are even and not narrower than a register; then copies."""
    (rows, columns), down, across = shape, 1, 1
    while down * across < count:
        if columns > rows and columns % (2 * _LANES) == 0:
            columns, across = columns // 2, 2 * across
        elif rows % 2 == 0:
            rows, down = rows // 2, 2 * down
        elif columns % (2 * _LANES) == 0:
            columns, across = columns // 2, 2 * across
        else:
            return WgMap((count // across, across), (rows, columns))
    return WgMap((down, across), (rows, columns))


def _deals(count: int, shape: Pair) -> bool:
    try:
        _map(count, shape).check(shape)
    except XeError:
        return False
    return True


def _give(operation: Operation, count: int) -> None:
    """The map of a vector, on what makes it from something else than vectors."""
    if not isinstance(operation, (TransferReadOp, BroadcastOp, memref.LoadOp)):
        return
    type_ = operation.results[0].type
    if isinstance(type_, VectorType):
        held = operation.properties if isinstance(operation, TransferReadOp) else operation.attributes
        held["wg_map"] = WgMapAttr(_map(count, collapsed(type_.get_shape())))
