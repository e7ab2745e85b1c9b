"""Subview folding: transfers through ``memref.subview`` access the array itself.

    %s = memref.subview %A[%i, %k] [64, 32] [1, 1] : memref<?x?xf32> to memref<64x32xf32, strided<[?, 1], offset: ?>>
    %v = supervector.transfer_read %s[%c0, %c8] ...
becomes
    %j = arith.addi %k, %c8 : index
    %v = supervector.transfer_read %A[%i, %j] ...
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerAttr, MemRefType
from xdsl.dialects.memref import SubviewOp
from xdsl.ir import Operation, SSAValue

from xegpu.ir.matchers import number
from xegpu.rewrite.dce import erase
from xegpu.support.errors import Invalid, error_parts
from xetile.dialect.permutation_map import Permutation, check_in_view, map_of_permutation
from xetile.dialect.supervector import TransferReadOp, TransferWriteOp, shape_of_transfer
from xetile.text.canonicalize.diagnostics import fail_at, no_view
from xetile.text.vector.ops import IN_VIEW

Transfer = TransferReadOp | TransferWriteOp


def resolve_subviews(function: func.FuncOp) -> None:
    """Fold subviews into transfers, and erase them.

    Raises:
        TextError: something else uses a view still; it has strides; or a transfer may leave the view and not its array.
    """
    for operation in list(function.walk()):
        if isinstance(operation, (TransferReadOp, TransferWriteOp)):
            while isinstance(view := operation.source.owner, SubviewOp):
                _fold_transfer(operation, view)
            operation.attributes.pop(IN_VIEW, None)
    for operation in reversed(list(function.walk())):
        if isinstance(operation, SubviewOp):
            _drop(operation)


def _drop(view: SubviewOp) -> None:
    if user := next(iter(view.result.uses), None):
        no_view(user.operation, "vector.transfer_read and vector.transfer_write")
    erase(view)


def _mixed(static: tuple[int, ...], dynamic: list[SSAValue]) -> list[SSAValue | int]:
    """Mixed static and dynamic values of an operation."""
    values = iter(dynamic)
    return [next(values) if entry == DYNAMIC_INDEX else entry for entry in static]


def _fold_transfer(operation: Transfer, view: SubviewOp) -> None:
    """Fold one transfer: the indices are added to the view's offsets."""
    offsets = _mixed(tuple(view.static_offsets.get_values()), list(view.offsets))
    sizes = _mixed(tuple(view.static_sizes.get_values()), list(view.sizes))
    strides = _mixed(tuple(view.static_strides.get_values()), list(view.strides))
    if any((step if isinstance(step, int) else number(step)) != 1 for step in strides):
        fail_at(view, "XT2081", "its strides are not 1, and a transfer reads contiguous elements",
                "use strides of 1, or describe the array by a strided layout")
    kept = kept_dimensions(view, sizes)
    _check_in_bounds(operation, [sizes[axis] for axis in kept])
    indices = [_index_value(operation, offset) for offset in offsets]
    for axis, index in zip(kept, operation.indices, strict=True):
        indices[axis] = _index_sum(operation, indices[axis], index)
    permutation: Permutation = tuple(None if axis is None else kept[axis] for axis in operation.permutation)
    rank = len(offsets)
    operation.properties["permutation_map"] = map_of_permutation(permutation, rank)
    if isinstance(operation, TransferReadOp):
        read: Transfer = TransferReadOp(view.source, indices, operation.result.type, permutation,  # type: ignore
                                        operation.padding)
        operation.properties["operandSegmentSizes"] = read.properties["operandSegmentSizes"]
        operation.operands = list(read.operands)
        read.erase()
        return
    written = TransferWriteOp(operation.value, view.source, indices, permutation, mask=operation.mask)
    operation.properties["operandSegmentSizes"] = written.properties["operandSegmentSizes"]
    operation.operands = list(written.operands)
    written.erase()


def kept_dimensions(view: SubviewOp, sizes: Sequence[SSAValue | int]) -> list[int]:
    """Dimensions of the array that a rank-reducing view keeps; it may drop those of size 1."""
    assert isinstance(view.result.type, MemRefType)
    remaining, kept = list(view.result.type.get_shape()), []
    for axis, size in enumerate(sizes):
        matches = bool(remaining) and (not isinstance(size, int) or remaining[0] in (size, DYNAMIC_INDEX))
        if matches and (size != 1 or len(remaining) >= len(sizes) - axis):
            kept.append(axis)
            remaining.pop(0)
        elif size != 1:
            fail_at(view, "XT2082",
                    f"its sizes are not those of {view.result.type}", "only dimensions of size 1 may be left out")
    if remaining:
        fail_at(view, "XT2082",
                f"its sizes are not those of {view.result.type}", "give a size for each of its dimensions")
    return kept


def _check_in_bounds(operation: Transfer, sizes: list[SSAValue | int]) -> None:
    """Check that a transfer without padding or mask stays in the bounds of its view."""
    assumed_in_bounds = operation.padding is None if isinstance(operation,
                                                                TransferReadOp) else operation.in_bounds is not None
    if assumed_in_bounds or IN_VIEW in operation.attributes:
        return
    try:
        check_in_view(operation.permutation, shape_of_transfer(operation), list(map(number, operation.indices)),
                      [size if isinstance(size, int) else None for size in sizes])
    except Invalid as error:
        fail_at(operation, *error_parts(error))


def _index_value(operation: Operation, entry: SSAValue | int) -> SSAValue:
    if not isinstance(entry, int):
        return entry
    constant = arith.ConstantOp(IntegerAttr(entry, IndexType()))
    _insert_before(operation, constant)
    return constant.result


def _index_sum(operation: Operation, offset: SSAValue, index: SSAValue) -> SSAValue:
    if number(index) == 0:
        return offset
    if number(offset) == 0:
        return index
    sum_ = arith.AddiOp(offset, index)
    _insert_before(operation, sum_)
    return sum_.result


def _insert_before(operation: Operation, new: Operation) -> None:
    new.location = operation.location
    block = operation.parent
    assert block is not None
    block.insert_op_before(new, operation)
