"""``xetile opt``: stages and passes over text, as mlir-opt runs them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from xegpu.support.errors import ArgumentError
from xegpu.target.targets import find_target
from xetile.compiler.compiled import Lowered
from xetile.compiler.pipeline import PASSES, Options, stage_names, stages
from xetile.dialect.stage import FIRST, stage_of
from xetile.jit.kernel import BaseKernel
from xetile.text.gpu_module import printed
from xetile.tools.cli.arguments import add_operands, add_target, constants_of, described
from xetile.tools.cli.output import write_text
from xetile.tools.cli.sources import kernels_of

STAGES = (FIRST, *(name for name, _ in PASSES))
_ABROAD: Mapping[str, Callable[[Lowered], str]] = {
    "upstream": lambda lowered: lowered.xegpu_upstream,
    "upstream-workgroup": lambda lowered: lowered.xegpu_upstream_workgroup,
    "xegpu-older": lambda lowered: lowered.xegpu_older,
}
"""Forms beside the stages: those of LLVM's XeGPU dialect, and the earlier generation."""
_APART = "\n// -----\n"


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
    add_operands(parser, "64x32xbf16 or a number; by default what the text says")
    parser.set_defaults(command=command)


def command(given: argparse.Namespace) -> None:
    """Print the kernels of a file at a stage.

    Raises:
        XeError: the file does not read, or a pass fails.
    """
    if given.list:
        write_text(_listing(), given.output)
        return
    if given.file is None:
        raise ArgumentError("XT8010", "opt reads a file, and none is named",
                            "name one, or - for standard input; --list prints the stages")
    if given.to and given.passes:
        raise ArgumentError("XT8030", "--to names a stage, and --pass the passes that lead to one", "give one of them")
    kernels = kernels_of(given.file, given.kernel)
    write_text(_APART.join(_printed(kernel, given) for kernel in kernels.values()), given.output)


def _listing() -> str:
    """List of the stages, each with the first line of its pass's docstring."""
    # Between them these have all stages.
    some = [Options(find_target("cpu"), ()), Options(find_target("pvc"), ("block-columns",))]
    made = ((name, next(step for options in some if (step := make(options)) is not None)) for name, make in PASSES)
    rows = [(FIRST, "What was recorded or read, where it has transfers of vectors; else that is xetile.")]
    rows += [(name, str(sys.modules[type(step).__module__].__doc__).partition("\n")[0]) for name, step in made]
    rows += [("upstream", "LLVM's form of XeGPU at subgroup level, made from xegpu-blocks."),
             ("upstream-workgroup", "LLVM's form of XeGPU at work-group level, made from xetile."),
             ("xegpu-older", "The earlier generation of XeGPU, made from xegpu-packed.")]
    return "\n".join(f"{name:<20} {what}" for name, what in rows)


def _printed(kernel: BaseKernel, given: argparse.Namespace) -> str:
    lowered = kernel.lower(*described(kernel, given.operands), target=given.target, **constants_of(given.constant))
    stage = _wanted(lowered, given)
    if stage in _ABROAD:
        return _ABROAD[stage](lowered)
    found = stages(lowered.module, Options.of(lowered.module, lowered.target, lowered.access))
    return next(printed(module) for name, module in found if name == stage)


def _wanted(lowered: Lowered, given: argparse.Namespace) -> str:
    """Stage to print; passes must follow each other, as the stages do."""
    first = stage_of(lowered.module)
    own = stage_names(Options.of(lowered.module, lowered.target, lowered.access))
    if given.to is not None:
        known = (*STAGES, *_ABROAD)
        if given.to not in known:
            raise ArgumentError("XT8031", f"there is no stage {given.to}", f"the stages are {', '.join(known)}")
        if given.to in STAGES and given.to not in own:
            raise ArgumentError("XT8031", f"there is no stage {given.to} for {lowered.target.name}",
                                f"the stages are {', '.join(own)}")
        if given.to in STAGES and STAGES.index(given.to) < STAGES.index(first):
            raise ArgumentError("XT8032", f"{lowered.name} is at stage {first}, which is behind {given.to}",
                                f"choose {first} or a later stage")
        return str(given.to)
    here = own.index(first)
    for name in given.passes:
        after = own[here + 1] if here + 1 < len(own) else None
        if name != after:
            raise ArgumentError("XT8033",
                                f"{lowered.name} is at stage {own[here]}, and the pass to {name} does not start "
                                "there", f"the next is --pass {after}" if after else "there is none after it")
        here += 1
    return own[here]
