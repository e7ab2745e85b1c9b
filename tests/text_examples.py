"""Examples of the documents on XeTile and XeGPU, for the tests that read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

import xetile as xt

NAMES = ("offsets", "tile_offset", "base_shape", "base_stride", "base_strides")


@dataclass(frozen=True)
class Example:
    """Lines of a document, what they use, and what of them is a slip of the pen.

    Attributes:
        lines: as the document prints them.
        arguments: parameters of the function around them.
        slips: what the document has, what it must be, and what the error says of it.
    """

    lines: str
    arguments: str = ""
    slips: tuple[tuple[str, str, str], ...] = ()

    def text(self, mended: bool = True) -> str:
        """A function around the lines, with or without the slips."""
        lines = self.lines
        for old, new, _ in self.slips if mended else ():
            assert old in lines
            lines = lines.replace(old, new)
        pairs = [f"  %{name}:2 = builtin.unrealized_conversion_cast %i, %j : index, index to index, index\n"
                 for name in NAMES if f"%{name}:2" in lines]
        arguments = ", ".join(["%i: index, %j: index", *([self.arguments] if self.arguments else [])])
        return f"func.func @example({arguments}) {{\n{''.join(pairs)}{lines}\n  func.return\n}}\n"


def params(examples: dict[str, Example], table: dict[str, Example]) -> list[Any]:
    """Parameters of a test, by the names of the examples."""
    return [*(pytest.param(example, id=name) for name, example in examples.items()),
            *(pytest.param(example, id=f"table: {name}") for name, example in table.items())]


def check_reads(example: Example) -> None:
    """The example reads, and what is printed of it reads to the same."""
    module = xt.parse(example.text())
    assert str(xt.parse(str(module))) == str(module)


def check_slips(example: Example) -> None:
    """As the document prints it, it is an error that says what is wrong and where."""
    with pytest.raises(xt.TextError, match=re.escape(example.slips[0][2])) as caught:
        xt.parse(example.text(mended=False))
    assert "  help: " in str(caught.value)
    assert caught.value.location is not None
