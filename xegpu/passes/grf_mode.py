"""Choice of the GRF mode: 128 or 256 registers a thread, as the author asks or a register estimate says.

    func.func @product(...) attributes {xegpu.subgroup_size = 16} { ... }
becomes, where its fragments take more than 128 registers leave for them,
    func.func @product(...) attributes {xegpu.subgroup_size = 16, xegpu.registers = 256} { ... }

The mode is chosen before loops are unrolled, peeled or given payloads: the steps of a loop that follow each other in
one body are not alive at once, though no branch is between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from xegpu.analysis.register_pressure import fragment_bytes
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, StoreNdOp, desc_of
from xegpu.dialect.dpas import DpasOp, MadOp
from xegpu.ir.kernel_attributes import subgroup_count, subgroup_size
from xegpu.ir.traversal import of_kind, operations
from xegpu.rewrite.inserter import copy_module
from xegpu.support.errors import TargetError
from xegpu.target.grf_mode import FOR_FRAGMENTS, REGISTERS, requested_registers
from xegpu.target.targets import Target

_WITH_ADDRESSES, _WITH_PRODUCTS = 0.7, 0.65
"""Fraction of the registers that fragments may take where memory is not read by 2D block messages: the addresses of
other messages take a register or more each. Beside products there are more of them: all rows of A and B are read."""
_WITH_SHARED = 0.75
"""The same beside messages to shared local memory, of which a loop keeps the addresses."""
_EACH_PREFETCH = 8
"""Registers for a prefetch of rows: with 4 to 11 left for one or two of them, a loop spilled 0.7 to 1 KB."""


@dataclass(frozen=True)
class GrfMode:
    """Pass ``grf-mode``.

    Attributes:
        target: its numbers of registers, and the subgroups that a work-group may have with each.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with the larger mode on its functions; itself where the smaller serves, or the author asks.

        Raises:
            TargetError: the work-group has more subgroups than the target allows in the mode that it needs.
        """
        functions = [operation for operation in module.body.block.ops if isinstance(operation, func.FuncOp)]
        chosen = [_chosen_mode(function, self.target) for function in functions]
        if [requested_registers(function) or min(self.target.registers) for function in functions] == chosen:
            return module
        new = copy_module(module)
        copies = (operation for operation in new.body.block.ops if isinstance(operation, func.FuncOp))
        for function, mode in zip(copies, chosen, strict=True):
            function.attributes[REGISTERS] = IntegerAttr(mode, i64)
        return new


def _chosen_mode(function: func.FuncOp, target: Target) -> int:
    """Registers a thread: the author's choice, or else the smallest mode that holds the fragments."""
    small, large = target.registers
    requested = requested_registers(function)
    if requested == small:
        return small
    needed, room = _fragment_registers(function, target), fragment_share(function) * small
    if requested is None and needed <= room:
        fits = needed + _prefetch_registers(function) <= room
        return small if fits or subgroup_count(function) > target.max_subgroups[1] else large
    if (subgroups := subgroup_count(function)) > target.max_subgroups[1]:
        raise TargetError("XT4050",
            f"{subgroups} subgroups a work-group, {'for which' if requested else 'each of which needs'} " +
            (f"{requested} registers a thread are asked" if requested else
             f"about {needed:.0f} registers for its values, and {room:.0f} of {small} are for these") +
            f": with more than {small} registers a thread, {target.name} has at most {target.max_subgroups[1]} "
            "subgroups",
            f"lower sg_layout (or subgroups=) to {target.max_subgroups[1]} subgroups, or " +
            (f"ask for registers={small}" if requested else "make the subgroup's tile or its step along K smaller"))
    return large


def _prefetch_registers(function: func.FuncOp) -> int:
    """Registers of the pointers by which rows are prefetched that block messages do not reach, about."""
    return _EACH_PREFETCH * sum(isinstance(operation, PrefetchNdOp) and desc_of(operation.desc).block.access == "rows"
                                for operation in operations(function))


def _fragment_registers(function: func.FuncOp, target: Target) -> float:
    """Registers that the fragments of a subgroup take at once, about."""
    return fragment_bytes(function) * subgroup_size(function) / target.register_bytes


def fragment_share(function: func.FuncOp) -> float:
    """Fraction of the registers that fragments may take, by how memory is accessed."""
    messages: list[LoadNdOp | StoreNdOp] = [*of_kind(function, LoadNdOp), *of_kind(function, StoreNdOp)]
    descs = [desc_of(message.desc) for message in messages]
    if all(desc.block.memory_scope == "slm" or desc.block.access == "block" for desc in descs):
        return _WITH_SHARED if any(desc.block.memory_scope == "slm" for desc in descs) else FOR_FRAGMENTS
    return _WITH_PRODUCTS if of_kind(function, DpasOp, MadOp) else _WITH_ADDRESSES
