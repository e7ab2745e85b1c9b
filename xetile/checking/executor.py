"""NumPy with checks: the recorded program, whose operations' meanings look at what they do as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, math
from xdsl.dialects.gpu import BarrierOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation

from codegen import apart
from codegen.interpreter import Machine, Meaning, Meanings, TakesDelayed
from codegen.meanings import BINARY, UNARY
from xegpu.barriers import in_step
from xegpu.dialect.conversions import CONVERSIONS
from xegpu.dialect.synchronisation import NbarrierWaitOp
from xegpu.errors import CheckError, DeviceError
from xegpu.origins import arrays_of
from xegpu.targets import Target
from xetile.arguments import Argument
from xetile.checking.accesses import Accesses
from xetile.checking.numbers import Numbers, Product
from xetile.dialect.ops import LoadTileOp, StoreTileOp, TileMmaOp
from xetile.dialect.scattered import LoadGatherOp, StoreScatterOp
from xetile.dialect.vector_ops import TileReduceOp
from xetile.executors import MEANINGS, Grid, NumPyExecutor
from xetile.lowered import Lowered, only_function
from xetile.passes.workgroup_to_subgroup import is_dealt, subgroups_of
from xetile.pipeline import FIRST, stage_of

_CALCULATE: tuple[type[Operation], ...] = (*BINARY, *UNARY, *CONVERSIONS, arith.ExtFOp, arith.TruncFOp, math.FmaOp,
                                           TileReduceOp)
_READS = (LoadTileOp, LoadGatherOp)
_WRITES = (StoreTileOp, StoreScatterOp)
Before = Callable[[Machine, Any, Sequence[Any]], None]


class CheckedExecutor(NumPyExecutor):
    """The recorded XeTile program, watched.

    Args:
        target: the device that the kernel is recorded for.
        names: the checks.
    """

    def __init__(self, target: Target, names: frozenset[str]) -> None:
        super().__init__(target)
        self._names = names

    def run(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> None:
        """Run the kernel.

        Raises:
            CheckError: a finding.
            DeviceError: the kernel was parsed from a stage behind ``xetile``.
        """
        function = _recorded(lowered)
        if "overlap" in self._names:
            _check_overlap(lowered, arguments)
        subgroups = subgroups_of(function)
        accesses = Accesses(self._names, is_dealt(function), in_step(function, prod(subgroups)), grid)
        values = [argument.numpy() for argument in arguments]
        accesses.shadows.arguments(_used(function, values))
        meanings = {**MEANINGS, **watching(accesses)}
        if "numbers" in self._names:
            meanings |= watching_numbers(Numbers(), meanings)
        apart.run(function, values, grid, subgroups, meanings, None)


def _recorded(lowered: Lowered) -> func.FuncOp:
    stage = stage_of(lowered.module)
    if stage == "xetile":
        return lowered.function
    if stage != FIRST:
        raise DeviceError("XT0000", f"{lowered.name} is at the stage {stage}, and checks are for what an author writes",
                          "start from the kernel, or from its stage xetile")
    return only_function(lowered.modules["xetile"])


def _used(function: func.FuncOp, values: Sequence[Any]) -> list[tuple[Any, bool, bool]]:
    """The array arguments, each with whether the kernel reads it and whether it writes it; atomics do neither."""
    reads, writes = (set().union(*(arrays_of(operation.tile) for operation in function.walk()
                                   if isinstance(operation, kinds))) for kinds in (_READS, _WRITES))
    return [(value, argument in reads, argument in writes)
            for argument, value in zip(function.body.block.args, values, strict=True)
            if isinstance(value, np.ndarray) and (argument in reads or argument in writes)]


def _check_overlap(lowered: Lowered, arguments: Sequence[Argument]) -> None:
    arrays = [argument for argument in arguments if argument.kind == "numpy"]
    for position in lowered.written:
        written = arguments[position]
        for other in arrays:
            if other is not written and np.may_share_memory(written.source, other.source) and \
                    np.shares_memory(written.source, other.source):
                raise CheckError("XT0000", f"{lowered.name} writes {written.name}, which overlaps {other.name}",
                                 f"pass a copy, such as {other.name}.copy(); or make both one argument of the kernel, "
                                 "which then knows what it writes", lowered.location)


def watching(accesses: Accesses) -> dict[type[Operation], Meaning]:
    """The meanings of operations that reach memory, with what looks at them first."""
    before: dict[type[Operation], Before] = {LoadTileOp: accesses.load, StoreTileOp: accesses.store,
                                             LoadGatherOp: accesses.gather, StoreScatterOp: accesses.scatter}
    found: dict[type[Operation], Meaning] = {kind: _first(look, MEANINGS[kind]) for kind, look in before.items()}

    def barrier(machine: Machine, operation: Any, operands: Sequence[Any]) -> Any:
        accesses.epoch += 1
        return MEANINGS[type(operation)](machine, operation, operands)

    def allocate(machine: Machine, operation: Any, operands: Sequence[Any]) -> Any:
        array = MEANINGS[AllocOp](machine, operation, operands)
        accesses.shadows.shared(array)
        return array

    return {**found, BarrierOp: barrier, NbarrierWaitOp: barrier, AllocOp: allocate}


def watching_numbers(numbers: Numbers, plain: Meanings) -> dict[type[Operation], Meaning]:
    """The meanings of operations that calculate with floats, or store them, with what looks at their results."""
    stores: dict[type[Operation], Before] = {StoreTileOp: numbers.store, StoreScatterOp: numbers.scatter}
    return {**{kind: _then(numbers, plain[kind]) for kind in _CALCULATE},
            **{kind: _first(look, plain[kind]) for kind, look in stores.items()},
            TileMmaOp: TakesDelayed(partial(_multiplied, numbers, plain[TileMmaOp]))}


def _then(numbers: Numbers, meaning: Meaning) -> Meaning:
    def watched(machine: Machine, operation: Any, operands: Sequence[Any]) -> Any:
        result = meaning(machine, operation, operands)
        numbers.look(machine, operation, operands, result)
        return result

    return watched


def _multiplied(numbers: Numbers, meaning: Meaning, machine: Machine, operation: Any, operands: Sequence[Any]) -> Any:
    acc = operands[2] if len(operands) > 2 else None
    inner = [operand.inner if isinstance(operand, Product) else operand for operand in operands]
    return numbers.product(machine, operation, operands, meaning(machine, operation, inner), acc)


def _first(look: Before, meaning: Meaning) -> Meaning:
    def watched(machine: Machine, operation: Any, operands: Sequence[Any]) -> Any:
        look(machine, operation, operands)
        return meaning(machine, operation, operands)

    return watched
