"""``scf.for``, ``scf.while`` and ``scf.if`` in OpenCL C: iter_args are variables that the end of the body assigns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue, Use

from codegen.opencl import sync
from codegen.opencl.block_io import payload_groups, row_pointers, row_prefetch
from codegen.opencl.block_io.slm import double_buffer
from codegen.opencl.emitter import NO_UNROLL, Emitter, Rule, atom
from codegen.opencl.prelude.macros import ROLLED
from codegen.opencl.values import Coordinate, Descriptor, Fragment, Scattered, names
from codegen.opencl.vector.dequantize import hoist_invariant_rows
from xegpu.analysis.gemm_loops import keeps_operands
from xegpu.dialect.block_io import CreateNdTdescOp, SetNdOffsetsOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import LoadMadOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import DISABLE_ROTATE, DISABLE_UNROLL, MAIN_LOOP, SKIP_IF_ROLLED, main_loop_of, number
from xegpu.ir.region_branch import TERMINATORS, forwarded
from xegpu.ir.use_def import root_definitions

_LIMIT = 1 << 31
"""One past the largest counter."""


def _loop(emitter: Emitter, loop: scf.ForOp) -> None:
    start, stop, step = (atom(emitter.values[value]) for value in (loop.lb, loop.ub, loop.step))
    is_main, is_remainder, (index, *arguments) = MAIN_LOOP in loop.attributes, _is_remainder(loop), loop.body.block.args
    carried_values: list[_CarriedValue] = []
    variables: list[str] = []
    hoist_invariant_rows(emitter, loop)
    for argument, initial in zip(arguments[:len(arguments) - is_main], loop.iter_args, strict=False):
        value, changing = (_carried_in_place if is_remainder else _declared)(emitter, argument, initial)
        carried_values.append(value)
        variables += changing
    counter = emitter.values[index] = start if is_remainder else emitter.name(index.name_hint or "k")
    first = "" if is_remainder else f"int {counter} = {start}"
    if is_main:  # the last value that it carries is its counter, with which the remainder goes on
        emitter.line(f"{first};")
        emitter.values[arguments[-1]] = emitter.values[loop.results[-1]] = counter
        first = ""
    pointer_steps = [step for each in (row_pointers, row_prefetch, double_buffer, payload_groups)
                     for step in each.declare(emitter, loop)]
    may_be_left_out = SKIP_IF_ROLLED in loop.attributes
    emitter.lines += [f"#ifndef {ROLLED}"] * may_be_left_out
    # LLVM does not rotate a loop whose condition has a convergent call.
    bound = "sub_group_broadcast({}, 0)" if DISABLE_ROTATE in loop.attributes else "{}"
    header = f"{counter} < {bound.format(stop)}; {counter} += {step}"
    if not _never_overflows(loop) and number(_loop_start(loop)) == 0 and number(loop.step) and _moves_blocks(index):
        end = bound.format(f"max({stop}, 0)")
        header = f"(uint){counter} < (uint){end}; {counter} += {step}u"
    elif not _never_overflows(loop):
        trips = emitter.name("trips")
        emitter.line(f"uint {trips} = {_trips(counter if is_remainder else start, stop, step, loop)};")
        header = f"{bound.format(trips)} > 0; --{trips}, {counter} += {step}"
    if not emitter.target.is_cpu and keeps_operands(loop):
        sync.schedule_barrier(emitter)  # Intel's compiler would load them in each step
    if DISABLE_UNROLL in loop.attributes:
        emitter.line(NO_UNROLL)
    emitter.line(f"for ({first}; {', '.join([header, *pointer_steps])}) {{")
    emitter.depth += 1
    yielded = _body(emitter, loop, carried_values)
    _parallel_copy(emitter, variables, [part for value in yielded for part in value.parts])
    emitter.depth -= 1
    emitter.line("}")
    double_buffer.close(emitter, loop)
    emitter.lines += ["#endif"] * may_be_left_out
    for result, value in zip(loop.results, carried_values, strict=False):
        value.become(emitter, result)


# A counter whose bound is within a step of 2^31 overflows behind the last iteration, which C does not define: such
# loops would be endless. In a main loop (``xegpu.main_loop``), or with a bound known to be lower, it cannot; elsewhere
# it wraps around, and is compared unsigned, or iterations are counted. The first takes no instruction more, the second
# one; but compilers know less about a counter that may wrap around, which costs many where addresses depend on it.


def _never_overflows(loop: scf.ForOp) -> bool:
    """Whether the counter stays within 32 bits behind the last iteration."""
    step, stop = number(loop.step), number(loop.ub)
    return step is not None and (MAIN_LOOP in loop.attributes or step == 1 or
                                 (stop is not None and stop <= _LIMIT - step))


def _trips(start: str, stop: str, step: str, loop: scf.ForOp) -> str:
    """Number of iterations, in C; none if the step, known at run time alone, is not positive."""
    runs = f"{start} < {stop}" if number(loop.step) is not None else f"{start} < {stop} && {step} > 0"
    return f"{runs} ? ((uint){stop} - (uint){start} - 1u) / (uint){step} + 1u : 0"


def _moves_blocks(counter: SSAValue) -> bool:
    """Whether a counter is nothing but an offset of 2D block messages, which wraps around in 32 bits."""
    for use in counter.uses:
        operation = use.operation
        if isinstance(operation, (CreateNdTdescOp, UpdateNdOffsetOp, SetNdOffsetsOp)):
            block = desc_of(operation.results[0]).block
            if block.access != "block" or block.memory_scope != "global":
                return False
        elif not isinstance(operation, arith.AddiOp) or not _moves_blocks(operation.result):
            return False
    return True


def _loop_start(loop: scf.ForOp) -> SSAValue:
    """Start of a loop; that of its main loop for a remainder loop."""
    main = main_loop_of(loop)
    return loop.lb if main is None else main.lb


def _is_remainder(loop: scf.ForOp) -> bool:
    """Whether a loop is the remainder of a main loop and the only user of its results, the counter included."""
    main = main_loop_of(loop)
    return main is not None \
        and [*loop.iter_args, loop.lb] == list(main.results) and all(value.has_one_use() for value in main.results)


def _carried_in_place(emitter: Emitter, argument: SSAValue, initial: SSAValue) -> tuple[_CarriedValue, list[str]]:
    """Loop-carried value in the variables of its initial value, and their names."""
    value = _CarriedValue(emitter.values[initial], emitter.split.get(initial), len(root_definitions(argument)) > 1)
    value.become(emitter, argument)
    return value, [str(part) for part in value.parts]


def _declared(emitter: Emitter, argument: SSAValue, initial: SSAValue) -> tuple[_CarriedValue, list[str]]:
    """Loop-carried value in new variables, declared with its initial value, and their names."""
    moves = len(root_definitions(argument)) > 1
    if _sums(argument) or (emitter.target.is_cpu and isinstance(emitter.values[initial], Fragment)
                           and emitter.fragment(initial).width > 1):
        words = _carried_words(emitter, argument, initial)
        return _CarriedValue(emitter.values[argument], words, moves), list(words)
    emitter.values[argument], changing = carried(emitter, argument, emitter.values[initial], moves)
    return _CarriedValue(emitter.values[argument], None, moves), changing


@dataclass(frozen=True)
class _CarriedValue:
    """Loop-carried value before or after an iteration.

    Attributes:
        value: its expression in the text.
        words: its words one by one, where it is summed up so.
        moves: whether it is a descriptor that may go to another array.
    """

    value: Any
    words: tuple[str, ...] | None
    moves: bool

    @property
    def parts(self) -> list[_Part]:
        """Expressions of the value's variables."""
        if self.words is None:
            return _variables_of(self.value, self.moves)
        return [_Part("", (word,)) for word in self.words]

    def become(self, emitter: Emitter, value: SSAValue) -> None:
        """Replace by ``value`` from here on."""
        emitter.values[value] = self.value
        if self.words is not None:
            emitter.split[value] = self.words


