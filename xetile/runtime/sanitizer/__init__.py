"""Sanitizer: NumPy execution of the recorded program with instrumented semantics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.gpu import BarrierOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.barriers import in_step
from xegpu.dialect.inline import InlineOp
from xegpu.dialect.sync import NbarrierArriveOp, NbarrierWaitOp
from xegpu.interpreter import subgroup_scheduler
from xegpu.interpreter.interpreter import AcceptsLazy, Interpreter, Semantic, Semantics
from xegpu.ir.use_def import arrays_of
from xegpu.mlir.elementwise import RECORDS
from xegpu.mlir.scf import verify_step
from xegpu.support.errors import DeviceError, Invalid, error_parts
from xegpu.target.targets import Target
from xetile.compiler.arguments import Argument
from xetile.compiler.compiled import CompiledKernel
from xetile.dialect.gather_scatter import AtomicRMWTileOp, LoadGatherOp, StoreScatterOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.stage import IN_XETILE, only_function, stage_of
from xetile.dialect.tile_ops import LoadTileOp, StoreTileOp
from xetile.interpreter.semantics import SEMANTICS
from xetile.passes.distribute_subgroups import is_distributed, subgroups_of
from xetile.passes.distribute_subgroups.replicas import replicated_stores
from xetile.runtime.grid import Grid
from xetile.runtime.numpy_executor import NumPyExecutor
from xetile.runtime.sanitizer.findings import failed
from xetile.runtime.sanitizer.float_nan import Numbers, Product
from xetile.runtime.sanitizer.integer_overflow import Integers
from xetile.runtime.sanitizer.memory import Accesses
from xetile.runtime.sanitizer.races import KINDS
from xetile.runtime.sanitizer.shadow_memory import Codes

_CALCULATE: tuple[type[Operation], ...] = (
    *(kind for kind, record in RECORDS.items() if record.family != "comparison" and kind is not arith.BitcastOp),
    TileReduceOp, InlineOp)
_MAX_SUBGROUPS = 1024
"""Subgroups that a map may distribute to; no device has so many."""
Before = Callable[[Interpreter, Any, Sequence[Any]], None]


class CheckedExecutor(NumPyExecutor):
    """Executor of the recorded XeTile program with checks.

    Args:
        target: the device that the kernel is recorded for.
        names: the checks.
    """

    def __init__(self, target: Target, names: frozenset[str]) -> None:
        super().__init__(target)
        self._names = names

    def run(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> None:
        """Run the kernel.

        Raises:
            CheckError: a finding.
            DeviceError: the kernel was parsed at a later stage than ``xetile``.
        """
        function = _xetile_function(compiled)
        compiled.dump({stage_of(compiled.module): compiled.module})
        subgroups = subgroups_of(function)
        replicated = replicated_stores(function)
        waits = bool(replicated) or any(isinstance(operation, (BarrierOp, NbarrierWaitOp))
                                        for operation in function.walk())
        distributed = is_distributed(function)
        form = Codes.fitting(prod(grid), _MAX_SUBGROUPS if distributed else prod(subgroups), barriers=waits)
        accesses = Accesses(self._names, distributed, in_step(function, prod(subgroups)), grid, form, replicated)
        values = [argument.numpy() for argument in arguments]
        accesses.shadows.arguments(_used(function, values))
        semantics = {**SEMANTICS, **watching(accesses)}
        if "numbers" in self._names:
            semantics |= watching_numbers(Numbers(), semantics, {type(operation) for operation in function.walk()})
        if "integers" in self._names:
            semantics |= watching_integers(Integers(), semantics, {type(operation) for operation in function.walk()})
        subgroup_scheduler.run(function, values, grid, subgroups, semantics, None)


def _xetile_function(compiled: CompiledKernel) -> func.FuncOp:
    stage = stage_of(compiled.module)
    if stage in IN_XETILE:
        return compiled.function
    recorded = compiled.after("lower-supervector")
    if recorded is None:
        raise DeviceError("XT6007", f"{compiled.name} is at the stage {stage}, and checks take XeTile or "
                          "SuperVector", "start from the kernel, or from its stage xetile")
    return only_function(recorded)


def _used(function: func.FuncOp, values: Sequence[Any]) -> list[tuple[Any, frozenset[str]]]:
    """Array arguments, each with the kinds of the kernel's accesses to it."""
    kinds: dict[SSAValue, set[str]] = {}
    for operation in function.walk():
        if (kind := KINDS.get(type(operation))) is not None:
            for array in arrays_of(operation.tile):  # type: ignore[attr-defined]
                kinds.setdefault(array, set()).add(kind)
    arguments = zip(function.body.block.args, values, strict=True)
    return [(value, frozenset(kinds[argument])) for argument, value in arguments
            if isinstance(value, np.ndarray) and argument in kinds]


