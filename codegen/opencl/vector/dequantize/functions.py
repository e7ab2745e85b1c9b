"""Functions from weights of 4 or 8 bits, in words or pairs of 16 bits, to operand B of DPAS, in vISA and OpenCL C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from codegen.opencl.arith.conversion import converted
from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import computed, rounded, vector_type
from codegen.opencl.vector.weight_pairs import BIAS, NIBBLES, SIGN, TEMPORARY_ROWS, TWICE, byte_row, registers_at_once
from xegpu.dialect.convert_layout import MASK, SIGN_BIT
from xegpu.ir.dtypes import DType, bf16, f16, i8, u8, u32

_BIASES: dict[int, int] = {0: int(np.uint16(BIAS).view(np.float16)), 4: 64}
"""Bias in f16, by the lowest bit of a weight in 16 bits: with the bits of the bias around it, a weight is too large by
the bias. The mantissa's last place is one from 1024 to 2048, and its fifth-last from 64 to 128."""

LAST_IN_MANTISSA, MANTISSA_SHIFT = 16, 12
"""The last bit at which a weight begins that lies in the mantissa of f32; the shift of words for a later one."""

_BYTE_BIAS = 1.5 * 2.0**23
"""Bias of bytes that become f32: with it the mantissa's last place is one, whatever their sign."""

BYTES = (i8, u8)
"""Words of two weights."""

_ROUNDED_ROWS = 2
"""Rows of differences in registers at a time, beside floats that wait for the next operand: of more pvc spills two."""