def _body(emitter: Emitter, loop: scf.ForOp, carried_values: list[_CarriedValue]) -> list[_CarriedValue]:
    """Emit one iteration, and return the yielded values."""
    for operation in loop.body.block.ops:
        if not isinstance(operation, scf.YieldOp):
            emitter.emit(operation)
            continue
        return [_CarriedValue(emitter.values[new], None if old.words is None else emitter.words(new), old.moves)
                for new, old in zip(operation.operands, carried_values, strict=False)]
    return []


def _while(emitter: Emitter, loop: scf.WhileOp) -> None:
    """Emit ``scf.while``: an endless loop, which a ``break`` leaves behind the first region."""
    before, after = loop.before_region.block, loop.after_region.block
    variables: list[str] = []
    moving: list[bool] = []
    for argument, initial in zip(before.args, loop.arguments, strict=True):
        moving.append(len(root_definitions(argument)) > 1)
        emitter.values[argument], changing = carried(emitter, argument, emitter.values[initial], moving[-1])
        variables += changing
    tested, forwarded_values = _region_statements(emitter, before), forwarded(before)
    indent = "  " * (emitter.depth + 1)
    for result, inner, value in zip(loop.res, after.args, forwarded_values, strict=True):
        emitter.values[inner] = emitter.values[result] = emitter.values[value]
        if value not in before.args:  # it is in variables of the loop's body, which end with it
            moves = len(root_definitions(result)) > 1
            emitter.values[result], names = carried(emitter, result, _blank(emitter.values[value], moves), moves)
            tested += [f"{indent}{name} = {part};"
                       for name, part in zip(names, _variables_of(emitter.values[value], moves), strict=True)]
    assert isinstance(before.last_op, scf.ConditionOp)
    condition = emitter.values[before.last_op.condition]
    emitter.line("for (;;) {")
    emitter.lines += [*tested, f"{indent}if (!({condition})) break;", *_region_statements(emitter, after)]
    emitter.depth += 1
    _parallel_copy(emitter, variables, [part for value, moves in zip(forwarded(after), moving, strict=True)
                                        for part in _variables_of(emitter.values[value], moves)])
    emitter.depth -= 1
    emitter.line("}")


