"""Findings: names of the checks, and reports with array, element, instance, loop iteration and the author's line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from xegpu.interpreter import memory
from xegpu.interpreter.interpreter import BATCH, Interpreter, TileView
from xegpu.ir.dtypes import NDArray
from xegpu.ir.memref import is_shared
from xegpu.ir.use_def import array_of
from xegpu.support.errors import ArgumentError, CheckError
from xegpu.support.location import Location, author_location
from xegpu.support.notes import notes_at
from xetile.dialect.tile_ops import tile_of

NAMES = {
    "bounds": "loads and stores outside an array",
    "races": "instances that write one element, read what another one writes, or do either where another one updates",
    "shared": "shared local memory that is read before it is written, or without a barrier between",
    "numbers": "infinities and NaNs that an operation makes of numbers that were none, and that reach memory",
    "integers": "signed integers that wrap around, and conversions that lose, where what follows reaches memory",
}
"""The checks, with what each finds. ``check=True`` is all of them but ``bounds``, which then minds ``oob="error"``."""


def chosen(check: Any) -> frozenset[str]:
    """Checks selected by ``check=``.

    Raises:
        ArgumentError: there is none of a name.
    """
    if check is True:
        return frozenset(NAMES) - {"bounds"}
    names = (check,) if isinstance(check, str) else check
    try:
        found = frozenset(names or ())
    except TypeError:
        found = frozenset([repr(check)])
    unknown = sorted(map(str, found - set(NAMES)))
    if unknown:
        near = difflib.get_close_matches(unknown[0], NAMES, 1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise ArgumentError("XT1053", f"there is no check {unknown[0]!r}",
                            f"{guess}use check=True, or a set of {', '.join(NAMES)}")
    return found


Loops = Sequence[tuple[str, Any]]


def failed(machine: Interpreter, operation: Operation, code: str, message: str, hint: str,
           at: tuple[int, ...] | None = None, around: Loops | None = None,
           others: Iterable[tuple[str, Location | None]] = ()) -> CheckError:
    """Error for a finding.

    Args:
        machine: the interpreter of the instances.
        operation: the operation of the finding.
        code: the code of the finding.
        message: what is wrong.
        hint: what would work.
        at: the instance's index on the batch axes, for the loops' iterations; None for the first.
        around: the loops around the operation, with their variables as they were; None for as they are.
        others: texts of notes, each with the author's line.
    """
    iterations = [f"{name} = {number(value, at)}" for name, value in
            (loops(machine, operation) if around is None else around)]
    where = f" (in the loop, {', '.join(iterations)})" if iterations else ""
    return CheckError(code, message + where, hint, author_location(operation), notes_at(author_location(operation),
                                                                                         others))


def loops(machine: Interpreter, operation: Operation) -> list[tuple[str, Any]]:
    """Loop variables around an operation, the outermost first, with their current values."""
    found = []
    above = operation.parent_op()
    while above is not None:
        if isinstance(above, scf.ForOp):
            variable = above.body.block.args[0]
            found.append((variable.name_hint or "the loop variable", machine.values[variable]))
        above = above.parent_op()
    return found[::-1]


def number(value: Any, at: tuple[int, ...] | None) -> int:
    """Value of a run-time number for one instance."""
    array = np.asarray(value)
    if not array.ndim:
        return int(array)
    index = tuple(min(i, size - 1) for i, size in zip((at or (0,) * BATCH)[:BATCH], array.shape[:BATCH], strict=True))
    return int(array[index].reshape(-1)[0])


def element_of(window: TileView, at: tuple[int, ...], *, shared: bool = False) -> str:
    """Indices of an element in its array.

    Args:
        window: the tile.
        at: the instance's index on the batch axes, and the element's row and column in the tile.
        shared: whether the array is in shared local memory, with an axis for work-groups.
    """
    lead = [number(index, at) for index in (window.lead[3:] if shared else window.lead)]  # without the work-group
    row, column = number(window.row, at) + at[-2], number(window.column, at) + at[-1]
    return f"[{', '.join(map(str, (*lead, row, column)))}]"


def ran(machine: Interpreter) -> Any:
    """Key of the batch of instances that runs, distinct for each run of the interpreter."""
    return machine.groups, machine.origin


def by_instance(machine: Interpreter, bad: NDArray) -> NDArray:
    """Whether any element of each active instance is marked."""
    found: NDArray = np.asarray(bad.any(axis=tuple(range(BATCH, bad.ndim))) if bad.ndim > BATCH else bad)
    found = found if found.ndim == BATCH else found.reshape((1,) * BATCH)
    per_instance: NDArray = np.broadcast_to(found, np.broadcast_shapes(found.shape, machine.instances))
    return per_instance if machine.active is None else np.asarray(per_instance & machine.active)


def reached(machine: Interpreter, operation: Any, window: TileView) -> NDArray:
    """Mask of the elements of a tile that an operation accesses: in bounds, of active instances."""
    in_bounds = memory.in_bounds(window.array, window.row, window.column, tile_of(operation.tile).shape, BATCH,
                              window.lead)
    return in_bounds if machine.active is None else in_bounds & machine.active[..., None, None]


def instance(machine: Interpreter, at: tuple[int, ...]) -> str:
    """Work-group, and subgroup where there are several, at a position on the batch axes."""
    group = [first + min(i, count - 1) for i, (first, count) in zip(at, machine.groups, strict=False)]
    several = (machine.layout or machine.subgroups) != (1, 1)
    return _instance_name(tuple(group), number(machine.subgroup, at) if several else None)


def _instance_name(group: tuple[int, ...], subgroup: int | None) -> str:
    where = ", ".join(map(str, group))
    return f"work-group ({where})" if subgroup is None else f"subgroup {subgroup} of work-group ({where})"


def array_name(value: SSAValue) -> str:
    """Author's name of the array of a tile."""
    array = array_of(value)
    return "shared local memory" if is_shared(array.type) else array.name_hint or "an array"
