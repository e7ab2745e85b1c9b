"""Reads text of XeGPU's earlier generation (XeGPU-older.md), and converts its kernels to the present one.

A text is of that generation if it says so, by the attribute ``xegpu.generation = "older"`` of its module, or if it has
what only that one has: a ``mode``, a ``vnni_axis``, an ``mfence``, or a map that is named ``sg`` in a ``tdesc_attr``.
"""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr

from xegpu.interop.v1.dialect import context
from xegpu.interop.v1.exporter import exported
from xegpu.interop.v1.importer import converted
from xegpu.interop.v1.types import OlderDescType
from xegpu.rewrite.verifier import verify
from xetile.stages import STAGE, TARGET
from xetile.text import hardware
from xetile.text.kernels import printed
from xetile.text.reader import FOREIGN_READERS, Reader, descriptor_of_tile

GENERATION, OLDER = "xegpu.generation", "older"
"""A module's attribute that tells the generations apart, and its value."""
_READERS = {**FOREIGN_READERS, **dict.fromkeys(hardware.OLDER_RULES, hardware.read_older_operation)}
_COMMENT = re.compile(r"//[^\n]*")
_SIGNS = re.compile(rf'{re.escape(GENERATION)}\s*=\s*"{OLDER}"|[{{,]\s*mode\s*=\s*\w+|\bvnni_axis\s*='
                    r"|\b(?:XeGPU|XeGpu|xegpu)\.mfence\b|[<,]\s*sg\s*=\s*#")


def is_older(text: str) -> bool:
    """Whether a text is of the earlier generation."""
    return isinstance(text, str) and _SIGNS.search(_COMMENT.sub("", text)) is not None


class OlderReader(Reader):
    """A reader of the earlier generation, which also calls descriptors tiles."""

    readers = _READERS
    descriptor: type[Any] | None = OlderDescType

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        self.ctx = context()

    def parse_optional_type(self) -> Any:
        """A type, if one is there; ``tile<8x16xf32>`` is what the document calls some descriptors."""
        return descriptor_of_tile(self) or super().parse_optional_type()


def present(functions: list[func.FuncOp]) -> list[func.FuncOp]:
    """Kernels of the earlier generation as kernels of the present one.

    Raises:
        XeError: something in them cannot be; it points at the text's line.
    """
    made = [converted(function) for function in functions]
    for function in made:
        verify(function)
    return made


def older_text(module: ModuleOp) -> str:
    """Kernels of the present generation as text of the earlier one.

    Raises:
        XeError: something in them has no form there; it points at the author's line.
    """
    kept = {name: value for name, value in module.attributes.items() if name not in (STAGE, TARGET)}
    functions = [exported(function) for function in module.body.block.ops if isinstance(function, func.FuncOp)]
    for function in functions:
        verify(function)
    return printed(ModuleOp(functions, {**kept, GENERATION: StringAttr(OLDER)}))
