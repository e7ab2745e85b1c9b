"""``xetile emit``: one kernel as source text, SPIR-V, device binary or disassembly."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from codegen.runtime.devices import requested_spirv_compiler
from xetile.compiler.compiled import CompiledKernel
from xetile.tools.cli.arguments import add_operands, add_target, constants_of, described
from xetile.tools.cli.output import write_bytes, write_text
from xetile.tools.cli.sources import kernel_of

FORMATS: Mapping[str, Callable[[CompiledKernel], str | bytes]] = {
    "opencl": lambda compiled: compiled.opencl,
    "sycl": lambda compiled: compiled.sycl,
    "spirv": lambda compiled: compiled.spirv(requested_spirv_compiler() or "sycl"),
    "binary": lambda compiled: compiled.binary(),
    "isa": lambda compiled: str(compiled.isa()),
    "report": lambda compiled: str(compiled.report()),
}
"""Output formats, by name."""


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("emit", help="make source text, SPIR-V or machine code of a kernel")
    parser.add_argument("file", help="MLIR text, - for standard input, or FILE.py:kernel")
    parser.add_argument("--format", choices=FORMATS, default="opencl", help="what to make (default: opencl)")
    parser.add_argument("--kernel", metavar="NAME", help="which kernel, where the file has several")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write, by default standard output")
    add_target(parser)
    add_operands(parser, "64x32xbf16 (? for a size known at run time) or a number; by default what the text has")
    parser.set_defaults(command=command)


def command(args: argparse.Namespace) -> None:
    """Write one kernel in one format.

    Raises:
        XeError: the file does not read, the kernel cannot be lowered, or a compiler is missing or fails.
    """
    kernel = kernel_of(args.file, args.kernel)
    compiled = kernel.lower(*described(kernel, args.operands), target=args.target, **constants_of(args.constant))
    output = FORMATS[args.format](compiled)
    if isinstance(output, bytes):
        write_bytes(output, args.output)
    else:
        write_text(output, args.output)
