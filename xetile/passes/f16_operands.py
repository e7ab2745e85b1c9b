"""Operand conversion: bf16 products of operands that were widened from 8 bits become f16 products.

    %x = arith.extf %a : vector<32x32xf8E4M3FN> to vector<32x32xbf16>
    %y = arith.extf %b : vector<32x64xf8E4M3FN> to vector<32x64xbf16>
    %d = xetile.tile_mma %x, %y, %c : vector<32x32xbf16>, vector<32x64xbf16>, vector<32x64xf32> -> vector<32x64xf32>
becomes
    %x = arith.extf %a : vector<32x32xf8E4M3FN> to vector<32x32xf16>
    %y = arith.extf %b : vector<32x64xf8E4M3FN> to vector<32x64xf16>
    %d = xetile.tile_mma %x, %y, %c : vector<32x32xf16>, vector<32x64xf16>, vector<32x64xf32> -> vector<32x64xf32>

All values of these 8-bit types are normal numbers of both 16-bit types, and both products are exact in f32, so that
the result is the same. A conversion to bf16 computes in lanes of 32 bits, one to f16 in lanes of 16.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Operation, SSAValue

from xegpu.ir.dtypes import bf16, e4m3, f16, f32, i8, of_mlir, u8
from xegpu.ir.traversal import operations
from xegpu.passes.distribute_lanes.operand_roles import CONVERSIONS
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xetile.dialect.mma import TileMmaOp

_NORMAL_IN_F16 = (e4m3, i8, u8)
"""Types whose values other than zero are normal numbers of f16; those of e5m2 are not all."""


class F16Operands:
    """Pass ``f16-operands``."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such products in f16; the module itself if there are none."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        conversions = _narrowed(function)
        return _F16OperandsRewriter(conversions).function(function) if conversions else function


def _narrowed(function: func.FuncOp) -> set[Operation]:
    """Conversions whose result only such products take: both operands of each are converted so."""
    found = {operation for operation in operations(function) if _is_candidate(operation)}
    while True:
        kept = {each for each in found if all(
            operand.owner in found for use in each.results[0].uses for operand in use.operation.operands[:2])}
        if kept == found:
            return found
        found = kept


def _is_candidate(operation: Operation) -> bool:
    """Whether an operation widens one of these types to bf16, for operands of products into f32 alone."""
    return type(operation) in CONVERSIONS and _element_type(operation.operands[0]) in _NORMAL_IN_F16 \
        and _element_type(operation.results[0]) is bf16 and all(
            isinstance(use.operation, TileMmaOp) and use.index < 2 and _element_type(use.operation.result) is f32
            for use in operation.results[0].uses)


def _element_type(value: SSAValue) -> object:
    """Element type of a vector; None for other values."""
    return of_mlir(value.type.element_type) if isinstance(value.type, VectorType) else None


class _F16OperandsRewriter(Rewriter):
    """Rewriter of one function.

    Attributes:
        conversions: operations of the old function that convert to f16 in the new one.
    """

    def __init__(self, conversions: set[Operation]) -> None:
        super().__init__(dict.fromkeys(CONVERSIONS, _convert))
        self.conversions = conversions


def _convert(rewriter: _F16OperandsRewriter, operation: Operation) -> None:
    if operation not in rewriter.conversions:
        rewriter.copy(operation)
        return
    result = operation.results[0]
    assert isinstance(result.type, VectorType)
    narrowed = VectorType(f16.mlir, result.type.get_shape())
    copied = rewriter.like(operation, [rewriter.single(operation.operands[0])], [narrowed])
    rewriter.set(result, copied.results[0])
