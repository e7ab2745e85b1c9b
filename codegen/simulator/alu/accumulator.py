"""Multiplication in parts through 64-bit accumulators, and carries: mach, macl, addc, subb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.simulator.alu.operands import Binding, Mask, Step, view_writer, wide_lanes
from codegen.simulator.alu.regions import Array
from codegen.simulator.instruction import ImmediateOperand, IndirectOperand, Region, RegisterOperand

_WRITES_ACCUMULATOR = "AccWrEn"
_LOW = 0xFFFFFFFF


def _implicit(binding: Binding) -> tuple[Array, Callable[[Array, Mask], None]]:
    """The accumulator's 64-bit channels of an instruction's lanes, and a writer of all its bits."""
    wide = wide_lanes(binding.threads, 0, 0, Region(1, 1, 0), binding)
    file = binding.threads.acc
    count = binding.instruction.execution_size
    put_wide = view_writer(wide)

    def write(value: Array, mask: Mask) -> None:
        put_wide(value, mask)
        # 32-bit channels follow each other across accumulator registers
        low = (wide.reshape(len(binding.threads), count) & _LOW).astype(np.uint32)
        channels = file.shape[2] // 4
        for register in range(-(-count // channels)):
            part = low[:, register * channels:(register + 1) * channels]
            file[register].view(np.uint32)[:, :part.shape[1]] = part

    return wide, write


def _second_upper(binding: Binding) -> Callable[[], Array]:
    """Source 1 without its lower 16 bits, by its own sign: int64."""
    read = binding.source(1, np.dtype(np.int64))
    return lambda: read() >> 16


def _sum_of_products(binding: Binding) -> Callable[[], Array]:
    """Accumulator plus source 0 times the upper half of source 1."""
    wide, _ = _implicit(binding)
    first, upper = binding.source(0, np.dtype(np.int64)), _second_upper(binding)
    return lambda: wide + ((first() * upper()) << 16)


def _macl(binding: Binding) -> Step:
    """``macl``: the low 32 bits of the product."""
    total = _sum_of_products(binding)
    write, mask = binding.writer(), binding.write_mask
    if binding.instruction.condition or binding.instruction.saturate:
        raise binding.unknown("with a condition or saturated")
    return lambda: write((total() & _LOW).astype(np.uint32), mask())


def _mach(binding: Binding) -> Step:
    """``mach``: bits 63:32 of the product; the accumulator keeps the low ones where it is enabled.

    Instruction sets with 32-byte registers give the low bits where the accumulator is not enabled.
    """
    if binding.instruction.condition or binding.instruction.saturate:
        raise binding.unknown("with a condition or saturated")
    keeps = _WRITES_ACCUMULATOR in binding.instruction.options
    if not keeps and binding.threads.register_bytes == 32:
        return _macl(binding)
    total, (_, write_accumulator) = _sum_of_products(binding), _implicit(binding)
    write, mask = binding.writer(), binding.write_mask

    def step() -> None:
        value, lanes = total(), mask()
        write((value >> 32 & _LOW).astype(np.uint32), lanes)
        if keeps:
            write_accumulator(value & _LOW, lanes)

    return step


def _carry(combine: Callable[[Any, Any], Any], carries: Callable[[Any, Any, Any], Any]) -> Callable[[Binding], Step]:
    """Builder of ``addc`` and ``subb``: the result, and its carry or borrow in the accumulator."""
    def build(binding: Binding) -> Step:
        types = [each.type for each in binding.instruction.sources
                 if isinstance(each, RegisterOperand | IndirectOperand | ImmediateOperand)]
        if any(each.bytes > 4 for each in types):
            raise binding.unknown("of quadwords")
        first, second = (binding.source(each, np.dtype(np.uint32)) for each in range(2))
        _, write_accumulator = _implicit(binding)
        finish, mask = binding.finish(), binding.write_mask

        def step() -> None:
            a, b = first(), second()
            result = combine(a, b)
            write_accumulator(carries(a, b, result).astype(np.int64), mask())
            finish(result)

        return step

    return build


BUILDERS: dict[str, Callable[[Binding], Step]] = {
    "macl": _macl, "mach": _mach,
    "addc": _carry(lambda a, b: a + b, lambda a, b, total: total < a),
    "subb": _carry(lambda a, b: a - b, lambda a, b, total: a < b),
}
"""Builders by mnemonic."""
