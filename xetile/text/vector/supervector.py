"""Rules of SuperVector operations: parse tree to operation, spelled as in SuperVector.md and in MLIR's vector dialect.

vector_transfer_read %A, %i0, %i1, %f0 {permutation_map: (d0, d1) -> (d1, d0)} : (memref<?x?xf32>, ...) -> vector
vector.transfer_read %A[%i0, %i1], %f0 {in_bounds = [true, false]} : memref<?x?xf32>, vector<32x64xf32>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    bf16,
    f16,
    f32,
    i1,
    i32,
)
from xdsl.dialects.memref import LoadOp, StoreOp, SubviewOp
from xdsl.dialects.vector import BroadcastOp, CombiningKindAttr, CreateMaskOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.dialect.scalar import LoadScalarOp
from xegpu.interop.llvm.dialect.vector import ConstantMaskOp
from xegpu.ir.matchers import number
from xegpu.mlir.arith import ExtSIOp, SelectOp
from xegpu.mlir.vector import ShapeCastOp, shape_of, values_of
from xetile.dialect.contract import ITERATORS, MATMUL, is_product
from xetile.dialect.permutation_map import Permutation, map_of_permutation, minor_identity, permutation_of
from xetile.dialect.supervector import (
    ContractOp,
    TransferReadOp,
    TransferWriteOp,
    TypeCastOp,
    check_cast,
    check_map_rank,
    shape_of_transfer,
)
from xetile.text.grammar import Sketch, read
from xetile.text.operand_parser import map_of_attribute, verified
from xetile.text.vector.ops import IN_VIEW, GeneralContractOp, PermuteOp

_T = TypeVar("_T")
_EXTENDED = ((bf16, f32), (f16, f32), (IntegerType(8), i32))
"""Element types of factors, and of their extensions, whose products are the same in every sum."""
Rule = Callable[[Sketch], Operation]


def _rank(sketch: Sketch, source: SSAValue) -> int:
    if not isinstance(source.type, MemRefType):
        sketch.fail("XT2301",
                    f"it takes a memref, not {source.type}", "pass the array, then an index for each dimension")
    return len(source.type.get_shape())


def _indices(sketch: Sketch, rest: list[SSAValue], rank: int) -> list[SSAValue]:
    """Index for each dimension: in brackets, one by one after the memref, or none for zeros."""
    if sketch.groups:
        return [sketch.parser.constant(entry) if isinstance(entry, int) else entry for entry in sketch.groups.pop(0)]
    if not rest:
        return [sketch.parser.constant(0) for _ in range(rank)]
    indices, rest[:] =  rest[:rank], rest[rank:]
    return indices


def _permutation(sketch: Sketch, rank: int, vector: VectorType[Attribute]) -> Permutation:
    """Permutation map in the text, by default the minor identity."""
    attribute, dimensions = sketch.take("permutation_map"), len(vector.get_shape())
    if attribute is None:
        return verified(sketch, lambda: minor_identity(rank, dimensions))
    if not isinstance(attribute, AffineMapAttr):
        sketch.fail("XT2303", f"its permutation map is {attribute}, which is not an affine map",
                    "write permutation_map = affine_map<(d0, d1) -> (d1, d0)>")
    verified(sketch, lambda: check_map_rank(attribute, rank))
    return _permuted(sketch, attribute)


def _permuted(sketch: Sketch, map_: AffineMapAttr) -> Permutation:
    return verified(sketch, lambda: permutation_of(map_))


def _is_in_bounds(sketch: Sketch, vector: VectorType[Attribute]) -> bool:
    """Whether ``in_bounds`` is true for every dimension."""
    attribute = sketch.take("in_bounds")
    if attribute is None or isinstance(attribute, UnitAttr):
        return attribute is not None
    truths = list(attribute) if isinstance(attribute, ArrayAttr) else []
    if len(truths) != len(vector.get_shape()) or not all(isinstance(truth, IntegerAttr) for truth in truths):
        sketch.fail("XT2305", f"in_bounds is {attribute}, and the vector has {len(vector.get_shape())} dimensions",
                    "give a truth value for each dimension of the vector: [true, false]")
    return all(truth.value.data for truth in truths)


def _vector(sketch: Sketch, type_: Attribute | None) -> VectorType[Attribute]:
    if not isinstance(type_, VectorType):
        sketch.fail("XT2306", f"it gives a vector, not {type_}" if type_ else "the type of its vector is missing",
                    "write : memref<?x?xf32> -> vector<32x64xf32>")
    return type_


def _transfer_read(sketch: Sketch) -> Operation:
    if not sketch.operands:
        sketch.fail("XT2042", "it reads a memref", "write %array[%i, %j] : memref<?x?xf32> -> vector<32x64xf32>")
    source, *rest = sketch.operands
    vector = _vector(sketch, sketch.results[0] if len(sketch.results) == 1 else None)
    rank = _rank(sketch, source)
    indices = _indices(sketch, rest, rank)
    if len(rest) > 2:
        sketch.fail("XT2308", "it takes indices, a padding and a mask, and there are more operands",
                    "write %array[%i, %j], %padding, %mask")
    permutation, inside = _permutation(sketch, rank, vector), _is_in_bounds(sketch, vector)
    map_ = map_of_attribute(sketch, sketch.take("wg_map"))
    sketch.finish("permutation_map", "in_bounds", "wg_map")
    if len(rest) == 2:
        return masked_read(sketch, TransferReadOp(source, indices, vector, permutation, rest[0], map_), rest[1], inside)
    padding = rest[0] if rest and not inside else None
    return TransferReadOp(source, indices, vector, permutation, padding, map_)


def masked_read(sketch: Sketch, read_: TransferReadOp, mask: SSAValue, inside: bool = False) -> Operation:
    """A padded read, of which a mask chooses the elements; ``inside`` says that those stay in the view."""
    assert read_.padding is not None
    assert isinstance(read_.result.type, VectorType)
    if inside:
        read_.attributes[IN_VIEW] = UnitAttr()
    chosen = in_vectors_order(sketch, mask, read_.permutation, read_.result.type.get_shape())
    padding = BroadcastOp(read_.padding, read_.result.type)
    for operation in (read_, padding):
        sketch.parser.insert_before(operation)
    return SelectOp(chosen, read_.result, padding.vector)


def _chooses_all(mask: SSAValue) -> bool:
    """Whether a mask is known to be true for each element, so that a tile store does."""
    owner, shape = mask.owner, shape_of(mask)
    if isinstance(owner, CreateMaskOp):
        sizes = [number(size) for size in owner.mask_dim_sizes]
        return all(size is not None and size >= extent for size, extent in zip(sizes, shape, strict=True))
    if isinstance(owner, ConstantMaskOp):
        return values_of(owner.mask_dim_sizes) == shape
    dense = owner.value if isinstance(owner, arith.ConstantOp) else None
    return isinstance(dense, DenseIntOrFPElementsAttr) and all(dense.get_values())


def in_vectors_order(sketch: Sketch, mask: SSAValue, permutation: Permutation, shape: Sequence[int]) -> SSAValue:
    """Mask of a transfer, whose dimensions are those of memory that it runs along, as one of the vector's elements."""
    along = [axis for axis in permutation if axis is not None]
    sizes = [shape[permutation.index(axis)] for axis in sorted(along)]
    if mask.type != VectorType(i1, sizes):
        sketch.fail("XT2348", f"its mask is {mask.type}",
                    f"it is a {VectorType(i1, sizes)}: along the dimensions of memory, in their order", mask)
    if along != sorted(along):
        mask = _before(sketch, PermuteOp(mask, [sorted(along).index(axis) for axis in along]))
    if None in permutation:
        thin = [1 if axis is None else size for axis, size in zip(permutation, shape, strict=True)]
        mask = _before(sketch, ShapeCastOp(mask, thin))
        mask = _before(sketch, BroadcastOp(mask, VectorType(i1, shape)))
    return mask