@dataclass(frozen=True)
class Dequantization:
    """Dequantization of pairs of 16 bits, or of words of 32 bits.

    Attributes:
        result: element type.
        shift: lowest bit of the weights, in pairs of 16 bits for f16, in words for bf16.
        width: registers.
        exact: whether differences of weights and zero points are exact, so that a bias may be part of the zero points.
        zero: the zero point if there is only one, which is exact then.
        words: number of those of which all weights are taken, one word after the other; 0 where it is a weight of each.
            For f16 their pairs come in the order of :func:`codegen.opencl.vector.weight_pairs.paired_fields_function`.
        fields: weights of one of those words.
        bytes: for bf16, whether weights are in bytes in the place of words.
        blocks, block: how many operands' weights come in turn, and which one's are taken: for f16 pairs of 16 bits with
            their bias, for bf16 floats, each times a power of two of its lane's. With 0 blocks weights are of this
            operand, and have no bias yet.
        lanes: for f16, whether each lane's weights are times a power of two, and have a bias, of its own.
        whole: type of weights that are bytes; None of those of 4 bits.
        flip: which bits of the weights are inverted.
        signed: whether weights of 4 bits are then from -8 to 7: as they are if the sign is inverted, less 8.
        scaled: whether there is a scale; for bf16 there is.
        float_zero: for bf16, whether the zero point is an f32: an integer that bf16 has, before it is converted.
    """

    result: DType
    shift: int
    width: int
    exact: bool
    zero: int | None
    words: int = 0
    fields: int = len(NIBBLES)
    bytes: bool = False
    blocks: int = 0
    block: int = 0
    lanes: bool = False
    whole: DType | None = None
    flip: int = 0
    signed: bool = False
    scaled: bool = True
    float_zero: bool = False

    @property
    def name(self) -> str:
        """Name of its function."""
        less = "" if not self.exact else "_less_integers" if self.zero is None else \
            f"_less_{self.zero}".replace("-", "minus_")
        words = f"_of_words_{self.words}" if self.words else ""
        words += "_of_bytes" if self.bytes else ""
        words += "_of_lanes" if self.lanes else ""
        words += f"_of_whole_{self.whole}" if self.whole else ""
        words += f"_flipped_{self.flip}" if self.flip else ""
        words += "_signed" if self.signed else ""
        words += ("" if self.scaled else "_unscaled") + ("_less_floats" if self.float_zero else "")
        words += f"_{'scaled' if self.floats else 'biased'}_{self.block}_of_{self.blocks}" if self.blocks else ""
        return f"dequantize_to_{self.result}_from_bit_{self.shift}_of_{self.width}{words}{less}"

    @property
    def floats(self) -> bool:
        """Whether weights are floats that a power of two for each lane scales."""
        return self.result is bf16 and self.blocks > 0

    @property
    def in_pairs(self) -> bool:
        """Whether rows of zero points and scales are pairs of two equal halves."""
        return self.result is f16

    @property
    def step(self) -> int:
        """Registers of words of an instruction."""
        return registers_at_once(self.source_width)

    def inputs(self) -> Iterator[tuple[str, str, int, str]]:
        """Names, types and elements of the vISA's operands, and OpenCL C that gives them."""
        for source in self.sources():
            byte = "b" if self.whole is i8 else "ub"
            yield source.upper(), byte if self.bytes else "f" if self.floats else "ud", self.source_width * 16, source
        if self.zero is None:
            yield ("Z", "hf", 32, "zero") if self.result is f16 else ("Z", "f" if self.float_zero else "bf", 16, "zero")
        if self.floats:
            yield "K", "f", 16, "power"
        elif self.lanes:
            yield "K", "hf", 32, "power"
            yield "L", "hf", 32, "less"
        if self.scaled:
            yield ("S", "hf", 32, "scale") if self.result is f16 else ("S", "f", 16, "scale")
        if (self.result is f16 or self._takes_bias) and not self.blocks and self.whole is None:
            # immediate operands of bfn have 16 bits
            yield from ((name, "ud", 1, f"{bits:#x}u") for name, bits in zip("ME", self.mask_and_bias(), strict=True))

    def mask_and_bias(self) -> tuple[int, int]:
        """The bits of the weights, and those of the bias, with which bits of the weights are inverted, in words."""
        bias, mask = self._bits(self._bias - self._offset) ^ self._inverted << self._masked_at, MASK << self._masked_at
        return (mask * TWICE, bias * TWICE) if self.result is f16 else (mask, bias)

    def sources(self) -> str:
        """Parameters that have the weights."""
        return "p" if self.result is f16 else "w" if self.words else "ac"

    @property
    def source_width(self) -> int:
        """Registers of each of them."""
        return self.words if self.sources() == "w" else self.width * max(self.blocks, 1)

    @property
    def _bias(self) -> float:
        """The number whose bits are around those of the weights, which are too large by it."""
        if self.result is f16:
            return _BIASES[self.shift] + self._offset
        return 2.0 ** (23 - self._masked_at) + self._offset if self.whole is None else _BYTE_BIAS

    def bias_at(self, bit: int) -> int:
        """Bias of weights of bytes with the bits of BIAS, after the power of two of their lowest bit."""
        return (_BIASES[0] >> bit) + self._offset

    @property
    def row_types(self) -> tuple[str, str]:
        """C types of the zero point and the scale: of f16 pairs, where they are used; the bits of bf16, and of f32."""
        if self.result is bf16:
            return "uint" if self.float_zero or (self.in_pairs and self.zero is None) else "ushort", "uint"
        return "uint" if self.zero is None else "half", "uint" if self.scaled else "half"

    @property
    def bias_of_zero(self) -> int:
        """The bias that rows of zero points in f16 include; 0 if they include none."""
        is_part = self.result is f16 and self.exact and self.zero is None and not self.lanes
        return _BIASES[0] + self._offset if is_part else 0

    @property
    def _offset(self) -> int:
        """The part of the bias that makes signed weights positive."""
        return SIGN if self.whole is i8 else SIGN_BIT if self.signed else 0

    @property
    def _inverted(self) -> int:
        """Bits of weights that are inverted where these are no longer negative."""
        return self.flip ^ (SIGN_BIT if self.signed else 0)

    @property
    def _takes_bias(self) -> bool:
        """For bf16, whether a bias makes floats of the bits of weights, not a conversion."""
        return self.exact or self.signed or bool(self.flip)

    @property
    def _masked_at(self) -> int:
        """Lowest bit of the weights where their other bits become those of the bias."""
        is_late = self.result is bf16 and self.shift > LAST_IN_MANTISSA
        return self.shift - MANTISSA_SHIFT if is_late else self.shift

    def _bits(self, value: float) -> int:
        """The bits of a number of the type that is computed with."""
        return int(np.float16(value).view(np.uint16) if self.result is f16 else np.float32(value).view(np.uint32))

    def _less(self) -> str:
        """The vISA operand that is added to biased weights for exact differences: minus bias and zero point."""
        kind = "hf" if self.result is f16 else "f"
        return "(-)Y(0,0)<1;1,0>" if self.zero is None else f"{self._bits(-self._bias - self.zero):#x}:{kind}"

    def lines(self) -> Iterator[str]:
        """The vISA."""
        for number, (name, kind, elements, _) in enumerate(self.inputs(), 1):
            align = "GRF" if elements > 1 else "dword"
            yield f".decl {name} v_type=G type={kind} num_elts={elements} align={align} alias=<%{number}, 0>"
        yield from self._f16() if self.result is f16 else self._bf16()

    def _f16(self) -> Iterator[str]:
        """From pairs ``P`` to numbers that are a bias too large, then as f16 (``H``)."""
        yield f".decl R v_type=G type=hf num_elts={self.width * 32} align=GRF alias=<%0, 0>"
        yield f".decl H v_type=G type=hf num_elts={self.width * 32} align=GRF{'' if self.words else ' alias=<R, 0>'}"
        yield f".decl U v_type=G type=ud num_elts={self.width * 16} align=GRF alias=<H, 0>"
        if self.lanes and self.exact:
            zero = "(-)Z(0,0)<1;1,0>" if self.zero is None else f"{self._bits(-self.zero):#x}:hf"
            yield ".decl Y v_type=G type=hf num_elts=32 align=GRF"
            yield f"add (M1_NM, 32) Y(0,0)<1> L(0,0)<1;1,0> {zero}"
        elif self.exact and self.zero is None:  # one operand for all biases: the compiler spills if each has its own
            yield f".decl Y v_type=G type=hf num_elts=32 align=GRF{'' if self.shift else ' alias=<Z, 0>'}"
            if self.shift:
                yield f"add (M1_NM, 32) Y(0,0)<1> Z(0,0)<1;1,0> {self._bits(_BIASES[self.shift] - _BIASES[0]):#x}:hf"
        if self.blocks:
            yield f".decl Q v_type=G type=hf num_elts={self.source_width * 32} align=GRF alias=<P, 0>"
        else:
            for register in range(0, self.width, self.step):
                yield _masked(16 * self.step, f"U({register},0)", f"P({register},0)")
        lines = [*self._differences(), *(["mul (M1_NM, 32) {to} {of} S(0,0)<1;1,0>"] if self.scaled else [])]
        for number, line in enumerate(lines):
            is_last = number == len(lines) - 1
            for at, register in enumerate(self._order() if is_last else range(self.width)):
                of = f"Q({register * self.blocks + self.block},0)" if self.blocks and not number else f"H({register},0)"
                yield line.format(to=f"{'R' if is_last else 'H'}({at},0)<1>", of=f"{of}<1;1,0>")

    def _order(self) -> Sequence[int]:
        """For each pair of the result, which of the source's it is."""
        pairs = range(self.width)
        return [pair for word in range(self.words) for pair in pairs[word::self.words]] or pairs

    def _differences(self) -> Iterator[str]:
        """From biased weights in f16 to their differences from zero points, which are rounded."""
        if self.lanes:
            yield f"mad (M1_NM, 32) {{to}} {{of}} K(0,0)<1;1,0> {'Y' if self.exact else 'L'}(0,0)<1;1,0>"
        elif not self.exact:
            yield f"add (M1_NM, 32) {{to}} {{of}} {self._bits(-self._bias):#x}:hf"
        if not self.exact:
            yield "add (M1_NM, 32) {to} {of} (-)Z(0,0)<1;1,0>"
        elif not self.lanes:
            yield f"add (M1_NM, 32) {{to}} {{of}} {self._less()}"

    def _bf16(self) -> Iterator[str]:
        """From words ``A`` and ``C`` by f32, whose 24 bits change no sum or product of bf16 that is rounded again."""
        yield f".decl B v_type=G type=bf num_elts={self.width * 32} align=GRF alias=<%0, 0>"
        # Few temporary registers, in turn: one variable for all rows would live as long as the statement.
        if self.floats:
            yield f".decl D v_type=G type=bf num_elts={_ROUNDED_ROWS * 32} align=GRF"
            yield from self._scaled_products()
            return
        yield f".decl F v_type=G type=f num_elts={TEMPORARY_ROWS * 16} align=GRF"
        yield f".decl U v_type=G type=ud num_elts={TEMPORARY_ROWS * 16} align=GRF alias=<F, 0>"
        yield f".decl I v_type=G type=d num_elts={TEMPORARY_ROWS * 16} align=GRF alias=<F, 0>"
        if not self.exact:
            yield f".decl D v_type=G type=bf num_elts={TEMPORARY_ROWS * 32} align=GRF"
        elif self.zero is None:
            yield ".decl Y v_type=G type=f num_elts=32 align=GRF"
            yield from (f"add (M1_NM, 16) Y({row},0)<1> Z(0,0)<1;1,0> {self._bits(self._bias):#x}:f"
                        for row in range(self.step))
        for first in range(0, 2 * self.width, self.step):
            name, row = ("W", first % self.words) if self.words else ("AC"[first // self.width], first % self.width)
            words = byte_row(name, row) if self.bytes else f"{name}({row},0)"
            shift = NIBBLES[first // self.words] if self.words else self.shift
            if self.whole is not None:
                yield from self._whole_products(first, words)
                continue
            yield from self._biased_products(first, words, shift) if self._takes_bias else \
                self._products(first, words, shift)

    def _to(self, row: int) -> str:
        """Destination of a row, in vISA."""
        if self.words:
            row = row % self.words * self.fields + row // self.words
        return f"B({row // 2},{row % 2})<2>"

    def _whole_products(self, first: int, words: str) -> Iterator[str]:
        """Differences times the scale, of the rows of an instruction, of bytes."""
        yield f"add (M1_NM, {16 * self.step}) I({first % TEMPORARY_ROWS},0)<1> {words}<1;1,0> " \
            f"{self._bits(self._bias):#x}:d"
        yield from self._unbiased_products(first)

    def _unbiased_products(self, first: int) -> Iterator[str]:
        """Differences times the scale, of the rows of an instruction, of biased weights ``F``."""
        at, less = f"F({first % TEMPORARY_ROWS},0)", self._less() if self.exact else f"{self._bits(-self._bias):#x}:f"
        yield f"add (M1_NM, {16 * self.step}) {at}<1> {at}<1;1,0> {less}"
        for row in range(first, first + self.step):
            f, d = f"F({row % TEMPORARY_ROWS},0)", f"D({row % TEMPORARY_ROWS},0)"
            if not self.exact:
                yield f"add (M1_NM, 16) {d}<1> {f}<1;1,0> (-)Z(0,0)<1;1,0>"
            yield f"mul (M1_NM, 16) {self._to(row)} {f if self.exact else d}<1;1,0> S(0,0)<1;1,0>"

    def _products(self, first: int, words: str, shift: int) -> Iterator[str]:
        """Differences that are rounded, times the scale, of the rows of an instruction."""
        at, lanes = first % TEMPORARY_ROWS, 16 * self.step
        yield f"and (M1_NM, {lanes}) U({at},0)<1> {words}<1;1,0> {MASK << shift:#x}:ud"
        yield f"mov (M1_NM, {lanes}) F({at},0)<1> U({at},0)<1;1,0>"
        # mad writes the beginnings of registers alone: into an upper half the compiler writes by a move more
        for row in range(first, first + self.step):
            f, d = f"F({row % TEMPORARY_ROWS},0)", f"D({row % TEMPORARY_ROWS},0)"
            yield f"mad (M1_NM, 16) {d}<1> {f}<1;1,0> {self._bits(2.0 ** -shift):#x}:f (-)Z(0,0)<1;1,0>" \
                if shift else f"add (M1_NM, 16) {d}<1> {f}<1;1,0> (-)Z(0,0)<1;1,0>"
            yield f"mul (M1_NM, 16) {self._to(row)} {d}<1;1,0> S(0,0)<1;1,0>"

    def _scaled_products(self) -> Iterator[str]:
        """Differences that are rounded, times the scale, of floats with a power of two for each lane."""
        for row in range(2 * self.width):
            d, register = f"D({row % _ROUNDED_ROWS},0)", row % self.width * self.blocks + self.block
            yield f"mad (M1_NM, 16) {d}<1> {'AC'[row // self.width]}({register},0)<1;1,0> K(0,0)<1;1,0> " \
                "(-)Z(0,0)<1;1,0>"
            yield f"mul (M1_NM, 16) {self._to(row)} {d}<1;1,0> S(0,0)<1;1,0>"

    def _biased_products(self, first: int, words: str, shift: int) -> Iterator[str]:
        """Differences times the scale, of the rows of an instruction, of weights with the bits of a bias."""
        at, lanes = first % TEMPORARY_ROWS, 16 * self.step
        if self.bytes:  # which bfn does not read
            yield f"mov (M1_NM, {lanes}) U({at},0)<1> {words}<1;1,0>"
            words = f"U({at},0)"
        if shift != self._masked_at:
            yield f"shr (M1_NM, {lanes}) U({at},0)<1> {words}<1;1,0> {shift - self._masked_at}:ud"
            words = f"U({at},0)"
        yield _masked(lanes, f"U({at},0)", words)
        yield from self._unbiased_products(first)

    def portable(self) -> Iterator[str]:
        """OpenCL C, for compilers without vISA."""
        words, halves = vector_type("uint", self.width), vector_type("ushort", self.width)
        results, pairs = [], "p"
        if self.blocks > 1:
            taken = range(self.block, self.source_width, self.blocks)
            pairs = f"({words})({', '.join(f'p.s{pair:x}' for pair in taken)})"
        for element in range(2):
            source, shift = f"({pairs} >> ({words})({16 * element + self.shift}))", self.shift
            if self.result is bf16:
                places = [row % self.width * max(self.blocks, 1) + self.block for row in range(2 * self.width)]
                rows = [f"{'ac'[row // self.width]}{f'.s{places[row]:x}' if self.source_width > 1 else ''}"
                        for row in range(element, 2 * self.width, 2)]
                if self.words:
                    rows = [f"w.s{row // self.fields:x} >> {NIBBLES[row % self.fields]}"
                            for row in range(element, 2 * self.width, 2)]
                source = f"(({words})({', '.join(rows)}) >> ({words})({shift}))"
            mask = MASK if self.whole is None else 0xFF
            if self.whole is i8 and self.result is bf16:  # pairs of f16 have the sign's bit inverted
                source = f"({source} ^ ({words})({SIGN}))"
            bits = f"{source} & ({words})({mask})"
            if self._inverted and not self.blocks:  # where it is not done with the bias
                bits = f"({bits}) ^ ({words})({self._inverted})"
            weights = computed(converted(bits, u32, self.result, self.width), self.result, self.width)
            if self.floats:
                weights = f"(as_{vector_type('float', self.width)}({source}) * {self._of_row('power')})"
            if self._offset:
                weights = f"({weights} - {self._offset})"
            row = vector_type(self.result.register, self.width)
            zero, scale = ("(ushort)zero" if self.in_pairs else "zero",
                           f"({vector_type('float', self.width)})({self._of_row('scale')})")
            if self.result is f16:
                zero, scale = (f"as_half((ushort){name})" if kind == "uint" else name
                               for name, kind in zip(("zero", "scale"), self.row_types, strict=True))
                scale = computed(f"({row})({scale})", f16, self.width)
            if self.bias_of_zero:
                zero = f"({zero} - {self.bias_of_zero})"
            zero = f"({vector_type('float', self.width)})(as_float(zero))" if self.float_zero else \
                computed(f"({row})({zero})", self.result, self.width)
            difference = computed(rounded(f"({weights} - {zero})", self.result, self.width), self.result, self.width)
            product = rounded(f"({difference} * {scale})", self.result, self.width)
            yield f"  const {halves} part{element} = as_{halves}({product});"
            results.append(f"convert_{words}(part{element})")
        order = f".s{''.join(f'{pair:x}' for pair in self._order())}" if self.words and self.result is f16 else ""
        yield f"  return ({results[0]} | {results[1]} << ({words})(16)){order};"

    def _of_row(self, name: str) -> str:
        """OpenCL C for a row's f32, for bf16."""
        return f"as_float({name}{' << 16' if self.in_pairs else ''})"

    def function(self, emitter: Emitter) -> str:
        """Define the function, and return its name."""
        words = vector_type("uint", self.width)
        zero, scale = self.row_types
        lines = "".join(f'    "{line}\\n"\n' for line in ("{", *self.lines(), "}"))
        operands = ", ".join(f'"rw{"" if elements > 1 else ".u"}"({expression})'
                             for _, _, elements, expression in self.inputs())
        source = vector_type("uchar" if self.bytes else "uint", self.source_width)
        parameters = ", ".join(f"{source} {name}" for name in self.sources())
        parameters += f", {zero} zero, {scale} scale{', uint power' if self.floats or self.lanes else ''}"
        parameters += ", uint less" if self.lanes else ""
        emitter.function(f"static {words} {self.name}({parameters})\n{{\n"
                         f"#ifdef {NO_VISA}\n" + "\n".join(self.portable()) + f"\n#else\n  {words} words;\n"
                         f'  __asm__(\n{lines}    : "=rw"(words) : {operands});\n'
                         "  return words;\n#endif\n}\n")
        return self.name


def _masked(lanes: int, to: str, words: str) -> str:
    """vISA for weights in words with the bits of their bias; x78 of bfn is the truth table of a & b ^ c."""
    return f"bfn.x78 (M1_NM, {lanes}) {to}<1> M(0,0)<0;1,0> {words}<1;1,0> E(0,0)<0;1,0>"
