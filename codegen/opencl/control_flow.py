"""``scf.for`` in OpenCL C: carried values are variables that the loop's end assigns.

One loop, or where several steps stand in its body (:mod:`codegen.opencl.unroll`) that and one for what is left over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.traits import Pure

from codegen.opencl.bounds import Inside
from codegen.opencl.cpu_gemm import fused_store
from codegen.opencl.emitter import Emitter, Rule, atom
from codegen.opencl.unroll import ROLLED, period_of, steps_of, trips_of
from codegen.opencl.values import Coordinate, Descriptor, Fragment, Scattered, names
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, StoreNdOp, desc_of
from xegpu.dialect.dpas import DpasOp, LoadMadOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import OPTIONS
from xegpu.ir.use_def import root_definitions

_AS_IT_IS = "__attribute__((opencl_unroll_hint(1)))"
"""Intel's compiler unrolls short loops as a whole, and then copies their payloads until registers run out."""
_ASKED = "; what is asked;"
"""Stands for the head of a loop whose body says what it asks."""
_STAYS = (LoadNdOp, StoreNdOp, PrefetchNdOp, scf.YieldOp)


def _loop(emitter: Emitter, loop: scf.ForOp) -> None:
    if (found := fused_store.stored(loop, emitter.subgroup)) is None:
        _written(emitter, loop)
    else:
        fused_store.emit(emitter, found, lambda: _written(emitter, loop))


def _written(emitter: Emitter, loop: scf.ForOp) -> None:
    start, stop, step = (atom(emitter.values[value]) for value in (loop.lb, loop.ub, loop.step))
    outside, held, variables = emitter.names, [], []
    for argument, initial in zip(loop.body.block.args[1:], loop.iter_args, strict=True):
        moves, single = len(root_definitions(argument)) > 1, _sums(argument)
        if single:
            changing = list(_carried_words(emitter, argument, initial))
        else:
            emitter.values[argument], changing = carried(emitter, argument, emitter.values[initial], moves)
        held.append(_Held(emitter.values[argument], tuple(changing) if single else None, moves))
        variables += changing
    counter = emitter.name(loop.body.block.args[0].name_hint or "k")
    text = _Text(loop, counter, step, 1, held, variables, outside)
    steps, trips, asked = steps_of(loop, emitter.target), trips_of(loop), not loop.attributes.keys().isdisjoint(OPTIONS)
    far = f"{counter} += {_times(steps, step)}"
    if _peels(loop) and _peeled(emitter, replace(text, steps=steps), start, stop, far):
        _steps(emitter, text, f"; {counter} < {stop}; {counter} += {step}")
    elif steps == 1 or (asked and trips is not None and trips % steps == 0):
        _steps(emitter, replace(text, steps=steps), f"int {counter} = {start}; {counter} < {stop}; {far}")
    else:
        emitter.line(f"int {counter} = {start};")
        emitter.lines += [] if asked else [f"#ifndef {ROLLED}"]
        _steps(emitter, replace(text, steps=steps), f"; {counter} < {stop} - {_times(steps - 1, step)}; {far}")
        emitter.lines += [] if asked else ["#endif"]
        _steps(emitter, text, f"; {counter} < {stop}; {counter} += {step}")
    for result, value in zip(loop.results, held, strict=True):
        value.become(emitter, result)


def _peels(loop: scf.ForOp) -> bool:
    """Whether a loop is written twice, first for blocks that lie inside: a straight one of products without block IO.

    A barrier must be one and the same for all subgroups, and they may leave the first loop at different times.
    """
    body = loop.body.block.ops
    ways = {desc_of(operation.desc).block.access for operation in body if isinstance(operation, LoadNdOp)}
    return "block" not in ways and any(isinstance(operation, DpasOp) for operation in body) and all(
        isinstance(operation, _STAYS) or (operation.has_trait(Pure) and not operation.regions) for operation in body)


def _peeled(emitter: Emitter, text: _Text, start: str, stop: str, far: str) -> bool:
    """Write the loop over steps all of whose blocks lie inside their arrays, if that is known in front of them."""
    first = len(emitter.lines)
    emitter.line(f"int {text.counter} = {start};")
    emitter.inside = Inside(emitter.names)
    _steps(emitter, text, _ASKED)
    inside, emitter.inside = emitter.inside, None
    if not (condition := inside.condition()):
        del emitter.lines[first:]
        return False
    end = stop if text.steps == 1 else f"{stop} - {_times(text.steps - 1, text.step)}"
    head = f"; {text.counter} < {end} && {condition}; {far}"
    emitter.lines[first:] = [line.replace(f"for ({_ASKED})", f"for ({head})") for line in emitter.lines[first:]]
    return True


def _times(steps: int, step: str) -> str:
    return str(steps * int(step)) if step.isdigit() else f"{steps} * {step}"


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


@dataclass(frozen=True)
class _Text:
    """What is written of a loop, once or twice.

    Attributes:
        counter, step: the counter's name, and what it grows by at a step.
        steps: how many steps stand in the body.
        held, variables: what the loop carries, and the variables that it is in.
        outside: names that were there before the loop.
    """

    loop: scf.ForOp
    counter: str
    step: str
    steps: int
    held: list[_Held]
    variables: list[str]
    outside: frozenset[str]


