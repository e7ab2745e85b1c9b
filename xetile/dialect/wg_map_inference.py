"""Inference of work-group maps from defining operations (XeTile.md, "Workgroup Level XeTile extension")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

from xdsl.dialects import scf
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import OpTrait

from xegpu.ir.region_branch import REGION_BRANCHES, incoming
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of
from xetile.dialect.types import TileType, WgMapAttr
from xetile.dialect.wg_map import WgMap

_without: WeakSet[SSAValue] = WeakSet()
"""Vectors that were found to have no map: else a long chain of operations would be searched for every one of them."""
_without_yet: WeakKeyDictionary[SSAValue, ref[Block]] = WeakKeyDictionary()
"""The same as long as a body is not yet that of a loop: what the loop carries into it may have a map."""


@dataclass(frozen=True)
class TransformsWgMap(OpTrait):
    """The result's map is a function of the first operand's: ``transform(operation, map of the operand)``."""

    transform: Callable[[Any, WgMap], WgMap]


def map_of(value: SSAValue) -> WgMap | None:
    """Map of a vector; None for a subgroup's vector, and where its definition has none yet.

    Operations without a map propagate that of their vectors; a loop-carried value has that of its initial value.
    """
    seen: set[SSAValue] = set()
    pending, unfinished = [value], None
    while pending:
        current = pending.pop()
        if current in seen or not isinstance(current.type, VectorType) or current in _without:
            continue
        if (block := _unfinished(current)) is not None:
            unfinished = block
            continue
        seen.add(current)
        owner = current.owner
        if isinstance(owner, Block):
            pending += _first_value(current)
            unfinished = owner if owner.parent_op() is None else unfinished
            continue
        if isinstance(owner, REGION_BRANCHES):
            pending += _carried_out(current, owner)
            continue
        if (found := _explicit_map(owner)) is not None:
            return found
        trait = owner.get_trait(TransformsWgMap)
        if trait is not None or isinstance(owner, (ExtractStridedSliceOp, InsertStridedSliceOp)):
            found = _sliced(owner) if trait is None else _transformed(owner, trait)  # type: ignore[arg-type]
            if found is None:
                _remember((current, value), unfinished or _unfinished_operand(owner))
            return found
        pending += owner.operands
    _remember(seen, unfinished)
    return None


def _remember(values: Iterable[SSAValue], unfinished: Block | None) -> None:
    """Note that values have no map, or none as long as a body is not yet that of a loop."""
    if unfinished is None:
        _without.update(values)
    else:
        _without_yet.update(dict.fromkeys(values, ref(unfinished)))


def _unfinished_operand(operation: Operation) -> Block | None:
    """Body of a loop that is still being recorded, for which the map of an operand is unknown."""
    return next((block for operand in operation.operands if (block := _unfinished(operand)) is not None), None)


def _unfinished(value: SSAValue) -> Block | None:
    """Body of a loop that is still being recorded, if the value's map is unknown for that reason."""
    block = found() if (found := _without_yet.get(value)) else None
    return block if block is not None and block.parent_op() is None else None


def forget() -> None:
    """Clear the cache of inferred maps: required when an operation gets a map after a query."""
    _without.clear()
    _without_yet.clear()


def _explicit_map(operation: Operation) -> WgMap | None:
    """Explicit map of an operation's result."""
    for operand in operation.operands:
        if isinstance(operand.type, TileType):
            return operand.type.data.encoding.wg_map
    attribute = operation.properties.get("wg_map") or operation.attributes.get("wg_map")
    return attribute.data if isinstance(attribute, WgMapAttr) else None


def _transformed(operation: Operation, trait: TransformsWgMap) -> WgMap | None:
    if not operation.operands:  # eager mode drops the operands of values
        return None
    source = map_of(operation.operands[0])
    return None if source is None else trait.transform(operation, source)


def _sliced(operation: ExtractStridedSliceOp | InsertStridedSliceOp) -> WgMap | None:
    """Map of a slice, or of a vector with another slice in it; the vector's own where its blocks are no slices."""
    if not operation.operands:
        return None
    if isinstance(operation, InsertStridedSliceOp):
        return _filled(operation)
    source = map_of(operation.source)
    return source and sliced_map(operation, source)


def _filled(operation: InsertStridedSliceOp) -> WgMap | None:
    """Map of a vector into which slices are put one after the other; a vector of hundreds is no recursion."""
    inserts = [operation]
    while isinstance(before := inserts[-1].dest.owner, InsertStridedSliceOp) and before.operands \
            and _explicit_map(before) is None and inserts[-1].dest not in _without:
        inserts.append(before)
    if (found := map_of(inserts[-1].dest)) is not None:
        return found
    for insert in reversed(inserts):
        if (source := map_of(insert.source)) is not None:
            return sliced_map(insert, source)
    return None


def sliced_map(operation: ExtractStridedSliceOp | InsertStridedSliceOp, source: WgMap) -> WgMap:
    """Map of a slice of a vector of map ``source``, or of a vector with such a slice; ``source`` for other blocks."""
    return source.sliced(shape_of(operation.source), shape_of(operation.result)) or source


def _first_value(argument: SSAValue) -> list[SSAValue]:
    """Initial value of a loop-carried block argument."""
    return list(incoming(argument)[:1])


def _carried_out(value: SSAValue, operation: Operation) -> list[SSAValue]:
    """Values that a result of a loop or branch may have: the initial one, or those that branches yield."""
    before = incoming(value)
    return list(before[:1] if isinstance(operation, scf.ForOp) else before[::-1])
