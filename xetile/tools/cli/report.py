"""``xetile report``: resource use of kernels' machine code, and predicted times."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from codegen.perf.performance_model import Prediction
from xegpu.support.errors import ArgumentError, XeError
from xegpu.target.machine_model import MACHINES
from xegpu.target.targets import DEFAULT_TARGET, TARGETS
from xetile.compiler.arguments import Spec
from xetile.compiler.compiled import CompiledKernel
from xetile.compiler.report import Report
from xetile.compiler.report.cost import trip_count
from xetile.jit.base import BaseKernel
from xetile.jit.parsed import ParsedKernel
from xetile.tools.cli.arguments import add_operands, constants_of, described, misses_file, operand, undescribed
from xetile.tools.cli.output import show
from xetile.tools.cli.sources import kernel_of

_USUAL_TYPES = (("bf16", "f32"), ("f32", "f32"), ("bf16", "bf16"))
"""Element types of all arguments but the last, and of the last, that are tried where none are given."""
_NAMED_SPEC = re.compile(r"(\w+)\[([\d?]+(?:,[\d?]+)*)\]")


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("report", help="what machine code uses, and how fast it should be",
                                 description="Compiles kernels with ocloc and prints what the machine code uses. "
                                             "Several kernels or targets are printed side by side.")
    parser.add_argument("words", nargs="+", metavar="FILE",
                        help="MLIR text, or FILE.py:kernel; then A=f16[4096,4096] for arguments (? for a size known at "
                             "run time) and BM=128 for constants")
    parser.add_argument("--kernel", metavar="NAME", help="which kernel, where a file has several")
    parser.add_argument("--target", default=DEFAULT_TARGET,
                        help=f"one or more, with commas between (default: {DEFAULT_TARGET})")
    parser.add_argument("--shape", metavar="MxNxK", help="the problem that a time is predicted for, by default "
                                                         "what the arguments say, else 4096x4096x4096")
    parser.add_argument("--machine", choices=MACHINES, help="the device that a time is predicted for")
    parser.add_argument("--plot", metavar="FILE.png", help="draw the roofline with the kernels on it (matplotlib)")
    add_operands(parser, "4096x4096xbf16 or a number; by default what a text says")
    parser.set_defaults(command=command)


def command(args: argparse.Namespace) -> None:
    """Print the report of one kernel, or of several side by side.

    Raises:
        XeError: a file does not read, a kernel cannot be lowered, or ocloc is missing or fails.
    """
    files = [word for word in args.words if not _is_assignment(word)]
    if not files:
        raise misses_file("report", ": report FILE.py:kernel A=f16[64,64]")
    targets = _targets(args.target)
    wanted = _problem_size(args.shape)
    found = [_reported(kernel_of(file, args.kernel), target, args, wanted) for file in files for target in targets]
    reports = [report for report, _ in found]
    tables = [report.table(shape, args.machine) for report, shape in found]
    show(tables[0] if len(tables) == 1 else reports[0].compare(*reports[1:], tables=tables))
    if args.plot:
        from xetile.compiler.report.roofline import plot

        plot(args.plot, [(report, _predicted(report, shape, args.machine)) for report, shape in found])


def _predicted(report: Report, shape: Sequence[int] | None, machine: str | None) -> Prediction:
    return report.predict(shape or report.usual_shape(), machine=machine)


def _is_assignment(word: str) -> bool:
    return word.partition("=")[0].isidentifier() and "=" in word


def _targets(text: str) -> list[str]:
    names = text.split(",")
    for unknown in (name for name in names if name not in TARGETS):
        raise ArgumentError("XT8040",
                            f"--target {text}: there is no target {unknown!r}", f"use some of {', '.join(TARGETS)}")
    return names


def _problem_size(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d+(x\d+){1,2}", text):
        raise ArgumentError("XT8041", f"--shape {text} is not a problem size", "write MxNxK: --shape 4096x4096x4096")
    return tuple(int(size) for size in text.split("x"))


def _reported(kernel: BaseKernel, target: str, args: argparse.Namespace,
              wanted: tuple[int, ...] | None) -> tuple[Report, tuple[int, ...] | None]:
    """Report of a kernel, and the problem to predict: the option's, else that of the arguments."""
    compiled, arguments = _compiled(kernel, target, args)
    report = compiled.report()
    return report, wanted or _problem(report, compiled, arguments)


