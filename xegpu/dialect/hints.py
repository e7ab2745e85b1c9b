"""Cache hints of memory operations (XeGPU.md, ``L1_hint``, ``L2_hint``, ``L3_hint``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, TypeVar

from xdsl.ir import Attribute, Data, Operation
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, irdl_attr_definition, opt_prop_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xegpu.support.errors import Invalid, misread
from xegpu.target.cache_policy import BY_KIND, POLICIES

LEVELS = ("l1_hint", "l2_hint", "l3_hint")
"""The properties that hold hints, one a cache level. Intel's GPUs have an L1 and an L3; of L2 nothing is emitted."""


class Hint(Data[str]):
    """``<cached>``: what a message says of one cache level; each dialect has it under its own name."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            name = parser.parse_identifier()
            if name not in POLICIES:
                misread(parser, "XT3110", f"there is no cache hint {name}\nuse one of {', '.join(POLICIES)}")
            return name

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


@irdl_attr_definition
class CacheHintAttr(Hint):
    """``#xegpu.cache_hint<cached>``."""

    name = "xegpu.cache_hint"


class HintedOp(IRDLOperation):
    """A memory operation with a hint for each cache level."""

    l1_hint = opt_prop_def(CacheHintAttr)
    l2_hint = opt_prop_def(CacheHintAttr)
    l3_hint = opt_prop_def(CacheHintAttr)
    irdl_options = (ParsePropInAttrDict(),)
    MESSAGE: ClassVar[str] = "load"
    """The kind of message that it is: ``"load"``, ``"store"`` or ``"prefetch"``."""


_Made = TypeVar("_Made", bound=Operation)
_HINTS = {3: ("cached", "cached"), 2: ("uncached", "cached"), 1: ("streaming", "cached"), 0: ("uncached", "uncached")}


def of_locality(locality: int) -> Mapping[str, Attribute]:
    """The hints for a locality of ``memref.prefetch``.

    3 keeps a block close, in L1 and L3; 2 keeps it in L3; 1 in both, and in L1 for as long as nothing else needs the
    place; 0 keeps it nowhere.
    """
    first, last = (CacheHintAttr(hint) for hint in _HINTS[locality])
    return {"l1_hint": first, "l3_hint": last}


def words(operation: Operation) -> dict[str, str]:
    """The hints of an operation: level to policy."""
    given = {**operation.attributes, **operation.properties}
    return {level: hint.data for level in LEVELS if isinstance(hint := given.get(level), Hint)}


def hints_of(operation: Operation) -> dict[str, Attribute]:
    """The hints of an operation as those of XeGPU."""
    return {level: CacheHintAttr(policy) for level, policy in words(operation).items()}


def hinted(made: _Made, operation: Operation) -> _Made:
    """The operation ``made`` in the place of another, with the hints of that."""
    for level in words(operation):
        if level in operation.properties:
            made.properties[level] = operation.properties[level]
        else:
            made.attributes[level] = operation.attributes[level]
    return made


def with_hints(made: _Made, hints: Mapping[str, Attribute]) -> _Made:
    """The operation of XeGPU with these hints."""
    made.properties.update(hints)
    return made


def check_hints(operation: Operation, kind: str) -> None:
    """Raise a verifier's error for a hint that a ``"load"``, ``"store"`` or ``"prefetch"`` does not take."""
    for level, policy in words(operation).items():
        if policy not in BY_KIND[kind]:
            raise Invalid("XT3111",
                          f"a {kind} does not take {level} = {policy}\nuse {', '.join(BY_KIND[kind])}", alone=True)


def keeps_nothing(operation: Operation) -> bool:
    """Whether the hints of a prefetch leave what it fetches in no cache."""
    said = words(operation)
    return said.get("l1_hint") == said.get("l3_hint") == "uncached"
