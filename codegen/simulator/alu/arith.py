"""Arithmetic, logic, moves and selections: one builder for each mnemonic, which gives the function that executes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from codegen.simulator.alu import rounding
from codegen.simulator.alu.accumulator import BUILDERS as ACCUMULATOR
from codegen.simulator.alu.bits import INTEGER_FUNCTIONS, bfn
from codegen.simulator.alu.dpas import build_dpas, build_dpasw
from codegen.simulator.alu.operands import CONDITIONS, Binding, Step
from codegen.simulator.alu.regions import Array
from codegen.simulator.alu.transcendental import build_math
from codegen.simulator.instruction import DataType, ImmediateOperand, IndirectOperand, RegisterOperand

Builder = Callable[[Binding], Step]
_LOGIC = ("and", "or", "xor", "not")


def integer_type(binding: Binding, signed: bool | None = None) -> np.dtype[Any]:
    """Type in which integers are computed: as wide as the widest operand, signed as the destination."""
    types = operand_types(binding)
    size = max(each.bytes for each in types)
    if binding.instruction.saturate:
        if size == 8:
            raise binding.unknown("saturated in 64 bits")
        return np.dtype(np.int64)
    chosen = types[0].kind == "i" if signed is None else signed
    return np.dtype(f"{'i' if chosen else 'u'}{size}")


def operand_types(binding: Binding) -> list[DataType]:
    """Types of the destination and of the sources; packed immediates are words."""
    instruction = binding.instruction
    operands = (instruction.destination, *instruction.sources)
    return [each.type for each in operands
            if isinstance(each, RegisterOperand | IndirectOperand | ImmediateOperand) and each.type.kind != "p"]


def is_float(binding: Binding) -> bool:
    """Whether an instruction computes with floats: any of its operands is one."""
    return any(each.is_float for each in operand_types(binding))


def float_type(binding: Binding) -> np.dtype[Any]:
    """Type in which floats are computed: float64 if an operand has it, else float32."""
    return np.dtype(np.float64 if any(each.name == "df" for each in operand_types(binding)) else np.float32)


def _elementwise(floats: Mapping[str, Callable[..., Array]], integers: Mapping[str, Callable[..., Array]]) -> Builder:
    """Builder of an operation on each lane; functions of floats take the rounding mode after the values."""
    def build(binding: Binding) -> Step:
        op = binding.instruction.op
        if is_float(binding):
            if op not in floats:
                raise binding.unknown("of floats")
            return _float_step(binding, floats[op])
        if op not in integers:
            raise binding.unknown("of integers")
        return _integer_step(binding, op, integers[op])

    return build


def _float_step(binding: Binding, function: Callable[..., Array]) -> Step:
    compute = float_type(binding)
    sources = [binding.source(each, compute) for each in range(len(binding.instruction.sources))]
    finish, execution = binding.finish(), binding.execution
    slow = _unchanged(lambda: finish(function(*(read() for read in sources), execution.rounding)))
    ufunc = {rounding.add: np.add, rounding.multiply: np.multiply}.get(function)
    destination = binding.instruction.destination
    if ufunc is None or destination is None or destination.type.storage != compute or _finishes(binding):
        return slow
    view = binding.destination_view()
    return slow if view is None else _direct(binding, ufunc, sources, view, slow)


def _integer_step(binding: Binding, op: str, function: Callable[..., Array]) -> Step:
    sources = binding.instruction.sources
    signed = {"shr": False}.get(op)
    if op in ("asr", "fbh", "dp4a"):  # the source's sign matters
        kinds = {each.kind for each in operand_types(binding)[1:]}
        signed = operand_types(binding)[1].kind == "i"
        if op == "dp4a" and len(kinds) > 1:
            raise binding.unknown("of a signed and an unsigned source")
    compute = integer_type(binding, signed)
    if op == "shr":  # a shorter source is extended without its sign
        read = [_unsigned(binding, compute), binding.source(1, compute)]
    else:
        read = [binding.source(each, compute) for each in range(len(sources))]
        if op in _LOGIC:
            read = [_logical(binding, each, compute) for each in range(len(sources))]
    finish = binding.finish()
    destination = binding.instruction.destination
    slow = _unchanged(lambda: finish(function(*(each() for each in read))))
    if not isinstance(function, np.ufunc) or destination is None or _finishes(binding):
        return slow
    view = binding.destination_view()
    if view is None or destination.type.storage.itemsize != compute.itemsize:
        return slow
    return _direct(binding, function, read, view.view(compute), None)


def _finishes(binding: Binding) -> bool:
    """Whether a result needs more than being written into general registers."""
    destination = binding.instruction.destination
    return bool(binding.instruction.saturate or binding.instruction.condition
                or not isinstance(destination, RegisterOperand) or destination.register.file not in ("r", "acc")
                or (destination.register.file == "acc" and not destination.type.is_float))


def _direct(binding: Binding, function: Callable[..., Array], sources: list[Callable[[], Array]], view: Array,
            rounded: Step | None) -> Step:
    """Step that computes into the destination; ``rounded`` runs instead in rounding modes other than to even."""
    mask, execution = binding.write_mask, binding.execution

    def step() -> None:
        if rounded is not None and execution.rounding:
            rounded()
            return
        lanes = mask()
        if lanes is None:
            function(*(read() for read in sources), out=view)
        else:
            function(*(read() for read in sources), out=view, where=lanes)

    return step


def _unchanged(run: Step) -> Step:
    return run


def _unsigned(binding: Binding, compute: np.dtype[Any]) -> Callable[[], Array]:
    """Source 0 as an unsigned integer of its own size."""
    operand = binding.instruction.sources[0]
    if isinstance(operand, RegisterOperand | IndirectOperand) and not operand.modifiers:
        read, own = binding.raw(operand), np.dtype(f"u{operand.type.bytes}")
        return lambda: read().view(own).astype(compute)
    return binding.source(0, compute)


def _logical(binding: Binding, position: int, compute: np.dtype[Any]) -> Callable[[], Array]:
    """Source of a logic instruction, where ``-`` stands for not."""
    operand = binding.instruction.sources[position]
    if isinstance(operand, RegisterOperand | IndirectOperand) and operand.modifiers:
        if operand.modifiers != ("-",):
            raise binding.unknown("with a source's absolute value")
        read = binding.raw(operand)
        return lambda: np.invert(read().astype(compute))
    return binding.source(position, compute)


def _mov(binding: Binding) -> Step:
    instruction = binding.instruction
    source, finish = instruction.sources[0], binding.finish()
    destination = instruction.destination
    same = destination is not None and getattr(source, "type", None) == destination.type
    modified = bool(getattr(source, "modifiers", ()))
    if isinstance(source, ImmediateOperand):  # -641:w may be written as the half float with its bits, a signaling NaN
        read = binding.source(0, source.type.storage if same else None)
    elif not modified and isinstance(source, RegisterOperand | IndirectOperand) and (same or source.type.is_float):
        read = binding.raw(source)  # bits as they are, also those of NaN, which only a conversion makes quiet
    elif is_float(binding) and modified:
        read = binding.source(0, float_type(binding))
    else:
        read = binding.source(0)
    return lambda: finish(read())


def _select(binding: Binding) -> Step:
    """``sel``: by predicate or condition; ``lt`` and ``ge`` are OpenCL's fmin and fmax, in which NaN loses."""
    instruction = binding.instruction
    compute = float_type(binding) if is_float(binding) else integer_type(binding)
    if instruction.condition and not is_float(binding):
        compute = np.dtype(np.int64)
        if all(each.name == "uq" for each in operand_types(binding)[1:]):
            compute = np.dtype(np.uint64)
    first, second = binding.source(0, compute), binding.source(1, compute)
    converted, write, mask = binding.converter(), binding.writer(), binding.lane_mask
    if instruction.predicate is not None:
        predicate = binding.predicate()
        return lambda: write(converted(np.where(predicate(), first(), second())), mask())
    if instruction.condition not in CONDITIONS:
        raise binding.unknown(f"with condition {instruction.condition}")
    choose = _MINIMA_MAXIMA.get(instruction.condition) or _comparing(CONDITIONS[instruction.condition])
    return lambda: write(converted(choose(first(), second())), mask())


