"""Access kinds of tiles and descriptors: 2D block IO, unit stride along rows or columns, or strided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.ir import SSAValue

from xegpu.ir.matchers import number
from xegpu.ir.memref import ALIGNED, DescribedOp, exchanged, is_address, is_shared, static_form
from xegpu.ir.use_def import array_of

Numbers = Sequence[SSAValue] | Sequence[int]
_TRANSPOSED_KINDS = {"block": "block-columns", "rows": "columns", "block-columns": "block", "columns": "rows"}
_UNALIGNED_KINDS = {"block": "rows", "block-columns": "columns"}
_ALIGNED_KINDS = {"rows": "block", "columns": "block-columns"}


def access_kind(operation: DescribedOp, array_kinds: Mapping[Any, str]) -> str:
    """Access kind of a tile or descriptor, in terms of its own dimensions.

    Args:
        operation: the operation that defines the tile or descriptor.
        array_kinds: access kind of each array argument (:func:`xegpu.target.block2d.access`).

    Returns:
        the array's access kind, transposed where the last two dimensions are; ``rows`` or ``columns`` for ``block`` or
        ``block-columns`` where a size is not the array's, unless it is a surface's number of rows, and surely positive.
        Where strides differ from the array's, and for shared local memory, ``rows`` or ``columns`` if one of the last
        two strides is the constant 1, or ``block`` or ``block-columns`` if the author asserts alignment
        (:data:`~xegpu.ir.memref.ALIGNED`).
    """
    array = array_of(operation.source)
    kind, form = "" if is_shared(array.type) else array_kinds.get(array, ""), _relation(operation)
    if kind and form == "row":
        return kind
    if not kind or form == "other":
        along = _kind_by_strides(operation)
        return _ALIGNED_KINDS.get(along, along) if ALIGNED in operation.attributes else along
    kind = kind if form == "own" else _TRANSPOSED_KINDS.get(kind, kind)
    along_memory = -2 if kind.endswith("columns") else -1  # the dimension whose size is a surface's width
    free = 0 if kind == "strided" else -3 - along_memory
    keeps = all(axis == free and _is_positive(operation.shape[axis]) for axis in bounded_axes(operation))
    return kind if keeps else _UNALIGNED_KINDS.get(kind, kind)


def geometry(operation: DescribedOp) -> str:
    """Relation of a tile's or descriptor's sizes and strides to those of its array.

    Returns:
        ``own`` if they are equal, ``exchanged`` if equal with the last two dimensions transposed, else ``other``.
    """
    return "other" if bounded_axes(operation) else _relation(operation)


def _relation(operation: DescribedOp) -> str:
    """Relation of strides, and of leading sizes, to those of the array; the last two sizes may differ.

    Returns:
        as :func:`geometry`, and ``row`` for an array of one dimension, not in shared local memory, that is seen as
        rows of its elements.
    """
    if not operation.shape:
        return "own"
    if is_address(operation.source.type):
        return "other"
    own, source = _own_numbers(operation, array_of(operation.source)), operation.source.type
    if len(source.get_shape()) < 2:  # type: ignore[attr-defined]
        is_row = own is not None and len(own[1]) == 1 and _same_numbers(operation.strides[1:], own[1])
        return "row" if is_row and not is_shared(source) else "other"
    if own is None or len(own[1]) < 2:  # a cast of one dimension to a matrix is none of its array's geometry
        return "other"
    if not _same_numbers(operation.shape[:-2], own[0][:-2]):
        return "other"
    if _same_numbers(operation.strides, own[1]):
        return "own"
    return "exchanged" if _same_numbers(operation.strides, exchanged(own[1])) else "other"


def bounded_axes(operation: DescribedOp) -> list[int]:
    """Axes, -2 and -1, with a bound of their own: a size that differs from the array's, whose strides it has."""
    form = _relation(operation)
    if not operation.shape or form in ("other", "row"):
        return []
    own = _own_numbers(operation, array_of(operation.source))
    assert own is not None, "the relation is known"
    sizes = own[0] if form == "own" else exchanged(own[0])  # type: ignore[arg-type, type-var]
    return [axis for axis in (-2, -1) if not _same_numbers([operation.shape[axis]], [sizes[axis]])]


def _is_positive(size: SSAValue) -> bool:
    """Whether a size is surely one or more: a surface of block messages has no fewer rows."""
    owner = size.owner
    return isinstance(owner, arith.MaxSIOp) and any((number(side) or 0) > 0 for side in owner.operands)


def _own_numbers(operation: DescribedOp, array: SSAValue) -> tuple[Numbers, Numbers] | None:
    """Sizes and strides of an array: results of ``memref.extract_strided_metadata``, or those of its type."""
    first = operation.strides[-1].owner
    if isinstance(first, ExtractStridedMetaDataOp):
        return (first.sizes, first.strides) if array_of(first.source) is array else None
    return static_form(array.type)


def _same_numbers(here: Sequence[SSAValue], own: Sequence[object]) -> bool:
    return len(here) == len(own) and all(a is b or (isinstance(b, int) and number(a) == b)
                                         for a, b in zip(here, own, strict=True))


def _kind_by_strides(operation: DescribedOp) -> str:
    static = static_form(operation.source.type)
    strides = [number(stride) for stride in operation.strides] or (static[1] if static else ())
    if strides[-1:] and strides[-1] == 1:
        return "rows"
    return "columns" if len(strides) > 1 and strides[-2] == 1 else "strided"
