"""SuperVector dialect (SuperVector.md): transfers of slices of memory as vectors of any rank, and contractions.

    %v = supervector.transfer_read %A[%i, %j], %pad {permutation_map = affine_map<(d0, d1) -> (d1, d0)>}
           : memref<?x?xf32>, f32 -> vector<32x256xf32>

A read without padding is in bounds; a write drops out-of-bounds elements, unless ``in_bounds`` states that there are
none. :mod:`xetile.passes.lower_supervector` lowers these operations to tiles, gathers and scatters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.dialect.dpas import MULTIPLIED, check_accumulator
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import ADDRESSED, Record
from xegpu.ir.traits import ReadsMemory, WritesMemory
from xegpu.mlir.vector import VECTOR
from xegpu.support.errors import Invalid, XeError
from xetile.dialect.contract import check_contraction
from xetile.dialect.permutation_map import (
    Permutation,
    check_indices,
    check_permutation,
    map_of_permutation,
    permutation_of,
)
from xetile.dialect.tile_ops import check_map, text
from xetile.dialect.types import WgMapAttr
from xetile.dialect.wg_map import Pair, WgMap

NAME = "supervector"


def collapsed(shape: Sequence[int]) -> Pair:
    """Collapsed 2D shape of a vector of any rank: all dimensions but the last become rows."""
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows, shape[-1] if shape else 1


def _memory(value: SSAValue) -> MemRefType:
    """Memref type of an operand."""
    assert isinstance(value.type, MemRefType), "the operand's constraint"
    return value.type


def _check_transfer(memory: MemRefType, vector: Attribute, indices: int, map_: AffineMapAttr) -> None:
    """Verify what reads and writes have in common: element type, indices and permutation map."""
    assert isinstance(vector, VectorType)
    rank, shape = len(memory.get_shape()), vector.get_shape()
    if memory.element_type != vector.element_type:
        raise Invalid("XT2345", f"{memory} and {vector} have different elements\n"
                      f"make the vector of {memory.element_type}: a transfer converts nothing")
    try:
        of_mlir(vector.element_type)
    except XeError as error:
        raise Invalid.of(error) from None
    check_indices(indices, rank)
    check_map_rank(map_, rank)
    check_permutation(permutation_of(map_), rank, shape)


def check_map_rank(map_: AffineMapAttr, rank: int) -> None:
    """Verify that a permutation map is of the dimensions of a transfer's memref."""
    if map_.data.num_dims != rank:
        raise Invalid("XT2304", f"the permutation map {map_.data} is of {map_.data.num_dims} dimensions, and the "
                      f"memref has {rank}\nits dimensions are those of the memref: ({_dimensions(rank)}) -> (...)")


def _dimensions(rank: int) -> str:
    """Number of dimensions in a message."""
    return ", ".join(f"d{axis}" for axis in range(rank))


def _check_wg_map(wg_map: WgMapAttr | None, vector: Attribute) -> None:
    """Verify a work-group map against the collapsed vector."""
    if wg_map is not None and isinstance(vector, VectorType):
        check_map(wg_map.data, collapsed(vector.get_shape()))


@operation_definition
class TransferReadOp(IRDLOperation):
    """Transfer read (``vector_transfer_read``): a slice of memory as a vector; out-of-bounds elements are the padding.

    Without a padding all of it is in bounds. ``wg_map`` distributes the vector, its rows collapsed, over the subgroups.
    """

    name = "supervector.transfer_read"
    RECORD: ClassVar[Record] = Record(ADDRESSED)
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    padding = opt_operand_def(Attribute)
    permutation_map = prop_def(AffineMapAttr)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)))
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = ("$source `[` $indices `]` (`,` $padding^)? attr-dict `:` type($source) (`,` type($padding)^)? "
                       "`->` type($result)")

    def __init__(self, source: SSAValue, indices: Sequence[SSAValue], result: VectorType, permutation: Permutation,
                 padding: SSAValue | None = None, wg_map: WgMap | None = None) -> None:
        rank = len(_memory(source).get_shape())
        super().__init__(
            operands=[source, indices, [] if padding is None else [padding]], result_types=[result],
            properties={"permutation_map": map_of_permutation(permutation, rank),
                        "wg_map": WgMapAttr(wg_map) if wg_map else None})

    @property
    def permutation(self) -> Permutation:
        """Memory dimension of each dimension of the vector."""
        return permutation_of(self.permutation_map)

    def verify_(self) -> None:
        memory = _memory(self.source)
        _check_transfer(memory, self.result.type, len(self.indices), self.permutation_map)
        _check_wg_map(self.wg_map, self.result.type)
        if self.padding is not None and self.padding.type != memory.element_type:
            raise Invalid("XT2346", f"the padding is {self.padding.type}, and the elements are {memory.element_type}\n"
                          f"give a padding of {memory.element_type}, or none where the slice is surely inside")


