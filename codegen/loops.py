"""``scf.for`` in OpenCL C: carried values are variables that the loop's end assigns."""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from codegen.emitter import Emitter, Rule, atom
from codegen.fragments import Coordinate, Descriptor, Fragment, Scattered, names
from xegpu.dtypes import of_mlir


def _loop(emitter: Emitter, loop: scf.ForOp) -> None:
    start, stop, step = (atom(emitter.values[value]) for value in (loop.lb, loop.ub, loop.step))
    block = loop.body.block
    variables: list[str] = []
    for argument, initial in zip(block.args[1:], loop.iter_args, strict=True):
        emitter.values[argument], changing = _carried(emitter, argument, emitter.values[initial])
        variables += changing
    counter = emitter.name(block.args[0].name_hint or "i")
    emitter.values[block.args[0]] = counter
    emitter.line(f"for (int {counter} = {start}; {counter} < {stop}; {counter} += {step}) {{")
    emitter.depth += 1
    for operation in block.ops:
        if isinstance(operation, scf.YieldOp):
            new = [part for value in operation.operands for part in _parts(emitter.values[value])]
            _rebind(emitter, variables, new, [t for a in block.args[1:] for t in _types(emitter.values[a])])
        else:
            emitter.emit(operation)
    emitter.depth -= 1
    emitter.line("}")
    for result, argument in zip(loop.results, block.args[1:], strict=True):
        emitter.values[result] = emitter.values[argument]


def _carried(emitter: Emitter, argument: SSAValue, initial: Any) -> tuple[Any, list[str]]:
    """Variables that a loop changes, declared with their first values."""
    stem = emitter.name(argument.name_hint)
    if isinstance(initial, Fragment):
        fragment = initial.renamed(names(stem, len(initial.names)))
        for name, value in zip(fragment.names, initial.names, strict=True):
            emitter.line(f"{fragment.c_type} {name} = {value};")
        return fragment, list(fragment.names)
    if isinstance(initial, Descriptor):
        row, column = emitter.name(f"{stem}_row"), emitter.name(f"{stem}_column")
        emitter.line(f"int {row} = {initial.row}, {column} = {initial.column};")
        moved = Descriptor(initial.array, initial.height, initial.width, initial.pitch, initial.step,
                           Coordinate(row), Coordinate(column))
        return moved, [row, column]
    if isinstance(initial, Scattered):
        emitter.line(f"int {stem} = {initial.offset};")
        return Scattered(initial.base, stem), [stem]
    emitter.line(f"{of_mlir(argument.type).opencl} {stem} = {initial};")
    return stem, [stem]


def _parts(value: Any) -> list[str]:
    if isinstance(value, Fragment):
        return list(value.names)
    if isinstance(value, Scattered):
        return [value.offset]
    return [str(value.row), str(value.column)] if isinstance(value, Descriptor) else [value]


def _types(value: Any) -> list[str]:
    if isinstance(value, Fragment):
        return [value.c_type] * len(value.names)
    if isinstance(value, Scattered):
        return ["int"]
    return ["int", "int"] if isinstance(value, Descriptor) else [""]


def _rebind(emitter: Emitter, variables: list[str], new: list[str], types: list[str]) -> None:
    """Give the carried variables their next values, all at once where one needs another's old value."""
    changes = [(v, n, t) for v, n, t in zip(variables, new, types, strict=True) if v != n]
    changed = {variable for variable, _, _ in changes}
    tangled = any(set(re.findall(r"[A-Za-z_]\w*", value)) & (changed - {variable}) for variable, value, _ in changes)
    if tangled:
        kept = []
        for variable, value, type_ in changes:
            name = emitter.name(f"{variable}_next")
            emitter.line(f"const {type_ or f'__typeof__({variable})'} {name} = {value};")
            kept.append((variable, name, type_))
        changes = kept
    for variable, value, _ in changes:
        emitter.line(f"{variable} = {value};")


RULES: dict[type[Operation], Rule] = {scf.ForOp: _loop}
