"""Operands of an instruction, bound to the registers of threads: readers, writers, masks, conversions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.alu.conversion import convert, immediate_lanes
from codegen.simulator.alu.execution import Execution, UnknownInstruction, flag_bits, rounding_mode
from codegen.simulator.alu.regions import Array, Lanes, gather_index, indirect_index, lane_axes, strided_view
from codegen.simulator.instruction import (
    DataType,
    ImmediateOperand,
    IndirectOperand,
    Instruction,
    Region,
    Register,
    RegisterOperand,
)
from codegen.simulator.threads import LANES, Threads

Reader = Callable[[], Array]
Step = Callable[[], None]
Mask = NDArray[np.bool_] | None
_FLAG_BITS = 16  # of a half of a flag register, which conditions and predicates name

CONDITIONS: dict[str, Callable[[Array, Any], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "un": lambda a, b: np.isnan(a) | np.isnan(b),
}
"""Conditions on two values; ``un`` is unordered."""


@dataclass
class Binding:
    """An instruction bound to the registers of threads.

    Attributes:
        axes: the axes that its lanes are split into; arrays of its operands are (T, *axes), or broadcast to it.
        lane_mask: bool (T, *axes) of the lanes that run, None for all.
        write_mask: the same with the predicate.
    """

    instruction: Instruction
    threads: Threads
    execution: Execution
    axes: tuple[int, ...] = field(init=False)
    lane_mask: Callable[[], Mask] = field(init=False)
    write_mask: Callable[[], Mask] = field(init=False)

    def __post_init__(self) -> None:
        instruction = self.instruction
        operands = [each for each in (instruction.destination, *instruction.sources)
                    if isinstance(each, RegisterOperand) and not each.register.is_null and each.register.file != "f"]
        self.axes = lane_axes(tuple(self.lanes(each) for each in operands), instruction.execution_size)
        self.lane_mask = self._lane_mask()
        self.write_mask = self._write_mask()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the instruction's values: (T, *axes)."""
        return (len(self.threads), *self.axes)

    def unknown(self, what: str = "") -> UnknownInstruction:
        """Error for a form that is not modelled."""
        return UnknownInstruction(f"{self.instruction.name} {what}".strip())

    def file(self, register: Register) -> Array:
        """Register file of a register: bytes (registers, T, bytes of a register)."""
        threads = self.threads
        files = {"r": threads.grf, "acc": threads.acc, "a": threads.address, "cr": threads.control, "sr": threads.state}
        if register.file not in files:
            raise self.unknown(f"with register {register.file}{register.number}")
        return files[register.file]

    def lanes(self, operand: RegisterOperand) -> Lanes:
        """Positions of an operand's lanes in its register file."""
        register, size = operand.register, operand.type.bytes
        width = self.file(register).shape[2]
        start = register.number * width + register.subregister * size
        return Lanes.of(start, operand.region, self.instruction.execution_size, size, width)

    # Sources

    def source(self, position: int, compute: np.dtype[Any] | None = None) -> Reader:
        """Reader of a source with its modifiers, as values of ``compute``, or of its own type without one."""
        operand = self.instruction.sources[position]
        if isinstance(operand, ImmediateOperand):
            return self._immediate(operand, compute)
        if not isinstance(operand, RegisterOperand | IndirectOperand):
            raise self.unknown("with a label for a source")
        return self._modified(self.raw(operand), operand.type, operand.modifiers, compute)

    def _modified(self, read: Reader, kind: DataType, modifiers: tuple[str, ...],
                  compute: np.dtype[Any] | None) -> Reader:
        wanted = (np.dtype(np.float32) if kind.storage.kind == "V" or kind.bytes < 4 else kind.storage) \
            if kind.is_float and compute is None else kind.storage if compute is None else compute
        if compute is None and modifiers and not kind.is_float:
            wanted = np.dtype(np.int64)
        negated, absolute = "-" in modifiers, "abs" in modifiers
        if not modifiers:
            return read if wanted == kind.storage else lambda: read().astype(wanted)

        # Integers are negated before they are converted: 0 is 0.0 in float, and not -0.0.
        exact = wanted if kind.is_float or wanted.kind != "f" else np.dtype(np.int64)

        def modified() -> Array:
            value = read().astype(exact)
            if absolute:
                value = np.abs(value)
            return (np.negative(value) if negated else value).astype(wanted, copy=False)

        return modified

    def _immediate(self, operand: ImmediateOperand, compute: np.dtype[Any] | None) -> Reader:
        value = immediate_lanes(operand, self.instruction.execution_size)
        if compute is None and operand.type.is_float and operand.type.bytes < 4:
            compute = np.dtype(np.float32)
        value = (value if compute is None else value.astype(compute)).reshape(1, *self.axes)
        if (value == value.flat[0]).all():  # one value: arithmetic with it needs no strides
            value = value.reshape(-1)[:1].reshape((1,) * value.ndim)
        return lambda: value

    def raw(self, operand: RegisterOperand | IndirectOperand) -> Reader:
        """Reader of an operand as it stands in the registers: (T, *axes) of its storage type."""
        if isinstance(operand, IndirectOperand):
            return self._indirect(operand)
        if operand.register.is_null:
            zero = np.zeros((1,) * (1 + len(self.axes)), operand.type.storage)
            return lambda: zero
        if operand.register.file == "f":
            return self._flag_reader(operand)
        file, lanes = self.file(operand.register), self.lanes(operand)
        view = self._view(operand)
        if view is not None:
            return lambda: view
        index, flat, shape = gather_index(file, lanes), file.reshape(-1).view(operand.type.storage), self.shape
        return lambda: flat[index].reshape(shape)

    def _view(self, operand: RegisterOperand) -> Array | None:
        try:
            return strided_view(self.file(operand.register), self.lanes(operand), self.axes, operand.type.storage)
        except IndexError as error:
            raise self.unknown(f"outside its registers: {error}") from None

    def _flag_reader(self, operand: RegisterOperand) -> Reader:
        bits = flag_bits(self.threads, operand.register, operand.type.bytes)
        storage, shape = operand.type.storage, (len(self.threads),) + (1,) * len(self.axes)
        return lambda: np.packbits(bits, axis=1, bitorder="little").view(storage).reshape(shape)

    def _indirect_addresses(self, operand: IndirectOperand, own: bool) -> Callable[[], NDArray[np.int64]]:
        """Byte addresses of an operand's lanes in the register file: (T, lanes); ``own`` ones for each row of lanes."""
        count, region, size = self.instruction.execution_size, operand.region, operand.type.bytes
        words = self.threads.address[0].view(np.uint16)
        lane = np.arange(count)
        if own:
            word, step = operand.address.subregister + lane // region.width, lane % region.width * region.horizontal
        else:
            word = np.full(count, operand.address.subregister)
            row = region.width * region.horizontal if region.vertical is None else region.vertical
            step = lane // region.width * row + lane % region.width * region.horizontal
        offset = operand.offset + step * size
        return lambda: words[:, word].astype(np.int64) + offset

    def _indirect(self, operand: IndirectOperand) -> Reader:
        addresses = self._indirect_addresses(operand, operand.region.vertical is None)
        file, shape = self.threads.grf, self.shape
        flat, size, execution = file.reshape(-1).view(operand.type.storage), operand.type.bytes, self.execution

        def gathered() -> Array:
            address = addresses()
            address[~execution.rows] = 0  # a0 of a thread that does not run may be anything
            mask = self.lane_mask()
            if mask is not None and mask.shape == shape:
                address[~mask.reshape(address.shape)] = 0
            return flat[indirect_index(file, address, size)].reshape(shape)

        return gathered

    # Masks

    def _lane_mask(self) -> Callable[[], Mask]:
        execution, count = self.execution, len(self.threads)
        if self.instruction.no_mask:
            rows = (count,) + (1,) * len(self.axes)
            return lambda: None if execution.all_rows else execution.rows.reshape(rows)
        first, shape = self.instruction.first_lane, self.shape
        last = first + self.instruction.execution_size
        if last > execution.width:  # some of its lanes never run
            return lambda: execution.lanes[:, first:last].reshape(shape)
        return lambda: None if execution.full else execution.lanes[:, first:last].reshape(shape)

    def _write_mask(self) -> Callable[[], Mask]:
        if self.instruction.predicate is None or self.instruction.op == "sel":
            return self.lane_mask
        predicate, lane_mask = self.predicate(), self.lane_mask

        def masked() -> Mask:
            lanes = lane_mask()
            return predicate() if lanes is None else predicate() & lanes

        return masked

    def condition_bits(self, group: int = 1) -> NDArray[np.bool_]:
        """View of the flag bits of the instruction's lanes, in whole groups of lanes: (T, lanes)."""
        flag = self.instruction.flag
        assert flag is not None
        first = self.instruction.first_lane // group * group + _FLAG_BITS * flag.subregister
        count = max(self.instruction.execution_size, group)
        if first + count > LANES:
            raise self.unknown(f"with flag bits beyond f{flag.number}")
        return self.threads.flag[flag.number, :, first:first + count]

    def predicate(self) -> Callable[[], NDArray[np.bool_]]:
        """Reader of the predicate: bool (T, *axes)."""
        found, shape = self.instruction.predicate, self.shape
        assert found is not None
        if not found.function:
            bits = self.condition_bits()
            return lambda: (~bits if found.inverted else bits).reshape(shape)
        kind, digits = found.function[:3], found.function[3:].rstrip("hv")
        if kind not in ("any", "all"):
            raise self.unknown(f"with predicate {found.function}")
        lanes = self.instruction.execution_size
        group = int(digits) if digits else lanes
        combine, bits = np.any if kind == "any" else np.all, self.condition_bits(group)

        def combined() -> NDArray[np.bool_]:
            groups = combine(bits.reshape(len(bits), -1, group), axis=2, keepdims=True)
            groups = ~groups if found.inverted else groups  # the combination is inverted, not the bits
            of_lanes = (len(bits), groups.shape[1], min(group, lanes))  # a group may have more lanes than run
            return np.broadcast_to(groups, of_lanes).reshape(shape)

        return combined

    # Destination

    def writer(self) -> Callable[[Array, Mask], None]:
        """Writer of values of the destination's type, or integers that wrap to it."""
        operand = self.instruction.destination
        if operand is None:
            raise self.unknown("without a destination")
        if isinstance(operand, IndirectOperand):
            return self._indirect_writer(operand)
        if operand.register.is_null:
            return lambda value, mask: None
        if operand.register.file == "f":
            return self._flag_writer(operand)
        view = self.destination_view()
        if view is None:
            return self._scatter_writer(operand)
        if operand.register.file == "cr":
            return self._control_writer(view)
        if operand.register.file == "acc" and not operand.type.is_float:
            return self._accumulator_writer(view)
        return view_writer(view)

    def destination_view(self) -> Array | None:
        """View of the destination's lanes; None if they are not strided."""
        operand = self.instruction.destination
        return self._view(operand) if isinstance(operand, RegisterOperand) else None

    def wide_view(self) -> Array:
        """View of the 64-bit accumulators of the destination's lanes."""
        operand = self.instruction.destination
        assert isinstance(operand, RegisterOperand)
        channel = operand.register.subregister if operand.type.bytes == 4 else 0
        region = Region(operand.region.horizontal, 1, 0)
        return wide_lanes(self.threads, operand.register.number, channel, region, self)

    def _accumulator_writer(self, view: Array) -> Callable[[Array, Mask], None]:
        low = view_writer(view)
        wide = view_writer(self.wide_view())

        def write(value: Array, mask: Mask) -> None:
            wide(value, mask)
            low(value, mask)

        return write

    def _control_writer(self, view: Array) -> Callable[[Array, Mask], None]:
        write_view, execution, control = view_writer(view), self.execution, self.threads.control

        def write(value: Array, mask: Mask) -> None:
            write_view(value, mask)
            execution.rounding = rounding_mode(control, execution.rows)

        return write

    def _flag_writer(self, operand: RegisterOperand) -> Callable[[Array, Mask], None]:
        bits = flag_bits(self.threads, operand.register, operand.type.bytes)
        storage = operand.type.storage

        def write(value: Array, mask: Mask) -> None:
            words = np.ascontiguousarray(np.broadcast_to(value.astype(storage), self.shape)).reshape(len(bits), -1)
            new = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").view(np.bool_)
            np.copyto(bits, new, where=True if mask is None else mask.reshape(len(mask), -1)[:, :1])

        if prod(self.axes) != 1:
            raise self.unknown("with more than one lane into a flag register")
        return write

    def _scatter_writer(self, operand: RegisterOperand) -> Callable[[Array, Mask], None]:
        file = self.file(operand.register)
        index, flat = gather_index(file, self.lanes(operand)), file.reshape(-1).view(operand.type.storage)
        return self._put(flat, lambda: index)

    def _indirect_writer(self, operand: IndirectOperand) -> Callable[[Array, Mask], None]:
        addresses, file = self._indirect_addresses(operand, False), self.threads.grf
        flat, size, execution = file.reshape(-1).view(operand.type.storage), operand.type.bytes, self.execution

        def index() -> NDArray[np.int64]:
            address = addresses()
            address[~execution.rows] = 0
            return indirect_index(file, address, size)

        return self._put(flat, index)

    def _put(self, flat: Array, index: Callable[[], NDArray[np.int64]]) -> Callable[[Array, Mask], None]:
        def write(value: Array, mask: Mask) -> None:
            where = index()
            new = np.broadcast_to(value, self.shape).reshape(where.shape)
            if mask is None:
                flat[where] = new
            else:
                chosen = np.broadcast_to(mask, self.shape).reshape(where.shape)
                flat[where[chosen]] = new[chosen]

        return write

    def converter(self) -> Callable[[Array], Array]:
        """Conversion of a result to the destination's type, with saturation."""
        destination = self.instruction.destination
        if destination is None:
            raise self.unknown("without a destination")
        return lambda value: convert(value, destination.type, self.instruction.saturate, self.execution.rounding)

    def finish(self) -> Callable[[Array], None]:
        """Conversion, saturation, write under the mask, and flags, of an instruction's result."""
        converted, write, mask = self.converter(), self.writer(), self.write_mask
        if not self.instruction.condition:
            return lambda value: write(converted(value), mask())
        set_flags = self.flag_writer()
        compare = CONDITIONS.get(self.instruction.condition)
        if compare is None:
            raise self.unknown(f"with condition {self.instruction.condition}")

        def finished(value: Array) -> None:
            result, lanes = converted(value), mask()
            zero = np.zeros((), result.dtype)
            set_flags(compare(result, zero), lanes)
            write(result, lanes)

        return finished

    def flag_writer(self) -> Callable[[Array, Mask], None]:
        """Writer of a condition's bits (T, *axes) into the flag register."""
        bits = self.condition_bits().reshape(self.shape)  # a view: one axis splits into several
        assert np.may_share_memory(bits, self.threads.flag)
        return view_writer(bits)


def view_writer(view: Array) -> Callable[[Array, Mask], None]:
    """Writer of a view; integers wrap."""
    def write(value: Array, mask: Mask) -> None:
        if mask is None:
            view[...] = value
        else:
            np.copyto(view, value, where=mask, casting="unsafe")

    return write


def wide_lanes(threads: Threads, register: int, channel: int, region: Region, binding: Binding) -> Array:
    """View of the 64-bit accumulators: lane i is channel ``channel + i`` from ``register`` on."""
    width = threads.wide.shape[2] * 8
    file = threads.wide.view(np.uint8)
    lanes = Lanes.of(register * width + channel * 8, region, binding.instruction.execution_size, 8, width)
    view = strided_view(file, lanes, binding.axes, np.dtype(np.int64))
    if view is None:
        raise binding.unknown("with this region of the accumulator")
    return view
