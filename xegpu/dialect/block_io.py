"""Block descriptors and block memory operations of XeGPU (``create_nd_tdesc``, ``load_nd``, ``store_nd`` ...).

Vectors are blocks before ``distribute-lanes`` and fragments of one lane after it; an operation is in the second form
when its descriptor has an ``sg_map``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, MemRefType, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.dialect.hints import HintedOp, check_hints
from xegpu.dialect.types import (
    ACCESS,
    DescriptorType,
    TensorDesc,
    TensorDescType,
    check_division,
    check_load,
    check_valid,
)
from xegpu.ir.create import initialize
from xegpu.ir.dtypes import DType
from xegpu.ir.memref import DescribedOp, array_at, is_address, is_shared, verify_described, verify_line
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.ir.traits import MovesView, ReadsMemory, WritesMemory
from xegpu.mlir.vector import VECTOR, IntegersAttr, vector_type
from xegpu.support.errors import Invalid

DESC = base(TensorDescType)


def desc_of(value: SSAValue) -> TensorDesc:
    """Type parameters of a descriptor value."""
    assert isinstance(value.type, DescriptorType)
    return value.type.data


def check_block(desc: TensorDesc) -> None:
    """Verify that a descriptor is a block descriptor, and no scattered one."""
    if desc.scatter is not None:
        raise Invalid("XT3001", "this takes a descriptor of a block, and that one describes single elements\n"
                      "make one with create_nd_tdesc, or use load_gather, store_scatter and prefetch")
    if len(desc.shape) not in (1, 2):
        raise Invalid("XT3002", f"a descriptor of a block has one or two dimensions, not {len(desc.shape)}\n"
                      "give the indices in front of them as offsets of the memref")


def check_source(source: Attribute, scope: str, element: Attribute) -> None:
    """Verify the memory scope and the element type of a descriptor against the array, or the address, below it."""
    if scope != (needed := "slm" if is_shared(source) else "global"):
        hint = f"use memory_scope = {needed}" if not is_address(source) else \
            "an address in shared local memory is that of an array there: take it with " \
            "memref.extract_aligned_pointer_as_index, and arith.index_cast to i64"
        raise Invalid("XT3005", f"a descriptor of {scope} memory on {source}\n{hint}", alone=is_address(source))
    if isinstance(source, MemRefType) and source.element_type != element:
        raise Invalid("XT3009", f"a descriptor of {element} cannot describe a {source}\n"
                      f"describe {source.element_type}, or view the array as {element}")


def check_moved(desc: Attribute, result: Attribute) -> None:
    """Verify that a descriptor with other offsets keeps its type."""
    if desc != result:
        raise Invalid("XT3011", f"moving a descriptor does not make a {result} of {desc}\n"
                      "write the type of the operand again behind the arrow")


ARRAYS = (1, 2, 4, 8)
"""Legal values of ``array_length``, blocks side by side in one descriptor; a message takes four at most."""


@operation_definition
class CreateNdTdescOp(DescribedOp):
    """Block descriptor on the last two dimensions of an array; offsets, shape and strides in elements.

    A 1D descriptor covers adjacent elements from an offset on, without a boundary check: the author asserts that all of
    them are in bounds.
    """

    name = "xegpu.create_nd_tdesc"
    RECORD: ClassVar[Record] = MOVED
    result = result_def(DESC)

    def verify_(self) -> None:
        desc = desc_of(self.result)
        check_block(desc)
        if len(desc.shape) == 1:
            verify_line(self, "a descriptor")
            self._verify_promise(desc)
        else:
            verify_described(self, "a descriptor")
        check_division(desc)
        if desc.block.array_length not in ARRAYS:
            raise Invalid("XT3003", f"array_length is 1, 2, 4 or 8, not {desc.block.array_length}\n"
                          "use several descriptors", alone=True)
        if desc.block.access not in ACCESS:
            raise Invalid("XT3004", f"access is {', '.join(ACCESS[:-1])} or {ACCESS[-1]}, not {desc.block.access}\n"
                          "leave it out: block is what 2D block IO needs", alone=True)
        array = array_at(self.source) or self.source
        check_source(array.type, desc.block.memory_scope, desc.element_type)

    @staticmethod
    def _verify_promise(desc: TensorDesc) -> None:
        if desc.block.boundary_check:
            raise Invalid("XT3006", "a descriptor of one dimension does not know where its memory ends\n"
                          "write boundary_check = false, and keep it inside", alone=True)
        if desc.block.array_length > 1:
            raise Invalid("XT3007", "a descriptor of one dimension has no blocks side by side\nleave array_length out, "
                          f"and make it {desc.block.array_length * desc.shape[0]} elements long", alone=True)
        if desc.sg_map is not None and (desc.sg_map.wi_layout[0], desc.sg_map.wi_data[0]) != (1, 1):
            raise Invalid("XT3008",
                          "the outer dimension of wi_layout and wi_data is 1 for a descriptor of one dimension, not "
                          f"{desc.sg_map.wi_layout[0]} and {desc.sg_map.wi_data[0]}\n"
                          "write wi_layout = [1, 16], wi_data = [1, 1]", alone=True)


@operation_definition
class UpdateNdOffsetOp(IRDLOperation):
    """Block descriptor with updated offsets, in elements."""

    name = "xegpu.update_nd_offset"
    RECORD: ClassVar[Record] = MOVED
    desc = operand_def(DESC)
    offsets = var_operand_def(IndexType)
    result = result_def(DESC)
    traits = traits_def(Pure(), MovesView())
    assembly_format = "$desc `,` `[` $offsets `]` attr-dict `:` type($desc) `->` type($result)"

    def __init__(self, desc: SSAValue, offsets: Sequence[SSAValue]) -> None:
        initialize(self, [desc, *offsets], [desc.type], {})

    def verify_(self) -> None:
        check_block(desc_of(self.desc))
        if len(self.offsets) != len(desc_of(self.desc).shape):
            raise Invalid("XT3010", f"a descriptor of {len(desc_of(self.desc).shape)} dimensions moves by as many "
                          f"offsets, not by {len(self.offsets)}\ngive 0 for a dimension that it keeps")
        check_moved(self.desc.type, self.result.type)


@operation_definition
class GetNdOffsetsOp(IRDLOperation):
    """Current offsets of a block descriptor: row and column."""

    name = "xegpu.get_nd_offsets"
    RECORD: ClassVar[Record] = MOVED
    desc = operand_def(DESC)
    row = result_def(IndexType)
    column = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$desc attr-dict `:` type($desc)"

    def __init__(self, desc: SSAValue) -> None:
        super().__init__(operands=[desc], result_types=[IndexType(), IndexType()])

    def verify_(self) -> None:
        check_block(desc_of(self.desc))


@operation_definition
class SetNdOffsetsOp(IRDLOperation):
    """The descriptor of the same array at a row and a column, wherever it stood before."""

    name = "xegpu.set_nd_offsets"
    RECORD: ClassVar[Record] = MOVED
    desc = operand_def(DESC)
    row = operand_def(IndexType)
    column = operand_def(IndexType)
    result = result_def(DESC)
    traits = traits_def(MovesView(), Pure())
    assembly_format = "$desc `,` `[` $row `,` $column `]` attr-dict `:` type($desc) `->` type($result)"

    def __init__(self, desc: SSAValue, row: SSAValue, column: SSAValue) -> None:
        initialize(self, [desc, row, column], [desc.type], {})

    def verify_(self) -> None:
        check_block(desc_of(self.desc))
        check_moved(self.desc.type, self.result.type)


DESCRIPTOR_OPERATIONS = (CreateNdTdescOp, UpdateNdOffsetOp, GetNdOffsetsOp, SetNdOffsetsOp)


def loaded_shape(desc: TensorDesc, packed: bool, transpose_bits: int = 0) -> tuple[int, ...]:
    """Shape of the vector that ``load_nd`` loads through a descriptor.

    A 1D descriptor gives its own shape, or a lane's fragment of it. A block is ``[array_length,] rows, columns``,
    packed ``[array_length,] rows / v, columns, v`` with ``v`` elements a 32-bit word, transposed
    ``columns / w, rows * w`` with ``w`` elements in ``transpose_bits``; a lane's fragment is
    ``[array_length,] units, elements a unit``.
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
    """A block from memory; ``packed`` gives it in VNNI form, ``in_bounds`` says that all of it is inside its array.

    Rows of a block that is in bounds also begin on 4-byte boundaries, unless its map copies such as do not, or it has
    ``valid`` (:mod:`xegpu.dialect.types`). Then ``qword_aligned`` says that its descriptor stands at a multiple of 8
    bytes but for constant distances: 1D block messages of 64-bit words begin there, each of twice as many bytes.
    ``row_behind``: as many elements may be read behind its columns. Addresses of a ``payload_group`` follow each other.
    """

    name = "xegpu.load_nd"
    RECORD: ClassVar[Record] = MOVED
    desc = operand_def(DESC)
    packed = opt_prop_def(UnitAttr)
    transpose = opt_prop_def(IntegersAttr)
    transpose_bit_width = opt_prop_def(IntegerAttr)
    in_bounds = opt_prop_def(UnitAttr)
    valid = opt_prop_def(IntegersAttr)
    qword_aligned = opt_prop_def(UnitAttr)
    row_behind = opt_prop_def(UnitAttr)
    payload_group = opt_prop_def(IntegerAttr)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc attr-dict `:` type($desc) `->` type($result)"

    def __init__(self, desc: SSAValue, *, packed: bool = False, transpose: bool = False,
                 transpose_bit_width: int | None = None) -> None:
        parameters = desc_of(desc)
        bits = (transpose_bit_width or parameters.dtype.bits) if transpose else 0
        result = vector_type(loaded_shape(parameters, packed, bits), parameters.element_type)
        initialize(self, [desc], [result], {
            "packed": UnitAttr() if packed else None,
            "transpose": ArrayAttr([IntegerAttr(axis, i64) for axis in (1, 0)]) if transpose else None,
            "transpose_bit_width": IntegerAttr(transpose_bit_width, i64) if transpose_bit_width else None})

    @property
    def transposes(self) -> int:
        """Bits of the unit that the load transposes, one element or several; 0 if it does not transpose."""
        if self.transpose is None:
            return 0
        width = self.transpose_bit_width
        return desc_of(self.desc).dtype.bits if width is None else width.value.data

    def verify_(self) -> None:
        check_hints(self, "load")
        desc = desc_of(self.desc)
        packed = self.packed is not None
        check_valid(self.valid, desc, may_be=self.in_bounds is not None and not self.transposes)
        axes = None if self.transpose is None else [axis.value.data for axis in self.transpose]
        check_load_form(axes, packed, desc.dtype)
        self._check_width(desc.dtype.bits)
        if self.transposes and desc.block.array_length > 1:
            raise Invalid("XT3105",
                          f"a transposed load takes one block, and this descriptor has {desc.block.array_length}\n"
                          "leave array_length out, and load each block by itself")
        check_load(desc, packed, bool(self.transposes))
        if packed:
            check_words("rows", desc.shape[0], 32 // desc.dtype.bits, desc.element_type)
        check_words("columns", desc.shape[-1], self.transposes // desc.dtype.bits, desc.element_type)
        expected = loaded_shape(desc, packed, self.transposes)
        check_loaded(self.result.type, expected, desc.element_type)

    def _check_width(self, bits: int) -> None:
        """Verify that the transposed unit is an element of ``bits``, or several elements in a word of at most 32."""
        if self.transpose_bit_width is None:
            return
        width = self.transpose_bit_width.value.data
        if self.transpose is None:
            raise Invalid("XT3104", f"transpose_bit_width = {width} has no effect without transpose\n"
                          "add transpose = [1, 0]", alone=True)
        if width < bits or width % bits or (width > 32 and width != bits):
            raise Invalid("XT3104", f"transpose_bit_width = {width} is neither the {bits} bits of an element nor "
                          "several of them in at most 32\n" + ("use 32" if bits <= 16 else "leave it out"))


def check_load_form(axes: Sequence[int] | None, packed: bool, dtype: DType) -> None:
    """Verify that a load is packed or transposed in a way that there is.

    Args:
        axes: its ``transpose``, None without one.
        packed: whether it gives VNNI form.
        dtype: element type.
    """
    if axes is not None and list(axes) != [1, 0]:
        raise Invalid("XT3102", f"transpose = {list(axes)} does not exchange the two dimensions\n"
                      "write transpose = [1, 0], or leave it out", alone=True)
    if axes is not None and packed:
        raise Invalid("XT3103", "a load cannot be packed and transposed\n"
                      "a transposed load with transpose_bit_width = 32 gives VNNI form by itself", alone=True)
    if packed and dtype.bits >= 32:
        raise Invalid("XT3106", f"{dtype.mlir} fills a 32-bit word, so it cannot be packed\nleave packed out")


def check_loaded(result: Attribute, shape: Sequence[int], element: Attribute) -> None:
    """Verify the result type of a block load."""
    if result != (expected := vector_type(shape, element)):
        raise Invalid("XT3107", f"this load gives {list(shape)} of {element}, not {result}\nwrite {expected}")


def check_stored(value: Attribute, shape: Sequence[int], element: Attribute) -> None:
    """Verify the type of a block store's value."""
    if value != (expected := vector_type(shape, element)):
        raise Invalid("XT3108", f"this descriptor stores {list(shape)} of {element}, not {value}\n"
                      f"store a {expected}, or change the descriptor")


def check_words(along: str, size: int, together: int, element: Attribute) -> None:
    """Verify that the elements that a load packs fill whole words.

    Args:
        along: ``"rows"`` or ``"columns"``, the packed dimension.
        size: size of the block along it.
        together: elements per word.
        element: element type.
    """
    if together > 1 and size % together:
        raise Invalid("XT3109", f"{together} {along} of {element} make a word, and a block has {size}\n"
                      f"make it {size + -size % together} {along}: what lies outside the array reads as zero")


@operation_definition
class StoreNdOp(HintedOp):
    """Block store; elements outside the array are dropped. ``in_bounds`` says that there are none.

    Rows that fill 16 bytes (:data:`xegpu.dialect.bounds.STORE_ALIGNMENT`) also begin at a multiple of these then,
    unless it has ``valid`` (:mod:`xegpu.dialect.types`), or the target is a CPU; ``qword_aligned`` as a load.
    """

    name = "xegpu.store_nd"
    RECORD: ClassVar[Record] = MOVED
    MESSAGE: ClassVar[str] = "store"
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    in_bounds = opt_prop_def(UnitAttr)
    valid = opt_prop_def(IntegersAttr)
    qword_aligned = opt_prop_def(UnitAttr)
    traits = traits_def(WritesMemory(1))
    assembly_format = "$value `,` $desc attr-dict `:` type($value) `,` type($desc)"

    def __init__(self, value: SSAValue, desc: SSAValue) -> None:
        initialize(self, [value, desc], [], {})

    def verify_(self) -> None:
        check_hints(self, "store")
        desc = desc_of(self.desc)
        check_valid(self.valid, desc, may_be=self.in_bounds is not None)
        expected = loaded_shape(desc, False)
        check_stored(self.value.type, expected, desc.element_type)


@operation_definition
class PrefetchNdOp(HintedOp):
    """Block prefetch into the caches that the hints name."""

    name = "xegpu.prefetch_nd"
    RECORD: ClassVar[Record] = MOVED
    MESSAGE: ClassVar[str] = "prefetch"
    desc = operand_def(DESC)
    assembly_format = "$desc attr-dict `:` type($desc)"

    def __init__(self, desc: SSAValue, hints: Mapping[str, Attribute] | None = None) -> None:
        super().__init__(operands=[desc], properties=dict(hints or {}))

    def verify_(self) -> None:
        check_hints(self, "prefetch")
        check_block(desc_of(self.desc))


OPERATIONS = (LoadNdOp, StoreNdOp, PrefetchNdOp)
