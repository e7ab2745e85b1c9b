"""Rules of MLIR's vector dialect in texts with transfers: loads, gathers, masks, and what has no class in xDSL.

    %v = vector.load %A[%i, %j] : memref<?x?xf32>, vector<16xf32>
is a transfer that is in bounds, and
    %v = vector.mask %m { vector.transfer_read %A[%i, %j], %p : memref<?x?xf32>, vector<16xf32> } : ...
one with a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, MemRefType, VectorType, i1
from xdsl.dialects.vector import BroadcastOp, CombiningKindAttr, CombiningKindFlag, CreateMaskOp, ReductionOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.interop.llvm.dialect.vector import ConstantMaskOp, DeinterleaveOp, InterleaveOp, MultiReductionOp
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.arith import SelectOp
from xegpu.mlir.combining_kind import bitwise_kind, neutral
from xegpu.mlir.vector import (
    InsertStridedSliceOp,
    ShapeCastOp,
    TransposeOp,
    integers,
    shape_of,
    shape_of_type,
    values_of,
)
from xegpu.support.lookahead import next_token
from xetile.dialect.permutation_map import minor_identity
from xetile.dialect.supervector import ContractOp, TransferReadOp, TransferWriteOp
from xetile.text.grammar import Sketch, read
from xetile.text.operand_parser import verified
from xetile.text.types import fail
from xetile.text.vector.ops import (
    FromElementsOp,
    GatherOp,
    GeneralContractOp,
    OuterProductOp,
    PermuteOp,
    ScatterOp,
    StepOp,
    ToElementsOp,
    YieldOp,
)
from xetile.text.vector.supervector import masked_read, masked_write

_HINTS = ("nontemporal", "alignment")
"""Attributes that promise something, without which an operation means the same."""


def _accessed(sketch: Sketch, count: int) -> tuple[SSAValue, list[SSAValue], list[list[SSAValue]], list[SSAValue]]:
    """Memory, its indices, further brackets, and the other operands, of which there are ``count``."""
    memory = next((value for value in sketch.operands if isinstance(value.type, MemRefType)), None)
    if memory is None:
        sketch.fail("XT2042", "it takes a memref and indices", "write %array[%i, %j] : memref<?x?xf32>, vector<16xf32>")
    assert isinstance(memory.type, MemRefType)
    before, rank = sketch.operands.index(memory), len(memory.type.get_shape())
    rest = [*sketch.operands[:before], *sketch.operands[before + 1:]]
    groups = [[sketch.parser.constant(entry) if isinstance(entry, int) else entry for entry in group]
              for group in sketch.groups]
    if not groups:  # the generic form
        groups, rest = [rest[before:before + rank]], [*rest[:before], *rest[before + rank:]]
    sketch.groups = []
    for name in _HINTS:
        sketch.take(name)
    sketch.finish()
    if len(rest) + len(groups) - 1 != count or len(groups[0]) != rank:
        sketch.fail("XT2042", f"it takes a memref of {rank} dimensions, as many indices, and {count} vectors",
                    "write its operands as MLIR does")
    return memory, groups[0], groups[1:], rest


def _result(sketch: Sketch) -> VectorType[Attribute]:
    if len(sketch.results) != 1 or not isinstance(sketch.results[0], VectorType):
        sketch.fail("XT2306", "the type of its vector is missing", "write : memref<?x?xf32>, vector<16xf32>")
    return sketch.results[0]


def _minor(sketch: Sketch, memory: SSAValue, type_: Attribute) -> tuple[int | None, ...]:
    rank = len(memory.type.get_shape())  # type: ignore[attr-defined]
    return verified(sketch, lambda: minor_identity(rank, len(shape_of_type(type_))))


def _load(sketch: Sketch) -> Operation:
    memory, indices, _, _ = _accessed(sketch, 0)
    vector = _result(sketch)
    return TransferReadOp(memory, indices, vector, _minor(sketch, memory, vector))


def _store(sketch: Sketch) -> Operation:
    sketch.no_result()
    memory, indices, _, (value,) = _accessed(sketch, 1)
    return TransferWriteOp(value, memory, indices, _minor(sketch, memory, value.type), True)


def _masked_load(sketch: Sketch) -> Operation:
    memory, indices, _, (mask, pass_thru) = _accessed(sketch, 2)
    vector = _result(sketch)
    padding = _number(sketch, 0, vector.element_type)
    read_ = TransferReadOp(memory, indices, vector, _minor(sketch, memory, vector), padding)
    loaded = masked_read(sketch, read_, mask, inside=True)
    assert isinstance(loaded, SelectOp)
    return SelectOp(loaded.operands[0], read_.result, pass_thru)


def _masked_store(sketch: Sketch) -> Operation:
    sketch.no_result()
    memory, indices, _, (mask, value) = _accessed(sketch, 2)
    write = TransferWriteOp(value, memory, indices, _minor(sketch, memory, value.type))
    return masked_write(sketch, write, mask, inside=True)


def _gather(sketch: Sketch) -> Operation:
    memory, indices, groups, rest = _accessed(sketch, 3)
    offsets, mask, pass_thru = (value for part in (*groups, rest) for value in part)
    return GatherOp.build(operands=[memory, indices, offsets, mask, pass_thru], result_types=[_result(sketch)])


def _scatter(sketch: Sketch) -> Operation:
    sketch.no_result()
    memory, indices, groups, rest = _accessed(sketch, 3)
    offsets, mask, value = (value for part in (*groups, rest) for value in part)
    return ScatterOp.build(operands=[memory, indices, offsets, mask, value])


def _outer_product(sketch: Sketch) -> Operation:
    if len(sketch.operands) not in (2, 3):
        sketch.fail("XT2042", "it takes two vectors and perhaps an accumulator",
                    "write %a, %b, %acc : vector<8xf32>, vector<16xf32>")
    kind = sketch.take("kind") or CombiningKindAttr(CombiningKindFlag.ADD)
    lhs, rhs, *acc = sketch.operands
    sketch.finish("kind")
    type_ = sketch.results[0] if sketch.results else VectorType(
        lhs.type.element_type, [*shape_of(lhs), *shape_of_type(rhs.type)])  # type: ignore[attr-defined]
    return OuterProductOp.build(operands=[lhs, rhs, acc], result_types=[type_], properties={"kind": kind})


def _from_elements(sketch: Sketch) -> Operation:
    result = _result(sketch)
    sketch.finish()
    return FromElementsOp.build(operands=[sketch.operands], result_types=[result])


def _to_elements(sketch: Sketch) -> Operation:
    if len(sketch.operands) != 1 or not isinstance(type_ := sketch.operands[0].type, VectorType):
        sketch.fail("XT2042", "it takes a vector", "write %a, %b = vector.to_elements %v : vector<2xf32>")
    sketch.finish()
    count = 1
    for size in type_.get_shape():
        count *= size
    return ToElementsOp.build(operands=[sketch.operands[0]], result_types=[[type_.element_type] * count])


RULES: dict[str, Callable[[Sketch], Operation]] = {
    "vector.load": _load, "vector.store": _store, "vector.maskedload": _masked_load,
    "vector.maskedstore": _masked_store, "vector.gather": _gather, "vector.scatter": _scatter,
    "vector.outerproduct": _outer_product, "vector.from_elements": _from_elements,
    "vector.to_elements": _to_elements,
}
"""Rules of operations by the grammar's parts."""
_BEHIND_COMMA = (_load, _from_elements)
"""Rules of operations whose result's type MLIR writes last, behind a comma or alone."""


