"""arith's conversions from and to integers, on vectors as on scalars: xDSL declares them for scalars alone."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.arith import floatingPointLike, signlessIntegerLike
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.type import get_element_type_or_self

from xegpu.declaring import operation_definition
from xegpu.dialect.comparisons import COMPARISONS
from xegpu.dtypes import i1, of_mlir
from xegpu.errors import Invalid


class ConversionOp(IRDLOperation):
    """One scalar or vector as another element type."""

    input = operand_def(Attribute)
    result = result_def(Attribute)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, source: SSAValue, target: Attribute) -> None:
        super().__init__(operands=[source], result_types=[target])

    def verify_(self) -> None:
        if _shape(self.input.type) != _shape(self.result.type):
            raise Invalid("XT3230", f"{self.input.type} and {self.result.type} differ in more than their element type\n"
                          "a conversion keeps the shape; vector.shape_cast changes it")

    def widening(self) -> int:
        """Bits that the result's elements have more than the operand's."""
        source, target = (of_mlir(get_element_type_or_self(value.type)) for value in (self.input, self.result))
        return (1 if target is i1 else target.bits) - (1 if source is i1 else source.bits)


def _shape(type_: Attribute) -> tuple[int, ...]:
    return type_.get_shape() if isinstance(type_, VectorType) else ()


class FromFloatOp(ConversionOp):
    """A float to an integer, toward zero."""

    input = operand_def(floatingPointLike)
    result = result_def(signlessIntegerLike)


class ToFloatOp(ConversionOp):
    """An integer to a float, rounded to nearest even."""

    input = operand_def(signlessIntegerLike)
    result = result_def(floatingPointLike)


class ExtensionOp(ConversionOp):
    """An integer to a wider integer."""

    input = operand_def(signlessIntegerLike)
    result = result_def(signlessIntegerLike)

    def verify_(self) -> None:
        super().verify_()
        if self.widening() <= 0:
            raise Invalid("XT3231", f"{self.result.type} is not wider than {self.input.type}\n"
                          "use arith.trunci to go to fewer bits")


@operation_definition
class FPToSIOp(FromFloatOp):
    """``arith.fptosi``."""

    name = "arith.fptosi"


@operation_definition
class FPToUIOp(FromFloatOp):
    """``arith.fptoui``."""

    name = "arith.fptoui"


@operation_definition
class SIToFPOp(ToFloatOp):
    """``arith.sitofp``."""

    name = "arith.sitofp"


@operation_definition
class UIToFPOp(ToFloatOp):
    """``arith.uitofp``."""

    name = "arith.uitofp"


@operation_definition
class ExtSIOp(ExtensionOp):
    """``arith.extsi``."""

    name = "arith.extsi"


@operation_definition
class ExtUIOp(ExtensionOp):
    """``arith.extui``."""

    name = "arith.extui"


@operation_definition
class TruncIOp(ConversionOp):
    """``arith.trunci``."""

    name = "arith.trunci"
    input = operand_def(signlessIntegerLike)
    result = result_def(signlessIntegerLike)

    def verify_(self) -> None:
        super().verify_()
        if self.widening() >= 0:
            raise Invalid("XT3232", f"{self.result.type} is not narrower than {self.input.type}\n"
                          "use arith.extsi or arith.extui to go to more bits")


@operation_definition
class IndexCastOp(ConversionOp):
    """``arith.index_cast``: between an index and an integer."""

    name = "arith.index_cast"
    input = operand_def(signlessIntegerLike)
    result = result_def(signlessIntegerLike)

    def verify_(self) -> None:
        super().verify_()
        kinds = {isinstance(get_element_type_or_self(value.type), IndexType) for value in (self.input, self.result)}
        if len(kinds) != 2:
            raise Invalid("XT3233",
                          f"a cast from {self.input.type} to {self.result.type}, of which one is to be an index and "
                          f"the "
                          "other not\n"
                          "between integers of different widths use arith.extsi, arith.extui or arith.trunci")


CONVERSIONS = (FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp, ExtSIOp, ExtUIOp, TruncIOp, IndexCastOp)
_OURS = (*CONVERSIONS, *COMPARISONS)
_NAMES = {operation.name for operation in _OURS}

Arith = Dialect("arith", [*(operation for operation in arith.Arith.operations if operation.name not in _NAMES),
                          *_OURS], list(arith.Arith.attributes))
"""The arith dialect with these operations, and those of :mod:`xegpu.dialect.comparisons`, in the place of xDSL's."""

