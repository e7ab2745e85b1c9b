"""Spelling of SSA values in OpenCL C: fragments, coordinates, descriptors, element types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xegpu.ir.dtypes import DType, bf16, f16, f64, tf32

UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
"""The unsigned integer of so many bits."""
SIGNED = {bits: name.removeprefix("u") for bits, name in UNSIGNED.items()}
"""The signed integer of so many bits."""
ACCUMULATORS = {"f32": "float", "f16": "half", "bf16": "short", "i32": "int"}
"""The C type in which DPAS builtins take and give sums."""
SCALED = {"e4m3": "hf8", "e5m2": "bf8"}
"""The names of the element types that DPAS takes with scales."""

_WIDTHS = (8, 4, 2, 1)


def vector_type(scalar: str, width: int) -> str:
    """OpenCL vector type: ``float8`` for ("float", 8), ``float`` for width 1."""
    return scalar if width == 1 else f"{scalar}{width}"


def width_of(units: int) -> int:
    """Words in one variable: at most a DPAS repeat count or operand."""
    return next(width for width in _WIDTHS if units % width == 0)


@dataclass(frozen=True)
class Fragment:
    """Fragment of a lane: ``units`` words in variables of ``width`` words each.

    Attributes:
        dtype: the element type.
        units: words of the fragment, array blocks included.
        per_lane: elements in one word.
        names: the variables (or expressions that name them), in order.
    """

    dtype: DType
    units: int
    per_lane: int
    names: tuple[str, ...]

    @property
    def word(self) -> str:
        """C type of one word: that of the element, or an unsigned integer of several elements."""
        return word_type(self.dtype, self.per_lane)

    @property
    def width(self) -> int:
        """Words in one variable."""
        return self.units // len(self.names)

    @property
    def c_type(self) -> str:
        """C type of one variable."""
        return vector_type(self.word, self.width)

    def words(self) -> list[str]:
        """Expressions of the words."""
        if self.width == 1:
            return list(self.names)
        return [f"{name}.s{position:x}" for name in self.names for position in range(self.width)]

    def renamed(self, names: tuple[str, ...]) -> Fragment:
        """Fragment of the same layout in other variables."""
        return replace(self, names=names)

    def slice(self, start: int, units: int) -> Fragment:
        """Slice of ``units`` words from ``start``: variables, a swizzle of one, or a vector literal."""
        width = width_of(units)
        if width == self.width and start % width == 0:
            names = self.names[start // width:(start + units) // width]
        elif self.width % width == 0 and start % width == 0:
            names = tuple(self._part(position, width) for position in range(start, start + units, width))
        else:
            words = self.words()[start:start + units]
            names = tuple(f"({vector_type(self.word, width)})({', '.join(words[i:i + width])})"
                          for i in range(0, units, width))
        return Fragment(self.dtype, units, self.per_lane, names)

    def _part(self, start: int, width: int) -> str:
        name, first = self.names[start // self.width], start % self.width
        return f"{name}.s{''.join(f'{first + i:x}' for i in range(width))}"


def word_type(dtype: DType, per_lane: int) -> str:
    """C type of a word of ``per_lane`` elements."""
    return dtype.register if per_lane == 1 else UNSIGNED[dtype.bits * per_lane]


def empty(dtype: DType, units: int, per_lane: int, stem: str, blocks: int = 1) -> Fragment:
    """Fragment in undeclared variables: ``stem``, or ``stem_0``, ``stem_1`` ...

    Args:
        dtype, units, per_lane: as in :class:`Fragment`.
        stem: the names begin with it.
        blocks: blocks that lie side by side in the fragment; no variable spans two.
    """
    return Fragment(dtype, units, per_lane, names(stem, units // width_of(units // blocks)))


def names(stem: str, count: int) -> tuple[str, ...]:
    """Variable names: ``stem``, or ``stem_0``, ``stem_1`` ..."""
    return (stem,) if count == 1 else tuple(f"{stem}_{position}" for position in range(count))


@dataclass(frozen=True)
class Coordinate:
    """Index as a sum of expressions and a constant, for constant folding at emission."""

    terms: tuple[str, ...] = ()
    offset: int = 0

    def __str__(self) -> str:
        if not self.terms:
            return str(self.offset)
        base = " + ".join(self.terms)
        return base if not self.offset else f"{base} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"

    def plus(self, other: Coordinate) -> Coordinate:
        """Sum of two coordinates."""
        return Coordinate(self.terms + other.terms, self.offset + other.offset)


@dataclass(frozen=True)
class ArrayValue:
    """Array: names of its pointer, sizes and strides, and its address space."""

    name: str
    dtype: DType
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    space: str = "global"


@dataclass(frozen=True)
class Scattered:
    """Scattered descriptor.

    Attributes:
        base: what they lie off from.
        offset: how far a lane's own does, in elements.
        element: the C type of an element.
        offset_type: that of the offset.
        space: the address space.
    """

    base: str
    offset: str
    element: str
    offset_type: str = "int"
    space: str = "global"


@dataclass(frozen=True)
class Descriptor:
    """Block descriptor: a matrix view of an array, and the block's offsets."""

    array: ArrayValue
    height: str
    width: str
    pitch: str
    step: str
    row: Coordinate
    column: Coordinate

    def moved(self, rows: Coordinate, columns: Coordinate) -> Descriptor:
        """Descriptor with updated offsets."""
        return replace(self, row=self.row.plus(rows), column=self.column.plus(columns))

    @property
    def matrix_fields(self) -> list[tuple[str, str]]:
        """C types and expressions of the fields that identify the matrix: base, height, width, pitch, step."""
        return [(f"{self.array.space} {self.array.dtype.opencl} *", self.array.name),
                *(("int", number) for number in (self.height, self.width, self.pitch, self.step))]

    def with_matrix_fields(self, names: Sequence[str]) -> Descriptor:
        """Descriptor whose :attr:`matrix_fields` are variables of these names."""
        pointer, height, width, pitch, step = names
        array = replace(self.array, name=pointer)
        return replace(self, array=array, height=height, width=width, pitch=pitch, step=step)


