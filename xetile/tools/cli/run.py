"""``xetile run``: launch of a kernel on arrays from files or on random numbers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.support.errors import ArgumentError
from xegpu.support.files import writing
from xetile.compiler.arguments import Spec
from xetile.jit.base import BaseKernel
from xetile.tools.cli.arguments import add_operands, add_target, array_of, constants_of, operand
from xetile.tools.cli.sources import kernel_of


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("run", help="launch a kernel")
    parser.add_argument("file", help="MLIR text, - for standard input, or FILE.py:kernel")
    parser.add_argument("--kernel", metavar="NAME", help="which kernel, where the file has several")
    parser.add_argument("--grid", metavar="X,Y,Z", help="work-groups along one to three axes")
    parser.add_argument("--where", default="numpy", help="numpy, numpy:xegpu, opencl:cpu, ... (default: numpy)")
    parser.add_argument("--seed", type=int, default=0, help="of the first random array; the next have the next numbers")
    parser.add_argument("-o", "--output", action="append", default=[], metavar="FILE",
                        help="a .npy file for an array that the kernel writes; may be repeated, in their order")
    add_target(parser)
    add_operands(parser, "a.npy, a.npy:bf16, random:64x32:bf16, zeros:64x32:f32 or a number")
    parser.set_defaults(command=command)


def command(args: argparse.Namespace) -> None:
    """Launch a kernel; arrays that it writes go to files or are printed.

    Raises:
        XeError: the launch is refused, or fails.
    """
    kernel, constants = kernel_of(args.file, args.kernel), constants_of(args.constant)
    arguments = [operand(word, args.seed + position) for position, word in enumerate(args.operands)]
    if described := next((word for word, value in zip(args.operands, arguments, strict=True)
                          if isinstance(value, Spec)), None):
        raise ArgumentError("XT8050", f"--arg {described} describes an array without data",
                            f"write random:{':'.join(described.rsplit('x', 1))}, or name a file")
    outputs = _outputs(kernel, arguments, constants, args)
    if args.output and len(args.output) != len(outputs):
        raise ArgumentError("XT8051", f"{kernel.name} writes {', '.join(outputs) or 'nothing'}, and -o names "
                            f"{len(args.output)} files",
                            f"give -o for each of them: {len(outputs)}" if outputs else "leave -o out")
    if args.grid is None and kernel.grid_function is None:
        raise ArgumentError("XT8052", f"{kernel.name} has no grid", "give --grid 4,4")
    bound = kernel.on(args.where, target=args.target)
    if args.grid is None:
        bound(*arguments, **constants)
    else:
        bound[_grid(args.grid)](*arguments, **constants)
    for name, path in zip(outputs, args.output or [None] * len(outputs), strict=True):
        _show(name, outputs[name], path)


def _grid(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(count) for count in text.split(","))
    except ValueError:
        raise ArgumentError("XT8053", f"--grid {text} is not one to three integers", "write --grid 4,4") from None


def _outputs(kernel: BaseKernel, arguments: Sequence[Any], constants: dict[str, Any],
             args: argparse.Namespace) -> dict[str, Any]:
    """Arrays that the kernel writes, by name."""
    compiled = kernel.lower(*arguments, target=args.target, **constants)
    return {kernel.parameters[position]: array_of(arguments[position]) for position in compiled.written}


def _show(name: str, array: np.ndarray[Any, Any], path: str | None) -> None:
    shape = "x".join(map(str, array.shape))
    if path is None:
        print(f"{name}: {shape} {array.dtype}\n{array}")
        return
    # .npy has no bf16 and no 8-bit floats, whose kind may be that of NumPy's own floats.
    storable = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
    with writing(path), open(path, "wb") as file:
        np.save(file, storable, allow_pickle=False)
    print(f"{name}: {shape} {array.dtype} to {path}")
