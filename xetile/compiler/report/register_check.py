"""Register check before compilation: whether the accumulators of a kernel leave registers for its operands."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.dialects.func import FuncOp

from xegpu.analysis.register_pressure import accumulated
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.region_branch import for_loops
from xegpu.support.errors import TargetError
from xegpu.support.location import Location, SourceLocation
from xegpu.target import grf_mode
from xegpu.target.targets import Target
from xetile.compiler.origin import Origin, Variant
from xetile.compiler.pipeline import after
from xetile.compiler.report.suggest_tile_sizes import first_change

_FOR_ACCUMULATORS = 7 / 8
"""The part of the registers that accumulators may take. Beyond it every product that Intel's compiler built spilled."""


def accumulator_registers(modules: Mapping[str, ModuleOp], target: Target) -> float:
    """Registers per thread of the loop-carried values of a loop with products.

    Args:
        modules: the stages of a kernel.
        target: the device that they are for.
    """
    return _accumulated(modules)[0] * target.subgroup_size / target.register_bytes


def check(modules: Mapping[str, ModuleOp], target: Target, origin: Origin | None, location: Location) -> None:
    """Check that accumulators leave registers for operands; the message names the constant to lower.

    Args:
        modules: the stages of the kernel.
        target: the device that they are for.
        origin: makes the kernel again with other constants, where it has some.
        location: where the kernel is defined, if its loop has no location.

    Raises:
        TargetError: they leave none.
    """
    function = next(op for op in next(iter(modules.values())).walk() if isinstance(op, FuncOp))  # as recorded
    asked = grf_mode.requested_registers(function)
    most, used = asked or max(target.registers), accumulator_registers(modules, target)
    if not most or used <= most * _FOR_ACCUMULATORS:
        return

    def fits(variant: Variant) -> bool:
        return variant.accumulator_registers() <= most * _FOR_ACCUMULATORS

    change = None if origin is None else first_change(origin, function, fits)
    hint = "lower " + ", ".join(f"{name} to {value}" for name, value in change.items()) if change else \
        f"lower the tile sizes, or distribute the tile to more subgroups: accumulators may take " \
        f"{most * _FOR_ACCUMULATORS:.0f} registers"
    loop = _accumulated(modules)[1]
    loop_location = None if loop is None else loop.location
    raise TargetError("XT4010",
        f"{_largest_carried(modules, origin, change)} takes {used:.0f} registers, and a thread of {target.name} has "
        f"{most}: too few are left for the operands", hint, loop_location.data if isinstance(loop_location,
                                                                                    SourceLocation) else location)


def _accumulated(modules: Mapping[str, ModuleOp]) -> tuple[int, scf.ForOp | None]:
    (function,) = (operation for operation in [*modules.values()][-1].ops if isinstance(operation, FuncOp))
    return accumulated(function)


def _largest_carried(modules: Mapping[str, ModuleOp], origin: Origin | None, change: Mapping[str, int] | None) -> str:
    """Description of the largest vector that a subgroup's loop carries, with the constants that determine it."""
    stage = after(modules, "distribute-subgroups")
    types = [] if stage is None else [value.type for loop in for_loops(stage)
                                      for value in loop.iter_args if isinstance(value.type, VectorType)]
    if not types:
        return "what a subgroup accumulates"
    largest = max(types, key=lambda type_: prod(type_.get_shape()) * of_mlir(type_.element_type).bits)
    carried = " and others like it" if len(types) > 1 else ""
    constants = ", ".join(f"{name} = {origin.constants[name]}" for name in change) if origin and change else ""
    shape = "x".join(map(str, largest.get_shape()))
    return f"{constants + ' gives each subgroup' if constants else 'each subgroup has'} an accumulator of {shape} " \
           f"{of_mlir(largest.element_type)}{carried}, which"