_MINIMA_MAXIMA = {"lt": np.fmin, "ge": np.fmax}


def _comparing(compare: Callable[[Array, Any], Array]) -> Callable[[Array, Array], Array]:
    """Source 0 where it compares with source 1, else source 1: ``x > y ? x : y`` is a NaN if y is one."""
    def choose(first: Array, second: Array) -> Array:
        return np.where(compare(first, second), first, second)

    return choose


def _conditional_select(binding: Binding) -> Step:
    """``csel``: source 0 where source 2 compares with zero, else source 1.

    The compiler puts some without a condition, which copy a register onto itself, between messages and the end.
    """
    if not binding.instruction.condition:
        registers = {getattr(each, "register", None)
                     for each in (binding.instruction.destination, *binding.instruction.sources)}
        if len(registers) > 1:
            raise binding.unknown("without a condition")
        return lambda: None
    compute = float_type(binding) if is_float(binding) else integer_type(binding)
    first, second, third = (binding.source(each, compute) for each in range(3))
    compare, zero = CONDITIONS[binding.instruction.condition], np.zeros((), compute)
    converted, write, mask = binding.converter(), binding.writer(), binding.write_mask
    return lambda: write(converted(np.where(compare(third(), zero), first(), second())), mask())


def _compare(binding: Binding) -> Step:
    """``cmp``: flags, and all ones or zero in the destination."""
    first, second = binding.source(0), binding.source(1)
    if is_float(binding):
        first, second = (binding.source(each, float_type(binding)) for each in range(2))
    compare, set_flags, mask = CONDITIONS[binding.instruction.condition], binding.flag_writer(), binding.write_mask
    destination = binding.instruction.destination
    write = None
    if isinstance(destination, RegisterOperand) and not destination.register.is_null:
        view = binding.destination_view()
        if view is None:
            raise binding.unknown("with this destination")
        ones = view.view(np.dtype(f"i{destination.type.bytes}"))

        def store(value: Array, lanes: Any) -> None:
            np.copyto(ones, np.negative(value.astype(ones.dtype)), where=True if lanes is None else lanes)

        write = store

    def step() -> None:
        lanes = mask()
        value = compare(first(), second())
        if write is not None:
            write(value, lanes)
        set_flags(value, lanes)

    return step


