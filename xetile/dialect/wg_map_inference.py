"""How a vector is dealt out, read from the operation that makes it (XeTile.md, "Workgroup Level XeTile extension")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

from xdsl.dialects import scf
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import OpTrait

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
    """The map of a vector; None for a subgroup's vector, and where what makes it does not tell yet.

    Operations that carry no map hand on that of their vectors; what a loop carries has that of its first value.
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
            pending += _first_value(current, owner)
            unfinished = owner if owner.parent_op() is None else unfinished
            continue
        if isinstance(owner, (scf.ForOp, scf.IfOp)):
            pending += _carried_out(current, owner)
            continue
        if (found := _said(owner)) is not None:
            return found
        if (trait := owner.get_trait(TransformsWgMap)) is not None:
            return _transformed(owner, trait)
        pending += owner.operands
    if unfinished is None:
        _without.update(seen)
    else:
        _without_yet.update(dict.fromkeys(seen, ref(unfinished)))
    return None


def _unfinished(value: SSAValue) -> Block | None:
    """The body of a loop that is still being recorded, if that is why the value is known to have no map yet."""
    block = found() if (found := _without_yet.get(value)) else None
    return block if block is not None and block.parent_op() is None else None


def forget() -> None:
    """To be called when an operation is given a map after it was asked for one."""
    _without.clear()
    _without_yet.clear()


def _said(operation: Operation) -> WgMap | None:
    for operand in operation.operands:
        if isinstance(operand.type, TileType):
            return operand.type.data.encoding.wg_map
    attribute = operation.properties.get("wg_map") or operation.attributes.get("wg_map")
    return attribute.data if isinstance(attribute, WgMapAttr) else None


def _transformed(operation: Operation, trait: TransformsWgMap) -> WgMap | None:
    if not operation.operands:  # a kernel that runs itself lets go of what a value was made of
        return None
    source = map_of(operation.operands[0])
    return None if source is None else trait.transform(operation, source)


def _first_value(argument: SSAValue, block: Block) -> list[SSAValue]:
    loop = block.parent_op()
    if not isinstance(loop, scf.ForOp) or argument is block.args[0]:
        return []
    return [loop.iter_args[block.args.index(argument) - 1]]  # type: ignore[arg-type]


def _carried_out(value: SSAValue, operation: scf.ForOp | scf.IfOp) -> list[SSAValue]:
    """What a result of a loop or a branch was before it, or is at the end of its bodies."""
    position = operation.results.index(value)  # type: ignore[arg-type]
    if isinstance(operation, scf.ForOp):
        return [operation.iter_args[position]]
    ends = [region.block.last_op for region in operation.regions if region.blocks]
    return [end.operands[position] for end in ends if end is not None]
