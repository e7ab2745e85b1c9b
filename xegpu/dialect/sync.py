"""Synchronisation: ``fence``, named barriers (XeGPU.md), scheduling barrier. For work-groups: MLIR's ``gpu.barrier``.

Named barriers print in LLVM's syntax; the specification's spellings are read too.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from xegpu.ir.matchers import number
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import Record
from xegpu.support.errors import ElementTypeError, Invalid, misread

SCOPES = ("workgroup", "gpu", "system")
MEMORIES = ("global", "shared")
IDS = 31
"""Number of named barriers of a work-group; the hardware has 32, of which ``gpu.barrier`` uses one."""


ARRIVED = Record(defined="arrival")
"""Record of the halves of a barrier."""


@operation_definition
class FenceOp(IRDLOperation):
    """Memory fence: all of ``scope`` observes the subgroup's earlier writes before its later ones."""

    name = "xegpu.fence"
    RECORD: ClassVar[Record] = Record()
    scope = prop_def(StringAttr)
    memory_kind = prop_def(StringAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, scope: str, memory_kind: str) -> None:
        super().__init__(properties={"scope": StringAttr(scope), "memory_kind": StringAttr(memory_kind)})

    def verify_(self) -> None:
        if self.scope.data not in SCOPES:
            raise Invalid("XT1463", f'a fence has no scope "{self.scope.data}"\nuse the scope "workgroup", '
                          '"gpu" or "system"', kind=ElementTypeError)
        if self.memory_kind.data not in MEMORIES:
            raise Invalid("XT1464", f'a fence has no memory kind "{self.memory_kind.data}"\nuse "global" or "shared"',
                          kind=ElementTypeError)
        if self.scope.data != "workgroup" and self.memory_kind.data == "shared":
            raise Invalid("XT3352", "shared local memory belongs to one work-group, and this fence is for the whole "
                          f"{self.scope.data}\n"
                          'use the scope "workgroup", or the memory "global"')


@operation_definition
class ControlBarrierArriveOp(IRDLOperation):
    """Arrives at the barrier of the whole work-group, which hands no memory over; the next wait is for all."""

    name = "xegpu.control_barrier_arrive"
    RECORD: ClassVar[Record] = ARRIVED
    assembly_format = "attr-dict"


@operation_definition
class ControlBarrierWaitOp(IRDLOperation):
    """Waits until all subgroups of the work-group have arrived at its barrier."""

    name = "xegpu.control_barrier_wait"
    RECORD: ClassVar[Record] = ARRIVED
    assembly_format = "attr-dict"


@operation_definition
class SubgroupBarrierOp(IRDLOperation):
    """Barrier of a subgroup's lanes: behind it they see all that any of them wrote to shared local memory before it."""

    name = "xegpu.subgroup_barrier"
    RECORD: ClassVar[Record] = Record()
    assembly_format = "attr-dict"


@irdl_attr_definition
class NbarrierType(ParametrizedAttribute, TypeAttribute):
    """Type of a named barrier, with an id and a number of participants."""

    name = "xegpu.nbarrier"


NBARRIER = base(NbarrierType)
_NUMBER = base(IndexType) | base(IntegerType)


@operation_definition
class AllocNbarrierOp(IRDLOperation):
    """Allocation of a kernel's named barriers: their number, which every id is below."""

    name = "xegpu.alloc_nbarrier"
    RECORD: ClassVar[Record] = Record()
    nbarrier_num = prop_def(IntegerAttr[I64])

    def __init__(self, count: int) -> None:
        super().__init__(properties={"nbarrier_num": IntegerAttr(count, i64)})

    @property
    def count(self) -> int:
        """The number of barriers."""
        return self.nbarrier_num.value.data

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.count}")

    @classmethod
    def parse(cls, parser: Parser) -> AllocNbarrierOp:
        literal = parser.parse_optional_integer()
        if literal is not None:
            return cls(literal)
        operand = parser.parse_unresolved_operand()  # the specification's form
        parser.parse_punctuation(":")
        count = number(parser.resolve_operand(operand, parser.parse_type()))
        if count is None:
            misread(parser, "XT3353",
                    "the number of named barriers is known at run time only\nwrite xegpu.alloc_nbarrier 4")
        return cls(count)

    def verify_(self) -> None:
        if not 0 < self.count <= IDS:
            raise Invalid("XT3354", f"a work-group has no {self.count} named barriers\nuse 1 to {IDS}")


