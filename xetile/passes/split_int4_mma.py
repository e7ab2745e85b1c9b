"""Splitting of 4-bit integer products into two 8-bit ones, for matrix engines without 4-bit types.

    %d = tile_mma %a, %b, %c : vector<8x32xi4x2>, vector<32x16xi4x2>, vector<8x16xi32> -> vector<8x16xi32>
becomes
    %low = tile_mma ((%a << 4) >> 4), ((%b << 4) >> 4), %c : vector<8x32xi8>, vector<32x16xi8>, ...
    %d = tile_mma (%a >> 4), (%b >> 4), %low

K is the order of a sum: that of the lower elements of all bytes comes first, and no element moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import SSAValue

from xegpu.ir.dtypes import ELEMENTS, of_mlir, u4, widened
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.vector import TileBitcastOp
from xetile.passes.splat import splat


@dataclass(frozen=True)
class SplitInt4Mma:
    """Pass ``split-int4-mma``; it runs on subgroups' vectors."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module without products of 4-bit integers; the module itself if it has none."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        if not any(isinstance(operation, TileMmaOp) and _is_int4(operation.a) for operation in function.walk()):
            return function
        return Rewriter({TileMmaOp: _tile_mma}).function(function)


def _is_int4(value: SSAValue) -> bool:
    return of_mlir(value.type.element_type) in ELEMENTS  # type: ignore[attr-defined]


def _tile_mma(rewriter: Rewriter, operation: TileMmaOp) -> None:
    if not _is_int4(operation.a):
        rewriter.copy(operation)
        return
    a, b = (_halves(rewriter, value) for value in (operation.a, operation.b))
    acc = None if operation.acc is None else rewriter.single(operation.acc)
    for left, right in zip(a, b, strict=True):
        acc = rewriter.emit(TileMmaOp(left(), right(), acc, operation.result.type))
    assert acc is not None
    rewriter.set(operation.result, acc)


def _halves(rewriter: Rewriter, value: SSAValue) -> tuple[Callable[[], SSAValue], Callable[[], SSAValue]]:
    """Lower and upper elements of pairs, as 8-bit integers, which are made once for all products of an operand."""
    element = ELEMENTS[of_mlir(value.type.element_type)]  # type: ignore[attr-defined]
    wide = widened(element).mlir
    source = rewriter.single(value)
    type_ = VectorType(wide, source.type.get_shape())  # type: ignore[attr-defined]
    read = rewriter.shared(("bytes", source), lambda: rewriter.emit(TileBitcastOp(source, wide)))

    def low() -> SSAValue:
        if element is u4:
            return rewriter.emit(arith.AndIOp(read, splat(rewriter, 15, type_)))
        left = rewriter.emit(arith.ShLIOp(read, splat(rewriter, 4, type_)))
        return rewriter.emit(arith.ShRSIOp(left, splat(rewriter, 4, type_)))

    def high() -> SSAValue:
        shift = arith.ShRUIOp if element is u4 else arith.ShRSIOp
        return rewriter.emit(shift(read, splat(rewriter, 4, type_)))

    return (lambda: rewriter.shared(("low", source), low)), (lambda: rewriter.shared(("high", source), high))
