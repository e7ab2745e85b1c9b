"""Instruction mix of a kernel's assembly, in total and in the hot loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

CATEGORIES = (
    "dpas",
    "load_block2d",
    "store_block2d",
    "prefetch",
    "load",
    "store",
    "atomic",
    "slm",
    "scratch",
    "sync",
    "scalar",
    "vector",
    "branch",
    "other",
)
"""Instruction categories. ``scalar`` and ``vector`` are arithmetic and moves, by execution size; ``load`` and ``store``
exclude 2D block IO, SLM and ``scratch``, which is private and spilled memory; ``sync`` is barriers, fences, waits."""

_LABEL = re.compile(r"(\w+):\s*$")
_INSTRUCTION = re.compile(r"\s*(?:\([^)|]*\)\s*)?([a-z][\w.]*)(?=\s|$)")
_EXECUTION_SIZE = re.compile(r"\((\d+)\|M\d+\)\s+(\S+)")
_PIPES = {"f": "float", "hf": "float", "bf": "float", "df": "double"}
"""ALU pipes by destination type, as the scoreboard's distances tell them apart; all others are integers."""
_TYPE_BYTES = {"b": 1, "ub": 1, "w": 2, "uw": 2, "hf": 2, "bf": 2, "d": 4, "ud": 4, "f": 4, "q": 8, "uq": 8, "df": 8}
_OPERAND_TYPE = re.compile(r":([a-z]+)\b")
# Dummy dpas that the compiler inserts before another as a workaround of a hardware bug of Xe-HPG: without an
# accumulator, and with the same registers as both operands, whatever they hold.
_IDLE_DPAS = re.compile(r"\)\s+r\d+:\w+\s+null:\w+\s+(r\d+):\w+\s+\1\.0:\w+")
_GATHER = re.compile(r"\.d\d+(?:u\d+)?(?:x\d+)?\.a|scattered")  # blocks end in t: d32x16t.a64
_BRANCHES = frozenset("jmpi goto join if else endif while break cont brd brc call calla ret halt".split())  # noqa: SIM905
# Messages are classified by the disassembler's comment; the first match counts.
_MESSAGES = (
    (r"end of thread", "other"),
    (r"fence|barrier", "sync"),
    (r"\.ss\[|scratch", "scratch"),
    (r"\bslm\b", "slm"),
    (r"atomic", "atomic"),
    (r"store_block2d", "store_block2d"),
    (r"load_block2d", "load_block2d"),
    (r"\b(load|.*\bread)", "load"),
    (r"\b(store|.*\bwrite)", "store"),
)


@dataclass(frozen=True)
class Instruction:
    """Instruction: opcode (``dpas.8x8``), category, branch target labels, and whether each lane has an address.

    Arithmetic and moves also have their ALU pipe, and the bytes of all lanes of their widest operand.
    """

    opcode: str
    category: str
    labels: tuple[str, ...] = ()
    gather: bool = False
    pipe: str = ""
    operand_bytes: int = 0


@dataclass(frozen=True)
class InstructionMix:
    """Instruction counts by category and by opcode; ``gathers`` are loads and stores with an address a lane.

    ``arithmetic`` counts by ALU pipe and bytes of the widest operand.
    """

    categories: Counter[str]
    opcodes: Counter[str]
    gathers: int = 0
    arithmetic: Counter[tuple[str, int]] = field(default_factory=Counter)

    @classmethod
    def of(cls, instructions: Iterable[Instruction]) -> InstructionMix:
        """Count instructions."""
        listed = list(instructions)
        return cls(Counter(i.category for i in listed), Counter(i.opcode for i in listed),
                   sum(i.gather for i in listed), Counter((i.pipe, i.operand_bytes) for i in listed if i.pipe))

    @property
    def total(self) -> int:
        """Number of instructions."""
        return self.opcodes.total()

    @property
    def density(self) -> float:
        """Fraction of dpas among the instructions, 0 to 1."""
        return self.categories["dpas"] / self.total if self.total else 0.0

    def alu_passes(self, register_bytes: int) -> dict[str, int]:
        """Passes through each ALU pipe: one for each register that the widest operand fills, at least one."""
        found: Counter[str] = Counter()
        for (pipe, size), count in self.arithmetic.items():
            found[pipe] += count * ceil(size / register_bytes)
        return dict(found)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.categories[name]} {name}" for name in CATEGORIES if self.categories[name])
        return f"{self.total} instructions ({counts}), density {self.density:.3f}"


@dataclass(frozen=True)
class KernelMix:
    """Instruction mix of a kernel, and of its hot loop if it has a loop.

    Attributes:
        whole: all instructions.
        loop: those of the hot loop.
        others: outermost other loops of dpas, in order: neither around the hot loop nor inside it.
    """

    whole: InstructionMix
    loop: InstructionMix | None
    others: tuple[InstructionMix, ...] = ()