def _steps(emitter: Emitter, text: _Text, head: str) -> None:
    """A loop with some steps in its body, and before it what stays as it is in all of them."""
    before, place = emitter.enter(text.outside), len(emitter.lines)
    emitter.line(f"for ({head}) {{")
    emitter.depth += 1
    counter, *arguments = text.loop.body.block.args
    held, period = text.held, period_of(text.loop, emitter.target)
    for position in range(text.steps):
        _count(emitter, counter, text, position)
        for argument, value in zip(arguments, held, strict=True):
            value.become(emitter, argument)
        meets = period and text.steps % period == 0 and position % period == 0
        if meets:
            emitter.line("intel_work_group_barrier_arrive(0);")
        held = _body(emitter, text.loop, held)
        if meets:
            emitter.line("intel_work_group_barrier_wait(0);")
    rebind(emitter, text.variables, [part for value in held for part in value.parts],
           [type_ for value in text.held for type_ in value.types])
    emitter.depth -= 1
    emitter.line("}")
    emitter.loops.pop()
    as_it_is = ["  " * emitter.depth + _AS_IT_IS] if before.payloads and trips_of(text.loop) is not None else []
    emitter.lines[place:place] = [*before.ahead, *as_it_is]


def _body(emitter: Emitter, loop: scf.ForOp, held: list[_Held]) -> list[_Held]:
    """Write one step; what it yields in the place of what it was given."""
    for operation in loop.body.block.ops:
        if not isinstance(operation, scf.YieldOp):
            emitter.emit(operation)
            continue
        return [_Held(emitter.values[new], None if old.words is None else emitter.words(new), old.moves)
                for new, old in zip(operation.operands, held, strict=True)]
    return []


def _count(emitter: Emitter, argument: SSAValue, text: _Text, position: int) -> None:
    """Say what the counter is at one of the steps."""
    if text.step.isdigit() or not position:
        ahead = position * int(text.step) if position else 0
        emitter.places[argument] = place = Coordinate(text.counter, ahead)
        emitter.values[argument] = str(place)
        return
    name = emitter.name(text.counter)
    emitter.line(f"const int {name} = {text.counter} + {_times(position, text.step)};")
    emitter.places[argument], emitter.values[argument] = Coordinate(name), name


def _sums(argument: SSAValue) -> bool:
    """Whether a carried vector is summed up in variables of one word each (:mod:`codegen.opencl.cpu_gemm.simt`)."""
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
    emitter.claim(variables)
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
        emitter.claim(fragment.names)
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


# ``scf.if`` in OpenCL C: what it gives are variables, declared before it and assigned in its branches.
#
# A value that the second branch leaves as it was is the variable's first value, so that most conditions need no
# ``else``.


def _branches(emitter: Emitter, operation: scf.IfOp) -> None:
    blocks = [region.block for region in operation.regions if region.blocks]
    texts = [_text(emitter, block) for block in blocks]
    ends = [list(block.last_op.operands) if block.last_op is not None else [] for block in blocks]
    for results in zip(operation.results, *ends, strict=True):
        _result(emitter, results[0], results[1:], blocks[-1], texts)
    condition = emitter.values[operation.cond]
    emitter.line(f"if ({condition}) {{")
    emitter.lines += texts[0]
    if len(texts) > 1 and texts[1]:
        emitter.line("} else {")
        emitter.lines += texts[1]
    emitter.line("}")


def _text(emitter: Emitter, block: Block) -> list[str]:
    """The lines of a branch."""
    before, emitter.lines = emitter.lines, []
    emitter.depth += 1
    for operation in block.ops:
        if not isinstance(operation, scf.YieldOp):
            emitter.emit(operation)
    emitter.depth -= 1
    lines, emitter.lines = emitter.lines, before
    return lines


def _result(emitter: Emitter, result: SSAValue, yielded: tuple[SSAValue, ...], last: Block,
            texts: list[list[str]]) -> None:
    """Declare the variables of a result, and let the branches assign what they yield."""
    moves, values = len(root_definitions(result)) > 1, [emitter.values[value] for value in yielded]
    stays = not _is_inside(yielded[-1], last)
    emitter.values[result], names = carried(emitter, result, values[-1] if stays else _blank(values[-1], moves), moves)
    indent = "  " * (emitter.depth + 1)
    for value, text in zip(values[:-1] if stays else values, texts, strict=False):
        assert types(value, moves) == types(values[-1], moves), "both branches keep a value in variables alike"
        text += [f"{indent}{name} = {part};" for name, part in zip(names, parts(value, moves), strict=True)]


def _is_inside(value: SSAValue, block: Block) -> bool:
    """Whether a value is made in a block, or further in."""
    above = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while above is not None and above is not block:
        above = above.parent_block()
    return above is block


def _blank(value: Any, moves: bool) -> Any:
    """A value in the same variables, all zero: what stands there until a branch assigns them."""
    if isinstance(value, Fragment):
        return value.renamed((f"({value.c_type})(0)",) * len(value.names))
    if isinstance(value, Scattered):
        return replace(value, offset="0", base="0" if moves else value.base)
    if isinstance(value, Descriptor):
        return replace(value.placed(("0",) * 5) if moves else value, row=Coordinate(), column=Coordinate())
    return "0"


RULES: dict[type[Operation], Rule] = {
    scf.ForOp: _loop,
    scf.IfOp: _branches,
}
