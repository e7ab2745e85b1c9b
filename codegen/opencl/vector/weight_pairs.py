"""Pairs of 16 bits of 4-bit weights in words, the form of operand B of DPAS: functions in vISA and in OpenCL C."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from xdsl.ir import Block

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import vector_type
from xegpu.dialect.convert_layout import nibbles
from xegpu.ir.dtypes import DType, i8, u32

NIBBLES = nibbles(u32)
"""Lowest bits of the weights in a word of 32 bits."""
TEMPORARY_ROWS = 4
"""Rows of 32 bits that are in registers at a time on the way to a result."""


def registers_at_once(width: int) -> int:
    """Registers of words of an instruction: of consecutive ones it takes two."""
    return 2 if width % 2 == 0 else 1


def byte_row(name: str, row: int) -> str:
    """vISA operand that begins with a row of bytes, of which four fill a register."""
    return f"{name}({row // 4},{row % 4 * 16})"


def shift_function(emitter: Emitter, width: int, bits: int) -> str:
    """Define a function that shifts words to the right, and return its name."""
    name, words, step = f"shift_by_{bits}_of_{width}", vector_type("uint", width), registers_at_once(width)
    lines = [f".decl {letter} v_type=G type=ud num_elts={width * 16} align=GRF alias=<%{number}, 0>"
             for number, letter in enumerate("SW")]
    lines += [f"shr (M1_NM, {16 * step}) S({row},0)<1> W({row},0)<1;1,0> {bits}:ud" for row in range(0, width, step)]
    assembly = "".join(f'    "{line}\\n"\n' for line in ("{", *lines, "}"))
    emitter.function(f"static {words} {name}({words} words)\n{{\n#ifdef {NO_VISA}\n  return words >> {bits};\n#else\n"
                     f"  {words} shifted;\n  __asm__(\n{assembly}"
                     '    : "=rw"(shifted) : "rw"(words));\n  return shifted;\n#endif\n}\n')
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
    yield f".decl X v_type=G type=ud num_elts={TEMPORARY_ROWS * 16} align=GRF"
    for pair in range(width):
        at, (a, b) = 2 * pair % TEMPORARY_ROWS, \
            (f"{'AB'[row // width]}({row % width},0)<1;1,0>" for row in (2 * pair, 2 * pair + 1))
        if width > 1:
            yield f"rol (M1_NM, 32) X({at},0)<1> {a} 16:ud"
        else:
            yield from (f"rol (M1_NM, 16) X({at + row},0)<1> {words} 16:ud" for row, words in enumerate((a, b)))
        # xd8 of bfn is the truth table of a ? b : c; zeros extend the mask to 32 bits
        yield f"bfn.xd8 (M1_NM, 16) L({pair},0)<1> 0xffff:uw {a} X({at + 1},0)<1;1,0>"
        yield f"bfn.xd8 (M1_NM, 16) U({pair},0)<1> 0xffff:uw X({at},0)<1;1,0> {b}"


def paired_fields_function(emitter: Emitter, words: int) -> str:
    """Define a function that pairs each two consecutive weights of words, and return its name.

    They are the lowest bits of the halves of one of 32 bits: the first pair of each word, then the second of each ...
    What the halves hold beside their weights is masked later.
    """
    pairs = words * len(NIBBLES) // 2
    name, source, result = f"paired_fields_of_{words}", vector_type("uint", words), vector_type("uint", pairs)
    step = registers_at_once(words)
    lines = [f".decl P v_type=G type=ud num_elts={pairs * 16} align=GRF alias=<%0, 0>",
             f".decl B v_type=G type=ub num_elts={words * 64} align=GRF alias=<%1, 0>",
             *(_paired_nibbles(step, f"P({pair * words + row},0)", f"B({row},{pair})<4;1,0>")
               for row in range(0, words, step) for pair in range(len(NIBBLES) // 2))]
    parts = [f"(words >> {shift} & 0xffu) * {_APART:#x}u" for shift in NIBBLES[::2]]
    assembly = "".join(f'    "{line}\\n"\n' for line in ("{", *lines, "}"))
    emitter.function(f"static {result} {name}({source} words)\n{{\n#ifdef {NO_VISA}\n"
                     f"  return ({result})({', '.join(parts)});\n#else\n  {result} pairs;\n  __asm__(\n{assembly}"
                     '    : "=rw"(pairs) : "rw"(words));\n  return pairs;\n#endif\n}\n')
    return name


_APART = 1 << 16 - NIBBLES.step | 1
"""Factor of a byte: its lower weight stays at bit 0, its upper one comes to bit 16. Bytes of 8 bits do not overlap."""


def _paired_nibbles(step: int, to: str, source: str) -> str:
    """vISA for a pair of 16 bits of both weights of each byte of a region, in ``step`` registers."""
    return f"mul (M1_NM, {16 * step}) {to}<1> {source} {_APART:#x}:uw"


BIAS, SIGN = 0x6400, 0x80
"""Bits of 1024 in f16, whose mantissa's last place is one up to 2048; and what more the bias of a signed byte is."""