_FLOATS: dict[str, Callable[..., Array]] = {
    "add": rounding.add, "mul": rounding.multiply, "mad": lambda c, a, b, mode: rounding.fused(a, b, c, mode),
    "madm": lambda c, a, b, mode: rounding.fused(a, b, c, mode),
    "rndz": lambda a, mode: np.trunc(a), "rndd": lambda a, mode: np.floor(a), "rndu": lambda a, mode: np.ceil(a),
    "rnde": lambda a, mode: np.rint(a), "frc": lambda a, mode: a - np.floor(a),
}
_INTEGERS: dict[str, Callable[..., Array]] = {
    "add": np.add, "mul": np.multiply, "mad": lambda c, a, b: a * b + c, "add3": lambda a, b, c: a + b + c,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    **INTEGER_FUNCTIONS,
}
_lane_by_lane = _elementwise(_FLOATS, _INTEGERS)


def _bfn(binding: Binding) -> Step:
    compute = integer_type(binding)
    sources = [_logical(binding, each, compute) for each in range(3)]
    function, finish = bfn(int(binding.instruction.subop, 16)), binding.finish()
    return lambda: finish(function(*(read() for read in sources)))


def _multiply(binding: Binding) -> Step:
    """``mul``: 64-bit products where an integer accumulator takes them."""
    destination = binding.instruction.destination
    if isinstance(destination, RegisterOperand) and destination.register.file == "acc" and not is_float(binding):
        first, second = (binding.source(each, np.dtype(np.int64)) for each in range(2))
        write, mask = binding.writer(), binding.write_mask
        return lambda: write(first() * second(), mask())
    return _lane_by_lane(binding)


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys({*_FLOATS, *_INTEGERS}, _lane_by_lane),
    "mul": _multiply, "mov": _mov, "sel": _select, "csel": _conditional_select, "cmp": _compare, "bfn": _bfn,
    "math": build_math, "dpas": build_dpas, "dpasw": build_dpasw, **ACCUMULATOR,
}
"""Builders of the functions that execute an instruction, by mnemonic."""