def watching(accesses: Accesses) -> dict[type[Operation], Semantic]:
    """Instrumented semantics of memory operations: checks before each access."""
    before: dict[type[Operation], Before] = {LoadTileOp: accesses.load, StoreTileOp: accesses.store,
                                             LoadGatherOp: accesses.gather, StoreScatterOp: accesses.scatter,
                                             AtomicRMWTileOp: accesses.update}
    found: dict[type[Operation], Semantic] = {kind: _check_before(look, SEMANTICS[kind]) for kind,
                                              look in before.items()}

    def barrier(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
        accesses.barrier(machine)
        return SEMANTICS[type(operation)](machine, operation, operands)

    def arrive(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
        accesses.arrive(machine, operation.nbarrier)
        return SEMANTICS[NbarrierArriveOp](machine, operation, operands)

    def wait(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
        accesses.wait(machine, operation.nbarrier)
        return SEMANTICS[NbarrierWaitOp](machine, operation, operands)

    def allocate(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
        array = SEMANTICS[AllocOp](machine, operation, operands)
        accesses.shadows.shared(array)
        return array

    return {**found, BarrierOp: barrier, NbarrierArriveOp: arrive, NbarrierWaitOp: wait, AllocOp: allocate,
            scf.ForOp: _check_step}


def _check_step(machine: Interpreter, operation: Operation, operands: Sequence[Any]) -> None:
    """Raise if a loop that runs somewhere does not count up; no iteration of such a loop is run."""
    step = np.asarray(operands[2])
    standing = step <= 0 if machine.active is None else (step <= 0) & machine.active
    if standing.any():
        try:
            verify_step(int(step.min()))
        except Invalid as error:
            raise failed(machine, operation, *error_parts(error)) from None


def watching_numbers(numbers: Numbers, base: Semantics, used: set[type[Operation]]) -> dict[type[Operation], Semantic]:
    """Instrumented semantics of float operations: infinities and NaNs that they create are tracked."""
    stores: dict[type[Operation], Before] = {StoreTileOp: numbers.store, StoreScatterOp: numbers.scatter,
                                             AtomicRMWTileOp: numbers.update}
    return {**{kind: numbers.watching(base[kind], kind in _CALCULATE) for kind in used & base.keys()},
            **{kind: _check_before(look, base[kind]) for kind, look in stores.items()},
            TileMmaOp: AcceptsLazy(partial(_check_mma, numbers, base[TileMmaOp]))}


def watching_integers(integers: Integers, base: Semantics,
                      used: set[type[Operation]]) -> dict[type[Operation], Semantic]:
    """Instrumented semantics of integer operations: overflow is tracked."""
    before: dict[type[Operation], Before] = {
        StoreTileOp: integers.store, **dict.fromkeys((StoreScatterOp, LoadGatherOp, AtomicRMWTileOp), integers.single)}
    return {kind: _check_before(before[kind], base[kind]) if kind in before else integers.watching(base[kind])
            for kind in used & base.keys()}


def _check_mma(numbers: Numbers, semantic: Semantic, machine: Interpreter, operation: Any,
                operands: Sequence[Any]) -> Any:
    acc = operands[2] if len(operands) > 2 else None
    inner = [operand.inner if isinstance(operand, Product) else operand for operand in operands]
    return numbers.product(machine, operation, operands, semantic(machine, operation, inner), acc)


def _check_before(look: Before, semantic: Semantic) -> Semantic:
    """Semantics preceded by a check."""
    def watched(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
        look(machine, operation, operands)
        return semantic(machine, operation, operands)

    return watched
