"""Weights of 4 bits in words along a row, in a register each: functions in vISA and in OpenCL C.

A word is read by the lanes of all its columns through a register region (``<1;8,0>``: eight lanes each of consecutive
words), and shifted in each lane by another number of bits, or masked by another mask: what a weight in its place is too
large by is a power of two, by which a float is scaled later. One instruction does so for 32 columns of a row: those of
two blocks of an operand, whose registers therefore come in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import vector_type
from codegen.opencl.vector.lane_exchange import index_table, number_table
from codegen.opencl.vector.weight_pairs import TEMPORARY_ROWS, registers_at_once
from xegpu.layout.word_columns import WordColumns

_HALF = 16
"""Bits of the halves of a word that two rows share."""


@dataclass(frozen=True)
class ColumnFunction:
    """Function from words to weights in registers.

    Attributes:
        columns: where they are; the bits are parameters.
        units: registers of words.
        rows: of weights.
        blocks: of 16 columns, one or two that follow each other in the words.
        is_bytes: whether words have 8 bits.
        masked: mask and bias of the weights, of which two rows are in the halves of words of the result; None where
            each row has a register, and unmasked bits beside its weight.
        floats: whether each row has a register of floats, of the weights where they are in their words.

    The parameter of its function is each lane's shift; of floats and of bytes whose rows share words each lane's mask.
    The latter's weights have a bias, and are too large by a power of two, of their lane's own.
    """

    columns: WordColumns
    units: int
    rows: int
    blocks: int
    is_bytes: bool
    masked: tuple[int, int] | None = None
    floats: bool = False

    @property
    def name(self) -> str:
        """Name of the function."""
        region, masked = self.columns.region, self.masked or ()
        assert region is not None
        numbers = (self.rows, self.blocks, self.columns.start, self.columns.pitch, *region, self.units)
        kind = "paired_columns_of" if self.masked else "float_columns_of" if self.floats else "columns_of"
        return "_".join([kind, *map(str, numbers),
                         *(f"{bits:x}" for bits in masked), *(["bytes"] if self.is_bytes else [])])

    @property
    def width(self) -> int:
        """Registers of the result."""
        return self.blocks * self.rows // (2 if self.masked else 1)

    def define(self, emitter: Emitter) -> str:
        """Define the function, of words and for each lane the bits to shift by or its mask, and return its name."""
        kind, result = vector_type("uchar" if self.is_bytes else "uint", self.units), vector_type("uint", self.width)
        has_masks = self.floats or self.by_masks
        parameter = "mask" if has_masks else "down"
        declared = [("P", "ud", self.width * 16), ("W", "ub" if self.is_bytes else "ud", self.units * 16),
                    ("M", "ud", 16) if has_masks else ("D", "uw", 16)]
        operands = f'"rw"(words), "rw"({"mask" if has_masks else "(ushort)down"})'
        rotation = ""
        if self.masked is not None and not has_masks:
            rotation = f"  const uint up = ({_HALF}u - down) & 31u;\n"
            declared += [("U", "ud", 16), ("M", "ud", 1), ("E", "ud", 1)]
            operands += ', "rw"(up)' + "".join(f', "rw.u"({bits:#x}u)' for bits in self.masked)
        lines = [f".decl {name} v_type=G type={type_} num_elts={count} align={'GRF' if count > 1 else 'dword'} "
                 f"alias=<%{number}, 0>" for number, (name, type_, count) in enumerate(declared)]
        of, rows = ("Y", TEMPORARY_ROWS) if self.by_masks else ("P", self.width)
        if self.by_masks:
            lines.append(f".decl Y v_type=G type=ud num_elts={rows * 16} align=GRF")
        alias, kind_of_alias, each = ("F", "f", 16) if self.floats else ("H", "uw", 32)
        lines += [f".decl {alias} v_type=G type={kind_of_alias} num_elts={rows * each} align=GRF alias=<{of}, 0>",
                  *(self._masked_bytes() if self.by_masks else self._lines())]
        assembly = "".join(f'    "{line}\\n"\n' for line in ("{", *lines, "}"))
        emitter.function(f"static {result} {self.name}({kind} words, uint {parameter})\n{{\n#ifdef {NO_VISA}\n"
                         f"  const uint lane = get_sub_group_local_id();\n{self._portable(result)}#else\n"
                         f"{rotation}  {result} weights;\n"
                         f'  __asm__(\n{assembly}    : "=rw"(weights) : {operands});\n  return weights;\n#endif\n}}\n')
        return self.name

    @property
    def by_masks(self) -> bool:
        """Whether weights are masked where they lie, in bytes of pairs of rows, by masks of lanes with a bias."""
        return self.is_bytes and self.masked is not None

    def _words(self, row: int) -> str:
        """vISA operand of the words of a row."""
        region = self.columns.region
        assert region is not None
        each = 64 if self.is_bytes else 16
        at = self.columns.start + row * self.columns.pitch
        return f"W({at // each},{at % each})<{region[0]};{region[1]},{region[2]}>"

    def _lines(self) -> Iterator[str]:
        lanes, down, up = 16 * self.blocks, "D(0,0)<0;16,1>", "U(0,0)<0;16,1>"
        if self.floats:
            for row in range(self.rows):
                yield f"and (M1_NM, {lanes}) P({row * self.blocks},0)<1> {self._words(row)} M(0,0)<0;16,1>"
            step = registers_at_once(self.width)
            yield from (f"mov (M1_NM, {16 * step}) F({at},0)<1> P({at},0)<1;1,0>" for at in range(0, self.width, step))
            return
        if self.masked is None:
            for row in range(self.rows):
                yield f"shr (M1_NM, {lanes}) P({row * self.blocks},0)<1> {self._words(row)} {down}"
            return
        for row in range(0, self.rows, 2):
            at, upper = row // 2 * self.blocks, self._words(row + 1)
            # the second row's weight to the upper half; the lower one is overwritten
            yield f"rol (M1_NM, {lanes}) P({at},0)<1> {upper} {up}"
            yield f"shr (M1_NM, {lanes}) H({at},0)<2> {self._words(row)} {down}"
            # x78 of bfn is the truth table of a & b ^ c
            yield f"bfn.x78 (M1_NM, {lanes}) P({at},0)<1> M(0,0)<0;1,0> P({at},0)<1;1,0> E(0,0)<0;1,0>"

    def _masked_bytes(self) -> Iterator[str]:
        """Of pairs of rows: bytes with a bias, in 16 bits each, which lanes read through the region and mask."""
        columns, region, masked = self.columns, self.columns.region, self.masked
        assert region is not None
        assert masked is not None
        span = 1 << ((self.blocks - 1) * columns.step + max(columns.offsets)).bit_length()  # bytes of a row
        pairs, inverted = min(32 // span, self.rows // 2), masked[1] & 15
        bias, regs = masked[1] & 0xFFF0 | inverted << 4 | inverted, TEMPORARY_ROWS // 2
        for number, first in enumerate(range(0, self.rows // 2, pairs)):
            y = number % 2 * regs  # in turn: one variable for all rows would live as long as the statement
            for half in range(2):
                at = columns.start + (2 * first + half) * columns.pitch
                yield f"xor (M1_NM, {pairs * span}) H({y},{half})<2> W({at // 64},{at % 64})" \
                    f"<{2 * columns.pitch};{span},1> {bias:#x}:uw"
            for pair in range(pairs):
                unit, word = divmod(pair * span, 16)
                yield f"and (M1_NM, {16 * self.blocks}) P({(first + pair) * self.blocks},0)<1> " \
                    f"Y({y + unit},{word})<{region[0]};{region[1]},{region[2]}> M(0,0)<0;16,1>"

    def _portable(self, result: str) -> str:
        parts = []
        for row in range(0, self.rows, 2 if self.masked else 1):
            for block in range(self.blocks):
                part = self._taken(row, block)
                if self.masked is not None:
                    mask, bias = self.masked
                    part = f"(({part} & 0xffffu) | {self._taken(row + 1, block)} << {_HALF}) & {mask:#x}u ^ {bias:#x}u"
                parts.append(part)
        # All lanes take part in each shuffle.
        lines = ["  const uint down = mask & 15u ? 0u : 4u;\n"] if self.by_masks else []
        lines += [f"  const uint w{number} = {part};\n" for number, part in enumerate(parts)]
        names = ", ".join(f"w{number}" for number in range(len(parts)))
        return "".join(lines) + f"  return ({result})({names});\n"

    def _taken(self, row: int, block: int) -> str:
        """OpenCL C for the shifted words of a row, or the floats."""
        unit, first = divmod(self.columns.start + row * self.columns.pitch + block * self.columns.step, 16)
        lanes = index_table([first + offset for offset in self.columns.offsets], "lane")
        word = f"words.s{unit:x}" if self.units > 1 else "words"
        moved = f"intel_sub_group_shuffle((uint){word}, {lanes})"
        return f"as_uint(convert_float({moved} & mask))" if self.floats else f"({moved} >> down)"


def shifts(columns: WordColumns, lane: str) -> str:
    """OpenCL C for the number of bits by which a lane's word is shifted to the right."""
    count = len(columns.bits)
    period = next(period for period in range(1, count + 1) if columns.bits == columns.bits[:period] * (count // period))
    table = number_table(columns.bits[:period], lane if period == count else f"({lane} % {period}u)")
    assert table is not None  # entries of three bits at most
    return table
