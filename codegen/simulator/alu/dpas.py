"""Matrix products (dpas): one batched product for all threads.

``dpas.SxR``: D[R][n] = C[R][n] + A[R][K] @ B[K][n] with n lanes and K = S * 32 / bits. C and D are packed rows;
register s of B has, for each lane, 32 bits of neighbours in K; A has packed rows of 4 * S bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codegen.simulator.alu.conversion import convert
from codegen.simulator.alu.operands import Binding, Step
from codegen.simulator.alu.regions import Array
from codegen.simulator.instruction import DATA_TYPES, DataType, Instruction, RegisterOperand

_TYPES = ("bf", "hf", "tf32", "b", "ub", "s4", "u4", "bf8")
"""Types of matrix operands."""
_TF32_MASK = np.uint32(0xFFFFE000)  # the mantissa's 10 bits; the others are not read
_WIDE = {"d": np.float64, "ud": np.float64}  # products of bytes and their sums are exact in it


def build_dpas(binding: Binding) -> Step:
    """Builder of ``dpas``.

    A product of a register with itself, with a null C, at the head of a chain is the compiler's workaround for a fault
    of hardware with 32-byte registers, and leaves its destination alone: what follows adds to that.
    """
    instruction = binding.instruction
    destination, c, b, a = (instruction.destination, *instruction.sources)
    registers = [each for each in (destination, c, b, a) if isinstance(each, RegisterOperand)]
    if len(registers) < 4:
        raise binding.unknown("with an indirect operand")
    if is_workaround(instruction):
        return lambda: None
    return _product(binding, *registers)


def build_dpasw(binding: Binding) -> Step:
    """Refusal of ``dpasw``, which ocloc makes of no kernel of the package.

    Raises:
        UnknownInstruction: always.
    """
    raise binding.unknown("the threads of a pair that runs in lock step share its operands, and pairs are not modelled")


def is_workaround(instruction: Instruction) -> bool:
    """Whether a product computes nothing: it is of a register with itself, without an addend, at a chain's head."""
    c, b, a = (getattr(each, "register", None) for each in instruction.sources)
    return c is not None and c.is_null and a == b and "Atomic" in instruction.options


def _product(binding: Binding, destination: RegisterOperand, c: RegisterOperand, b: RegisterOperand,
             a: RegisterOperand) -> Step:
    instruction, lanes = binding.instruction, binding.instruction.execution_size
    steps, repeats = (int(each) for each in instruction.subop.split("x"))
    if instruction.predicate or instruction.saturate or instruction.condition or c.modifiers or a.modifiers:
        raise binding.unknown("with a predicate, a condition or modifiers")
    if {a.type.name, b.type.name} - {*_TYPES} or a.type.bits != b.type.bits:
        raise binding.unknown(f"of {a.type.name} and {b.type.name}")
    compute = _WIDE.get(destination.type.name, np.float32)
    depth = 32 // b.type.bits  # neighbours in K in 32 bits
    rows = packed_words(binding, a, repeats * steps)
    columns = packed_words(binding, b, steps * lanes)
    start = None if c.register.is_null else packed(binding, c, repeats * lanes)
    result = packed(binding, destination, repeats * lanes)
    count, execution = len(binding.threads), binding.execution

    def step() -> None:
        left = elements(rows(), a.type, compute).reshape(count, repeats, steps * depth)
        words = elements(columns(), b.type, compute).reshape(count, steps, lanes, depth)
        right = np.ascontiguousarray(words.transpose(0, 1, 3, 2)).reshape(count, steps * depth, lanes)
        product = (left @ right).reshape(count, repeats * lanes)
        if start is not None:
            product += start.read(compute)
        result.write(convert(_wrapped(product, destination.type), destination.type, False, execution.rounding),
                     None if execution.full or (instruction.no_mask and execution.all_rows) else _active(binding))

    return step


def _active(binding: Binding) -> Array:
    """Lanes that are written: (T, lanes)."""
    mask = binding.lane_mask()
    shape = (len(binding.threads), binding.instruction.execution_size)
    return np.broadcast_to(mask, binding.shape).reshape(shape) if mask is not None else np.ones(shape, np.bool_)


def _wrapped(product: Array, kind: DataType) -> Array:
    """Sums of a signed or unsigned accumulator modulo 2 to the 32nd."""
    if kind.is_float:
        return product
    return product.astype(np.int64)


class Packed:
    """Operand of whole rows, which follow each other in the registers of all threads."""

    def __init__(self, binding: Binding, operand: RegisterOperand, count: int) -> None:
        file = binding.file(operand.register)
        width, size = file.shape[2], operand.type.bytes
        start = operand.register.number * width + operand.register.subregister * operand.type.bits // 8
        self.kind, self.lanes = operand.type, binding.instruction.execution_size
        self._start, self._bytes = start % width, count * size
        last = -(-(start % width + self._bytes) // width)
        first = start // width
        if first + last > file.shape[0]:
            raise binding.unknown("outside its registers")
        self._registers = file[first:first + last].transpose(1, 0, 2)  # (T, registers, width)

    def bytes(self) -> Array:
        """Bytes of the operand: (T, bytes)."""
        flat = self._registers.reshape(self._registers.shape[0], -1)
        return flat[:, self._start:self._start + self._bytes]

    def read(self, compute: type[np.floating]) -> Array:
        """Values of the operand: (T, elements)."""
        return np.ascontiguousarray(self.bytes()).view(self.kind.storage).astype(compute)

    def write(self, value: Array, mask: Array | None) -> None:
        """Write values (T, elements), in the lanes (T, lanes) of each row that a mask names."""
        if mask is not None:
            old = np.ascontiguousarray(self.bytes()).view(self.kind.storage)
            chosen = np.tile(mask, (1, value.shape[1] // mask.shape[1]))
            value = np.where(chosen, value, old)
        raw = np.ascontiguousarray(value).view(np.uint8)
        if self._start == 0 and raw.shape[1] == self._registers.shape[1] * self._registers.shape[2]:
            self._registers[...] = raw.reshape(self._registers.shape)
            return
        flat = self._registers.reshape(self._registers.shape[0], -1).copy()
        flat[:, self._start:self._start + self._bytes] = raw
        self._registers[...] = flat.reshape(self._registers.shape)


def packed(binding: Binding, operand: RegisterOperand, count: int) -> Packed:
    """Operand of ``count`` elements that follow each other."""
    return Packed(binding, operand, count)


def packed_words(binding: Binding, operand: RegisterOperand, words: int) -> Callable[[], Array]:
    """Reader of ``words`` 32-bit words that follow each other, as bytes (T, 4 * words)."""
    return Packed(binding, operand, words * 4 // operand.type.bytes).bytes


def elements(raw: Array, kind: DataType, compute: type[np.floating]) -> Array:
    """Elements of matrix operands in bytes (T, n), as floats."""
    raw = np.ascontiguousarray(raw)
    if kind.name == "bf":  # the upper half of a float32
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(compute, copy=False)
    if kind.name == "tf32":
        return (raw.view(np.uint32) & _TF32_MASK).view(np.float32).astype(compute, copy=False)
    if kind.bits == 4:
        pairs = np.stack([raw & 15, raw >> 4], axis=2).reshape(raw.shape[0], -1)  # the low half comes first
        return (pairs.view(np.int8) - 2 * (pairs & 8 if kind.kind == "i" else 0)).astype(compute)
    return raw.view(DATA_TYPES[kind.name].storage).astype(compute)
