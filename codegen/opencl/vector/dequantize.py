"""``xegpu.dequantize`` in OpenCL C: 4-bit weights to operand B of DPAS, by four or six instructions a register.

For f16, two rows of words become two of pairs, lower halves with lower halves and upper with upper, once for all
weights of a word. Both come before the first weight: the compiler spills if the words live as long as their weights are
used. This is virtual assembly (vISA), whose instructions have 32 lanes, two registers of words at a time; of OpenCL C
Intel's compiler makes a register for each 16-bit number, and moves the pairing to where the weights are. It needs
registers of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Block, Operation

from codegen.opencl.arith import converted
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import computed, rounded, vector_type
from xegpu.dialect.convert_layout import MASK, DequantizeOp
from xegpu.ir.dtypes import DType, bf16, f16, i32, u32

_BIASED: dict[DType, dict[int, tuple[int, str]]] = {
    # The mantissa's last place is one from 1024 to 2048, and its fifth-last from 64 to 128: weights in these bits make
    # it 1024 + weight and 64 + weight.
    f16: {0: (0x6400, "0xe400:hf"), 4: (0x5400, "0xd400:hf")},
}
"""For the lowest bit of a weight in 16 bits: bits that make it a number, and minus what that is too large by."""

_TWICE = 0x10001
"""Factor that copies 16 bits to both halves of a word."""

_TEMPORARY_ROWS = 4
"""Rows of 32 bits that are in registers at a time on the way to a result."""


@dataclass(frozen=True)
class _Dequantization:
    """Dequantization of pairs of 16 bits, or of words of 32 bits.

    Attributes:
        result: element type.
        shift: lowest bit of the weights, in pairs of 16 bits for f16, in words for bf16.
        width: registers.
    """

    result: DType
    shift: int
    width: int

    @property
    def name(self) -> str:
        """Name of its function."""
        return f"dequantize_to_{self.result}_from_bit_{self.shift}_of_{self.width}"

    def lines(self) -> Iterator[str]:
        """The vISA: pairs ``P``, results ``U``, zero points ``Z`` and scales ``S``."""
        if self.result is bf16:
            yield from self._bf16()
            return
        for name, number in (("U", 0), ("P", 1)):
            yield f".decl {name} v_type=G type=ud num_elts={self.width * 16} align=GRF alias=<%{number}, 0>"
        yield f".decl H v_type=G type=hf num_elts={self.width * 32} align=GRF alias=<%0, 0>"
        yield ".decl Z v_type=G type=hf num_elts=32 align=GRF alias=<%2, 0>"
        yield ".decl S v_type=G type=hf num_elts=32 align=GRF alias=<%3, 0>"
        # xf8 of bfn is the truth table of a & b | c. Immediate operands of it have 16 bits.
        step = _registers_at_once(self.width)
        for register in range(0, self.width, step):
            yield f"bfn.xf8 (M1_NM, {16 * step}) U({register},0)<1> %4(0,0)<0;1,0> P({register},0)<1;1,0> " \
                  "%5(0,0)<0;1,0>"
        _, excess = _BIASED[self.result][self.shift]
        for line in (f"add (M1_NM, 32) {{h}} {{v}} {excess}",
                     "add (M1_NM, 32) {h} {v} (-)Z(0,0)<1;1,0>",
                     "mul (M1_NM, 32) {h} {v} S(0,0)<1;1,0>"):
            for register in range(self.width):
                yield line.format(register, h=f"H({register},0)<1>", v=f"H({register},0)<1;1,0>")

    def _bf16(self) -> Iterator[str]:
        """From words ``A`` and ``C`` by f32, whose 24 bits change no sum or product of bf16 that is rounded again."""
        yield f".decl B v_type=G type=bf num_elts={self.width * 32} align=GRF alias=<%0, 0>"
        for name, number in (("A", 1), ("C", 2)):
            yield f".decl {name} v_type=G type=ud num_elts={self.width * 16} align=GRF alias=<%{number}, 0>"
        for name, number in (("Z", 3), ("S", 4)):
            yield f".decl {name} v_type=G type=f num_elts=16 align=GRF alias=<%{number}, 0>"
        # Few temporary registers, in turn: one variable for all rows would live as long as the statement.
        step = _registers_at_once(self.width)  # rows of an instruction, in registers one behind the other
        yield f".decl F v_type=G type=f num_elts={_TEMPORARY_ROWS * 16} align=GRF"
        yield f".decl U v_type=G type=ud num_elts={_TEMPORARY_ROWS * 16} align=GRF alias=<F, 0>"
        yield f".decl D v_type=G type=bf num_elts={_TEMPORARY_ROWS * 32} align=GRF"
        for first in range(0, 2 * self.width, step):
            at = first % _TEMPORARY_ROWS
            words = f"{'AC'[first // self.width]}({first % self.width},0)"
            yield f"and (M1_NM, {16 * step}) U({at},0)<1> {words}<1;1,0> {MASK << self.shift:#x}:ud"
            yield f"mov (M1_NM, {16 * step}) F({at},0)<1> U({at},0)<1;1,0>"
            # mad writes the beginnings of registers alone: into an upper half the compiler writes by a move more
            power = (127 - self.shift) << 23  # the bits of 2**-shift
            for row in range(first, first + step):
                f, d = f"F({row % _TEMPORARY_ROWS},0)", f"D({row % _TEMPORARY_ROWS},0)"
                yield f"mad (M1_NM, 16) {d}<1> {f}<1;1,0> {power:#x}:f (-)Z(0,0)<1;1,0>" if self.shift else \
                    f"add (M1_NM, 16) {d}<1> {f}<1;1,0> (-)Z(0,0)<1;1,0>"
                yield f"mul (M1_NM, 16) B({row // 2},{row % 2})<2> {d}<1;1,0> S(0,0)<1;1,0>"

    def portable(self) -> Iterator[str]:
        """OpenCL C, for compilers without vISA."""
        words, halves = vector_type("uint", self.width), vector_type("ushort", self.width)
        results = []
        for element in range(2):
            source, shift = f"(p >> ({words})({16 * element + self.shift}))", self.shift
            if self.result is bf16:
                rows = [f"{'ac'[row // self.width]}{f'.s{row % self.width:x}' if self.width > 1 else ''}"
                        for row in range(element, 2 * self.width, 2)]
                source = f"(({words})({', '.join(rows)}) >> ({words})({shift}))"
            weights = computed(converted(f"{source} & ({words})({MASK})", u32, self.result, self.width), self.result,
                               self.width)
            row = vector_type(self.result.register, self.width)
            zero, scale = (computed(f"({row})({name})", self.result, self.width)
                           for name in ("zero", "scale"))
            difference = computed(rounded(f"({weights} - {zero})", self.result, self.width), self.result, self.width)
            product = rounded(f"({difference} * {scale})", self.result, self.width)
            yield f"  const {halves} part{element} = as_{halves}({product});"
            results.append(f"convert_{words}(part{element})")
        yield f"  return {results[0]} | {results[1]} << ({words})(16);"

    def function(self, emitter: Emitter) -> str:
        """Define the function, and return its name."""
        register, words = self.result.register, vector_type("uint", self.width)
        row = "const uint z = as_ushort(zero) * 0x10001u, s = as_ushort(scale) * 0x10001u;" if self.result is f16 else \
            "const uint z = (uint)zero << 16, s = (uint)scale << 16;"
        lines = "".join(f'    "{line}\\n"\n' for line in ("{", *self.lines(), "}"))
        sources = "p" if self.result is f16 else "ac"
        operands = ", ".join(f'"rw"({name})' for name in (*sources, "z", "s"))
        if self.result is f16:
            exponent, _ = _BIASED[self.result][self.shift]
            operands += "".join(f', "rw.u"({bits * _TWICE:#x}u)' for bits in (MASK << self.shift, exponent))
        parameters = ", ".join(f"{words} {name}" for name in sources)
        emitter.function(f"static {words} {self.name}({parameters}, {register} zero, {register} scale)\n{{\n"
                         f"#ifdef {NO_VISA}\n" + "\n".join(self.portable()) + f"\n#else\n  {row}\n  {words} words;\n"
                         f'  __asm__(\n{lines}    : "=rw"(words) : {operands});\n'
                         "  return words;\n#endif\n}\n")
        return self.name


def _registers_at_once(width: int) -> int:
    """Registers of words of an instruction: of consecutive ones it takes two."""
    return 2 if width % 2 == 0 else 1


def _shift_function(emitter: Emitter, width: int) -> str:
    """Define a function that shifts words to the right by a byte, and return its name."""
    name, words, step = f"upper_bytes_of_{width}", vector_type("uint", width), _registers_at_once(width)
    lines = [f".decl {letter} v_type=G type=ud num_elts={width * 16} align=GRF alias=<%{number}, 0>"
             for number, letter in enumerate("BP")]
    lines += [f"shr (M1_NM, {16 * step}) B({row},0)<1> P({row},0)<1;1,0> 8:ud" for row in range(0, width, step)]
    assembly = "".join(f'    "{line}\\n"\n' for line in ("{", *lines, "}"))
    emitter.function(f"static {words} {name}({words} pairs)\n{{\n#ifdef {NO_VISA}\n  return pairs >> 8;\n#else\n"
                     f"  {words} bytes;\n  __asm__(\n{assembly}"
                     '    : "=rw"(bytes) : "rw"(pairs));\n  return bytes;\n#endif\n}\n')
    return name


def _pair_function(emitter: Emitter, width: int) -> str:
    """Define a function that pairs halves of consecutive words, as VNNI form does, and return its name.

    Of two variables of rows it gives the pairs of lower halves, and those of upper halves.
    """
    name, words = f"pair_halves_of_{2 * width}", vector_type("uint", width)
    rows = [f"{'ab'[row // width]}{f'.s{row % width:x}' if width > 1 else ''}" for row in range(2 * width)]
    even, odd = (f"({words})({', '.join(rows[first::2])})" for first in range(2))
    assembly = "".join(f'    "{line}\\n"\n' for line in ("{", *_pairing(width), "}"))
    emitter.function(f"static void {name}({words} a, {words} b, private {words} *pairs)\n{{\n#ifdef {NO_VISA}\n"
                     f"  const {words} even = {even}, odd = {odd};\n  pairs[0] = (even & 0xffffu) | odd << 16;\n"
                     f"  pairs[1] = even >> 16 | (odd & 0xffff0000u);\n#else\n  {words} lower, upper;\n"
                     f'  __asm__(\n{assembly}    : "=rw"(lower), "=rw"(upper) : "rw"(a), "rw"(b));\n'
                     "  pairs[0] = lower;\n  pairs[1] = upper;\n#endif\n}\n")
    return name


def _pairing(width: int) -> Iterator[str]:
    """The vISA of :func:`_pair_function`: lower and upper pairs ``L`` and ``U`` of rows in ``A``, then ``B``."""
    for number, letter in enumerate("LUAB"):
        yield f".decl {letter} v_type=G type=ud num_elts={width * 16} align=GRF alias=<%{number}, 0>"
    # Two rows with their halves exchanged. Few temporary registers, in turn: one variable for all rows would live as
    # long as the statement.
    yield f".decl X v_type=G type=ud num_elts={_TEMPORARY_ROWS * 16} align=GRF"
    for pair in range(width):
        at, (a, b) = 2 * pair % _TEMPORARY_ROWS, \
            (f"{'AB'[row // width]}({row % width},0)<1;1,0>" for row in (2 * pair, 2 * pair + 1))
        if width > 1:
            yield f"rol (M1_NM, 32) X({at},0)<1> {a} 16:ud"
        else:
            yield from (f"rol (M1_NM, 16) X({at + row},0)<1> {words} 16:ud" for row, words in enumerate((a, b)))
        # xd8 of bfn is the truth table of a ? b : c; zeros extend the mask to 32 bits
        yield f"bfn.xd8 (M1_NM, 16) L({pair},0)<1> 0xffff:uw {a} X({at + 1},0)<1;1,0>"
        yield f"bfn.xd8 (M1_NM, 16) U({pair},0)<1> 0xffff:uw X({at},0)<1;1,0> {b}"


def _pairs(emitter: Emitter, block: Block | None, width: int, a: str, b: str) -> str:
    """The array of pairs that a block's operations share: those of lower halves and those of upper halves."""
    c_type, call = vector_type("uint", width), f"{_pair_function(emitter, width)}({a}, {b}"
    key = block, c_type, call
    if key not in emitter.shared:
        emitter.shared[key] = name = emitter.name("pairs")
        emitter.line(f"{c_type} {name}[2];")
        emitter.line(f"{call}, {name});")
    return emitter.shared[key]


