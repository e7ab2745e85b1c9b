"""Operation traits: view-like operations, memory that operands reach, types that follow from operands.

Analyses ask an operation for its trait and know no operation by its name, so that those of every dialect take part,
those of the dialects above this package included. Operations of xDSL's own dialects get theirs in the table below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from xdsl.dialects import gpu, memref
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import NoMemoryEffect, OpTrait


@dataclass(frozen=True)
class MovesView(OpTrait):
    """The result is a view of the same memory as the first operand's view: moved, or of another type.

    It is MLIR's ``ViewLikeOpInterface``, without operations that make a view of an array.
    """


@dataclass(frozen=True)
class ReadsMemory(OpTrait):
    """The operation reads the memory of its operands at ``operands``: tiles, descriptors or arrays."""

    operands: tuple[int, ...]


@dataclass(frozen=True)
class WritesMemory(OpTrait):
    """The operation writes the memory of its operand number ``operand``: a tile, a descriptor or an array."""

    operand: int


@dataclass(frozen=True)
class InfersResultType(OpTrait):
    """The type of the only result follows from the operation's properties and operands (``InferTypeOpInterface``).

    Attributes:
        infer: the type, of an operation and the operands that replace its own.
    """

    infer: Callable[[Any, Sequence[SSAValue]], Attribute]


_FOREIGN: dict[type[Operation], tuple[OpTrait, ...]] = {
    UnrealizedConversionCastOp: (MovesView(),),
    memref.CastOp: (MovesView(),),
    memref.LoadOp: (ReadsMemory((0,)),),
    memref.StoreOp: (WritesMemory(1),),
    **dict.fromkeys((gpu.BlockIdOp, gpu.BlockDimOp, gpu.GridDimOp, gpu.GlobalIdOp, gpu.ThreadIdOp, gpu.LaneIdOp,
                     gpu.SubgroupIdOp), (NoMemoryEffect(),)),
}
"""Traits of operations of xDSL's dialects, whose classes are not ours to change."""


# A walk asks every operation of a kernel, so the answers are kept: ``get_trait`` takes eight times as long.


@cache
def moves_view(kind: type[Operation]) -> bool:
    """Whether operations of a class have the trait :class:`MovesView`."""
    return any(isinstance(trait, MovesView) for trait in _traits(kind))


@cache
def type_inference(kind: type[Operation]) -> Callable[[Any, Sequence[SSAValue]], Attribute] | None:
    """Result type inference of an operation class (:class:`InfersResultType`); None if it has none."""
    return next((trait.infer for trait in _traits(kind) if isinstance(trait, InfersResultType)), None)


@cache
def read_operands(kind: type[Operation]) -> tuple[int, ...]:
    """The operands whose memory operations of a class read."""
    return next((trait.operands for trait in _traits(kind) if isinstance(trait, ReadsMemory)), ())


@cache
def written_operand(kind: type[Operation]) -> int | None:
    """The operand whose memory operations of a class write, None if they write none."""
    return next((trait.operand for trait in _traits(kind) if isinstance(trait, WritesMemory)), None)


def has_no_memory_effect(operation: Operation) -> bool:
    """Whether an operation neither reads nor writes memory (``NoMemoryEffect``); those of positions do not."""
    return _has_no_effect(type(operation))


@cache
def _has_no_effect(kind: type[Operation]) -> bool:
    return any(isinstance(trait, NoMemoryEffect) for trait in _traits(kind))


def _traits(kind: type[Operation]) -> tuple[OpTrait, ...]:
    return (*kind.traits, *_FOREIGN.get(kind, ()))
