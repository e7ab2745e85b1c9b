"""``xetile view``: HTML page of a kernel, every stage beside its source."""

from __future__ import annotations

import argparse
from typing import Any

from xegpu.target.targets import DEFAULT_TARGET
from xetile.compiler.viewer import View
from xetile.tools.cli.arguments import add_operands
from xetile.tools.cli.report import compiled_of


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("view", help="a page with every stage beside the source",
                                 description="Writes one HTML file that shows a kernel's source, every stage, what "
                                             "each pass changed, the machine code, and how tiles are spread.")
    parser.add_argument("words", nargs="+", metavar="FILE",
                        help="MLIR text, or FILE.py:kernel; then A=f16[4096,4096] for arguments, BM=128 for constants")
    parser.add_argument("--kernel", metavar="NAME", help="which kernel, where a file has several")
    parser.add_argument("--target", default=DEFAULT_TARGET,
                        help=f"the device that code is generated for (default: {DEFAULT_TARGET})")
    parser.add_argument("-o", "--output", default="kernel.html", metavar="PAGE.html", help="default: kernel.html")
    add_operands(parser, "4096x4096xbf16 or a number; by default what the text has")
    parser.set_defaults(command=command)


def command(args: argparse.Namespace) -> None:
    """Write the page.

    Raises:
        XeError: the file does not read, the kernel cannot be lowered, or the page cannot be written.
    """
    View(compiled_of(args)).save(args.output)
    print(f"{args.output} shows it")
