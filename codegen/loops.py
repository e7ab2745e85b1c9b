"""``scf.for`` in OpenCL C: carried values are variables that the loop's end assigns."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.traits import Pure

from codegen.emitter import Emitter, Rule, atom
from codegen.fragments import Coordinate, Descriptor, Fragment, Scattered, names
from codegen.inside import Inside
from xegpu.dialect.loaded_products import LoadMadOp
from xegpu.dialect.ops import DpasOp, LoadNdOp, PrefetchNdOp, StoreNdOp
from xegpu.dtypes import of_mlir
from xegpu.origins import makings


def _loop(emitter: Emitter, loop: scf.ForOp) -> None:
    start, stop, step = (atom(emitter.values[value]) for value in (loop.lb, loop.ub, loop.step))
    block, text = loop.body.block, emitter.enter()
    variables: list[str] = []
    wanders = [len(makings(argument)) > 1 for argument in block.args[1:]]
    single = [_sums(argument) for argument in block.args[1:]]
    for argument, initial, moves, alone in zip(block.args[1:], loop.iter_args, wanders, single, strict=True):
        if alone:
            variables += _carried_words(emitter, argument, initial)
            continue
        emitter.values[argument], changing = carried(emitter, argument, emitter.values[initial], moves)
        variables += changing
    counter = emitter.name(block.args[0].name_hint or "i")
    emitter.values[block.args[0]] = counter
    place = len(emitter.lines)

    def body() -> None:
        emitter.depth += 1
        for operation in block.ops:
            if isinstance(operation, scf.YieldOp):
                ends = zip(operation.operands, wanders, single, strict=True)
                new = [part for value, moves, alone in ends
                       for part in (emitter.words(value) if alone else parts(emitter.values[value], moves))]
                kept = zip(block.args[1:], wanders, single, strict=True)
                rebind(emitter, variables, new, [t for a, moves, alone in kept for t in (
                    [""] * len(emitter.split[a]) if alone else types(emitter.values[a], moves))])
            else:
                emitter.emit(operation)
        emitter.depth -= 1

    rest = f"{counter} < {stop}; {counter} += {step}"
    declared = _peels(emitter, block) and _peeled(emitter, f"int {counter} = {start};", rest, body)
    emitter.line(f"for ({'' if declared else f'int {counter} = {start}'}; {rest}) {{")
    body()
    emitter.line("}")
    emitter.loops.pop()
    emitter.lines[place:place] = text.ahead
    for result, argument in zip(loop.results, block.args[1:], strict=True):
        emitter.values[result] = emitter.values[argument]
        if argument in emitter.split:
            emitter.split[result] = emitter.split[argument]


def _peels(emitter: Emitter, block: Block) -> bool:
    """Whether a loop is written twice, first for blocks that lie inside: a straight one of products without block IO.

    A barrier must be one and the same for all subgroups, and they may leave the first loop at different times.
    """
    products = any(isinstance(operation, DpasOp) for operation in block.ops)
    return products and not emitter.target.block_io and all(
        isinstance(operation, _STAYS) or (operation.has_trait(Pure) and not operation.regions)
        for operation in block.ops)


def _peeled(emitter: Emitter, declaration: str, rest: str, body: Callable[[], None]) -> bool:
    """Write the loop over iterations all of whose blocks lie inside their arrays, if that is known in front of them."""
    start = len(emitter.lines)
    emitter.inside = Inside(emitter.names)
    body()
    inside, emitter.inside = emitter.inside, None
    lines = emitter.lines[start:]
    del emitter.lines[start:]
    if not (condition := inside.condition()):
        return False
    more, _, step = rest.partition(";")
    emitter.line(declaration)
    emitter.line(f"for (; {more} && {condition};{step}) {{")
    emitter.lines += lines
    emitter.line("}")
    return True


def _sums(argument: SSAValue) -> bool:
    """Whether a carried vector is summed up in variables of one word each (:mod:`codegen.loaded_products`)."""
    return any(_sums_up(use) for use in argument.uses)


def _sums_up(use: Use) -> bool:
    if isinstance(use.operation, LoadMadOp):
        return use.index > 1
    if isinstance(use.operation, scf.ForOp) and use.index > 2:  # behind its bounds: a loop in this one carries it on
        return _sums(use.operation.body.block.args[use.index - 2])
    return False


def _carried_words(emitter: Emitter, argument: SSAValue, initial: SSAValue) -> tuple[str, ...]:
    words, fragment = emitter.words(initial), emitter.fragment(initial)
    stem = emitter.name(argument.name_hint)
    variables = tuple(f"{stem}_{position}" for position in range(len(words)))
    emitter.line(f"{fragment.word} {', '.join(f'{v} = {w}' for v, w in zip(variables, words, strict=True))};")
    emitter.set_words(argument, fragment.renamed(variables))
    return variables


def carried(emitter: Emitter, argument: SSAValue, initial: Any, moves: bool) -> tuple[Any, list[str]]:
    """Variables that a loop or branch changes, declared with their first values; the value that they make up.

    A descriptor is made anew in the body, maybe on another array, if it ``moves``; else only its offsets change.
    """
    stem = emitter.name(argument.name_hint)
    if isinstance(initial, Fragment):
        fragment = initial.renamed(names(stem, len(initial.names)))
        for name, value in zip(fragment.names, initial.names, strict=True):
            emitter.line(f"{fragment.c_type} {name} = {value};")
        return fragment, list(fragment.names)
    if isinstance(initial, Descriptor):
        row, column = emitter.name(f"{stem}_row"), emitter.name(f"{stem}_column")
        emitter.line(f"int {row} = {initial.row}, {column} = {initial.column};")
        moved = replace(initial, row=Coordinate(row), column=Coordinate(column))
        if not moves:
            return moved, [row, column]
        place = [emitter.name(f"{stem}_{part}") for part in ("base", "height", "width", "pitch", "step")]
        for name, (c_type, value) in zip(place, initial.place, strict=True):
            emitter.line(f"{c_type} {name} = {value};")
        return moved.placed(place), [row, column, *place]
    if isinstance(initial, Scattered):
        return _carried_elements(emitter, stem, initial, moves)
    emitter.line(f"{of_mlir(argument.type).opencl} {stem} = {initial};")
    return stem, [stem]


def _carried_elements(emitter: Emitter, stem: str, initial: Scattered, moves: bool) -> tuple[Scattered, list[str]]:
    """A descriptor of single elements that a loop or branch changes: where a lane's own lies, and on which array."""
    emitter.line(f"{initial.offset_type} {stem} = {initial.offset};")
    moved = replace(initial, offset=stem)
    if not moves:
        return moved, [stem]
    base = emitter.name(f"{stem}_base")
    emitter.line(f"global {initial.element} *{base} = {initial.base};")
    return replace(moved, base=base), [stem, base]