@operation_definition
class InitNbarrierOp(IRDLOperation):
    """Initialisation of named barrier ``nbarrier_id`` with ``participant_thread_num`` subgroups.

    ``producers`` of them only arrive, and the others only wait. The attribute goes beyond XeGPU.md, which leaves the
    roles open; without it every participant arrives and waits, or there is one producer and one consumer.
    """

    name = "xegpu.init_nbarrier"
    RECORD: ClassVar[Record] = Record()
    nbarrier_id = operand_def(_NUMBER)
    participant_thread_num = operand_def(_NUMBER)
    producers = opt_prop_def(IntegerAttr[I64])
    result = result_def(NBARRIER)
    traits = traits_def(Pure())

    def __init__(self, id_: SSAValue, participants: SSAValue, producers: int | None = None) -> None:
        super().__init__(operands=[id_, participants], result_types=[NbarrierType()],
                         properties={"producers": None if producers is None else IntegerAttr(producers, i64)})

    @property
    def id(self) -> int | None:
        """Constant id of the barrier, None for a run-time id."""
        return number(self.nbarrier_id)

    @property
    def participants(self) -> int:
        """Number of participating subgroups."""
        count = number(self.participant_thread_num)
        assert count is not None, "verified"
        return count

    @property
    def declared_producers(self) -> int | None:
        """Number of participants that only arrive, None if not declared."""
        return None if self.producers is None else self.producers.value.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes({**self.attributes, **self.properties})
        printer.print_string(" : ")
        printer.print_list([operand.type for operand in self.operands], printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> InitNbarrierOp:
        operands = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
        producers = parser.parse_optional_attr_dict().get("producers")
        if producers is not None and not isinstance(producers, IntegerAttr):
            misread(parser, "XT3355",
                    f"the number of producers is {producers}\nwrite an integer, such as producers = 1")
        parser.parse_punctuation(":")
        types = [parser.parse_type()]
        parser.parse_punctuation(",")
        types.append(parser.parse_type())
        if parser.parse_optional_keyword("into") is not None:  # the specification's form
            parser.parse_keyword("nbarrier")
        else:
            parser.parse_punctuation("->")
            _parse_nbarrier(parser)
        id_, count = (parser.resolve_operand(*pair) for pair in zip(operands, types, strict=True))
        return cls(id_, count, None if producers is None else producers.value.data)

    def verify_(self) -> None:
        if self.id is not None and not 0 <= self.id < IDS:
            raise Invalid("XT3356", f"there is no named barrier {self.id}\nuse an id from 0 to {IDS - 1}")
        count = number(self.participant_thread_num)
        if count is None:
            raise Invalid("XT1460", "the number of participants is known at run time only\ngive a constant: how many "
                          "subgroups wait for each other at this barrier")
        if count < 1:
            raise Invalid("XT3358", f"a barrier of {count} subgroups\ngive the number of subgroups that wait for each "
                          "other there")
        if self.declared_producers is not None and not 0 < self.declared_producers < count:
            raise Invalid("XT3359", f"{self.declared_producers} of {count} subgroups produce\nat least one only "
                          "arrives, and at least one only waits")


def _parse_nbarrier(parser: Parser) -> None:
    type_ = parser.parse_type()
    if not isinstance(type_, NbarrierType):
        misread(parser, "XT3360", f"the type is {type_}, and a named barrier is needed\nwrite !xegpu.nbarrier")


class NbarrierOp(IRDLOperation):
    """Base of the operations of a subgroup on a named barrier."""

    nbarrier = operand_def(NBARRIER)

    def __init__(self, nbarrier: SSAValue) -> None:
        super().__init__(operands=[nbarrier])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.nbarrier)
        printer.print_string(" : ")
        printer.print_attribute(self.nbarrier.type)

    @classmethod
    def parse(cls, parser: Parser) -> NbarrierOp:
        operand = parser.parse_unresolved_operand()
        if parser.parse_optional_punctuation(":") is not None:  # the specification leaves the type out
            _parse_nbarrier(parser)
        return cls(parser.resolve_operand(operand, NbarrierType()))


@operation_definition
class NbarrierArriveOp(NbarrierOp):
    """Arrival at a named barrier; participants observe the subgroup's earlier writes after their wait."""

    name = "xegpu.nbarrier_arrive"
    RECORD: ClassVar[Record] = ARRIVED


@operation_definition
class NbarrierWaitOp(NbarrierOp):
    """Wait for the arrival of all participants of a named barrier."""

    name = "xegpu.nbarrier_wait"
    RECORD: ClassVar[Record] = ARRIVED


NAMED = (AllocNbarrierOp, InitNbarrierOp, NbarrierArriveOp, NbarrierWaitOp)
OPERATIONS = (FenceOp, ControlBarrierArriveOp, ControlBarrierWaitOp, SubgroupBarrierOp, *NAMED)
"""The operations that our dialect and LLVM's have in the same form."""


SCHEDULE_BARRIER = "schedule_barrier"


@operation_definition
class CompileHintOp(IRDLOperation):
    """Scheduling barrier: ``xegpu.compile_hint {hint = "schedule_barrier"}``; no instruction is moved across it.

    It is an operation of XeGPU-older.md, which XeGPU.md leaves out.
    """

    name = "xegpu.compile_hint"
    RECORD: ClassVar[Record] = Record()
    hint = prop_def(StringAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(properties={"hint": StringAttr(SCHEDULE_BARRIER)})

    def verify_(self) -> None:
        if self.hint.data != SCHEDULE_BARRIER:
            raise Invalid("XT3283", f'there is no hint "{self.hint.data}"\nuse "{SCHEDULE_BARRIER}"')