def of_sketch(sketch: Sketch) -> Operation:
    """Operation of the parts of one, which were read in the generic form."""
    return {**RULES, **_OF_PARTS}[sketch.name](sketch)


def _transpose(parser: Any, span: Any) -> Operation:
    operation = TransposeOp.parse(parser)
    return _permuted(operation.source, operation.result.type, values_of(operation.permutation), operation.attributes)


def _permuted(source: SSAValue, result: Attribute, order: Sequence[int], attributes: Mapping[str, Attribute]) \
        -> Operation:
    kind = TransposeOp if [*order] == [1, 0] else PermuteOp
    return kind.create(operands=[source], result_types=[result], properties={"permutation": integers(order)},
                       attributes=attributes)


def _transpose_of_parts(sketch: Sketch) -> Operation:
    order = sketch.take("permutation")
    if len(sketch.operands) != 1 or len(sketch.results) != 1 or not isinstance(order, DenseArrayBase):
        sketch.fail("XT2042", "it takes a vector, and a permutation", "write <{permutation = array<i64: 1, 0>}>")
    return _permuted(sketch.operands[0], sketch.results[0], [int(axis) for axis in order.get_values()],
                     sketch.attributes)


def _insert_of_parts(sketch: Sketch) -> Operation:
    if len(sketch.operands) != 2:
        sketch.fail("XT2042", "it takes a part and a vector", "write (%part, %whole) <{offsets = [0, 4], ...}>")
    source, dest = sketch.operands
    return _inserted(sketch.parser, sketch.span, source, dest, sketch.attributes)


