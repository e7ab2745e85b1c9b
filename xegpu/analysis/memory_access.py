"""Access kinds of tiles and descriptors: 2D block IO, unit stride along rows or columns, or strided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.ir import SSAValue

from xegpu.ir.matchers import number
from xegpu.ir.memref import ALIGNED, Described, exchanged, is_address, is_shared, static_form
from xegpu.ir.use_def import array_of

Numbers = Sequence[SSAValue] | Sequence[int]
_TRANSPOSED_KINDS = {"block": "block-columns", "rows": "columns", "block-columns": "block", "columns": "rows"}
_ALIGNED_KINDS = {"rows": "block", "columns": "block-columns"}


def access_kind(operation: Described, array_kinds: Mapping[Any, str]) -> str:
    """Access kind of a tile or descriptor, in terms of its own dimensions.

    Args:
        operation: the operation that defines the tile or descriptor.
        array_kinds: access kind of each array argument (:func:`xegpu.target.block2d.access`).

    Returns:
        the array's access kind, transposed where the last two dimensions are; where sizes or strides differ from the
        array's, and for shared local memory, ``rows`` or ``columns`` if one of the last two strides is the constant 1,
        or ``block`` or ``block-columns`` if the author asserts alignment (:data:`~xegpu.ir.memref.ALIGNED`).
    """
    array = array_of(operation.source)
    kind, form = "" if is_shared(array.type) else array_kinds.get(array, ""), geometry(operation)
    if not kind or form == "other":
        along = _kind_by_strides(operation)
        return _ALIGNED_KINDS.get(along, along) if ALIGNED in operation.attributes else along
    return kind if form == "own" else _TRANSPOSED_KINDS.get(kind, kind)


def geometry(operation: Described) -> str:
    """Relation of a tile's or descriptor's sizes and strides to those of its array.

    Returns:
        ``own`` if they are equal, ``exchanged`` if equal with the last two dimensions transposed, else ``other``.
    """
    if not operation.shape:
        return "own"
    if is_address(operation.source.type) or len(operation.source.type.get_shape()) < 2:  # type: ignore[attr-defined]
        return "other"
    own = _own_numbers(operation, array_of(operation.source))
    if own is not None and _same(operation.shape, own[0]) and _same(operation.strides, own[1]):
        return "own"
    if own is not None and _same(operation.shape, exchanged(own[0])) and _same(operation.strides, exchanged(own[1])):
        return "exchanged"
    return "other"


def _own_numbers(operation: Described, array: SSAValue) -> tuple[Numbers, Numbers] | None:
    """Sizes and strides of an array: results of ``memref.extract_strided_metadata``, or those of its type."""
    first = operation.strides[0].owner
    if isinstance(first, ExtractStridedMetaDataOp):
        return (first.sizes, first.strides) if array_of(first.source) is array else None
    return static_form(array.type)


def _same(here: Sequence[SSAValue], own: Sequence[object]) -> bool:
    return len(here) == len(own) and all(a is b or (isinstance(b, int) and number(a) == b)
                                         for a, b in zip(here, own, strict=True))


def _kind_by_strides(operation: Described) -> str:
    static = static_form(operation.source.type)
    strides = [number(stride) for stride in operation.strides] or (static[1] if static else ())
    if strides[-1:] and strides[-1] == 1:
        return "rows"
    return "columns" if len(strides) > 1 and strides[-2] == 1 else "strided"
