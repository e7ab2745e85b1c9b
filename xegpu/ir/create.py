"""Construction of operations without the checks of xDSL's constructors: a kernel's lowering makes a thousand.

The generic constructor of ``IRDLOperation`` normalises, counts and groups its arguments on each call, which takes ten
times as long. The verifier checks operations that rules make; clones of verified ones need no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import UNKNOWN_LOC, IndexType, IntegerAttr
from xdsl.ir import Attribute, Operation, OpResult, Region, SSAValue
from xdsl.ir.core import SSAValues, Use
from xdsl.irdl import IRDLOperation

Kind = TypeVar("Kind", bound=Operation)

INDEX = IndexType()
"""The type of indices, one object, which comparisons by identity find."""


def initialize(operation: IRDLOperation, operands: Sequence[SSAValue], result_types: Sequence[Attribute],
               properties: Mapping[str, Attribute | None]) -> None:
    """Initialise an operation, in the constructor of its class.

    Args:
        operation: one without regions, attributes with defaults, or segment sizes.
        operands: all operands, in order, those of variadic ones side by side.
        result_types: the types of all results.
        properties: the properties; None is an optional one that is not there.
    """
    _initialize(operation, operands, result_types)
    operation.properties = {name: value for name, value in properties.items() if value is not None}
    operation.attributes = {}
    operation.location = UNKNOWN_LOC


def index_constant(value: int) -> arith.ConstantOp:
    """An index constant."""
    new = object.__new__(arith.ConstantOp)
    initialize(new, (), (INDEX,), {"value": _index_attribute(value)})
    return new


@lru_cache(maxsize=1024)
def _index_attribute(value: int) -> IntegerAttr:
    return IntegerAttr(value, INDEX)


def create_like(operation: Kind, operands: Sequence[SSAValue], result_types: Sequence[Attribute],
                regions: Sequence[Region] = ()) -> Kind:
    """An operation of the class, properties, attributes and location of another one, not inserted anywhere."""
    new = object.__new__(type(operation))
    _initialize(new, operands, result_types)
    new.properties = operation.properties.copy()
    new.attributes = operation.attributes.copy()
    new.location = operation.location
    for region in regions:
        new.add_region(region)
    return new


def _initialize(operation: Operation, operands: Sequence[SSAValue], result_types: Sequence[Attribute]) -> None:
    """Set operands and results: what ``Operation.__init__`` does, whose setters first take out earlier operands.

    The private fields are those of xDSL's ``Operation``: operands, and one ``Use`` for each in the values' use lists.
    """
    operation._operands = values = SSAValues(operands)
    operation._operand_uses = uses = tuple([Use(operation, index) for index in range(len(values))])
    for value, use in zip(values, uses, strict=True):
        value.add_use(use)
    operation.results = SSAValues([OpResult(type_, operation, index) for index, type_ in enumerate(result_types)])