def _dequantize(emitter: Emitter, operation: DequantizeOp) -> None:
    words, result = emitter.fragment(operation.words), emitter.fresh(operation.result)
    (zero,), (scale,) = emitter.words(operation.zero), emitter.words(operation.scale)
    c_type, element = vector_type("uint", result.width), result.dtype
    shift = operation.first_bit % (8 if element is f16 else 32)
    called = _Dequantization(element, shift, result.width).function(emitter)
    half, upper_byte = operation.first_bit // 16, operation.first_bit % 16 >= 8
    calls = []
    for first in range(0, words.units, 2 * result.width):
        (a,), (b,) = (words.slice(start, result.width).names for start in (first, first + result.width))
        a, b = (f"as_{c_type}({part})" if words.dtype is i32 else part for part in (a, b))
        if element is bf16:
            calls.append(f"{called}({a}, {b}, {zero}, {scale})")
            continue
        pairs = f"{_pairs(emitter, operation.parent, result.width, a, b)}[{half}]"
        if upper_byte:
            shifted = f"{_shift_function(emitter, result.width)}({pairs})"
            pairs = emitter.common(operation.parent, "pairs", c_type, shifted)
        calls.append(f"{called}({pairs}, {zero}, {scale})")
    emitter.assign(operation.result, result, calls)


RULES: dict[type[Operation], Rule] = {DequantizeOp: _dequantize}