TWICE = 0x10001
"""Factor that copies 16 bits to both halves of a word."""


def pairs_of_bytes_function(emitter: Emitter, width: int, byte: DType | None = None) -> str:
    """Define a function that makes pairs of 16 bits of each two consecutive bytes, and return its name.

    They are of two variables; the other bits of the halves are masked later. With ``byte``, i8 or u8, halves
    are the numbers that bytes are as f16, too large by a bias.
    """
    name, source, words = f"pairs_of_bytes_{2 * width}", vector_type("uchar", width), vector_type("uint", width)
    opcode, bias = ("mov", "") if byte is None else ("add", f" {BIAS | SIGN if byte is i8 else BIAS:#x}:w")
    name += "" if byte is None else f"_biased_{byte}"
    lines = []
    for first, letter in ((0, "B"), (width // 2, "C")):
        for pair in range(0, max(width // 2, 1), step := registers_at_once(max(width // 2, 1))):
            for half in range(2):
                row = 2 * pair + half
                region = "<32;16,1>" if step == 2 else "<1;1,0>"  # of every other row
                lines.append(f"{opcode} (M1_NM, {16 * step}) H({first + pair},{half})<2> "
                             f"{byte_row(letter, row)}{region}{bias}")
    rows = [f"{'ab'[row // width]}.s{row % width:x}" for row in range(2 * width)]
    even, odd = (f"convert_{words}(({source})({', '.join(rows[half::2])}))" for half in range(2))
    if byte is not None:
        even, odd = (f"(({half} ^ {SIGN if byte is i8 else 0:#x}u) | {BIAS:#x}u)" for half in (even, odd))
    return _of_bytes(emitter, name, {"a": source, "b": source}, words, width, lines, f"{even} | {odd} << 16",
                     "b" if byte is i8 else "ub")


def paired_nibbles_function(emitter: Emitter, width: int) -> str:
    """Define a function that makes a pair of 16 bits of both weights of each byte, and return its name.

    What the halves hold beside a weight is masked later.
    """
    name, source, words = f"paired_nibbles_of_{width}", vector_type("uchar", width), vector_type("uint", width)
    step = registers_at_once(width)
    lines = [_paired_nibbles(step, f"W({row},0)", f"{byte_row('B', row)}<1;1,0>") for row in range(0, width, step)]
    return _of_bytes(emitter, name, {"bytes": source}, words, width, lines, f"convert_{words}(bytes) * {_APART:#x}u")


def _of_bytes(emitter: Emitter, name: str, sources: Mapping[str, str], words: str, width: int, lines: Iterable[str],
              portable: str, kind: str = "ub") -> str:
    """Define a function from bytes ``B`` and ``C`` to words ``W``, with halves ``H``, and return its name."""
    declared = [f".decl W v_type=G type=ud num_elts={width * 16} align=GRF alias=<%0, 0>",
                f".decl H v_type=G type=uw num_elts={width * 32} align=GRF alias=<W, 0>",
                f".decl X v_type=G type=ud num_elts={TEMPORARY_ROWS * 16} align=GRF",
                *(f".decl {letter} v_type=G type={kind} num_elts={width * 16} align=GRF alias=<%{number}, 0>"
                  for number, letter in zip(range(1, len(sources) + 1), "BC", strict=False))]
    assembly = "".join(f'    "{line}\\n"\n' for line in ("{", *declared, *lines, "}"))
    parameters, operands = (", ".join(form.format(name, c_type) for name, c_type in sources.items())
                            for form in ("{1} {0}", '"rw"({0})'))
    emitter.function(f"static {words} {name}({parameters})\n{{\n#ifdef {NO_VISA}\n  return {portable};\n#else\n"
                     f"  {words} words;\n  __asm__(\n{assembly}"
                     f'    : "=rw"(words) : {operands});\n  return words;\n#endif\n}}\n')
    return name


def pairs_of_halves(emitter: Emitter, block: Block | None, width: int, a: str, b: str) -> str:
    """The array of pairs that a block's operations share: those of lower halves and those of upper halves."""
    c_type, call = vector_type("uint", width), f"{_pair_function(emitter, width)}({a}, {b}"
    key = block, c_type, call
    if key not in emitter.shared:
        emitter.shared[key] = name = emitter.name("pairs")
        emitter.line(f"{c_type} {name}[2];")
        emitter.line(f"{call}, {name});")
    return emitter.shared[key]
