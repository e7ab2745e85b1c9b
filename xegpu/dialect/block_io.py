"""Blocks between memory and vectors: ``load_nd``, ``store_nd``, ``prefetch_nd`` (XeGPU.md).

Vectors are whole blocks before ``distribute`` and fragments of one lane after it; an operation is in the second form
when its descriptor carries an ``sg_map``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import ParsePropInAttrDict, operand_def, opt_prop_def, result_def

from xegpu.declaring import operation_definition
from xegpu.dialect.attributes import TensorDesc
from xegpu.dialect.descriptors import DESC, check_block, desc_of
from xegpu.dialect.hints import HintedOp, check_hints
from xegpu.dialect.lane_rules import check_load
from xegpu.dialect.vectors import VECTOR, IntegersAttr, shape_of, vector
from xegpu.errors import Invalid


def loaded_shape(desc: TensorDesc, packed: bool, transpose_bits: int = 0) -> tuple[int, ...]:
    """The shape that ``load_nd`` gives for a descriptor.

    A line is what it is, or a lane's share of it. A whole block is ``[array_length,] rows, columns``, packed
    ``[array_length,] rows / v, columns, v`` with ``v`` elements a 32-bit word, transposed ``columns / w, rows * w``
    with ``w`` elements in ``transpose_bits``; a lane's fragment is ``[array_length,] units, elements a unit``.
    """
    check_block(desc)
    if len(desc.shape) == 1:
        return _loaded_line(desc, packed or bool(transpose_bits))
    rows, columns = desc.shape
    if transpose_bits and desc.sg_map is None:
        together = transpose_bits // desc.dtype.bits
        return (columns // together, rows * together)
    array = (desc.block.array_length,) if desc.block.array_length > 1 else ()
    if desc.sg_map is not None:
        return (*array, *desc.sg_map.fragment((rows, columns)))
    factor = 32 // desc.dtype.bits
    return (*array, rows // factor, columns, factor) if packed else (*array, rows, columns)


def _loaded_line(desc: TensorDesc, changed: bool) -> tuple[int, ...]:
    if changed:
        raise Invalid("XT3101",
                      f"a descriptor of {desc.shape[0]} elements in a line is not loaded transposed or packed\n"
                      f"describe a block of two dimensions: tensor_desc<16x16x{desc.element_type}>")
    if desc.sg_map is None:
        return desc.shape
    units, each = desc.sg_map.fragment((1, desc.shape[0]))
    return (units * each,)


@operation_definition
class LoadNdOp(HintedOp):
    """A block from memory; ``packed`` gives it in VNNI form."""

    name = "xegpu.load_nd"
    desc = operand_def(DESC)
    packed = opt_prop_def(UnitAttr)
    transpose = opt_prop_def(IntegersAttr)
    transpose_bit_width = opt_prop_def(IntegerAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc attr-dict `:` type($desc) `->` type($result)"

    def __init__(self, desc: SSAValue, *, packed: bool = False, transpose: bool = False,
                 transpose_bit_width: int | None = None) -> None:
        parameters = desc_of(desc)
        bits = (transpose_bit_width or parameters.dtype.bits) if transpose else 0
        result = vector(loaded_shape(parameters, packed, bits), parameters.element_type)
        super().__init__(operands=[desc], result_types=[result], properties={
            "packed": UnitAttr() if packed else None,
            "transpose": ArrayAttr([IntegerAttr(axis, i64) for axis in (1, 0)]) if transpose else None,
            "transpose_bit_width": IntegerAttr(transpose_bit_width, i64) if transpose_bit_width else None})

    @property
    def transposes(self) -> int:
        """Bits of what the load transposes: an element, or several together; 0 if it does not transpose."""
        if self.transpose is None:
            return 0
        width = self.transpose_bit_width
        return desc_of(self.desc).dtype.bits if width is None else width.value.data

    def verify_(self) -> None:
        check_hints(self, "load")
        desc = desc_of(self.desc)
        packed = self.packed is not None
        if self.transpose is not None and [axis.value.data for axis in self.transpose] != [1, 0]:
            raise Invalid("XT3102",
                          f"transpose = {[axis.value.data for axis in self.transpose]} does not exchange the two "
                          "dimensions\nwrite transpose = [1, 0], or leave it out", alone=True)
        if self.transposes and packed:
            raise Invalid("XT3103", "a load cannot be packed and transposed\n"
                          "a transposed load with transpose_bit_width = 32 gives VNNI form by itself", alone=True)
        self._check_width(desc.dtype.bits)
        if self.transposes and desc.block.array_length > 1:
            raise Invalid("XT3105",
                          f"a transposed load takes one block, and this descriptor has {desc.block.array_length}\n"
                          "leave array_length out, and load each block by itself")
        if packed and desc.dtype.bits >= 32:
            raise Invalid("XT3106", f"{desc.element_type} fills a 32-bit word, so it cannot be packed\n"
                          "leave packed out")
        check_load(desc, packed, bool(self.transposes))
        if packed:
            check_words("rows", desc.shape[0], 32 // desc.dtype.bits, desc.element_type)
        check_words("columns", desc.shape[-1], self.transposes // desc.dtype.bits, desc.element_type)
        expected = loaded_shape(desc, packed, self.transposes)
        if self.result.type != vector(expected, desc.element_type):
            raise Invalid("XT3107", f"this load gives {list(expected)} of {desc.element_type}, not {self.result.type}\n"
                          f"write {vector(expected, desc.element_type)}")

    def _check_width(self, bits: int) -> None:
        """What is transposed is an element of ``bits``, or several that make a word of at most 32."""
        if self.transpose_bit_width is None:
            return
        width = self.transpose_bit_width.value.data
        if self.transpose is None:
            raise Invalid("XT3104", f"transpose_bit_width = {width} says nothing without transpose\n"
                          "add transpose = [1, 0]", alone=True)
        if width < bits or width % bits or (width > 32 and width != bits):
            raise Invalid("XT3104", f"transpose_bit_width = {width} is neither the {bits} bits of an element nor "
                          "several of them in at most 32\n" + ("use 32" if bits <= 16 else "leave it out"))


def check_words(along: str, size: int, together: int, element: Attribute) -> None:
    """Raise a verifier's error unless elements that a load puts together into words are whole words.

    Args:
        along: ``"rows"`` or ``"columns"``, what is put together.
        size: how many of them a block has.
        together: how many make a word.
        element: their type.
    """
    if together > 1 and size % together:
        raise Invalid("XT3109", f"{together} {along} of {element} make a word, and a block has {size}\n"
                      f"make it {size + -size % together} {along}: what lies outside the array reads as zero")


@operation_definition
class StoreNdOp(HintedOp):
    """A block to memory; elements outside the base are dropped."""

    name = "xegpu.store_nd"
    MESSAGE: ClassVar[str] = "store"
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    assembly_format = "$value `,` $desc attr-dict `:` type($value) `,` type($desc)"

    def __init__(self, value: SSAValue, desc: SSAValue) -> None:
        super().__init__(operands=[value, desc])

    def verify_(self) -> None:
        check_hints(self, "store")
        desc = desc_of(self.desc)
        expected = loaded_shape(desc, False)
        if shape_of(self.value) != expected or self.value.type.element_type != desc.element_type:  # type: ignore
            raise Invalid("XT3108", f"this descriptor stores {list(expected)} of {desc.element_type}, not "
                          f"{self.value.type}\nstore a {vector(expected, desc.element_type)}, or change the descriptor")


@operation_definition
class PrefetchNdOp(HintedOp):
    """A block to the caches; the hints say to which."""

    name = "xegpu.prefetch_nd"
    MESSAGE: ClassVar[str] = "prefetch"
    desc = operand_def(DESC)
    assembly_format = "$desc attr-dict `:` type($desc)"

    def __init__(self, desc: SSAValue, hints: Mapping[str, Attribute] | None = None) -> None:
        super().__init__(operands=[desc], properties=dict(hints or {}))

    def verify_(self) -> None:
        check_hints(self, "prefetch")
        check_block(desc_of(self.desc))


OPERATIONS = (LoadNdOp, StoreNdOp, PrefetchNdOp)
