"""NumPy executors: of the traced XeTile module, and of the fully lowered one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xegpu.interpreter import subgroup_scheduler
from xegpu.target.targets import Target
from xetile.compiler.arguments import Argument
from xetile.compiler.compiled import CompiledKernel
from xetile.dialect.stage import only_function, stage_of
from xetile.interpreter.semantics import SEMANTICS
from xetile.passes.distribute_subgroups import subgroups_of
from xetile.runtime.grid import Grid
from xetile.runtime.launch_plan import LaunchPlan


def _numpy_arguments(arguments: Sequence[Argument]) -> list[Any]:
    return [argument.numpy() for argument in arguments]


class _HostExecutor:
    """Base of the NumPy executors: host arrays are used in place."""

    device = "NumPy"

    def __init__(self, target: Target) -> None:
        self.target = target

    def copy_in(self, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        return tuple(arguments)

    def copy_out(self, outputs: Sequence[int], reachable: Sequence[Argument], arguments: Sequence[Argument]) -> None:
        """Copy nothing: arrays are used in place."""

    def plan(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> LaunchPlan | None:
        """Keep no plan: there is nothing to build."""
        return None


class NumPyExecutor(_HostExecutor):
    """Executor of the traced XeTile module, all program instances at once."""

    def run(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> None:
        function = compiled.function
        compiled.dump({stage_of(compiled.module): compiled.module})
        subgroup_scheduler.run(function, _numpy_arguments(arguments), grid, subgroups_of(function), SEMANTICS,
                  lanes_of(function))


class NumPyXeGPUExecutor(_HostExecutor):
    """Executor of the fully lowered module, lane by lane."""

    def run(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> None:
        function = only_function(compiled.final)
        compiled.dump(compiled.modules)
        subgroup_scheduler.run(function, _numpy_arguments(arguments), grid, subgroups_of(function), SEMANTICS,
                  lanes_of(function))


def lanes_of(function: Any) -> int | None:
    """Lanes of a function that is distributed over lanes, None for one of subgroup-level operations."""
    size = function.attributes.get("xegpu.subgroup_size")
    return None if size is None else int(size.value.data)