def compiled_of(args: argparse.Namespace) -> CompiledKernel:
    """Compiled kernel of a command's words, which name one, lowered for its target.

    Raises:
        XeError: they name none, or several, or it cannot be lowered.
    """
    files = [word for word in args.words if not _is_assignment(word)]
    if len(files) != 1:
        raise misses_file("view", ": view FILE.py:kernel A=f16[64,64]", len(files))
    (target,) = _targets(args.target.partition(",")[0])
    return _compiled(kernel_of(files[0], args.kernel), target, args)[0]


def _compiled(kernel: BaseKernel, target: str, args: argparse.Namespace) -> tuple[CompiledKernel, list[Any]]:
    """A kernel for the arguments and constants of the command line, and the arguments."""
    words = [word for word in args.words if _is_assignment(word)]
    named = {name: value for name, _, value in (word.partition("=") for word in words) if name in kernel.parameters}
    constants = constants_of([*args.constant, *(w for w in words if w.partition("=")[0] not in named)])
    if named or args.operands or isinstance(kernel, ParsedKernel):
        arguments = _arguments_by_name(kernel, named) if named else described(kernel, args.operands)
    else:
        arguments = _guessed(kernel, target, constants)
    return kernel.lower(*arguments, target=target, **constants), list(arguments)


def _guessed(kernel: BaseKernel, target: str, constants: dict[str, Any]) -> list[Any]:
    """Matrices of unknown size for a kernel without argument types; the choice is printed.

    Raises:
        ArgumentError: the kernel is none of such matrices.
    """
    kernel.all_constants(constants)  # an unknown one is an error of its own
    refused: XeError | None = None
    for types in _USUAL_TYPES:
        words = [types[0]] * (len(kernel.parameters) - 1) + [types[1]]
        arguments = [Spec((None, None), word) for word in words]
        try:
            kernel.lower(*arguments, target=target, **constants)
        except XeError as error:
            refused = refused or error
            continue
        used = " ".join(f"{name}={word}[?,?]" for name, word in zip(kernel.parameters, words, strict=True))
        print(f"{kernel.name}: nothing describes the arguments; taken are {used}", file=sys.stderr)
        return arguments
    hint = f"describe each: {' '.join(f'{name}=bf16[4096,4096]' for name in kernel.parameters)}"
    raise undescribed(kernel, f"{hint} (for {_USUAL_TYPES[0][0]} matrices: {refused.message})" if refused else hint)


def _arguments_by_name(kernel: BaseKernel, named: dict[str, str]) -> list[Any]:
    if missing := [name for name in kernel.parameters if name not in named]:
        raise undescribed(kernel, f"write {missing[0]}=f32[4096,4096], or {missing[0]}=1 for a number",
                          f"nothing describes {missing[0]}")
    return [_argument(name, named[name]) for name in kernel.parameters]


def _argument(name: str, text: str) -> Any:
    if found := _NAMED_SPEC.fullmatch(text):
        return operand(f"{found[2].replace(',', 'x')}x{found[1]}", 0)
    try:
        return operand(text, 0)
    except ArgumentError as error:
        raise ArgumentError(error.code, f"{name}={text} describes no argument: {error.message}",
                            f"write {name}=f16[4096,4096], with ? for a size known at run time, or {name}=7") from None


def _problem(report: Report, compiled: CompiledKernel, arguments: Sequence[Any]) -> tuple[int, ...] | None:
    """Problem size (M, N, K) or (M, N), if the arguments' sizes are known."""
    shapes = [value.shape if isinstance(value, Spec) else getattr(value, "shape", ()) for value in arguments]
    if report.work is None or report.work.tile is None or len(compiled.written) != 1:
        return None
    sizes = [*shapes[compiled.written[0]][-2:]]
    if report.work.is_product:
        passes = trip_count(compiled.function, shapes)
        sizes.append(None if passes is None else passes * report.work.step)
    return _static_sizes(sizes) if len(sizes) == 2 + report.work.is_product else None


def _static_sizes(sizes: Iterable[int | None]) -> tuple[int, ...] | None:
    found = [size for size in sizes if size]
    return tuple(found) if len(found) == len(list(sizes)) else None
