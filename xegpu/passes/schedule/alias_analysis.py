"""Alias analysis of loads and stores by the memory that they refer to."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from xegpu.ir.traits import read_operands, written_operand
from xegpu.ir.use_def import arrays_of


class AliasAnalysis:
    """Whether accesses of a function may refer to the same elements.

    A launch refuses an array that is written and shares elements with another argument, so that distinct arguments do
    not alias, nor allocations in shared local memory. A raw address may point to anything.

    Args:
        may_alias: whether the kernel says that its arguments may share elements.
    """

    def __init__(self, *, may_alias: bool) -> None:
        self._anything = may_alias
        self._found: dict[SSAValue, set[SSAValue]] = {}

    def written(self, stores: Iterable[Operation]) -> set[SSAValue]:
        """The memories that stores write."""
        return {memory for store in stores if (at := written_operand(type(store))) is not None
                for memory in self._of(store.operands[at])}

    def may_alias(self, load: Operation, written: set[SSAValue]) -> bool:
        """Whether a load may read elements of memories that are written."""
        read = {memory for at in read_operands(type(load)) for memory in self._of(load.operands[at])}
        return self._anything or not read or not read.isdisjoint(written) or \
            not all(isinstance(memory.type, MemRefType) for memory in read | written)

    def _of(self, desc: SSAValue) -> set[SSAValue]:
        if desc not in self._found:
            self._found[desc] = arrays_of(desc)
        return self._found[desc]
