"""8-bit floats in text: rounding to them becomes operations on integers, and arithmetic on them is refused.

    %w = arith.truncf %v : vector<8x16xf32> to vector<8x16xf8E5M2>
becomes
    %b = arith.bitcast %v : vector<8x16xf32> to vector<8x16xi32>   and what rounds it (xegpu.mlir.float8)
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, VectorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.type import get_element_type_or_self

from xegpu.interop.llvm.dialect.scaled import TruncfOp
from xegpu.ir.dtypes import BY_NAME, DType, f64, of_mlir
from xegpu.mlir.arith import SelectOp
from xegpu.mlir.float8 import rounded
from xetile.text.canonicalize.diagnostics import fail_at

_OF_NUMBERS = ("arith.", "math.", "vector.fma")
_MOVES = (arith.ConstantOp, arith.ExtFOp, arith.BitcastOp, SelectOp)
"""Operations that 8-bit floats have, beside rounding to them."""


def lower_float8(module: ModuleOp) -> None:
    """Lower rounding to 8-bit floats in a module.

    Raises:
        TextError: an operation calculates with 8-bit floats, or rounds to them what would be rounded twice.
    """
    small = {dtype.mlir: dtype for dtype in BY_NAME.values() if dtype.kind == "s"}
    for operation in list(module.walk()):
        found = next((small[element] for value in (*operation.operands, *operation.results)
                      if (element := get_element_type_or_self(value.type)) in small), None)
        if found is None:
            continue
        if isinstance(operation, (arith.TruncFOp, TruncfOp)) and isinstance(operation.results[0].type, VectorType) and \
                get_element_type_or_self(operation.operands[0].type) not in small:
            _round(operation, found)
        elif operation.name.startswith(_OF_NUMBERS) and not isinstance(operation, _MOVES):
            fail_at(operation, "XT3273", f"{found.mlir} is stored, multiplied and converted, and not calculated with",
                    "widen vectors with arith.extf, and round the result with arith.truncf")


def _round(operation: arith.TruncFOp | TruncfOp, target: DType) -> None:
    """Replace a conversion by what rounds."""
    (source,), (result,) = operation.operands, operation.results
    if of_mlir(get_element_type_or_self(source.type)) is f64:
        fail_at(operation, "XT1215", f"f64 is not rounded to {target.mlir} in one step",
                "round it twice, if that is good enough: arith.truncf to f32 before this")

    def emit(new: Operation) -> Any:
        new.location = operation.location
        Rewriter.insert_op(new, InsertPoint.before(operation))
        return new.results[0]

    def splat(number: float, element: Attribute) -> SSAValue:
        type_: Any = like(element)
        dense: Any = DenseIntOrFPElementsAttr.from_list(type_, [number if element == f32 else int(number)])
        return emit(arith.ConstantOp(dense))  # type: ignore[no-any-return]

    def like(element: Attribute) -> VectorType[Attribute]:
        assert isinstance(source.type, VectorType)
        return VectorType(element, source.type.get_shape())

    wide = source if get_element_type_or_self(source.type) == f32 else emit(arith.ExtFOp(source, like(f32)))
    new = rounded(wide, target, emit, splat)
    if isinstance(new.owner, Operation):
        new.owner.attributes.update(operation.attributes)
    new.name_hint = result.name_hint
    result.replace_all_uses_with(new)
    Rewriter.erase_op(operation)
