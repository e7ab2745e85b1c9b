"""Decoded Xe instructions: operands, regions, scoreboard annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

_PACKED_BITS = {"s4": 4, "u4": 4, "s2": 2, "u2": 2}


@dataclass(frozen=True)
class DataType:
    """Type of the elements of an operand.

    Attributes:
        name: the assembler's name (``ud``, ``hf`` ...).
        storage: the NumPy type that holds an element in a register; one byte for types of fewer bits.
        kind: ``"f"`` float, ``"i"`` signed, ``"u"`` unsigned, ``"p"`` packed immediates.
    """

    name: str
    storage: np.dtype[Any]
    kind: str

    @property
    def bytes(self) -> int:
        """Size of an element in a register."""
        return self.storage.itemsize

    @property
    def bits(self) -> int:
        """Size of an element in an operand of a matrix product, which packs types of less than a byte."""
        return _PACKED_BITS.get(self.name, 8 * self.bytes)

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "f"


DATA_TYPES: Mapping[str, DataType] = {each.name: each for each in (
    *(DataType(name, np.dtype(storage), kind) for name, storage, kind in (
        ("ub", "u1", "u"), ("uw", "u2", "u"), ("ud", "u4", "u"), ("uq", "u8", "u"),
        ("b", "i1", "i"), ("w", "i2", "i"), ("d", "i4", "i"), ("q", "i8", "i"),
        ("hf", "f2", "f"), ("bf", ml_dtypes.bfloat16, "f"), ("f", "f4", "f"), ("df", "f8", "f"),
        ("tf32", "f4", "f"), ("bf8", ml_dtypes.float8_e5m2, "f"), ("hf8", ml_dtypes.float8_e4m3fn, "f"),
        ("u4", "u1", "u"), ("s4", "u1", "i"), ("u2", "u1", "u"), ("s2", "u1", "i"),
        ("v", "u4", "p"), ("uv", "u4", "p"), ("vf", "u4", "p"),
    )),
)}
"""Types by the assembler's name."""


@dataclass(frozen=True)
class Register:
    """Register of a register file.

    Attributes:
        file: ``r``, ``acc``, ``f``, ``a``, ``cr``, ``sr``, ``null`` ... as the assembler writes it.
        subregister: position inside the register, in elements of the operand's type.
    """

    file: str
    number: int = 0
    subregister: int = 0

    @property
    def is_null(self) -> bool:
        """Whether reads give nothing and writes go nowhere."""
        return self.file == "null"


@dataclass(frozen=True)
class Region:
    """Region of an operand: lane i is element ``(i // width) * vertical + (i % width) * horizontal``.

    A destination has ``horizontal`` alone. ``vertical`` is None where each lane (or row) has an address register of
    its own (``<1,0>``).
    """

    vertical: int | None
    width: int
    horizontal: int


@dataclass(frozen=True)
class RegisterOperand:
    """Operand in a register, addressed directly.

    Attributes:
        modifiers: of a source: ``"-"`` negated (not, for logic), ``"abs"``.
        macro: macro register of ``math.invm`` and its kind (``mme0`` ... ``nomme``), else empty.
    """

    register: Register
    region: Region
    type: DataType
    modifiers: tuple[str, ...] = ()
    macro: str = ""


@dataclass(frozen=True)
class IndirectOperand:
    """Operand in registers whose byte address is in an address register, plus ``offset`` bytes."""

    address: Register
    offset: int
    region: Region
    type: DataType
    modifiers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImmediateOperand:
    """Immediate: the bits of a value of ``type``."""

    bits: int
    type: DataType


@dataclass(frozen=True)
class LabelOperand:
    """Position of a branch target in the list of instructions."""

    target: int


Operand = RegisterOperand | IndirectOperand | ImmediateOperand | LabelOperand


@dataclass(frozen=True)
class Predicate:
    """Predicate of an instruction: ``function`` is empty (lane by lane) or ``any``, ``all``, ``any8h`` ..."""

    inverted: bool
    function: str = ""


@dataclass(frozen=True)
class Scoreboard:
    """Software scoreboard annotation (SWSB).

    Attributes:
        pipe: in-order pipe that is waited for: ``A`` all, ``F``, ``I``, ``L``, ``M``, empty for the instruction's own.
        distance: instructions back to the last one that must be done; 0 waits for nothing.
        token: token of out-of-order instructions, or None.
        token_use: ``""`` sets the token, ``"src"`` and ``"dst"`` wait for it.
    """

    pipe: str = ""
    distance: int = 0
    token: int | None = None
    token_use: str = ""


@dataclass(frozen=True)
class Instruction:
    """Decoded instruction.

    Attributes:
        index: position in the list of instructions; program counters count in it.
        offset: position in the code, bytes.
        op: mnemonic (``mov``, ``send`` ...).
        subop: its detail (``8x8`` of dpas, ``0xF8`` of bfn, the function of math and sync, the unit of send).
        execution_size: lanes.
        first_lane: lane of the thread that is lane 0 of the instruction (``M8``: 8).
        no_mask: whether it ignores the execution mask (``(W)``).
        predicate: reads :attr:`flag`.
        condition: ``lt``, ``eq`` ..., writes :attr:`flag`; ``eo`` of math macros; empty if none.
        flag: flag register of predicate and condition, in 16 bits (f1.1: number 1, subregister 1).
        destination: None for branches, messages and sync.
        options: ``Atomic``, ``AccWrEn``, ``EOT``, ``NoMask`` ...
        element: decoder's record of the instruction as it came, for messages.
    """

    index: int
    offset: int
    op: str
    subop: str
    execution_size: int
    first_lane: int = 0
    no_mask: bool = False
    predicate: Predicate | None = None
    condition: str = ""
    flag: Register | None = None
    saturate: bool = False
    destination: RegisterOperand | IndirectOperand | None = None
    sources: tuple[Operand, ...] = ()
    scoreboard: Scoreboard = Scoreboard()
    options: frozenset[str] = frozenset()
    element: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Mnemonic with its detail."""
        return f"{self.op}.{self.subop}" if self.subop else self.op