def _before(sketch: Sketch, operation: Operation) -> SSAValue:
    """Result of an operation before the one that is read."""
    sketch.parser.insert_before(operation)
    return operation.results[0]


def _transfer_write(sketch: Sketch) -> Operation:
    vectors = [value for value in sketch.operands if isinstance(value.type, VectorType)]
    memories = [value for value in sketch.operands if isinstance(value.type, MemRefType)]
    if len(vectors) not in (1, 2) or len(memories) != 1:
        sketch.fail("XT2042", "it takes a vector, a memref, indices and perhaps a mask",
                    "write %value, %array[%i, %j] : vector<32x64xf32>, memref<?x?xf32>")
    sketch.no_result()
    rest = [value for value in sketch.operands if value not in (*vectors, *memories)]
    vector, rank = _vector(sketch, vectors[0].type), _rank(sketch, memories[0])
    indices = _indices(sketch, rest, rank)
    permutation, inside = _permutation(sketch, rank, vector), _is_in_bounds(sketch, vector)
    sketch.finish("permutation_map", "in_bounds")
    if len(vectors) == 1:
        return TransferWriteOp(vectors[0], memories[0], [*indices, *rest], permutation, inside)
    return masked_write(sketch, TransferWriteOp(vectors[0], memories[0], indices, permutation), vectors[1], inside)


