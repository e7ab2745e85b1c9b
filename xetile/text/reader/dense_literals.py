"""Vector constants of text, ``dense<...>``: splats of one element, floats by their bits, a limit on listed elements.

A float may be written as its bits: ``dense<0xFF800000> : vector<16xf32>`` is minus infinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, VectorType
from xdsl.ir import Attribute
from xdsl.parser import Parser

from xegpu.ir.dtypes import of_mlir
from xegpu.support.errors import ElementTypeError, misread
from xetile.text.types import fail

MOST_ELEMENTS = 1 << 16
"""Elements that a vector constant may list."""


def too_many_elements(count: int) -> tuple[str, str, str]:
    """Code, message and hint of a constant that lists more."""
    return ("XT2074", f"a constant of {count} elements that may differ is larger than any register",
            "load the numbers from an array; a number that is the same everywhere is written once: dense<0.0>")


@dataclass
class _Dense:
    """State of the vector constant that is being parsed.

    Attributes:
        is_splat: whether one number is written for all elements.
        type: the type of a splat.
    """

    is_splat: bool = False
    type: Any = None


_Element: Any = Parser._TensorLiteralElement


class _BitsElement(_Element):  # type: ignore[misc]
    """Element of a vector constant in hexadecimal."""

    def to_type(self, parser: Any, type: Attribute) -> Any:
        """Value in a type: of a float type, the float with these bits."""
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


def _with_bits(element: Any) -> Any:
    """Element as parsed, or a :class:`_BitsElement` for one in hexadecimal."""
    if isinstance(element.value, int) and element.span.text.lower().startswith("0x"):
        return _BitsElement(False, element.value, element.span)
    return element


class DenseLiteralParser(Parser):
    """Parser of vector constants. It overrides private methods of xDSL's parser, which have no public hook."""

    def __init__(self, *arguments: Any) -> None:
        self._dense = _Dense()
        super().__init__(*arguments)

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> Any:
        """Parse a vector constant. A splat keeps a single element, so that it costs nothing by its size.

        xDSL's parser reads it as a vector of one element, whose data the attribute of the whole type then has.
        """
        outer, self._dense = self._dense, _Dense()
        try:
            if type is not None:
                return super().parse_dense_int_or_fp_elements_attr(type)
            literal = super().parse_dense_int_or_fp_elements_attr(None)
            return literal if self._dense.type is None else DenseIntOrFPElementsAttr(self._dense.type, literal.data)
        finally:
            self._dense = outer

    def _parse_tensor_literal(self) -> Any:
        elements, shape = super()._parse_tensor_literal()
        self._dense.is_splat = not shape
        return elements, shape

    def _parse_dense_literal_type(self) -> Any:
        type_ = super()._parse_dense_literal_type()
        count = prod(type_.get_shape())
        if not self._dense.is_splat:
            if count > MOST_ELEMENTS:
                fail(self, *too_many_elements(count))
            return type_
        if not type_.get_shape() or count < 1:  # nothing to save, and xDSL's checks to pass
            return type_
        self._dense.type = type_
        return VectorType(type_.get_element_type(), [1])

    def _parse_tensor_literal_element(self) -> Any:
        """Parse an element of a vector constant; a float may be written as its bits."""
        return _with_bits(super()._parse_tensor_literal_element())
