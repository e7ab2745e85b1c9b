"""``scf.for`` in OpenCL C: carried values are variables that the loop's end assigns."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue, Use

from codegen.emitter import Emitter, Rule, atom
from codegen.fragments import Coordinate, Descriptor, Fragment, Scattered, names
from xegpu.dialect.dpas import LoadMadOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import DISABLE_UNROLL, SKIP_IF_ROLLED
from xegpu.ir.use_def import makings

ROLLED = "XETILE_ROLLED"
"""What a prelude defines to leave main loops out that their authors did not ask for (``xegpu.skip_if_rolled``)."""
_DISABLE_UNROLL = "__attribute__((opencl_unroll_hint(1)))"
"""Intel's compiler unrolls short loops as a whole, and then copies their payloads until registers run out."""


def _loop(emitter: Emitter, loop: scf.ForOp) -> None:
    start, stop, step = (atom(emitter.values[value]) for value in (loop.lb, loop.ub, loop.step))
    held: list[_Held] = []
    variables: list[str] = []
    for argument, initial in zip(loop.body.block.args[1:], loop.iter_args, strict=True):
        moves, single = len(makings(argument)) > 1, _sums(argument)
        if single:
            changing = list(_carried_words(emitter, argument, initial))
        else:
            emitter.values[argument], changing = carried(emitter, argument, emitter.values[initial], moves)
        held.append(_Held(emitter.values[argument], tuple(changing) if single else None, moves))
        variables += changing
    counter = emitter.name(loop.body.block.args[0].name_hint or "k")
    emitter.values[loop.body.block.args[0]] = counter
    may_be_left_out = SKIP_IF_ROLLED in loop.attributes
    emitter.lines += [f"#ifndef {ROLLED}"] * may_be_left_out
    if DISABLE_UNROLL in loop.attributes:
        emitter.line(_DISABLE_UNROLL)
    emitter.line(f"for (int {counter} = {start}; {counter} < {stop}; {counter} += {step}) {{")
    emitter.depth += 1
    yielded = _body(emitter, loop, held)
    rebind(emitter, variables, [part for value in yielded for part in value.parts],
           [type_ for value in held for type_ in value.types])
    emitter.depth -= 1
    emitter.line("}")
    emitter.lines += ["#endif"] * may_be_left_out
    for result, value in zip(loop.results, held, strict=True):
        value.become(emitter, result)


@dataclass(frozen=True)
class _Held:
    """A value that a loop carries, as it is before or after a step.

    Attributes:
        value: what it is in the text.
        words: its words one by one, where it is summed up so.
        moves: whether it is a descriptor that may go to another array.
    """

    value: Any
    words: tuple[str, ...] | None
    moves: bool

    @property
    def parts(self) -> list[str]:
        """The expressions of its variables."""
        return parts(self.value, self.moves) if self.words is None else list(self.words)

    @property
    def types(self) -> list[str]:
        """The C types of its variables, empty where they follow from the variables themselves."""
        return types(self.value, self.moves) if self.words is None else [""] * len(self.words)

    def become(self, emitter: Emitter, value: SSAValue) -> None:
        """Make it what ``value`` is from here on."""
        emitter.values[value] = self.value
        if self.words is not None:
            emitter.split[value] = self.words


def _body(emitter: Emitter, loop: scf.ForOp, held: list[_Held]) -> list[_Held]:
    """Write one step; what it yields in the place of what it was given."""
    for operation in loop.body.block.ops:
        if not isinstance(operation, scf.YieldOp):
            emitter.emit(operation)
            continue
        return [_Held(emitter.values[new], None if old.words is None else emitter.words(new), old.moves)
                for new, old in zip(operation.operands, held, strict=True)]
    return []


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


RULES: dict[type[Operation], Rule] = {scf.ForOp: _loop}
