"""Atomic read-modify-write kinds (MLIR's ``arith.AtomicRMWKind``): legal element types and NumPy semantics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation

from xegpu.ir.dtypes import NUMBERS, DType, NDArray, arithmetic_result
from xegpu.ir.record import Record
from xegpu.mlir.elementwise import RECORDS


@dataclass(frozen=True)
class Kind:
    """Atomic read-modify-write kind.

    Attributes:
        name: as ``arith.AtomicRMWKind`` spells it.
        families: element type kinds that have it: ``f`` floats, ``i`` signless or signed integers, ``u`` unsigned ones.
        operation: the element-wise operation whose result is the new value; None if that is the operand.
    """

    name: str
    families: str
    operation: type[Operation] | None

    @property
    def unsigned(self) -> bool:
        """Whether integers count as unsigned whatever their type."""
        return self.operation is not None and RECORDS[self.operation].operands == "u"

    def updated(self, old: NDArray, value: NDArray, dtype: DType) -> NDArray:
        """New values, rounded to ``dtype``, in its compute type; arithmetic on tf32 is float32's."""
        combine = None if self.operation is None else RECORDS[self.operation].numpy
        if combine is None:
            return value
        if self.unsigned and dtype.kind == "i":
            unsigned = np.dtype(f"u{old.dtype.itemsize}")
            return np.asarray(combine(old.view(unsigned), value.view(unsigned))).view(old.dtype)
        return arithmetic_result(combine(old, value), dtype)


KINDS: dict[str, Kind] = {kind.name: kind for kind in (
    Kind("addf", "f", arith.AddfOp),
    Kind("addi", "iu", arith.AddiOp),
    Kind("assign", "fiu", None),
    Kind("maximumf", "f", arith.MaximumfOp),
    Kind("maxnumf", "f", arith.MaxnumfOp),
    Kind("maxs", "i", arith.MaxSIOp),
    Kind("maxu", "iu", arith.MaxUIOp),
    Kind("minimumf", "f", arith.MinimumfOp),
    Kind("minnumf", "f", arith.MinnumfOp),
    Kind("mins", "i", arith.MinSIOp),
    Kind("minu", "iu", arith.MinUIOp),
    Kind("mulf", "f", arith.MulfOp),
    Kind("muli", "iu", arith.MuliOp),
    Kind("andi", "iu", arith.AndIOp),
    Kind("ori", "iu", arith.OrIOp),
    Kind("xori", "iu", arith.XOrIOp),
)}
"""Kinds by name."""

_SHORT = {
    "add": ("addf", "addi", "addi"), "mul": ("mulf", "muli", "muli"), "max": ("maximumf", "maxs", "maxu"),
    "min": ("minimumf", "mins", "minu"), "exchange": ("assign",) * 3, "and": ("", "andi", "andi"),
    "or": ("", "ori", "ori"), "xor": ("", "xori", "xori"),
}
UPDATED = Record(NUMBERS, defined="positions", rounding="once")
"""Record of atomic updates, native or by a compare-and-swap loop."""


def full_name(kind: str, dtype: DType) -> str:
    """Resolve a short name with an element type to an ``AtomicRMWKind``: ``"add"`` is addf or addi."""
    names = _SHORT.get(kind)
    return (dict(zip("fiu", names, strict=True)).get(dtype.kind) if names else kind) or kind


def kinds_of(dtype: DType) -> tuple[str, ...]:
    """The kinds that an element type has."""
    return tuple(kind.name for kind in KINDS.values() if dtype in UPDATED.elements and dtype.kind in kind.families)


def fault(kind: str, dtype: DType) -> tuple[str, str, str]:
    """Diagnose an atomic update of this kind and element type: error code, message, hint.

    All are empty if nothing is.
    """
    if dtype not in UPDATED.elements:
        return "XT1448", f"{dtype} cannot be updated atomically", f"use one of {', '.join(map(str, UPDATED.elements))}"
    if kind not in kinds_of(dtype):
        return "XT1450", f"{dtype} has no atomic {kind}", f"use one of {', '.join(kinds_of(dtype))}"
    return "", "", ""