def _insert_strided_slice(parser: Any, span: Any) -> Operation:
    """Parse ``%part, %whole {offsets = [0, 4], strides = [1, 1]} : vector<2x4xf32> into vector<8x16xf32>``."""
    names = [parser.parse_unresolved_operand()]
    parser.parse_punctuation(",")
    names.append(parser.parse_unresolved_operand())
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    source = parser.resolve_operand(names[0], parser.parse_type())
    parser.parse_keyword("into")
    dest = parser.resolve_operand(names[1], parser.parse_type())
    if parser.parse_optional_keyword("to"):
        parser.parse_type()
    return _inserted(parser, span, source, dest, attributes)


def _inserted(parser: Any, span: Any, source: SSAValue, dest: SSAValue, attributes: dict[str, Attribute]) -> Operation:
    """A part put into a vector, as one of the same rank."""
    offsets, strides = attributes.pop("offsets", ArrayAttr([])), attributes.pop("strides", None)
    rank, own = len(shape_of_type(dest.type)), len(shape_of_type(source.type))
    if own < rank:
        cast = ShapeCastOp(source, [*[1] * (rank - own), *shape_of(source)])
        parser.insert_before(cast)
        source = cast.result
    if isinstance(strides, ArrayAttr) and any(stride != 1 for stride in values_of(strides)):
        fail(parser, "XT3221", f"strides = {list(values_of(strides))} put elements where they are not adjacent",
             "write strides of 1", span)
    operation = InsertStridedSliceOp.build(
        operands=[source, dest], result_types=[dest.type],
        properties={"offsets": offsets, "strides": InsertStridedSliceOp(dest, dest, [0] * rank).strides})
    operation.attributes.update(attributes)
    return operation


# Masked operations.


def _number(sketch: Sketch, value: float, element: Attribute) -> SSAValue:
    """Scalar constant before the operation that is read."""
    attribute: Any = FloatAttr(float(value), element) if of_mlir(element).is_float else \
        IntegerAttr(int(value), element)  # type: ignore[arg-type]
    constant = arith.ConstantOp(attribute)
    sketch.parser.insert_before(constant)
    return constant.result


def _chosen(sketch: Sketch, mask: SSAValue, value: SSAValue, other: float) -> SSAValue:
    """A vector with another number where a mask is false."""
    if mask.type != VectorType(i1, shape_of(value)):
        sketch.fail("XT2348", f"its mask is {mask.type}", f"it is a {VectorType(i1, shape_of(value))}", mask)
    assert isinstance(value.type, VectorType)
    spread = BroadcastOp(_number(sketch, other, value.type.element_type), value.type)
    select = SelectOp(mask, value, spread.vector)
    for operation in (spread, select):
        sketch.parser.insert_before(operation)
    return select.result


def _project(sketch: Sketch, mask: SSAValue, axes: tuple[int | None, ...], shape: tuple[int, ...]) -> SSAValue:
    """Mask of an operand of a contraction, of one of its iterators."""
    owner = mask.owner
    if isinstance(owner, CreateMaskOp):
        sizes = [owner.mask_dim_sizes[axis] for axis in axes if axis is not None]
    elif isinstance(owner, ConstantMaskOp):
        sizes = [sketch.parser.constant(values_of(owner.mask_dim_sizes)[axis]) for axis in axes if axis is not None]
    else:
        sketch.fail("XT2351", "the mask of a contraction is not made by vector.create_mask or vector.constant_mask",
                    "make it so, or choose the elements of the operands with arith.select", mask)
    projected = CreateMaskOp.build(operands=[sizes], result_types=[VectorType(i1, shape)])
    sketch.parser.insert_before(projected)
    return projected.results[0]


def _masked(sketch: Sketch, operation: Operation, mask: SSAValue, pass_thru: SSAValue | None = None) -> Operation:
    """An operation under a mask; what it does not choose is that of ``pass_thru``."""
    masked = _without_others(sketch, operation, mask)
    if pass_thru is None:
        return masked
    if not isinstance(masked, SelectOp):
        sketch.fail("XT2351", f"{operation.name} has a mask, and passes nothing through",
                    "leave out the second operand of vector.mask, and choose with arith.select", pass_thru)
    masked.operands[2] = pass_thru  # of a read, whose condition is the mask in the vector's order
    return masked