def read_mix(asm: str) -> KernelMix:
    """Instruction mix of one kernel's assembly, as :func:`codegen.toolchain.ocloc.disassemble` returns it."""
    instructions, positions = read_instructions(asm)
    loops = _loops(instructions, positions)
    hot = _hot_loop(instructions, loops)
    whole = InstructionMix.of(instructions)
    if hot is None:
        return KernelMix(whole, None)
    apart = [loop for loop in loops if loop[1] <= hot[0] or hot[1] <= loop[0]]
    others = [InstructionMix.of(instructions[slice(*loop)]) for loop in apart
              if not any(_is_inside(loop, other) for other in apart)]
    return KernelMix(whole, InstructionMix.of(instructions[slice(*hot)]),
                     tuple(mix for mix in others if mix.categories["dpas"]))


def hot_lines(asm: str) -> range:
    """Line numbers of the hot loop, from 0; empty where there is no loop."""
    instructions, positions = read_instructions(asm)
    hot = _hot_loop(instructions, _loops(instructions, positions))
    if hot is None:
        return range(0)
    numbers = [number for number, line in enumerate(asm.splitlines())
               if not _LABEL.match(line) and _INSTRUCTION.match(line)]
    return range(numbers[hot[0]], numbers[hot[1] - 1] + 1)


def read_instructions(asm: str) -> tuple[list[Instruction], dict[str, int]]:
    """Parse the instructions in order, and the position of each label."""
    instructions: list[Instruction] = []
    positions: dict[str, int] = {}
    for line in asm.splitlines():
        if label := _LABEL.match(line):
            positions[label[1]] = len(instructions)
        elif match := _INSTRUCTION.match(line):
            instructions.append(_instruction(match[1], line))
    return instructions, positions


def _instruction(opcode: str, line: str) -> Instruction:
    code, _, comment = line.partition("//")
    name = opcode.split(".")[0]
    if name in _BRANCHES:
        return Instruction(opcode, "branch", tuple(re.findall(r"\bL\w+", code)))
    shape = _EXECUTION_SIZE.search(code)
    size, target = (shape[1], shape[2]) if shape else ("1", "")
    if name == "dpas" and _IDLE_DPAS.search(code):
        return Instruction(opcode, "other")
    category = _category(name, size, target, opcode, comment)
    if category in ("scalar", "vector"):
        types = _OPERAND_TYPE.findall(code) or [""]
        widest = max(_TYPE_BYTES.get(kind, 1) for kind in types)  # packed immediates such as :uv are no wider
        pipe = "math" if name == "math" else _PIPES.get(types[0], "integer")
        return Instruction(opcode, category, pipe=pipe, operand_bytes=int(size) * widest)
    return Instruction(opcode, category, gather=category in ("load", "store") and bool(_GATHER.search(comment)))


def _category(name: str, size: str, target: str, opcode: str, comment: str) -> str:
    if name in ("dpas", "dpasw", "bdpas"):
        return "dpas"
    if name.startswith("send"):
        return _message(opcode, target, comment)
    if name in ("sync", "wait"):
        return "sync"
    if name in ("nop", "illegal"):
        return "other"
    return "scalar" if size == "1" else "vector"


def _message(opcode: str, target: str, comment: str) -> str:
    text = f"{comment} {opcode}"
    kind = next((kind for pattern, kind in _MESSAGES if re.search(pattern, text)), "other")
    # A prefetch is a load whose destination is the null register.
    return "prefetch" if target == "null" and kind in ("load", "load_block2d") else kind


def _loops(instructions: Sequence[Instruction], positions: dict[str, int]) -> list[tuple[int, int]]:
    """Loops as ranges, end exclusive, from a label to the last backward branch to it."""
    ends: dict[int, int] = {}
    for index, instruction in enumerate(instructions):
        for start in (positions.get(label, index + 1) for label in instruction.labels):
            if start <= index:
                ends[start] = index + 1
    return sorted(ends.items())


def _hot_loop(instructions: Sequence[Instruction], loops: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Hot loop: the innermost loop with most dpas, or without dpas, with most vector multiply-adds.

    Of several with as many it is the shortest: versions of one loop have the same products.

    If all of them are in outer loops, the shortest of those with the most; without any, the longest innermost loop.
    """
    innermost = [loop for loop in loops if not any(_is_inside(other, loop) for other in loops)]
    for is_product in (_is_dpas, _is_vector_mad):
        products = {loop: sum(map(is_product, instructions[slice(*loop)])) for loop in loops}
        if any(products[loop] for loop in innermost):
            return max(innermost, key=lambda loop: (products[loop], loop[0] - loop[1]))
        if any(products.values()):
            return max(loops, key=lambda loop: (products[loop], loop[0] - loop[1]))
    return max(innermost, key=lambda loop: loop[1] - loop[0], default=None)


def _is_dpas(instruction: Instruction) -> bool:
    return instruction.category == "dpas"


def _is_vector_mad(instruction: Instruction) -> bool:
    return instruction.category == "vector" and instruction.opcode.startswith("mad")


def _is_inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]
