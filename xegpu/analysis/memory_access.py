"""How the memory that a tile or a descriptor describes may be reached, and its description as operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.ir import SSAValue

from xegpu.ir.matchers import number
from xegpu.ir.memref import ALIGNED, Described, exchanged, is_address, is_shared, static_form
from xegpu.ir.use_def import array_of

Numbers = Sequence[SSAValue] | Sequence[int]
_EXCHANGED = {"block": "block-columns", "rows": "columns", "block-columns": "block", "columns": "rows"}
_PROMISED = {"rows": "block", "columns": "block-columns"}


def way_of(operation: Described, ways: Mapping[Any, str]) -> str:
    """How memory may be reached, in terms of the dimensions that a tile or descriptor gives it.

    Args:
        operation: what makes the tile or descriptor.
        ways: for each array argument, how it may be reached (:func:`xegpu.target.block2d.access`).

    Returns:
        the way of the array, exchanged where the last two dimensions are; for memory that is described by other
        numbers than the array's own, and for shared local memory, ``rows`` or ``columns`` where one of the last two
        strides is the constant 1; ``block`` or ``block-columns`` where the author promises so much.
    """
    array = array_of(operation.source)
    way, form = "" if is_shared(array.type) else ways.get(array, ""), geometry(operation)
    if not way or form == "other":
        along = _by_strides(operation)
        return _PROMISED.get(along, along) if ALIGNED in operation.attributes else along
    return way if form == "own" else _EXCHANGED.get(way, way)


def geometry(operation: Described) -> str:
    """Whether a tile or descriptor describes its array as it is.

    Returns:
        ``own`` if by the array's own sizes and strides, ``exchanged`` if with the last two dimensions exchanged, else
        ``other``.
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
    """Sizes and strides of an array itself: those that are read of it, or those of its type."""
    first = operation.strides[0].owner
    if isinstance(first, ExtractStridedMetaDataOp):
        return (first.sizes, first.strides) if array_of(first.source) is array else None
    return static_form(array.type)


def _same(here: Sequence[SSAValue], own: Sequence[object]) -> bool:
    return len(here) == len(own) and all(a is b or (isinstance(b, int) and number(a) == b)
                                         for a, b in zip(here, own, strict=True))


def _by_strides(operation: Described) -> str:
    static = static_form(operation.source.type)
    strides = [number(stride) for stride in operation.strides] or (static[1] if static else ())
    if strides[-1:] and strides[-1] == 1:
        return "rows"
    return "columns" if len(strides) > 1 and strides[-2] == 1 else "strided"
