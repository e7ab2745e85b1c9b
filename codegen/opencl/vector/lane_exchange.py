"""Cross-lane bit permutations and reductions of a fragment's words, as OpenCL C functions.

Every step works on all words, on the index bits of a linear layout (:mod:`xegpu.layout.linear_layout`): an exchange
swaps a unit bit with a lane bit, a fold combines lanes that differ in one bit. A step costs two or three selects and
one shuffle for two words; a shuffle by a constant distance is a few moves with register regions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from codegen.opencl.arith.predicate import register_bits
from codegen.opencl.emitter import Emitter
from codegen.opencl.values import UNSIGNED, Fragment
from xegpu.ir.dtypes import DType
from xegpu.layout.linear_layout import Bit, LaneBits

Combine = Callable[[str, str], str]
_WORD = 1 << 32
"""Numbers of 32 bits."""


def element_bits(dtype: DType) -> int:
    """Register bits of an element."""
    return max(register_bits(dtype), 8)


def shuffled_type(dtype: DType) -> str:
    """C type of shuffled elements: a word of 32 or 64 bits."""
    return "ulong" if element_bits(dtype) == 64 else "uint"


def bits_in(expression: str, dtype: DType) -> str:
    """Reinterpret an element as a shuffled word."""
    unsigned = UNSIGNED[element_bits(dtype)]
    bits = expression if dtype.register == unsigned else f"as_{unsigned}({expression})"
    return bits if element_bits(dtype) >= 32 else f"(uint)({bits})"


def bits_out(expression: str, dtype: DType) -> str:
    """Reinterpret a shuffled word as an element."""
    unsigned = UNSIGNED[element_bits(dtype)]
    bits = expression if element_bits(dtype) >= 32 else f"({unsigned})({expression})"
    return bits if dtype.register == unsigned else f"as_{dtype.register}({bits})"


def index_table(values: Sequence[int], lane: str) -> str:
    """Lookup ``values[lane]`` as arithmetic: a linear function, or a table of four bits a lane in one or two words."""
    step = values[1] - values[0] if len(values) > 1 else 0
    if step >= 0 and all(value == values[0] + step * i for i, value in enumerate(values)):
        return f"({lane} * {step}u + {values[0]}u)" if step else f"{values[0]}u"
    packed = sum(value << (4 * i) for i, value in enumerate(values))
    return f"((uint)({packed:#x}ul >> ({lane} * 4)) & 15u)"


def number_table(numbers: Sequence[int], lane: str) -> str | None:
    """Lookup of ``numbers[lane]`` in a constant of 32 or 64 bits, an entry a lane; None if it does not hold them.

    Entries are multiples of a common step, counted from the least number. They are ``uint``, modulo two to its bits.
    """
    least = min(numbers)
    step = gcd(*(number - least for number in numbers)) or 1
    entries = [(number - least) // step for number in numbers]
    bits = max(entries).bit_length()
    start, step = least % _WORD, step % _WORD
    if not bits:
        return f"{start}u"
    if entries == list(range(len(entries))):
        entry = lane
    elif bits * len(entries) <= 64:
        table = sum(entry << bits * i for i, entry in enumerate(entries))
        suffix, narrowed = ("u", "") if bits * len(entries) <= 32 else ("ul", "(uint)")
        entry = f"({narrowed}({table:#x}{suffix} >> {lane} * {bits}u) & {(1 << bits) - 1}u)"
    else:
        return None
    entry = entry if step == 1 else f"{entry} * {step}u"
    return f"({entry} + {start}u)" if start else f"({entry})"


class Words:
    """State of a permutation: a lane's words, their linear layout, and the emitted lines.

    Args:
        c_type: of every word: float, double, int, uint, long or ulong.
        names: an expression for each word, in the order of units.
        bits: their linear layout.
    """

    def __init__(self, c_type: str, names: Sequence[str], bits: LaneBits) -> None:
        self.c_type, self.names = c_type, list(names)
        self.lane: list[Bit | None] = list(bits.lane)
        self.unit: list[Bit] = list(bits.unit)
        self.lines: list[str] = []
        self._count = 0

    def name(self, expression: str) -> str:
        """Declare a variable for a new word."""
        name = f"w{self._count}"
        self._count += 1
        self.lines.append(f"const {self.c_type} {name} = {expression};")
        return name

    def named(self) -> None:
        """Assign every word to a variable."""
        self.names = [self.name(expression) for expression in self.names]

    def _pairs(self, position: int) -> list[tuple[int, int]]:
        step = 1 << position
        return [(i, i | step) for i in range(len(self.names)) if not i & step]

    def _shuffled(self, word: str, bit: int) -> str:
        return f"intel_sub_group_shuffle_xor({word}, {1 << bit}u)"

    def _shuffled_by_halves(self, word: str, bit: int) -> str:
        low, high = (self._shuffled(half, bit) for half in (f"(uint)({word})", f"(uint)({word} >> 32)"))
        return f"as_{self.c_type}((uint2)({low}, {high}))"

    def _upper(self, bit: int, yes: str, no: str) -> str:
        return f"(lane & {1 << bit}u) ? {yes} : {no}"

    def combine(self, position: int, combine: Combine) -> None:
        """Reduce a unit bit: combine words that differ in it."""
        self.names = [self.name(combine(self.names[a], self.names[b])) for a, b in self._pairs(position)]
        del self.unit[position]

    def fold(self, bit: int, combine: Combine, *, by_halves: bool = False) -> None:
        """Reduce a lane bit: combine lanes that differ in it; both get the result.

        Args:
            bit: the lane bit.
            combine: the combining function.
            by_halves: whether words of 64 bits are shuffled as two of 32.
        """
        shuffled = self._shuffled_by_halves if by_halves else self._shuffled
        self.names = [self.name(combine(word, shuffled(word, bit))) for word in self.names]
        self.lane[bit] = None

    def merge(self, bit: int, position: int, combine: Combine) -> None:
        """Reduce a lane bit and move a unit bit into it; half of the words remain."""
        merged = []
        for a, b in self._pairs(position):
            kept = self.name(self._upper(bit, self.names[b], self.names[a]))
            sent = self.name(self._upper(bit, self.names[a], self.names[b]))
            merged.append(self.name(combine(kept, self._shuffled(sent, bit))))
        self.names = merged
        self.lane[bit] = self.unit.pop(position)

    def exchange(self, bit: int, position: int) -> None:
        """Swap a lane bit with a unit bit."""
        names = list(self.names)
        for a, b in self._pairs(position):
            first, second = self.names[a], self.names[b]
            moved = self.name(self._shuffled(self.name(self._upper(bit, first, second)), bit))
            names[a], names[b] = self.name(self._upper(bit, moved, first)), self.name(self._upper(bit, second, moved))
        old = self.lane[bit]
        assert old is not None
        self.names, self.lane[bit], self.unit[position] = names, self.unit[position], old

    def choose(self, bit: int, position: int) -> None:
        """Move a unit bit into a replicated lane bit: each lane selects its words."""
        self.names = [self.name(self._upper(bit, self.names[b], self.names[a])) for a, b in self._pairs(position)]
        self.lane[bit] = self.unit.pop(position)

    def repeat(self, bit: int) -> None:
        """Move a lane bit into a unit bit: every lane gets the words of both."""
        old = self.lane[bit]
        assert old is not None
        moved = [self.name(self._shuffled(word, bit)) for word in self.names]
        low = [self.name(self._upper(bit, other, word)) for word, other in zip(self.names, moved, strict=True)]
        high = [self.name(self._upper(bit, word, other)) for word, other in zip(self.names, moved, strict=True)]
        self.names, self.lane[bit] = low + high, None
        self.unit.append(old)

    def arrange(self, target: LaneBits) -> None:
        """Permute the words to another linear layout."""
        while self._step(target):
            pass
        self._permute_lanes(target)
        self._order_units(target)

    def _step(self, target: LaneBits) -> bool:
        for bit, wanted in enumerate(target.lane):
            if wanted is not None and wanted in self.unit:
                move = self.choose if self.lane[bit] is None else self.exchange
                move(bit, self.unit.index(wanted))
                return True
        for bit, source_bit in enumerate(self.lane):
            if source_bit is not None and source_bit in target.unit:
                self.repeat(bit)
                return True
        return False

    def _permute_lanes(self, target: LaneBits) -> None:
        """Permute lane bits: one shuffle per word."""
        if all(wanted in (None, source_bit) for wanted, source_bit in zip(target.lane, self.lane, strict=True)):
            self.lane = [source_bit if wanted is not None else None
                         for wanted, source_bit in zip(target.lane, self.lane, strict=True)]
            return
        sources = [sum(1 << self.lane.index(wanted) for bit, wanted in enumerate(target.lane)
                       if wanted is not None and lane >> bit & 1) for lane in range(1 << len(self.lane))]
        table = index_table(sources, "lane")
        self.names = [self.name(f"intel_sub_group_shuffle({word}, {table})") for word in self.names]
        self.lane = list(target.lane)

    def _order_units(self, target: LaneBits) -> None:
        order = [self.unit.index(bit) for bit in target.unit]
        self.names = [self.names[sum(1 << source for position, source in enumerate(order) if unit >> position & 1)]
                      for unit in range(target.units)]
        self.unit = list(target.unit)


def packed_exchange(words: Sequence[str], dtype: DType, old: LaneBits, new: LaneBits) -> tuple[Words, list[str]]:
    """Convert elements to another linear layout: the shuffled words, and an expression for each result element.

    Elements of less than 32 bits are packed two or four to a word, if enough unit bits are unchanged.
    """
    together = max(32 // element_bits(dtype), 1)
    stay = [bit for bit in old.unit if bit in new.unit][:together.bit_length() - 1]
    before, after = (LaneBits(bits.lane, tuple(bit for bit in bits.unit if bit not in stay)) for bits in (old, new))
    groups = _groups(list(words), old.unit, before.unit, stay)
    moving = Words(shuffled_type(dtype), [_packed(group, dtype) for group in groups], before)
    moving.named()
    moving.arrange(after)
    parts = [_unpacked(name, len(groups[0]), dtype) for name in moving.names]
    elements = []
    for unit in range(new.units):
        values = {bit: unit >> position & 1 for position, bit in enumerate(new.unit)}
        elements.append(parts[_number_of_bits(after.unit, values)][_number_of_bits(stay, values)])
    return moving, elements


def _number_of_bits(bits: Sequence[Bit], values: dict[Bit, int]) -> int:
    return sum(values[bit] << position for position, bit in enumerate(bits))


def _groups(words: list[str], unit: Sequence[Bit], kept: Sequence[Bit], packed: Sequence[Bit]) -> list[list[str]]:
    """Group words that differ in the packed unit bits only, by the value of the unchanged bits."""
    groups = [[""] * (1 << len(packed)) for _ in range(1 << len(kept))]
    for number, word in enumerate(words):
        values = {bit: number >> position & 1 for position, bit in enumerate(unit)}
        groups[_number_of_bits(kept, values)][_number_of_bits(packed, values)] = word
    return groups


def _packed(group: list[str], dtype: DType) -> str:
    if len(group) == 1:
        return bits_in(group[0], dtype)
    vector = f"{UNSIGNED[element_bits(dtype)]}{len(group)}"
    word = f"({vector})({', '.join(bits_in(word, dtype).removeprefix('(uint)') for word in group)})"
    return f"as_uint({word})" if len(group) * element_bits(dtype) == 32 else f"(uint)as_ushort({word})"


def _unpacked(word: str, count: int, dtype: DType) -> list[str]:
    if count == 1:
        return [bits_out(word, dtype)]
    narrow = f"(ushort)({word})" if count * element_bits(dtype) == 16 else word
    vector_expression = f"as_{UNSIGNED[element_bits(dtype)]}{count}({narrow})"
    parts = [f"{vector_expression}.s{i}" for i in range(count)]
    is_unsigned = dtype.register == UNSIGNED[element_bits(dtype)]
    return [part if is_unsigned else f"as_{dtype.register}({part})" for part in parts]


def called(emitter: Emitter, name: str, operands: Sequence[tuple[str, str]], words: Words, result: Fragment,
           elements: Sequence[str]) -> None:
    """Emit a function that permutes words, and its call.

    Args:
        emitter: the emitter.
        name: name of the function; it is emitted once.
        operands: type and argument of each parameter; the lines of ``words`` call them ``v0``, ``v1`` ...
        words: the lines.
        result: variables to declare for the result; a single one is returned, several are passed by pointer.
        elements: an expression for each word of the result.
    """
    single, width = len(result.names) == 1, result.width
    outputs = [] if single else [f"private {result.c_type} *out{i}" for i in range(len(result.names))]
    parameters = ", ".join([*(f"{c_type} v{i}" for i, (c_type, _) in enumerate(operands)), *outputs])
    groups = [", ".join(elements[i:i + width]) for i in range(0, len(elements), width)]
    values = [group if width == 1 else f"({result.c_type})({group})" for group in groups]
    written = [f"return {values[0]};"] if single else [f"*out{i} = {value};" for i, value in enumerate(values)]
    body = "".join(f"  {line}\n" for line in ("const uint lane = get_sub_group_local_id();", *words.lines, *written))
    emitter.function(f"static {result.c_type if single else 'void'} {name}({parameters})\n{{\n{body}}}\n")
    arguments = ", ".join([argument for _, argument in operands] + ([] if single else [f"&{n}" for n in result.names]))
    if single:
        emitter.line(f"{result.c_type} {result.names[0]} = {name}({arguments});")
        return
    emitter.line(f"{result.c_type} {', '.join(result.names)};")
    emitter.line(f"{name}({arguments});")
