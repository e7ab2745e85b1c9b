"""Examples of the documents on XeTile and XeGPU, for the tests that read them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

NAMES = ("offsets", "tile_offset", "base_shape", "base_stride", "base_strides")


@dataclass(frozen=True)
class Example:
    """Lines of a document with their arguments and their slips of the pen.

    Attributes:
        lines: as the document prints them.
        arguments: parameters of the function around them.
        slips: of each the document's text, the correct text, and the code of the error.
    """

    lines: str
    arguments: str = ""
    slips: tuple[tuple[str, str, str], ...] = ()

    def text(self, corrected: int | None = None) -> str:
        """A function around the lines, the first ``corrected`` slips corrected; by default all."""
        lines = self.lines
        for old, new, _ in self.slips[:corrected]:
            assert old in lines
            lines = lines.replace(old, new)
        pairs = [f"  %{name}:2 = scf.if %either -> (index, index) {{\n    scf.yield %i, %j : index, index\n"
                 "  } else {\n    scf.yield %j, %i : index, index\n  }\n" for name in NAMES if f"%{name}:2" in lines]
        if pairs:
            pairs.insert(0, "  %either = arith.cmpi slt, %i, %j : index\n")
        arguments = ", ".join(["%i: index, %j: index", *([self.arguments] if self.arguments else [])])
        return f"func.func @example({arguments}) {{\n{''.join(pairs)}{lines}\n  func.return\n}}\n"


def read_document(path: Path) -> dict[str, Example]:
    """The examples of a document: sections of a file, each with its name, its arguments, its slips, and its lines.

    A section is ``// ===== name``, then ``// arguments: ...`` and ``// slip: ["old", "new", "XT2036"]``
    where there are any, then the lines as the document prints them.
    """
    examples = {}
    for section in path.read_text(encoding="utf-8").split("// ===== ")[1:]:
        name, _, rest = section.partition("\n")
        arguments, slips = "", []
        while match := re.match(r"// (arguments|slip): (.*)\n", rest):
            rest = rest[match.end():]
            if match[1] == "slip":
                slips.append(tuple(json.loads(match[2])))
            else:
                arguments = match[2]
        examples[name] = Example(rest.removesuffix("\n"), arguments, tuple(slips))
    return examples
