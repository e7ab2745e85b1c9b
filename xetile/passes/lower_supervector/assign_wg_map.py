"""Assignment of work-group maps to vectors, which may exceed the registers of a subgroup, in kernels without maps.

    %v = supervector.transfer_read %A[...], %p : -> vector<16x32x64xf32>
becomes
    %v = supervector.transfer_read %A[...], %p {wg_map = #xetile.wg_map<sg_layout = [16, 2], sg_data = [32, 32]>} : ...

A super-vector may exceed the registers (SuperVector.md). In a kernel without maps of its own, in which all operations
are transfers or element-wise, all vectors are distributed, so that a subgroup has 4 KiB of the largest.
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
from xegpu.ir.kernel_attributes import SUBGROUPS
from xegpu.rewrite.rewriter import rewrite
from xegpu.support.errors import XeError
from xetile.dialect.supervector import ContractOp, TransferReadOp, collapsed
from xetile.dialect.types import WgMapAttr
from xetile.dialect.wg_map import Pair, WgMap
from xetile.passes.distribute_subgroups import is_distributed

_LARGE, _PART = 8 << 10, 4 << 10
"""Bytes: larger vectors are distributed; the part of one for a subgroup."""
_LANES = 16
"""Least columns of a part: f32 elements of a 64-byte register."""
_MOST = 32
"""Subgroups that a work-group may have on every target, with the large GRF, too."""


@dataclass(frozen=True)
class AssignWgMap:
    """Pass ``assign-wg-map``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with maps on its vectors, if they are large and may be distributed; else itself."""
        return rewrite(module, _rewrite_function)


def _rewrite_function(function: func.FuncOp) -> func.FuncOp:
    vectors = list(_vectors(function))
    largest = max((_bytes(type_) for type_ in vectors), default=0)
    if largest <= _LARGE or SUBGROUPS in function.attributes or is_distributed(function) \
            or not _is_elementwise(function):
        return function
    count = min(_MOST, 1 << (largest // _PART).bit_length() - 1)
    shapes = {collapsed(type_.get_shape()) for type_ in vectors}
    while count > 1 and not all(_divides(count, shape) for shape in shapes):
        count //= 2
    if count == 1:
        return function
    new = function.clone()
    for operation in new.walk():
        _set_map(operation, count)
    return new


def _vectors(function: func.FuncOp) -> Iterator[VectorType]:
    for operation in function.walk():
        yield from (result.type for result in operation.results if isinstance(result.type, VectorType))


def _bytes(type_: VectorType) -> int:
    rows, columns = collapsed(type_.get_shape())
    return rows * columns * max(of_mlir(type_.element_type).bits, 8) // 8


def _is_elementwise(function: func.FuncOp) -> bool:
    """Whether all operations of a kernel are transfers or element-wise, and none depends on the subgroup."""
    foreign = (operation for operation in function.walk() if isinstance(operation, ContractOp)
               or operation.name.startswith(("xetile.", "gpu.barrier")))
    return next(foreign, None) is None and not per_subgroup(function)


def _map(count: int, shape: Pair) -> WgMap:
    """A map that halves the longer side while parts stay even and no narrower than a register; else it replicates."""
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


def _divides(count: int, shape: Pair) -> bool:
    try:
        _map(count, shape).check(shape)
    except XeError:
        return False
    return True


def _set_map(operation: Operation, count: int) -> None:
    """Set the map of a vector on the operation that defines it, if that has no vector operands."""
    if not isinstance(operation, (TransferReadOp, BroadcastOp, memref.LoadOp)):
        return
    type_ = operation.results[0].type
    if isinstance(type_, VectorType):
        attributes = operation.properties if isinstance(operation, TransferReadOp) else operation.attributes
        attributes["wg_map"] = WgMapAttr(_map(count, collapsed(type_.get_shape())))