def _sums(argument: SSAValue) -> bool:
    """Whether an iter_arg is an accumulator in scalar variables (:mod:`codegen.opencl.cpu_gemm.simt`)."""
    return any(_sums_up(use) for use in argument.uses)


def _sums_up(use: Use) -> bool:
    if isinstance(use.operation, LoadMadOp):
        return use.index > 1
    if isinstance(use.operation, scf.ForOp) and use.index > 2:  # behind its bounds: a loop in this one carries it on
        return _sums(use.operation.body.block.args[use.index - 2])
    return False


def _carried_words(emitter: Emitter, argument: SSAValue, initial: SSAValue) -> tuple[str, ...]:
    words, fragment = emitter.words(initial), emitter.fragment(initial)
    variables = emitter.names(argument.name_hint, lambda stem: tuple(f"{stem}_{i}" for i in range(len(words))))
    emitter.line(f"{fragment.word} {', '.join(f'{v} = {w}' for v, w in zip(variables, words, strict=True))};")
    emitter.set_words(argument, fragment.renamed(variables))
    return variables


def carried(emitter: Emitter, argument: SSAValue, initial: Any, moves: bool) -> tuple[Any, list[str]]:
    """Declare the mutable variables of a loop or branch with initial values; returns their value and names.

    A descriptor is made anew in the body, maybe on another array, if it ``moves``; else only its offsets change.
    """
    if isinstance(initial, Fragment):
        fragment = initial.renamed(emitter.names(argument.name_hint, lambda stem: names(stem, len(initial.names))))
        for name, value in zip(fragment.names, initial.names, strict=True):
            emitter.line(f"{fragment.c_type} {name} = {value};")
        return fragment, list(fragment.names)
    stem = emitter.name(argument.name_hint)
    if isinstance(initial, Descriptor):
        row, column = emitter.name(f"{stem}_row"), emitter.name(f"{stem}_column")
        emitter.line(f"int {row} = {initial.row}, {column} = {initial.column};")
        moved = replace(initial, row=Coordinate((row,)), column=Coordinate((column,)))
        if not moves:
            return moved, [row, column]
        fields = [emitter.name(f"{stem}_{part}") for part in ("base", "height", "width", "pitch", "step")]
        for name, (c_type, value) in zip(fields, initial.matrix_fields, strict=True):
            emitter.line(f"{c_type} {name} = {value};")
        return moved.with_matrix_fields(fields), [row, column, *fields]
    if isinstance(initial, Scattered):
        return _carried_elements(emitter, stem, initial, moves)
    emitter.line(f"{of_mlir(argument.type).opencl} {stem} = {initial};")
    return stem, [stem]


def _carried_elements(emitter: Emitter, stem: str, initial: Scattered, moves: bool) -> tuple[Scattered, list[str]]:
    """Mutable scattered descriptor: the lane's offset and, if it ``moves``, the base."""
    emitter.line(f"{initial.offset_type} {stem} = {initial.offset};")
    moved = replace(initial, offset=stem)
    if not moves:
        return moved, [stem]
    base = emitter.name(f"{stem}_base")
    emitter.line(f"global {initial.element} *{base} = {initial.base};")
    return replace(moved, base=base), [stem, base]


@dataclass(frozen=True)
class _Part:
    """Expression of one variable of a carried value.

    Attributes:
        c_type: the variable's C type, empty where it is that of the variable which is assigned.
        terms: expressions that it is the sum of.
        offset: a constant that is added to them.
    """

    c_type: str
    terms: tuple[str, ...]
    offset: int = 0

    def __str__(self) -> str:
        return str(Coordinate(self.terms, self.offset))

    def may_read(self, variables: Collection[str]) -> bool:
        """Whether the expression may read one of some variables.

        A term is a name, a component of one (``sums.s3``), or a number; what any other expression reads is not known.
        """
        names = [term.partition(".")[0] for term in self.terms]
        return bool(variables) and any(name in variables or not (name.isidentifier() or name.isdecimal())
                                       for name in names)


