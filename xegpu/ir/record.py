"""Records of block operations: element types, defined inputs, rounding.

Operations of arith and math have theirs in :data:`xegpu.mlir.elementwise.RECORDS`; those of the vector, XeGPU, XeTile
and SuperVector dialects are the class variable ``RECORD``. Verifiers ask for the element types, the reference's table
of operations prints all of it, and ``tests/operations`` runs each operation of each type and refuses the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import vector
from xdsl.ir import Operation

from xegpu.ir.dtypes import NUMBERS, STORED, DType, i1, index


@dataclass(frozen=True)
class Record:
    """Record of a block operation.

    Attributes:
        elements: element types of the vectors, tiles, descriptors and arrays that it takes and gives, packed 4-bit
            integers aside; masks of i1 and positions of index stand beside them.
        defined: the inputs for which it is defined: all (elements outside an array are padded or dropped), enabled
            positions inside the array (``"positions"``), or arrival of all subgroups that take part (``"arrival"``).
        rounding: how its results round: not at all (``""``, bits are moved), once (``"once"``), or once behind a sum
            in f32 or in the element type, in any order (``"sum"``).
    """

    elements: tuple[DType, ...] = ()
    defined: Literal["", "positions", "arrival"] = ""
    rounding: Literal["", "once", "sum"] = ""


MOVED = Record(STORED)
"""Record of operations that move elements, whatever they are."""
ADDRESSED = tuple(dtype for dtype in STORED if dtype is not i1)
"""Element types that are addressed one by one."""
GATHERED = Record(ADDRESSED, defined="positions")
"""Record of operations on scattered tiles."""
WORDS = Record(tuple(dtype for dtype in ADDRESSED if dtype.bits <= 32), defined="positions")
"""Record of gathers of words, of elements of 32 bits or fewer."""
COUNTED = Record((*NUMBERS, index))
"""Record of iota."""

_FOREIGN = {vector.BroadcastOp: Record((*NUMBERS, i1)), vector.ShuffleOp: MOVED}
"""Records of operations of xDSL's vector dialect, whose classes are not ours to change."""


def record_of(kind: type[Operation]) -> Record | None:
    """Record of an operation class, None if it has none."""
    record: Record | None = getattr(kind, "RECORD", None) or _FOREIGN.get(kind)  # type: ignore[call-overload]
    return record
