"""Blocks that lie wholly inside their arrays, on rows that messages may read: when they all do, known in front of them.

    for (; k < stop && m >= 0 && m + 32 <= height && ...; k += 32)  // rows read, without a question
    for (; k < stop; k += 32)                                       // what is left: asked block by block
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from codegen.opencl.values import Coordinate, Descriptor

_Span = tuple[int, int, int, int]


@dataclass
class Inside:
    """What a loop's body reads of arrays, noted while the body is written.

    Attributes:
        known: names that have their values when an iteration begins.
    """

    known: frozenset[str]
    _spans: dict[tuple[str, str, str, str, str, str, int, int], _Span] = field(default_factory=dict)

    def admits(self, desc: Descriptor, shape: tuple[int, int], size: int) -> bool:
        """Whether an iteration knows in front where a block lies; then it is asked there.

        Args:
            desc: the descriptor where the block is read.
            shape: rows and columns of the block.
            size: bytes of an element.
        """
        where = f"{desc.array.name} {desc.height} {desc.width} {desc.pitch} {desc.row} {desc.column}"
        if not all(word in self.known for word in re.findall(r"[A-Za-z_]\w*", where)):
            return False
        top, left = desc.row.offset, desc.column.offset
        key = (desc.array.name, desc.height, desc.width, desc.pitch, desc.row.base, desc.column.base, size,
               left * size % 4)
        span = (top, left, top + shape[0], left + shape[1])
        old = self._spans.get(key, span)
        self._spans[key] = (min(old[0], top), min(old[1], left), max(old[2], span[2]), max(old[3], span[3]))
        return True

    def condition(self) -> str:
        """C that asks for all blocks at once, "" if there are none."""
        asked: dict[str, None] = {}
        for (array, height, width, pitch, row, column, size, _), (top, left, bottom, right) in self._spans.items():
            first, last = ((Coordinate(row, y), Coordinate(column, x)) for y, x in ((top, left), (bottom, right)))
            asked |= dict.fromkeys((f"{first[0]} >= 0", f"{first[1]} >= 0", f"{last[0]} <= {height}",
                                    f"{last[1]} <= {width}"))
            if size < 4:
                at = f"(uint)(ulong){array} | (uint)({pitch}) * {size}u | (uint)({first[1]}) * {size}u"
                asked[f"(({at}) & 3u) == 0"] = None
        return " && ".join(asked)