def masked_write(sketch: Sketch, write: TransferWriteOp, mask: SSAValue, inside: bool = False) -> Operation:
    """A write of the elements that a mask chooses; ``inside`` says that those stay in the view."""
    chosen = in_vectors_order(sketch, mask, write.permutation, shape_of_transfer(write))
    whole = _chooses_all(mask)
    masked = TransferWriteOp(write.value, write.source, list(write.indices), write.permutation, whole and inside,
                             None if whole else chosen)
    write.erase()
    if inside and not whole:
        masked.attributes[IN_VIEW] = UnitAttr()
    return masked


def _type_cast(sketch: Sketch) -> Operation:
    if len(sketch.operands) != 1 or len(sketch.results) != 1:
        sketch.fail("XT2310", "it casts a memref of scalars to one of a vector",
                    "write %A : memref<5x4x3xf32>, memref<1xvector<5x4x3xf32>>")
    result, (source,) = sketch.results[0], sketch.operands
    _rank(sketch, source)
    memory = source.type
    assert isinstance(memory, MemRefType)
    if isinstance(result, MemRefType) and not result.get_shape():  # the specification's memref of one vector
        result = MemRefType(result.element_type, [1], result.layout, result.memory_space)
    verified(sketch, lambda: check_cast(memory, result), source)
    if DYNAMIC_INDEX in memory.get_shape():
        sketch.fail("XT2312",
                    f"{memory} does not say its sizes, which the vector copies", "cast a memref of static shape")
    sketch.finish()
    return TypeCastOp(source, memory.get_shape())


def _contract(sketch: Sketch) -> Operation:
    if len(sketch.operands) not in (2, 3) or len(sketch.results) != 1:
        sketch.fail("XT2042", "it takes two vectors and an accumulator, or two",
                    "write %a, %b, %acc : vector<64x32xbf16>, vector<32x64xbf16> into vector<64x64xf32>")
    for attribute in [bare for bare in sketch.bare if isinstance(bare, DictionaryAttr)]:
        sketch.bare.remove(attribute)
        sketch.attributes = {**attribute.data, **sketch.attributes}
    maps, iterators, kind = sketch.take("indexing_maps"), sketch.take("iterator_types"), sketch.take("kind")
    if maps is None:
        maps = ArrayAttr([map_of_permutation(axes, len(ITERATORS)) for axes in MATMUL])
    if not isinstance(maps, ArrayAttr) or not all(isinstance(map_, AffineMapAttr) for map_ in maps):
        sketch.fail("XT2321", f"its indexing maps are {maps}, and no list of affine maps",
                    "give three affine maps, of the operands and of the result")
    for map_ in maps:
        _permuted(sketch, map_)
    names = [item.data for item in iterators if isinstance(item, StringAttr)] if isinstance(iterators, ArrayAttr) \
        else list(ITERATORS)
    if isinstance(kind, CombiningKindAttr) and kind.data != "add":
        sketch.fail("XT2322", f"it combines by {kind.data}, and products are added up", "leave kind out, or write add")
    wg_map = map_of_attribute(sketch, sketch.take("wg_map"))
    sketch.finish("indexing_maps", "iterator_types", "kind", "wg_map")
    lhs, rhs, *acc = sketch.operands
    lhs, rhs = _unextended(lhs, rhs)
    if wg_map is None and acc and len(maps) == 3 and not is_product([_permuted(sketch, map_) for map_ in maps], names):
        return GeneralContractOp.build(
            operands=[lhs, rhs, acc[0]], result_types=[sketch.results[0]],
            properties={"indexing_maps": maps, "iterator_types": ArrayAttr([StringAttr(kind) for kind in names])})
    result = _vector(sketch, sketch.results[0])
    return ContractOp(lhs, rhs, acc[0] if acc else None, result, list(maps), names, wg_map)