def _without_others(sketch: Sketch, operation: Operation, mask: SSAValue) -> Operation:
    """An operation under a mask, without a vector to pass through."""
    if isinstance(operation, TransferReadOp):
        if operation.padding is not None:
            return masked_read(sketch, operation, mask)
        padding = _number(sketch, 0, operation.result.type.element_type)  # type: ignore[attr-defined]
        padded = TransferReadOp(operation.source, list(operation.indices), operation.result.type,  # type: ignore
                                operation.permutation, padding)
        operation.erase()
        return masked_read(sketch, padded, mask, inside=True)
    if isinstance(operation, TransferWriteOp):
        return masked_write(sketch, operation, mask, inside=operation.in_bounds is not None)
    if isinstance(operation, (MultiReductionOp, ReductionOp)):
        source = operation.operands[0]
        element, kind = source.type.element_type, str(operation.kind.data)  # type: ignore[attr-defined]
        kind = bitwise_kind(kind) if element == i1 else kind
        operation.operands[0] = _chosen(sketch, mask, source, neutral(kind, of_mlir(element)))
    elif isinstance(operation, (ContractOp, GeneralContractOp)):
        axes, shape = operation.axes[0], shape_of(operation.lhs)
        operation.operands[0] = _chosen(sketch, _project(sketch, mask, axes, shape), operation.lhs, 0)
        other = _project(sketch, mask, operation.axes[1], shape_of(operation.rhs))
        operation.operands[1] = _chosen(sketch, other, operation.rhs, 0)
    elif isinstance(operation, GatherOp):
        both = arith.AndIOp(operation.mask, mask)
        sketch.parser.insert_before(both)
        operation.operands[-2] = both.result
    else:
        sketch.fail("XT2351", f"{operation.name} has no mask",
                    "mask transfers, gathers, reductions or contractions, or choose with arith.select")
    return operation


def _mask_of_parts(sketch: Sketch) -> Operation:
    """``vector.mask`` in the generic form: its operation, and what that takes, go before it."""
    body = list(sketch.regions[0].block.ops) if len(sketch.regions) == 1 and sketch.operands else []
    if len(body) < 2 or not isinstance(body[-1], YieldOp):
        sketch.fail("XT2351", "it has no operation", "write one that has a mask, and vector.yield of its results")
    *before, operation, end = body
    masked = [(value.owner, value) for value in end.operands]
    for each in reversed(body):
        each.detach()  # type: ignore[no-untyped-call]
    end.drop_all_references()
    for each in before:
        sketch.parser.insert_before(each)
    if masked and (masked[0][0] is not operation or len(masked) > 1):
        sketch.fail("XT2351", "it yields something else than its operation gives", "yield the result of the operation")
    return _masked(sketch, operation, *sketch.operands[:2])


def _mask(parser: Any, span: Any) -> Operation:
    """Parse ``vector.mask %m { operation } : vector<8x16xi1> -> vector<8x16xf32>``."""
    sketch = Sketch("vector.mask", parser, span)
    names = [parser.parse_unresolved_operand()]
    if parser.parse_optional_punctuation(","):
        names.append(parser.parse_unresolved_operand())
    parser.parse_punctuation("{")
    results, start = parser._bound, parser._start  # the operation inside has names of its own
    operation = parser.parse_operation()
    pending = parser._pending
    if (next_token(parser).text or "").startswith("vector.yield"):
        parser._consume_token()
        if next_token(parser).text != "}":
            parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            parser.parse_type()
    parser._bound, parser._start, parser._pending = results, start, pending
    parser.parse_punctuation("}")
    parser.parse_punctuation(":")
    mask = parser.resolve_operand(names[0], parser.parse_type())
    others = [] if len(names) < 2 else [names[1]]
    types = []
    if parser.parse_optional_punctuation("->"):
        types = [parser.parse_type()]
    return _masked(sketch, operation, mask, *map(parser.resolve_operand, others, types))


DECLARED: dict[str, type[Operation]] = {
    kind.name: kind for kind in (StepOp, ConstantMaskOp, InterleaveOp, DeinterleaveOp, YieldOp)}
"""Classes of operations that xDSL lacks, which parse themselves."""
_SPELLED: dict[str, Callable[[Any, Any], Operation]] = {
    "vector.transpose": _transpose, "vector.insert_strided_slice": _insert_strided_slice, "vector.mask": _mask}
_OF_PARTS: dict[str, Callable[[Sketch], Operation]] = {
    "vector.mask": _mask_of_parts, "vector.transpose": _transpose_of_parts,
    "vector.insert_strided_slice": _insert_of_parts}
"""Rules of the generic form of operations whose custom form is spelled otherwise than the grammar's."""
OF_PARTS = (*RULES, *_OF_PARTS)
"""Names of operations that are read by rules in the generic form, too."""
NAMES = (*RULES, *DECLARED, *_SPELLED)
"""Names of operations that are read here."""


def read_operation(parser: Any, name: str, span: Any) -> Operation:
    """Parse an operation after its name."""
    if name in DECLARED:
        return DECLARED[name].parse(parser)
    if name in _SPELLED:
        return _SPELLED[name](parser, span)
    rule = RULES[name]
    return rule(read(parser, name, span, result_behind_comma=rule in _BEHIND_COMMA))
