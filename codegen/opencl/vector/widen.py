"""``xegpu.widen`` in OpenCL C: operands of DPAS in 8 bits to the same in 16-bit floats, a few instructions a register.

Intel's compiler vectorizes to 16 lanes, and moves bytes to words of their own before it computes with them: ten
instructions a register of 32 elements. These are written in virtual assembly (vISA), whose instructions have 32 lanes
and read bytes where they lie. It needs registers of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Operation

from codegen.opencl.arith.conversion import converted, float8_function
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import SIGNED, vector_type
from xegpu.dialect.convert_layout import WidenOp
from xegpu.ir.dtypes import DType, bf16, e4m3, e5m2, f16, f32, i8, of_mlir, u8

_TO_F16: dict[DType, tuple[str, ...]] = {
    # E5M2 is the upper half of f16.
    e5m2: ("shl {w} {b} 0x8:w",),
    # The sign twice, then exponent and mantissa: f16 with an exponent that is 8 too small. One in the mantissa's last
    # place flips the second copy of the sign for NaN alone, whose other bits are all set; with that bit set its
    # exponent is that of f16's NaN. So for pairs of words at once: what the first one carries into the second ends in
    # its lowest bit. x6a is the truth table of a ^ (b & c), 0x5c00 is 256.
    e4m3: ("shl {w} {b} 0x7:w", "add {tt} {ww} 0x800080:ud", "bfn.x6a {ww} {ww} {tt} {mm}", "mul {h} {h} 0x5c00:hf"),
    # The mantissa's last place is one from 1024 to 2048: 1152 + v as bits, less 1152; 1024 + v, less 1024.
    i8: ("add {w} {b} 0x6480:w", "add {h} {h} 0xe480:hf"),
    u8: ("add {w} {b} 0x6400:w", "add {h} {h} 0xe400:hf"),
}
"""vISA that converts a register: its words as integers and as f16 (``w``, ``h``), its bytes (``b``); or two registers:
pairs of their words, of those that are free, and of :data:`_MASKS` (``ww``, ``tt``, ``mm``)."""
_MASKS = {e4m3: "0x40004000u"}
"""Masks of pairs of words; an instruction of three operands has none of 32 bits itself."""

_TO_F32: dict[DType, tuple[str, ...]] = {
    # The mantissa's last place is one from 2**23 to 2**24: 1.5 * 2**23 + v as bits, less 1.5 * 2**23.
    i8: ("add {d} {b} 0x4b400000:d", "add {f} {f} 0xcb400000:f"),
    u8: ("add {d} {b} 0x4b400000:d", "add {f} {f} 0xcb400000:f"),
    # Sign, exponent and mantissa: f32 with an exponent that is 120 too small; 0x7b800000 is 2**120.
    e4m3: ("shl {d} {b} 0x14:w", "and {d} {d} 0x87f00000:d", "mul {f} {f} 0x7b800000:f"),
}
"""vISA that converts what becomes a register of bf16, which is the upper half of f32: its words of 32 bits as integers
and as f32 (``d``, ``f``), its bytes (``b``)."""
_NAN_AS_F32: dict[DType, str] = {e4m3: "0x43f00000:f"}
"""The magnitude that a NaN has after :data:`_TO_F32` (480, above the largest number by one), of types that have NaN."""


@dataclass(frozen=True)
class _Widening:
    """Conversion of a slice that is some registers of the source's.

    Attributes:
        source, result: element types.
        side: ``"a"`` or ``"b"``.
        rows: of the slice, 16 columns wide.
        first: its first row, from that of the variable on.
        half: which 16 of 32 columns; 0 for operand B.
        width: words a lane of the source's variable.
    """

    source: DType
    result: DType
    side: str
    rows: int
    first: int
    half: int
    width: int

    @property
    def name(self) -> str:
        """Name of its function."""
        return f"widen_{self.side}_{self.source}_to_{self.result}_{self.rows}_rows_at_{self.first}_{self.half}" \
               f"_of_{self.width}"

    @property
    def lanes(self) -> int:
        """Lanes of an instruction: two rows, or the only one."""
        return min(2 * self.rows, 4) * 8

    @property
    def registers(self) -> int:
        """Registers of the result."""
        return max(self.rows // 2, 1)

    @property
    def source_type(self) -> str:
        """C type of the source's variable."""
        return vector_type("ushort" if self.side == "a" else "uint", self.width)

    @property
    def result_type(self) -> str:
        """C type of the result's variable, words."""
        return vector_type("ushort", self.rows) if self.side == "a" else vector_type("uint", self.rows // 2)

    def bytes_at(self, register: int) -> str:
        """vISA region of the bytes of a register of the result."""
        if self.side == "a":  # rows of 32 bytes, of which 16 are these
            at = (self.first + 2 * register) * 32 + 16 * self.half
            region = "<32;16,1>" if self.rows > 1 else "<1;1,0>"
        else:  # words of four rows, of which two are these
            at, region = (self.first // 4 + register // 2) * 64 + register % 2 * 2, "<4;2,1>"
        return f"B({at // 64},{at % 64}){region}"

    def lines(self) -> Iterator[str]:
        """The vISA."""
        size, byte = self.registers * 32, "b" if self.source in (i8, e4m3) else "ub"
        yield f".decl B v_type=G type={byte} num_elts={self.width * (32 if self.side == 'a' else 64)} align=GRF " \
              "alias=<%1, 0>"
        yield f".decl U v_type=G type=uw num_elts={size} align=GRF alias=<%0, 0>"
        if self.result is bf16 and self.source in _TO_F32:
            yield from self._through_f32(_TO_F32[self.source])
            return
        yield f".decl W v_type=G type=w num_elts={size} align=GRF alias=<%0, 0>"
        yield f".decl H v_type=G type=hf num_elts={size} align=GRF alias=<%0, 0>"
        if self.source in _MASKS:
            yield f".decl WW v_type=G type=ud num_elts={size // 2} align=GRF alias=<%0, 0>"
            yield f".decl TT v_type=G type=ud num_elts={size // 2} align=GRF"
            yield ".decl MM v_type=G type=ud num_elts=1 align=dword alias=<%2, 0>"
        for line in _TO_F16[self.source]:
            step = 2 if "{ww}" in line else 1
            yield from (self._instruction(line, register, self.bytes_at(register),
                                          self.lanes if step == 1 else min(8 * self.rows - 16 * register, 32))
                        for register in range(0, self.registers, step))
        if self.result is bf16:
            moves = [[f"mov (M1_NM, 16) F({2 * register + part},0)<1> H({register},{16 * part})<1;1,0>"
                      for part in range(self.lanes // 16)] for register in range(self.registers)]
            yield from self._upper_halves(moves)

    def _instruction(self, line: str, register: int, region: str, lanes: int) -> str:
        """A line of the tables above, for a register of words, or two of 32-bit lanes, and the bytes of a region."""
        opcode, *operands = line.split()
        at = {"b": region, "mm": "MM(0,0)<0;1,0>"}
        texts = []
        for position, operand in enumerate(operands):
            region = "<1>" if position == 0 else "<1;1,0>"
            regions = {name.lower(): f"{name}({register},0){region}" for name in ("W", "H", "WW", "TT")}
            regions |= {name.lower(): f"{name}({2 * register},0){region}" for name in ("D", "F")}
            texts.append(operand.format(**regions, **at))
        return f"{opcode} (M1_NM, {lanes}) {' '.join(texts)}"

    def _through_f32(self, lines: tuple[str, ...]) -> Iterator[str]:
        """From bytes to bf16 by instructions of 32-bit lanes."""
        if self.source in _NAN_AS_F32:
            yield from self._upper_halves([[self._instruction(line, register, self.bytes_at(register), self.lanes)
                                            for line in lines] for register in range(self.registers)])
            return
        # Of an exact result in f32 the lower half is zero: the second of a pair is in its place, and the upper half of
        # the first is or-ed to it. Few temporary registers, in turn: one variable for all rows would live as long as
        # the statement.
        yield ".decl D v_type=G type=d num_elts=128 align=GRF"
        for name, kind, size in (("F", "f", 128), ("DU", "ud", 128), ("FU", "uw", 256)):
            yield f".decl {name} v_type=G type={kind} num_elts={size} align=GRF alias=<D, 0>"
        yield f".decl R v_type=G type=ud num_elts={self.registers * 16} align=GRF alias=<%0, 0>"
        step = min(4, self.rows)  # rows of an instruction
        for row in range(0, self.rows, step):
            first, second = row // 2 % 4, row // 2 % 4 + 1
            for register, element in ((first, 0), (second, 1)):
                region = self._every_other_byte(row, element)
                yield from (self._instruction(line, register, region, 8 * step) for line in lines)
            yield f"or (M1_NM, {8 * step}) R({row // 2},0)<1> DU({2 * second},0)<1;1,0> FU({2 * first},1)<2;1,0>"

    def _every_other_byte(self, row: int, element: int) -> str:
        """vISA region of the first or second elements of pairs, of four rows from one of the slice's on."""
        if self.side == "a":
            at, region = (self.first + row) * 32 + 16 * self.half, "<32;8,2>" if self.rows > 1 else "<2;1,0>"
        else:  # words of four rows, which are two of pairs
            at, region = (self.first + row) // 4 * 64, "<2;16,4>"
        return f"B({(at + element) // 64},{(at + element) % 64}){region}"

    def _upper_halves(self, conversions: list[list[str]]) -> Iterator[str]:
        """The upper halves of f32, which are the exact result; conversions to f32 for each register."""
        size = self.registers * 32
        yield f".decl F v_type=G type=f num_elts={size} align=GRF"
        yield f".decl FU v_type=G type=uw num_elts={2 * size} align=GRF alias=<F, 0>"
        yield f".decl D v_type=G type=d num_elts={size} align=GRF alias=<F, 0>"
        if is_nan := _NAN_AS_F32.get(self.source):
            yield f".decl P v_type=P num_elts={self.lanes}"
        for register, conversion in enumerate(conversions):
            yield from conversion
            upper = f"U({register},0)<1> FU({2 * register},1)<2;1,0>"
            if is_nan:
                yield f"cmp.eq (M1_NM, {self.lanes}) P (abs)F({2 * register},0)<1;1,0> {is_nan}"
                yield f"(!P) sel (M1_NM, {self.lanes}) {upper} 0x7fff:uw"
            else:
                yield f"mov (M1_NM, {self.lanes}) {upper}"

    def portable(self, emitter: Emitter) -> Iterator[str]:
        """Widening in OpenCL C, for compilers without vISA."""
        if self.side == "a":
            yield f"  const uint from = get_sub_group_local_id() / 2 + {8 * self.half}, shift = " \
                  "get_sub_group_local_id() % 2 * 8;"
            words = [f"v.s{self.first + row:x}" if self.width > 1 else "v" for row in range(self.rows)]
            shuffled = [f"(uchar)(intel_sub_group_shuffle((uint){word}, from) >> shift)" for word in words]
            yield f"  return {self._bits(emitter, shuffled)};"
            return
        halves = []
        for element in range(2):
            taken = [f"(uchar)(v.s{self.first // 4 + word // 2:x} >> {16 * (word % 2) + 8 * element})"
                     for word in range(self.rows // 2)]
            halves.append(f"convert_{self.result_type}({self._bits(emitter, taken)})")
        yield f"  return {halves[0]} | {halves[1]} << ({self.result_type})(16);"

    def _bits(self, emitter: Emitter, values: list[str]) -> str:
        """The bits of converted bytes."""
        width = len(values)
        words, value = vector_type("ushort", width), values[0]
        value = value if width == 1 else f"({vector_type('uchar', width)})({', '.join(values)})"
        if self.source.kind == "s":
            value = f"{float8_function(emitter, self.source, width)}({value})"
            return f"as_{words}({value})" if self.result is f16 else converted(value, f16, bf16, width)
        if self.source is i8:
            value = f"as_{vector_type(SIGNED[8], width)}({value})"
        return f"as_{words}({converted(value, self.source, f16, width)})" if self.result is f16 else \
            converted(converted(value, self.source, f32, width), f32, bf16, width)

    def function(self, emitter: Emitter) -> str:
        """Define the function, and return its name."""
        portable = "\n".join(self.portable(emitter))
        lines = "".join(f'    "{line}\\n"\n' for line in ("{", *self.lines(), "}"))
        masks = f', "rw.u"({_MASKS[self.source]})' if self.result is f16 and self.source in _MASKS else ""
        assembly = f'  __asm__(\n{lines}    : "=rw"(words) : "rw"(v){masks});\n'
        emitter.function(f"static {self.result_type} {self.name}({self.source_type} v)\n{{\n"
                         f"#ifdef {NO_VISA}\n{portable}\n#else\n  {self.result_type} words;\n{assembly}"
                         "  return words;\n#endif\n}\n")
        return self.name


def _widen(emitter: Emitter, operation: WidenOp) -> None:
    source, result = emitter.fragment(operation.source), emitter.fresh(operation.result)
    target = of_mlir(operation.result.type.element_type)  # type: ignore[attr-defined]
    row, column = operation.start()
    lanes = operation.target_map.data
    rows, across = result.units * lanes.wi_data[0], operation.block_shape()[1] // operation.source_map.data.unit[1]
    if lanes.wi_data[0] == 1:
        unit = row * across + column // 32
        start, first = unit - unit % source.width, unit % source.width
        if first + rows > source.width:  # several variables
            source, start, first = source.slice(unit, rows), 0, 0
        widening = _Widening(source.dtype, target, "a", rows, first, column // 16 % 2, source.width)
    else:
        start, first = row // 4 - row // 4 % source.width, row // 4 % source.width
        widening = _Widening(source.dtype, target, "b", rows, first * 4, 0, source.width)
    called = f"{widening.function(emitter)}({source.names[start // source.width]})"
    c_type = result.c_type
    emitter.assign(operation.result, result, [called if c_type == widening.result_type else f"as_{c_type}({called})"])


RULES: dict[type[Operation], Rule] = {WidenOp: _widen}