def parts(value: Any, moves: bool) -> list[str]:
    """The expressions that the variables of a carried value get."""
    if isinstance(value, Fragment):
        return list(value.names)
    if isinstance(value, Scattered):
        return [value.offset, *([value.base] if moves else [])]
    if not isinstance(value, Descriptor):
        return [value]
    return [str(value.row), str(value.column), *(part for _, part in value.place if moves)]


def types(value: Any, moves: bool) -> list[str]:
    """The C types of these variables, empty where it follows from the variable itself."""
    if isinstance(value, Fragment):
        return [value.c_type] * len(value.names)
    if isinstance(value, Scattered):
        return [value.offset_type, *([f"global {value.element} *"] if moves else [])]
    if not isinstance(value, Descriptor):
        return [""]
    return ["int", "int", *(c_type for c_type, _ in value.place if moves)]


def rebind(emitter: Emitter, variables: list[str], new: list[str], kinds: list[str]) -> None:
    """Give the carried variables their next values, all at once where one needs another's old value."""
    changes = [(v, n, t) for v, n, t in zip(variables, new, kinds, strict=True) if v != n]
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


_STAYS = (LoadNdOp, StoreNdOp, PrefetchNdOp, scf.YieldOp)
RULES: dict[type[Operation], Rule] = {scf.ForOp: _loop}
