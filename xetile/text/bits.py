"""Floats in the text as their bits: ``dense<0xFF800000> : vector<16xf32>`` is minus infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute
from xdsl.parser import Parser

from xegpu.ir.dtypes import of_mlir
from xegpu.support.errors import ElementTypeError, misread

_Element: Any = Parser._TensorLiteralElement


class BitsElement(_Element):  # type: ignore[misc]
    """An element of a vector constant that is written in hexadecimal."""

    def to_type(self, parser: Any, type: Attribute) -> Any:
        """The element as a number of a type: of a float type, the float that has these bits."""
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        try:
            dtype = of_mlir(type)
        except ElementTypeError as error:
            misread(parser, error.code, f"{error.message}\n{error.hint}", self.span)
        if self.value >> dtype.bits:
            misread(parser, "XT2061", f"{self.span.text} has more than the {dtype.bits} bits of {dtype}\n"
                    f"write {dtype.bits // 4} digits at most", self.span)
        bits = np.array([self.value], f"u{dtype.bits // 8}")
        return float(bits.view(dtype.numpy)[0])


def with_bits(element: Any) -> Any:
    """An element as the parser read it, or one in hexadecimal as its bits."""
    if isinstance(element.value, int) and element.span.text.lower().startswith("0x"):
        return BitsElement(False, element.value, element.span)
    return element
