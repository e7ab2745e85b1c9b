"""``xetile opt``: stages and passes over text, as mlir-opt runs them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr

from xegpu.support.errors import ArgumentError
from xegpu.target.targets import TARGETS
from xetile.compiler.compiled import CompiledKernel
from xetile.compiler.pipeline import PASSES, STAGES, Options, precedes, stage_names, steps
from xetile.dialect.stage import FIRST, INPUTS, RECORDED, STAGE, stage_of
from xetile.jit.base import BaseKernel
from xetile.text.gpu_module import printed
from xetile.tools.cli.arguments import add_operands, add_target, constants_of, described, misses_file
from xetile.tools.cli.output import write_text
from xetile.tools.cli.sources import kernels_of

_EXPORTS: Mapping[str, Callable[[CompiledKernel], str]] = {
    "upstream": lambda compiled: compiled.xegpu_upstream,
    "upstream-workgroup": lambda compiled: compiled.xegpu_upstream_workgroup,
    "xegpu-older": lambda compiled: compiled.xegpu_older,
}
"""Forms beside the stages: those of LLVM's XeGPU dialect, and the earlier generation."""
_SEPARATOR = "\n// -----\n"


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("opt", help="run passes over text, and print what they make of it",
                                 description="Reads kernels and prints them, checked, at a later stage if one is "
                                             "named.")
    parser.add_argument("file", nargs="?", help="MLIR text, - for standard input, or FILE.py:kernel")
    parser.add_argument("--list", action="store_true", help="print the stages and what leads to each")
    parser.add_argument("--to", metavar="STAGE", help="run all passes up to this stage")
    parser.add_argument("--pass", action="append", default=[], metavar="NAME", dest="passes",
                        help="run this pass, named by the stage that it leads to; may be repeated, in order")
    parser.add_argument("--kernel", metavar="NAME", help="only this kernel")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write, by default standard output")
    add_target(parser)
    add_operands(parser, "64x32xbf16 or a number; by default what the text has")
    parser.set_defaults(command=command)


def command(args: argparse.Namespace) -> None:
    """Print the kernels of a file at a stage.

    Raises:
        XeError: the file does not read, or a pass fails.
    """
    if args.list:
        write_text(_listing(), args.output)
        return
    if args.file is None:
        raise misses_file("opt", ", or - for standard input; --list prints the stages")
    if args.to and args.passes:
        raise ArgumentError("XT8030", "--to names a stage, and --pass the passes that lead to one", "give one of them")
    kernels = kernels_of(args.file, args.kernel)
    write_text(_SEPARATOR.join(_printed(kernel, args) for kernel in kernels.values()), args.output)


def _listing() -> str:
    """List of the stages, each with the first line of its pass's docstring."""
    # Which passes there are depends on the target, the arrays, and on whether the kernel is text and transposes tiles.
    some = [Options(target, ("block-columns", "rows") * text, is_text=text, transposes=text)
            for target in TARGETS.values() for text in (False, True)]
    passes = ((name, next(step for options in some if (step := make(options)) is not None)) for name, make in PASSES)
    rows = [(FIRST, "The traced or parsed module, where it has transfers of vectors."),
            (RECORDED, "The traced or parsed module in XeTile.")]
    rows += [(name, str(sys.modules[type(step).__module__].__doc__).partition("\n")[0]) for name, step in passes]
    rows += [("upstream", "LLVM's form of XeGPU at subgroup level, exported after to-xegpu."),
             ("upstream-workgroup", "LLVM's form of XeGPU at work-group level, exported after lower-supervector."),
             ("xegpu-older", "The earlier generation of XeGPU, exported after pack-vnni.")]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}} {summary.replace('``', '`')}" for name, summary in rows)


def _printed(kernel: BaseKernel, args: argparse.Namespace) -> str:
    compiled = kernel.lower(*described(kernel, args.operands), target=args.target, **constants_of(args.constant))
    if args.to in _EXPORTS:
        return _EXPORTS[args.to](compiled)
    options = Options.of(compiled.module, compiled.target, compiled.access)
    found = steps(compiled.module, options)
    if args.to is None:
        stage, module = _after_passes(compiled, args.passes, found)
    else:
        _check_stage(compiled, args.to, stage_names(options))
        stage, module = next(step for step in found if step[0] == args.to)
    result = module.clone()
    result.attributes[STAGE] = StringAttr(stage)  # the pass itself may have changed nothing
    return printed(result)


def _check_stage(compiled: CompiledKernel, stage: str, available: Sequence[str]) -> None:
    """Raise unless a kernel comes to a stage; ``available`` are those of its target and arrays."""
    first, known = stage_of(compiled.module), (*STAGES, *_EXPORTS)
    if stage not in known:
        raise ArgumentError("XT8031", f"there is no stage {stage}", f"the stages are {', '.join(known)}")
    if stage not in available:
        raise ArgumentError("XT8031", f"there is no stage {stage} for {compiled.target.name}",
                            f"the stages are {', '.join(available)}")
    if stage != first and (stage in INPUTS or not precedes(first, stage)):
        raise ArgumentError("XT8032", f"{compiled.name} is at stage {first}, which is after {stage}",
                            f"choose {first} or a later stage")


def _after_passes(compiled: CompiledKernel, names: Sequence[str], found: Iterator[tuple[str, ModuleOp]]) -> \
        tuple[str, ModuleOp]:
    """Run passes by name, in order; only one that would change nothing may be left out."""
    here, module = next(found)
    for requested in names:
        for name, result in found:
            if name == requested:
                here, module = name, result
                break
            if result is not module:
                raise _wrong_stage(compiled, here, requested, f"the next is --pass {name}")
        else:
            raise _wrong_stage(compiled, here, requested, "it comes before that stage, or its target has no such pass")
    return here, module


def _wrong_stage(compiled: CompiledKernel, stage: str, requested: str, hint: str) -> ArgumentError:
    return ArgumentError("XT8033", f"{compiled.name} is at stage {stage}, and the pass {requested} does not run there",
                         hint)
