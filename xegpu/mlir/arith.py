"""Comparisons, selection and integer conversions of arith, on scalars and vectors; xDSL has them for scalars only."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects import arith, func, math
from xdsl.dialects.arith import FastMathFlagsAttr, floatingPointLike, signlessIntegerLike
from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType, i1, i64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.type import get_element_type_or_self

from xegpu.ir.dtypes import DType, f64, of_mlir
from xegpu.ir.dtypes import i1 as bool_type
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.traversal import is_a, operations
from xegpu.mlir import predicates
from xegpu.mlir.predicates import Predicate
from xegpu.mlir.vector import shape_of_type
from xegpu.support.errors import Invalid, XeError, misread
from xegpu.support.lookahead import next_token

FAST_DIVISION = "xegpu.fast_division"
"""Unit attribute of a ``func.func`` whose f32 divisions and square roots need not be correctly rounded."""


REASSOCIATE = "xegpu.reassociate"
"""Unit attribute of a ``func.func`` whose sums and products of floats may be added and multiplied in another order."""


_ROUNDED = (arith.DivfOp, math.SqrtOp)


def rounds_division(function: func.FuncOp) -> bool:
    """Whether a kernel divides or takes square roots in f32, f16 among them computed so, and rounds them correctly."""
    return FAST_DIVISION not in function.attributes and any(
        is_a(operation, _ROUNDED)
        and _number_type(operation.name, operation.results[0].type) is not f64 for operation in operations(function))


def truth_like(type_: Attribute) -> Attribute:
    """Result type of a comparison: ``i1``, or a vector of it in the shape of ``type_``."""
    return VectorType(i1, type_.get_shape()) if isinstance(type_, VectorType) else i1


def _number_type(name: str, type_: Attribute) -> DType:
    """Element type of an operand of an arith operation.

    Raises:
        VerifyException: the operand is no scalar or vector of numbers.
    """
    try:
        return of_mlir(type_.element_type if isinstance(type_, VectorType) else type_)
    except XeError:
        raise Invalid("XT3245", f"{name} takes numbers and vectors of them, not {type_}\n"
                      "compare or choose what a descriptor loads, not the descriptor") from None


class ComparisonOp(IRDLOperation):
    """Element-wise comparison of two scalars or vectors; the result is ``i1`` or a vector of it."""

    PREDICATES: ClassVar[dict[str, Predicate]] = {}
    OF_FLOATS: ClassVar[bool] = False
    lhs = operand_def(Attribute)
    rhs = operand_def(Attribute)
    predicate = prop_def(IntegerAttr)
    result = result_def(Attribute)
    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue, predicate: str) -> None:
        super().__init__(operands=[lhs, rhs], result_types=[truth_like(lhs.type)],
                         properties={"predicate": IntegerAttr([*self.PREDICATES].index(predicate), i64)})

    @property
    def name_of_predicate(self) -> str:
        """Name of the predicate: ``slt``, ``une`` ..."""
        return [*self.PREDICATES][self.predicate.value.data]

    @property
    def record(self) -> Predicate:
        """Record of the predicate; of i1 that of unsigned numbers: signed, true is -1, which turns orders round."""
        found = self.PREDICATES[self.name_of_predicate]
        if get_element_type_or_self(self.lhs.type) == i1 and found.operands == "i":
            return Predicate(found.swapped().order, "u")
        return found

    def verify_(self) -> None:
        if self.lhs.type != self.rhs.type:
            raise Invalid("XT3240", f"{self.lhs.type} and {self.rhs.type} are compared, which are not the same type\n"
                          "convert one of them, or repeat it with vector.broadcast")
        if _number_type(self.name, self.lhs.type).is_float != self.OF_FLOATS:
            other = {True: "arith.cmpi", False: "arith.cmpf"}[self.OF_FLOATS]
            raise Invalid("XT3241",
                          f"this compares {'floats' if self.OF_FLOATS else 'integers'}, and it is given "
                          f"{self.lhs.type}\n"
                          f"use {other}")
        if not 0 <= self.predicate.value.data < len(self.PREDICATES):
            raise Invalid("XT3242", f"there is no predicate {self.predicate.value.data}\n"
                          f"predicates are 0 to {len(self.PREDICATES) - 1}: {', '.join(self.PREDICATES)}")
        if self.result.type != truth_like(self.lhs.type):
            raise Invalid("XT3244", f"comparing {self.lhs.type} gives {truth_like(self.lhs.type)}, not "
                          f"{self.result.type}\nname that type, or leave it to the short form of the operation")

    @classmethod
    def parse_predicate(cls, parser: Any) -> str:
        """Parse the name of a predicate."""
        at, predicate = next_token(parser).span, str(parser.parse_identifier())
        if predicate not in cls.PREDICATES:
            misread(parser, "XT3242",
                    f"there is no predicate {predicate}\npredicates are {', '.join(cls.PREDICATES)}", at)
        return predicate

    @classmethod
    def parse(cls, parser: Parser) -> ComparisonOp:
        """Parse ``slt, %a, %b : vector<8x16xi32>``."""
        predicate = cls.parse_predicate(parser)
        parser.parse_punctuation(",")
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        if parser.parse_optional_keyword("fastmath"):
            FastMathFlagsAttr.parse_parameter(parser)  # a comparison takes the same instruction with and without
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        operation = cls(parser.resolve_operand(lhs, type_), parser.resolve_operand(rhs, type_), predicate)
        operation.attributes.update(attributes)
        return operation

    def print(self, printer: Printer) -> None:
        """Print what :meth:`parse` reads."""
        printer.print_string(f" {self.name_of_predicate}, ")
        printer.print_operand(self.lhs)
        printer.print_string(", ")
        printer.print_operand(self.rhs)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)


@operation_definition
class CmpIOp(ComparisonOp):
    """``arith.cmpi``: integers, compared as signed or as unsigned numbers."""

    name = "arith.cmpi"
    PREDICATES: ClassVar = predicates.INTEGERS


@operation_definition
class CmpFOp(ComparisonOp):
    """``arith.cmpf``: floats. With NaN an ordered comparison (``o``) is false, an unordered one (``u``) true."""

    name = "arith.cmpf"
    OF_FLOATS: ClassVar = True
    PREDICATES: ClassVar = predicates.FLOATS


@operation_definition
class SelectOp(IRDLOperation):
    """``arith.select``: the second operand where the condition is true, else the third.

    The condition is one ``i1`` for all elements, or a vector of it in the operands' shape.
    """

    name = "arith.select"
    condition = operand_def(Attribute)
    lhs = operand_def(Attribute)
    rhs = operand_def(Attribute)
    result = result_def(Attribute)
    traits = traits_def(Pure())

    def __init__(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[condition, lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        _number_type(self.name, self.lhs.type)
        if not self.lhs.type == self.rhs.type == self.result.type:
            raise Invalid("XT3246", f"a selection between {self.lhs.type} and {self.rhs.type} does not give "
                          f"{self.result.type}\nmake all three the same type")
        if self.condition.type not in (i1, truth_like(self.lhs.type)):
            raise Invalid("XT3247", f"{self.condition.type} does not select between {self.lhs.type}\n"
                          f"the condition is i1 or {truth_like(self.lhs.type)}")

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        """Parse ``%c, %a, %b : f32``, or ``%c, %a, %b : vector<8x16xi1>, vector<8x16xf32>``."""
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        if len(operands) != 3:
            misread(parser, "XT3248", f"arith.select takes a condition and two values, not {len(operands)} operands\n"
                    "write arith.select %condition, %a, %b : f32")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types: list[Any] = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        condition = types[0] if len(types) == 2 else i1
        operation = cls(parser.resolve_operand(operands[0], condition),
                        *(parser.resolve_operand(operand, types[-1]) for operand in operands[1:]))
        operation.attributes.update(attributes)
        return operation

    def print(self, printer: Printer) -> None:
        """Print what :meth:`parse` reads."""
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.condition.type != i1:
            printer.print_attribute(self.condition.type)
            printer.print_string(", ")
        printer.print_attribute(self.lhs.type)


class ConversionOp(IRDLOperation):
    """Element type conversion of a scalar or vector."""

    input = operand_def(Attribute)
    result = result_def(Attribute)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, source: SSAValue, target: Attribute) -> None:
        super().__init__(operands=[source], result_types=[target])

    def verify_(self) -> None:
        if shape_of_type(self.input.type) != shape_of_type(self.result.type):
            raise Invalid("XT3230", f"{self.input.type} and {self.result.type} differ in more than their element type\n"
                          "a conversion keeps the shape; vector.shape_cast changes it")

    def widening(self) -> int:
        """Difference in bits between the result's and the operand's elements."""
        source, target = (of_mlir(get_element_type_or_self(value.type)) for value in (self.input, self.result))
        return (1 if target is bool_type else target.bits) - (1 if source is bool_type else source.bits)


class FromFloatOp(ConversionOp):
    """Conversion of floats to integers, toward zero."""

    input = operand_def(floatingPointLike)
    result = result_def(signlessIntegerLike)


class ToFloatOp(ConversionOp):
    """Conversion of integers to floats, rounded to nearest even."""

    input = operand_def(signlessIntegerLike)
    result = result_def(floatingPointLike)


class ExtensionOp(ConversionOp):
    """Extension of integers to more bits."""

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
    """``arith.index_cast``: conversion between index and integer."""

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


@irdl_op_definition
class RemFOp(arith.FloatingPointLikeBinaryOperation):
    """``arith.remf``: remainder of the division that is rounded towards zero, with the sign of the dividend, exact."""

    name = "arith.remf"
    traits = traits_def(Pure())


_OURS = (FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp, ExtSIOp, ExtUIOp, TruncIOp, IndexCastOp, CmpIOp, CmpFOp, SelectOp,
         RemFOp)
_NAMES = {operation.name for operation in _OURS}

Arith = Dialect("arith", [*(operation for operation in arith.Arith.operations if operation.name not in _NAMES),
                          *_OURS], list(arith.Arith.attributes))
"""The arith dialect with these operations instead of xDSL's."""