# Element types: the facts are in their records; an element type beside these chooses its rows here.


def block_word(kind: str, bits: int, columns: int) -> str:
    """C type of the private buffer of a 2D block builtin, ``intel_sub_group_2d_block_<kind>_<bits>b_...``.

    Args:
        kind: ``"read"``, ``"read_transform"``, ``"read_transpose"`` or ``"write"``; a prefetch has no buffer.
        bits: of an element.
        columns: of one block. A lane has two bytes of a row of 32, and so a word of 16 bits.
    """
    if bits == 32 or kind in ("read_transform", "read_transpose"):
        return UNSIGNED[32]
    return UNSIGNED[8] if bits == 8 and columns == 16 else UNSIGNED[16]


def computed(expression: str, dtype: DType, width: int) -> str:
    """Conversion of ``width`` elements to their computation type (``DType.opencl_compute``)."""
    if dtype is not bf16:
        return expression
    number = "" if width == 1 else str(width)
    return f"intel_convert_as_bfloat16{number}_float{number}({expression})"


def rounded(expression: str, dtype: DType, width: int) -> str:
    """Rounding of a computed value to its storage type."""
    if dtype is bf16:
        number = "" if width == 1 else str(width)
        return f"intel_convert_bfloat16{number}_as_ushort{number}({expression})"
    if width == 1 and dtype.bits < 32 and not dtype.is_float:
        return f"({dtype.opencl})({expression})"  # C computes narrow scalars as int
    return expression


def sum_type(accumulator: DType) -> str:
    """C type that products are added up in before they are rounded to the accumulator's element type."""
    if not accumulator.is_float:
        return "int"
    return "double" if accumulator is f64 else "float"


def widened(expression: str, dtype: DType, width: int, total: str) -> str:
    """Widening of ``width`` operands of a product to the accumulators' C type ``total``; tf32 is truncated."""
    if dtype is bf16:
        return computed(expression, dtype, width)
    if dtype is tf32:
        number = "" if width == 1 else str(width)
        # The matrix engine ignores the low 13 bits of tf32's mantissa.
        return f"as_float{number}(as_uint{number}({expression}) & 0xffffe000u)"
    return expression if total.startswith(dtype.opencl) else f"convert_{total}({expression})"


def narrowed(expression: str, dtype: DType, width: int) -> str:
    """Rounding of ``width`` sums in their C type (:func:`sum_type`) to an accumulator's element type."""
    if dtype is f16:
        return f"convert_half{'' if width == 1 else width}({expression})"
    return rounded(expression, dtype, width) if dtype is bf16 else expression


def inline_float(expression: str, dtype: DType) -> str:
    """Inline conversion of an element to float: CPU drivers compile functions of OpenCL C to calls."""
    if dtype is bf16:
        return f"as_float((uint){expression} << 16)"
    return expression if dtype.opencl == "float" else f"(float)({expression})"


def inline_floats(expression: str, dtype: DType) -> str:
    """Inline conversion of 16 elements to float; ``__builtin_convertvector`` is clang's."""
    if dtype is bf16:
        return f"as_float16(convert_uint16({expression}) << 16)"
    return expression if dtype.opencl == "float" else f"__builtin_convertvector({expression}, float16)"