@operation_definition
class TransferWriteOp(IRDLOperation):
    """Transfer write (``vector_transfer_write``): a vector to a slice of memory; out-of-bounds elements are dropped.

    With ``in_bounds`` all of it is in bounds. A ``mask``, an element of i1 for each of the vector, drops elements, too.
    """

    name = "supervector.transfer_write"
    RECORD: ClassVar[Record] = Record(ADDRESSED)
    value = operand_def(VECTOR)
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    mask = opt_operand_def(VECTOR)
    permutation_map = prop_def(AffineMapAttr)
    in_bounds = opt_prop_def(UnitAttr)
    traits = traits_def(WritesMemory(1))
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = ("$value `,` $source `[` $indices `]` (`,` $mask^)? attr-dict `:` type($value) `,` type($source) "
                       "(`,` type($mask)^)?")

    def __init__(self, value: SSAValue, source: SSAValue, indices: Sequence[SSAValue], permutation: Permutation,
                 in_bounds: bool = False, mask: SSAValue | None = None) -> None:
        rank = len(_memory(source).get_shape())
        super().__init__(operands=[value, source, indices, [] if mask is None else [mask]], properties={
            "permutation_map": map_of_permutation(permutation, rank), "in_bounds": UnitAttr() if in_bounds else None})

    @property
    def permutation(self) -> Permutation:
        """Memory dimension of each dimension of the vector."""
        return permutation_of(self.permutation_map)

    def verify_(self) -> None:
        _check_transfer(_memory(self.source), self.value.type, len(self.indices), self.permutation_map)
        if None in self.permutation:
            raise Invalid("XT2347", f"a write does not broadcast, and its map is {self.permutation_map.data}\n"
                          "which of the repeated elements should be written? drop that dimension of the vector")
        if self.mask is not None and self.mask.type != VectorType(i1, shape_of_transfer(self)):
            raise Invalid("XT2348", f"the mask of {self.value.type} is {self.mask.type}\n"
                          f"it is a {VectorType(i1, shape_of_transfer(self))}", about=("mask",))


def shape_of_transfer(operation: TransferReadOp | TransferWriteOp) -> tuple[int, ...]:
    """Shape of the vector that is read or written."""
    type_ = (operation.result if isinstance(operation, TransferReadOp) else operation.value).type
    assert isinstance(type_, VectorType)
    return type_.get_shape()


def check_cast(memory: MemRefType, result: Attribute) -> None:
    """Verify the types of a ``type_cast``: a memref of scalars, and one of a single vector of its shape."""
    if isinstance(memory.element_type, VectorType):
        raise Invalid("XT2310", f"{memory} has vectors as elements already\ncast a memref of scalars")
    sizes = memory.get_shape()
    if not isinstance(result, MemRefType) or not isinstance(result.element_type, VectorType) or \
            result.get_shape() != (1,):
        written = text([4 if size == DYNAMIC_INDEX else size for size in sizes])
        raise Invalid("XT2311", f"it gives a memref of one vector, not {result}\n"
                      f"write memref<1xvector<{written}x{memory.element_type}>>")
    shape = result.element_type.get_shape()
    fits = len(sizes) == len(shape) and all(a in (DYNAMIC_INDEX, b) for a, b in zip(sizes, shape, strict=True))
    if not fits or memory.element_type != result.element_type.element_type:
        raise Invalid("XT2313", f"the vector of {memory} is not {result.element_type}\n"
                      "it has the shape and the element type of the memref")


@operation_definition
class TypeCastOp(IRDLOperation):
    """Type cast (``vector_type_cast``): a memref of scalars as a memref of one vector of the same shape.

    Sizes that the memref does not say are promised to be those of the vector.
    """

    name = "supervector.type_cast"
    RECORD: ClassVar[Record] = Record(ADDRESSED)
    source = operand_def(MemRefType)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `,` type($result)"

    def __init__(self, source: SSAValue, shape: Sequence[int]) -> None:
        memory = _memory(source)
        vector = VectorType(memory.element_type, shape)
        super().__init__(operands=[source],
                         result_types=[MemRefType(vector, [1], memory_space=memory.memory_space)])

    @property
    def vector(self) -> VectorType:
        """Type of the single vector."""
        type_ = self.result.type
        assert isinstance(type_, MemRefType)
        assert isinstance(type_.element_type, VectorType)
        return type_.element_type

    def verify_(self) -> None:
        memory, result = _memory(self.source), _memory(self.result)
        check_cast(memory, result)
        if memory.memory_space != result.memory_space:
            raise Invalid("XT2314", f"{memory} and {result} are in different memory spaces\ngive both the same")


@operation_definition
class ContractOp(IRDLOperation):
    """Contraction (``vector.contract``): the sum of products along the reduction iterators, plus ``acc``."""

    name = "supervector.contract"
    RECORD: ClassVar[Record] = MULTIPLIED
    lhs = operand_def(VECTOR)
    rhs = operand_def(VECTOR)
    acc = opt_operand_def(VECTOR)
    indexing_maps = prop_def(ArrayAttr)
    iterator_types = prop_def(ArrayAttr)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = ("$lhs `,` $rhs (`,` $acc^)? attr-dict `:` type($lhs) `,` type($rhs) (`,` type($acc)^)? "
                       "`->` type($result)")

    def __init__(self, lhs: SSAValue, rhs: SSAValue, acc: SSAValue | None, result: VectorType,
                 maps: Sequence[AffineMapAttr], iterators: Sequence[str], wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[lhs, rhs, [] if acc is None else [acc]], result_types=[result], properties={
            "indexing_maps": ArrayAttr(maps), "iterator_types": ArrayAttr([StringAttr(kind) for kind in iterators]),
            "wg_map": WgMapAttr(wg_map) if wg_map else None})

    @property
    def axes(self) -> list[Permutation]:
        """Iterators of the dimensions of lhs, rhs and result (the indexing maps)."""
        return [permutation_of(map_) for map_ in self.indexing_maps]

    @property
    def iterators(self) -> list[str]:
        """Iterator types, ``parallel`` or ``reduction``."""
        return [kind.data for kind in self.iterator_types]

    def verify_(self) -> None:
        check_contraction([self.lhs.type, self.rhs.type, self.result.type], self.axes, self.iterators)
        _check_wg_map(self.wg_map, self.result.type)
        check_accumulator(self.lhs, self.acc, self.result)


SuperVector = Dialect(NAME, [TransferReadOp, TransferWriteOp, TypeCastOp, ContractOp], [])
