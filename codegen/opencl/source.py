"""Emitted kernel in parts: parameters, file-scope declarations, body, builtins. OpenCL C is one print of them.

:mod:`codegen.sycl` prints the same parts as C++. Text that an author wrote (element-wise text, an edited program)
has no parts; its prototypes and the builtins that it calls are found by their spelling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from xegpu.dialect.debug import Assertion
from xegpu.ir.dtypes import DType
from xegpu.support.errors import TextError

_PROTOTYPE = re.compile(r"(?m)^(?!static\b)(\w[^\n{}#;]*?\b(\w+)\((?!\()[^\n{}#;]*\);\n)")
_PREDEFINED = re.compile(r"\b(?:intel_sub_group_(?:2d_block_\w+|\w*matrix_mad\w*)|__opencl_c_ext_fp\w+)")
_INTERNAL = "__builtin_IB_", "__internal_intel_"


@dataclass(frozen=True)
class Parameter:
    """Kernel parameter.

    Attributes:
        name: its name.
        type: its C type, or the pointee's.
        dtype: element type of the argument; None for a size or a stride.
        pointer: whether it is a pointer to global memory.
        read_only: whether the kernel only reads through the pointer.
    """

    name: str
    type: str
    dtype: DType | None = None
    pointer: bool = False
    read_only: bool = False

    def __str__(self) -> str:
        return f"global {self.type} *{self.name}" if self.pointer else f"{self.type} {self.name}"


@dataclass(frozen=True)
class Prototype:
    """Prototype of an external function: one that the device's compiler knows.

    Attributes:
        name: the function's name.
        text: the prototype in OpenCL C.
    """

    name: str
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def is_internal(self) -> bool:
        """Whether it is an internal builtin of Intel's compiler, which has C linkage."""
        return self.name.startswith(_INTERNAL)


Declaration = str | Prototype
"""File-scope text before the kernel: a helper function or a macro as it stands, or a prototype."""


@dataclass(frozen=True)
class Source:
    """Emitted program with its launch parameters.

    Attributes:
        name: the kernel's name in the text.
        parameters: its parameters.
        body: its statements.
        options: build options on the device that it was made for.
        subgroups: subgroups of a work-group.
        lanes: work-items of a subgroup.
        arguments: for each argument of the kernel its dimensions, None for a number: an array passes its pointer,
            then its sizes, then its strides, as 32-bit integers.
        declarations: declarations in front of the kernel, in order.
        macros: pragmas and macro definitions that stand before the declarations.
        predefined: builtins (DPAS, 2D block IO) and feature macros of the device's compiler that the text names, and
            that no header declares.
        identifiers: names of the kernel's variables.
        divergent_barriers: whether barriers stand in control flow that differs between subgroups.
        assertions: the kernel's own, which it reports in a buffer that it gets behind its arguments.
        prints: whether the kernel prints.
        edited: the author's text that replaces the print; None without an override.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: str
    options: str
    subgroups: int
    lanes: int
    arguments: tuple[int | None, ...]
    declarations: tuple[Declaration, ...] = ()
    macros: str = ""
    predefined: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    divergent_barriers: bool = False
    assertions: tuple[Assertion, ...] = ()
    prints: bool = False
    edited: str | None = None

    @property
    def is_watched(self) -> bool:
        """Whether a launch waits for the kernel to report prints or failed assertions."""
        return self.prints or bool(self.assertions)

    @property
    def local_size(self) -> int:
        """Work-items of a work-group."""
        return self.subgroups * self.lanes

    @cached_property
    def text(self) -> str:
        """The program in OpenCL C."""
        if self.edited is not None:
            return self.edited
        return f"{self.macros}{''.join(map(str, self.declarations))}{self._head}{self.body}}}\n"

    @property
    def _head(self) -> str:
        """Attributes and signature of the kernel."""
        return f"__attribute__((intel_reqd_sub_group_size({self.lanes})))\n" \
               f"__attribute__((reqd_work_group_size({self.local_size}, 1, 1)))\n" \
               f"kernel void {self.name}({', '.join(map(str, self.parameters))})\n{{\n"

    def read_back(self) -> Source:
        """The program with the declarations and the body of the edited text; unchanged without an override.

        Raises:
            TextError: the edited text lacks the kernel's attributes and signature, or ends otherwise than with it.
        """
        if self.edited is None:
            return self
        before, head, rest = self.edited.partition(self._head)
        body, brace, behind = rest.rpartition("}")
        if not head or not brace or behind.strip():
            raise TextError("XT1616",
                            f"the edited OpenCL C does not end with the kernel {self.name} as it was emitted, and SYCL "
                            "C++ is made of that",
                            "keep the kernel's attributes and parameters, and let it be the last function")
        return replace(self, macros="", declarations=split_prototypes(before), body=body, edited=None,
                       predefined=predefined_in(self.edited), identifiers=frozenset(re.findall(r"\w+", self.edited)))


def split_prototypes(text: str) -> tuple[Declaration, ...]:
    """An author's file-scope text, split at the prototypes of external functions, one a line."""
    pieces = _PROTOTYPE.split(text)
    found: list[Declaration] = [pieces[0]]
    for prototype, name, rest in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        found += [Prototype(name, prototype), rest]
    return tuple(piece for piece in found if piece)


def predefined_in(text: str) -> frozenset[str]:
    """Builtins and feature macros, as in :attr:`Source.predefined`, that an author's text names."""
    return frozenset(_PREDEFINED.findall(text))