def _unextended(lhs: SSAValue, rhs: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Operands of a contraction before both are extended: matrix engines extend exactly what they multiply."""
    kinds = {type(lhs.owner), type(rhs.owner)}
    if kinds not in ({arith.ExtFOp}, {ExtSIOp}):
        return lhs, rhs
    sources = lhs.owner.operands[0], rhs.owner.operands[0]  # type: ignore[union-attr]
    elements = [(get_element_type_or_self(source.type), get_element_type_or_self(wide.type))
                for source, wide in zip(sources, (lhs, rhs), strict=True)]
    return sources if elements[0] == elements[1] in _EXTENDED else (lhs, rhs)


def _subview(sketch: Sketch) -> Operation:
    if len(sketch.operands) != 1 or len(sketch.results) != 1 or not isinstance(sketch.results[0], MemRefType):
        sketch.fail("XT2042", "it takes a memref, and gives one",
                    "write %A[%i, %j] [64, 32] [1, 1] : memref<?x?xf32> to memref<64x32xf32, strided<[?, 1]>>")
    (source,), result = sketch.operands, sketch.results[0]
    rank, shape = _rank(sketch, source), result.get_shape()
    offsets, sizes, strides = (*sketch.groups, *[[]] * 3)[:3]
    sketch.groups = sketch.groups[3:]
    if any(len(group) != rank for group in (offsets, sizes or offsets, strides or offsets)):
        sketch.fail("XT2085", f"a view of memory of {rank} dimensions takes {rank} offsets, sizes and strides",
                    "the dimensions of size 1 that the view drops have them, too")
    if not sizes and len(shape) != rank:
        sketch.fail("XT2085",
                    f"{result} has {len(shape)} dimensions, and the memref {rank}", "give the sizes: [1, 64, 32]")
    sketch.finish()
    view: Operation = SubviewOp.get(source, offsets, sizes or list(shape), strides or [1] * rank, result)
    return view


def _element_load(sketch: Sketch) -> Operation:
    type_ = sketch.operands[0].type if sketch.operands else None
    is_number = isinstance(type_, MemRefType) and not isinstance(type_.element_type, VectorType)
    if is_number and sketch.name == "memref.load":
        assert isinstance(type_, MemRefType)
        indices = _indices(sketch, sketch.operands[1:], len(type_.get_shape()))
        sketch.finish()
        return LoadScalarOp(sketch.operands[0], indices)
    source = _cast_memory(sketch, sketch.operands[:1])
    return LoadOp.get(source, _only_index(sketch, sketch.operands[1:]))


def _element_store(sketch: Sketch) -> Operation:
    sketch.no_result()
    if sketch.name == "memref.store" and (number := _number_store(sketch)) is not None:
        return number
    source = _cast_memory(sketch, sketch.operands[1:2])
    if sketch.operands[0].type != source.type.element_type:  # type: ignore[attr-defined]
        sketch.fail("XT2330", f"{sketch.operands[0].type} does not go into {source.type}",
                    f"store a {source.type.element_type}")  # type: ignore[attr-defined]
    return StoreOp.get(sketch.operands[0], source, _only_index(sketch, sketch.operands[2:]))


def _number_store(sketch: Sketch) -> Operation | None:
    """``memref.store`` of a number, as a write of a vector of one element; None for any other."""
    value, *rest = sketch.operands
    type_ = rest[0].type if rest else None
    if not isinstance(type_, MemRefType) or isinstance(value.type, VectorType) or \
            type_.element_type != value.type or not type_.get_shape():
        return None
    rank = len(type_.get_shape())
    indices = _indices(sketch, rest[1:], rank)
    sketch.take("nontemporal")
    sketch.take("alignment")
    sketch.finish()
    vector = _before(sketch, BroadcastOp(value, VectorType(value.type, [1])))
    return TransferWriteOp(vector, rest[0], indices, minor_identity(rank, 1), True)


def _cast_memory(sketch: Sketch, operands: list[SSAValue]) -> SSAValue:
    type_ = operands[0].type if operands else None
    if not isinstance(type_, MemRefType) or not isinstance(type_.element_type, VectorType):
        sketch.fail("XT2331",
                    f"it takes a memref of a vector, not {type_}" if operands else "it takes a memref of a vector",
                    "make one with vector_type_cast; elements are read by vector_transfer_read, a number by "
                    "memref.load, and stored as a tile of one element")
    return operands[0]


def _only_index(sketch: Sketch, rest: list[SSAValue]) -> list[SSAValue]:
    indices = _indices(sketch, rest, 1)
    sketch.finish()
    if len(indices) != 1:
        sketch.fail("XT2332", "a memref of one vector takes one index", "write [%c0]")
    return indices


_RULES: dict[str, Rule] = {
    "vector_transfer_read": _transfer_read, "vector.transfer_read": _transfer_read,
    "vector_transfer_write": _transfer_write, "vector.transfer_write": _transfer_write,
    "vector_type_cast": _type_cast, "vector.type_cast": _type_cast,
    "vector.contract": _contract, "memref.subview": _subview,
    "load": _element_load, "memref.load": _element_load, "store": _element_store, "memref.store": _element_store,
}
NAMES = tuple(_RULES)
"""Names of operations that are read here."""
_COMMAS = (_transfer_read, _type_cast)
"""Rules of operations whose result's type MLIR writes behind a comma."""


def of_sketch(sketch: Sketch) -> Operation:
    """Operation of the parts of one, which were read in the generic form."""
    return _RULES[sketch.name](sketch)


def read_operation(parser: Any, name: str, span: Any) -> Operation:
    """Parse an operation after its name."""
    rule = _RULES[name]
    return rule(read(parser, name, span, result_behind_comma=rule in _COMMAS))