def _variables_of(value: Any, moves: bool) -> list[_Part]:
    """Expressions of the variables of a carried value."""
    if isinstance(value, Fragment):
        return [_Part(value.c_type, (name,)) for name in value.names]
    if isinstance(value, Scattered):
        base = [_Part(f"global {value.element} *", (value.base,))] if moves else []
        return [_Part(value.offset_type, (value.offset,)), *base]
    if not isinstance(value, Descriptor):
        return [_Part("", (value,))]
    return [*(_Part("int", along.terms, along.offset) for along in (value.row, value.column)),
            *(_Part(c_type, (part,)) for c_type, part in value.matrix_fields if moves)]


def _parallel_copy(emitter: Emitter, variables: list[str], new: list[_Part]) -> None:
    """Parallel copy of the next values to the carried variables: through temporaries where one may read another."""
    changes = [(variable, part) for variable, part in zip(variables, new, strict=True) if variable != str(part)]
    changed = {variable for variable, _ in changes}
    if not any(part.may_read(changed - {variable}) for variable, part in changes):
        for variable, part in changes:
            emitter.line(f"{variable} = {part};")
        return
    temporaries = [emitter.name(f"{variable}_next") for variable, _ in changes]
    for name, (variable, part) in zip(temporaries, changes, strict=True):
        # const stands behind the type: in front of one it would be the elements that a pointer may not change.
        emitter.line(f"{part.c_type or f'__typeof__({variable})'} const {name} = {part};")
    for name, (variable, _) in zip(temporaries, changes, strict=True):
        emitter.line(f"{variable} = {name};")


# ``scf.if`` in OpenCL C: its results are variables, declared before it and assigned in its branches.
#
# A value that the second branch leaves as it was is the variable's first value, so that most conditions need no
# ``else``.


def _branches(emitter: Emitter, operation: scf.IfOp) -> None:
    blocks = [region.block for region in operation.regions if region.blocks]
    texts = [_region_statements(emitter, block) for block in blocks]
    ends = [list(block.last_op.operands) if block.last_op is not None else [] for block in blocks]
    for results in zip(operation.results, *ends, strict=True):
        _branch_result(emitter, results[0], results[1:], blocks[-1], texts)
    condition = emitter.values[operation.cond]
    emitter.line(f"if ({condition}) {{")
    emitter.lines += texts[0]
    if len(texts) > 1 and texts[1]:
        emitter.line("} else {")
        emitter.lines += texts[1]
    emitter.line("}")


def _region_statements(emitter: Emitter, block: Block) -> list[str]:
    """Statements of a region of a branch or ``scf.while``."""
    before, emitter.lines = emitter.lines, []
    emitter.depth += 1
    for operation in block.ops:
        if not isinstance(operation, TERMINATORS):
            emitter.emit(operation)
    emitter.depth -= 1
    lines, emitter.lines = emitter.lines, before
    return lines


def _branch_result(emitter: Emitter, result: SSAValue, yielded: tuple[SSAValue, ...], last: Block,
            texts: list[list[str]]) -> None:
    """Declare the variables of a result, which both branches assign."""
    moves, values = len(root_definitions(result)) > 1, [emitter.values[value] for value in yielded]
    stays = not _is_inside(yielded[-1], last)
    emitter.values[result], names = carried(emitter, result, values[-1] if stays else _blank(values[-1], moves), moves)
    indent = "  " * (emitter.depth + 1)
    for value, text in zip(values[:-1] if stays else values, texts, strict=False):
        assigned, last_parts = _variables_of(value, moves), _variables_of(values[-1], moves)
        assert [part.c_type for part in assigned] == [part.c_type for part in last_parts], \
            "both branches keep a value in variables alike"
        text += [f"{indent}{name} = {part};" for name, part in zip(names, assigned, strict=True)]


def _is_inside(value: SSAValue, block: Block) -> bool:
    """Whether a value is defined in a block or in a region nested in it."""
    above = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while above is not None and above is not block:
        above = above.parent_block()
    return above is block


def _blank(value: Any, moves: bool) -> Any:
    """Zero value of the same variables, their initial value until a branch assigns them."""
    if isinstance(value, Fragment):
        return value.renamed((f"({value.c_type})(0)",) * len(value.names))
    if isinstance(value, Scattered):
        return replace(value, offset="0", base="0" if moves else value.base)
    if isinstance(value, Descriptor):
        return replace(value.with_matrix_fields(("0",) * 5) if moves else value, row=Coordinate(), column=Coordinate())
    return "0"


RULES: dict[type[Operation], Rule] = {
    scf.ForOp: _loop,
    scf.WhileOp: _while,
    scf.IfOp: _branches,
}
