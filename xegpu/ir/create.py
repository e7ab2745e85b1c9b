"""Unchecked construction of operations, for lowerings, which make a thousand; xDSL's constructors check each.

The generic constructor of ``IRDLOperation`` normalises, counts and groups its arguments on each call, which takes ten
times as long. The verifier checks operations that rules make; clones of verified ones need no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import TypeVar

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import UNKNOWN_LOC, FunctionType, IndexType, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.core import SSAValues, Use
from xdsl.irdl import IRDLOperation, OptionalDef

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


def create(kind: type[Kind], operands: Sequence[SSAValue], result_types: Sequence[Attribute]) -> Kind:
    """An operation of a class without regions, its properties the defaults of its class, not inserted anywhere."""
    new = object.__new__(kind)
    _initialize(new, operands, result_types)
    new.properties, new.attributes, new.location = dict(_default_properties(kind)), {}, UNKNOWN_LOC
    return new


@cache
def _default_properties(kind: type[Operation]) -> dict[str, Attribute]:
    declared = kind.get_irdl_definition().properties.items()  # type: ignore[attr-defined]
    return {name: each.default_value for name, each in declared if each.default_value is not None
            and not isinstance(each, OptionalDef)}


def for_loop(start: SSAValue, stop: SSAValue, step: SSAValue, carried: Sequence[SSAValue], body: Block) -> scf.ForOp:
    """``scf.for`` whose results have the types of its carried values."""
    new = create(scf.ForOp, (start, stop, step, *carried), [value.type for value in carried])
    new.add_region(Region(body))
    return new


def function_like(old: func.FuncOp, body: Block) -> func.FuncOp:
    """A function of the name and attributes of another one, without results."""
    inputs, type_ = [argument.type for argument in body.args], old.function_type
    new = create(func.FuncOp, (), ())
    new.properties = {"sym_name": old.sym_name, "function_type": type_ if [*type_.inputs] == inputs and
                      not type_.outputs.data else FunctionType.from_lists(inputs, [])}
    new.attributes, new.location = old.attributes.copy(), old.location
    new.add_region(Region(body))
    return new


def index_constant(value: int) -> arith.ConstantOp:
    """An index constant."""
    new = object.__new__(arith.ConstantOp)
    initialize(new, (), (INDEX,), {"value": _index_attribute(value)})
    return new


@lru_cache(maxsize=1024)
def _index_attribute(value: int) -> IntegerAttr:
    return IntegerAttr(value, INDEX)


def copy_name(old: SSAValue, new: SSAValue) -> None:
    """Give a value the name hint of another one, which is a valid name: the setter would match it again."""
    new._name = old._name


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

    The private fields are those of xDSL's ``Operation``: operands, and one ``Use`` for each, the new head of its
    value's list of uses.
    """
    operation._operands = values = SSAValues(operands)
    uses: list[Use] = []
    for value in values:
        use = object.__new__(Use)
        use._operation, use._index, use._next_use = operation, len(uses), value.first_use
        if use._next_use is not None:
            use._next_use._prev_use = use
        value.first_use = use
        uses.append(use)
    operation._operand_uses = tuple(uses)
    operation.results = SSAValues([OpResult(type_, operation, index) for index, type_ in enumerate(result_types)])


def append(block: Block, operation: Operation) -> None:
    """Append a new operation to a block; the checks and links of ``Block.add_op``, which takes four times as long."""
    last = block._last_op
    if last is None or operation.regions or operation.parent is not None:
        block.add_op(operation)  # it may be attached, or around the block, which are errors
        return
    operation.parent, operation._prev_op, operation._next_op = block, last, None
    last._next_op = block._last_op = operation
