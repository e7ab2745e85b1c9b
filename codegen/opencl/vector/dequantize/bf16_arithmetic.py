"""Dequantization in bf16 arithmetic, for vector units that add and multiply bf16 as they do f16.

They have no instructions of f32 with an operand or a result of bf16: Intel's compiler makes two or three of each.
Weights become integers in the halves of pairs, these become bf16, and pairs are computed with 32 at a time. What is
rounded is what f32 rounded first would give: its 24 bits are more than twice the 8 of bf16 and two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.opencl.vector.dequantize.functions import Dequantization
from codegen.opencl.vector.weight_pairs import NIBBLES, byte_row
from xegpu.dialect.convert_layout import MASK
from xegpu.ir.dtypes import i8

_TOP = 16 - MASK.bit_length()
"""Lowest bit of a weight at the top of a half, from where an arithmetic shift extends its sign."""


@dataclass(frozen=True)
class Bf16Dequantization(Dequantization):
    """Dequantization to bf16, computed in bf16. Zero points, scales and powers of two are pairs of two equal halves."""

    @property
    def name(self) -> str:
        """Name of its function."""
        return f"{super().name}_in_bf16"

    @property
    def in_pairs(self) -> bool:
        """Whether rows of zero points and scales are pairs."""
        return True

    def inputs(self) -> Iterator[tuple[str, str, int, str]]:
        """Names, types and elements of the vISA's operands, and OpenCL C that gives them."""
        for source in self.sources():
            byte = "b" if self.whole is i8 else "ub"
            yield source.upper(), byte if self.bytes else "f" if self.floats else "ud", self.source_width * 16, source
        if self.zero is None:
            yield "Z", "bf", 32, "zero"
        if self.floats:
            yield "K", "bf", 32, "power"
        yield "S", "bf", 32, "scale"

    def _bf16(self) -> Iterator[str]:
        """To integers in halves of pairs (``U``, ``I``) and to bf16 in their place (``B``), or from floats at once."""
        for name, kind in ("B", "bf"), ("U", "uw"), ("I", "w"):
            yield f".decl {name} v_type=G type={kind} num_elts={self.width * 32} align=GRF alias=<%0, 0>"
        if not self.bytes and not self.floats:  # the bytes of words
            for name in self.sources().upper():
                yield f".decl {name}U v_type=G type=ub num_elts={self.source_width * 64} align=GRF alias=<{name}, 0>"
                yield f".decl {name}I v_type=G type=b num_elts={self.source_width * 64} align=GRF alias=<{name}, 0>"
        for row in range(2 * self.width):
            if self.floats:  # 4 bits times a power of two: exact
                register = row % self.width * self.blocks + self.block
                yield f"mov (M1_NM, 16) B({row // 2},{row % 2})<2> {'AC'[row // self.width]}({register},0)<1;1,0>"
            else:
                yield self._whole(row) if self.whole else self._field(row)
        steps = [*self._numbers(), *self._arithmetic()]
        yield from (step.format(pair=pair) for step in steps for pair in range(self.width))

    def _source(self, row: int) -> tuple[str, int, int]:
        """Variable and register of the words of a row of the result, and lowest bit of its weights."""
        if self.words:
            return "W", row // self.fields, NIBBLES[row % self.fields]
        return "AC"[row // self.width], row % self.width, self.shift

    def _whole(self, row: int) -> str:
        """The integers of a row of bytes, less a constant zero point."""
        name, register, _ = self._source(row)
        opcode, less = ("add", f" {-self.zero & 0xffff:#x}:w") if self.zero else ("mov", "")
        return f"{opcode} (M1_NM, 16) I({row // 2},{row % 2})<2> {byte_row(name, register)}<1;1,0>{less}"

    def _field(self, row: int) -> str:
        """The weights of a row, at the top of their halves if their sign is extended later."""
        name, register, shift = self._source(row)
        is_high, kind = shift % 8, "U"
        if not self.signed:
            opcode, bits = ("shr", is_high) if is_high else ("and", MASK)
        elif self._is_extended(row // 2):
            opcode, bits = "shl", _TOP - is_high
        else:
            opcode, bits, kind = "asr", is_high, "I"
        source = f"{byte_row(name, register)}<1;1,0>" if self.bytes else \
            f"{name}{kind}({register},{shift // 8})<4;1,0>"
        return f"{opcode} (M1_NM, 16) {kind}({row // 2},{row % 2})<2> {source} {bits:#x}:uw"

    def _is_extended(self, pair: int) -> bool:
        """Whether the signs of a pair are extended; else they are those of bytes whose upper bits the weights are."""
        is_high = all(self._source(row)[2] % 8 for row in (2 * pair, 2 * pair + 1))
        return self.signed and (not is_high or self.flip != 0 or self.bytes)

    def _numbers(self) -> Iterator[str]:
        """Instructions for each pair from fields to integers, then to bf16: all exact."""
        if self.floats:
            return
        if self.whole is None:
            if self.flip:
                yield f"xor (M1_NM, 32) U({{pair}},0)<1> U({{pair}},0)<1;1,0> " \
                    f"{self.flip << (_TOP if self.signed else 0):#x}:uw"
            if self.signed and self._is_extended(0):
                yield f"asr (M1_NM, 32) I({{pair}},0)<1> I({{pair}},0)<1;1,0> {_TOP:#x}:uw"
            if self.zero:
                yield f"add (M1_NM, 32) I({{pair}},0)<1> I({{pair}},0)<1;1,0> {-self.zero & 0xffff:#x}:w"
        yield "mov (M1_NM, 32) B({pair},0)<1> I({pair},0)<1;1,0>"

    def _arithmetic(self) -> Iterator[str]:
        """Instructions for each pair: less the zero point, which is rounded, then times the scale."""
        if self.floats:
            yield "mad (M1_NM, 32) B({pair},0)<1> B({pair},0)<1;1,0> K(0,0)<1;1,0> (-)Z(0,0)<1;1,0>"
        elif self.zero is None:
            yield "add (M1_NM, 32) B({pair},0)<1> B({pair},0)<1;1,0> (-)Z(0,0)<1;1,0>"
        yield "mul (M1_NM, 32) B({pair},0)<1> B({pair},0)<1;1,0> S(0,0)<1;1,0>"
