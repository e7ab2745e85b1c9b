"""Cache hints of memory operations (XeGPU.md, ``L1_hint``, ``L2_hint``, ``L3_hint``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from xdsl.ir import Attribute, Data, Operation
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, irdl_attr_definition, opt_prop_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xegpu.support.errors import Invalid, misread
from xegpu.target.cache_policy import BY_KIND, POLICIES

LEVELS = ("l1_hint", "l2_hint", "l3_hint")
"""Names of the hint properties, one per cache level. Intel's GPUs have L1 and L3; L2 hints are not emitted."""


class Hint(Data[str]):
    """Base of the dialects' cache hint attributes, the policy of one cache level: ``<cached>``."""

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
    """Cache hint attribute: ``#xegpu.cache_hint<cached>``."""

    name = "xegpu.cache_hint"


class HintedOp(IRDLOperation):
    """Base of memory operations with a hint for each cache level."""

    l1_hint = opt_prop_def(CacheHintAttr)
    l2_hint = opt_prop_def(CacheHintAttr)
    l3_hint = opt_prop_def(CacheHintAttr)
    irdl_options = (ParsePropInAttrDict(),)
    MESSAGE: ClassVar[str] = "load"
    """Kind of message: ``"load"``, ``"store"`` or ``"prefetch"``."""


_NewOp = TypeVar("_NewOp", bound=Operation)
_HINTS = {3: ("cached", "cached"), 2: ("uncached", "cached"), 1: ("streaming", "cached"), 0: ("uncached", "uncached")}


def of_locality(locality: int) -> Mapping[str, Attribute]:
    """Cache hints for a locality of ``memref.prefetch``.

    3 caches a block in L1 and L3; 2 in L3; 1 in both, streaming in L1; 0 in neither.
    """
    first, last = (CacheHintAttr(hint) for hint in _HINTS[locality])
    return {"l1_hint": first, "l3_hint": last}


def words(operation: Operation) -> dict[str, str]:
    """Cache hints of an operation: level to policy."""
    stored = {**operation.attributes, **operation.properties}
    return {level: hint.data for level in LEVELS if level in stored and isinstance(hint := stored[level], Hint)}


def hints_of(operation: Operation) -> dict[str, Attribute]:
    """Cache hints of an operation as XeGPU attributes."""
    return {level: CacheHintAttr(policy) for level, policy in words(operation).items()}


def hinted(new_op: _NewOp, operation: Operation) -> _NewOp:
    """Copy the cache hints of an operation to the one that replaces it."""
    for level in words(operation):
        if level in operation.properties:
            new_op.properties[level] = operation.properties[level]
        else:
            new_op.attributes[level] = operation.attributes[level]
    return new_op


def with_hints(new_op: _NewOp, hints: Mapping[str, Attribute]) -> _NewOp:
    """Set the cache hints of an operation of XeGPU and return it."""
    new_op.properties.update(hints)
    return new_op


def check_hints(operation: Operation, kind: str, policies: Sequence[str] = ()) -> None:
    """Verify the cache hints of a ``"load"``, ``"store"`` or ``"prefetch"``, by default against the hardware's."""
    policies = policies or BY_KIND[kind]
    for level, policy in words(operation).items():
        if policy not in policies:
            raise Invalid("XT3111", f"a {kind} does not take {level} = {policy}\nuse {', '.join(policies)}", alone=True)


def keeps_nothing(operation: Operation) -> bool:
    """Whether the hints of a prefetch cache nothing, so that it has no effect."""
    policies = words(operation)
    return policies.get("l1_hint") == policies.get("l3_hint") == "uncached"
