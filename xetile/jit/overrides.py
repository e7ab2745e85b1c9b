"""``kernel.override(stage, path)``: a stage's text, edited by hand, in the place of what the passes made."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xegpu.support.errors import ArgumentError, Note, TextError
from xetile.compiler.pipeline import NAMES
from xetile.dialect.stage import IN_XEGPU, stage_of

if TYPE_CHECKING:
    from xetile.jit.kernel import BaseKernel

OPENCL = "opencl"
STAGES = ("xetile", *NAMES, OPENCL)
"""What can be overridden: the stages of the pipeline, and the emitted text."""


def kernel_of_stage(text: str, stage: str, path: str, original: BaseKernel) -> BaseKernel:
    """The kernel in the text of a stage that takes the place of ``original``.

    Args:
        text: what is in the file.
        stage: the stage that it shall be.
        path: the file, for messages.
        original: the kernel, whose name and arguments the text keeps.

    Raises:
        TextError: the text does not parse, is another stage, or holds another kernel.
    """
    name, kernels, said = original.name, *_parsed(text, path)
    if said != stage and (stage, said) != IN_XEGPU:  # text in XeGPU is normalized when it is read
        raise TextError("XT1612",
                        f"{path} holds the stage {said}, and not {stage}", f"write kernel.override({said!r}, ...)")
    if name not in kernels:
        raise TextError("XT1613", f"{path} holds {', '.join(kernels)}, and no {name}",
                        f"name the function in the file {name}: func.func @{name}(...)")
    found = kernels[name]
    if (count := len(found.parameters)) != len(original.parameters):
        there = Note("in the file it stands here", found.location())
        raise TextError("XT1614", f"{name} takes {count} argument{'' if count == 1 else 's'} in {path}, and "
                        f"{len(original.parameters)} in Python",
                        f"keep the arguments, {', '.join(original.parameters)}, or write the text anew from "
                        f"{name}.lower(...).stages", notes=[*original.defined(), there])
    return found


def _parsed(text: str, path: str) -> tuple[Mapping[str, BaseKernel], str]:
    """The kernels of a text by name, and which stage it is. The readers of text are imported when they are needed."""
    kernels: Mapping[str, Any] = import_module("xetile.jit.parsed").parse(text, path)
    return kernels, {stage_of(kernel.module) for kernel in kernels.values()}.pop()


def check_stage(stage: Any) -> str:
    """The name of a stage.

    Raises:
        ArgumentError: there is none of that name.
    """
    if stage not in STAGES:
        raise ArgumentError("XT1610", f"there is no stage {stage!r} to override", f"the stages are {', '.join(STAGES)}")
    return str(stage)


def text_of(path: str | Path) -> str:
    """What is in a file.

    Raises:
        ArgumentError: it cannot be read.
    """
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError, TypeError) as error:
        raise ArgumentError("XT1611", f"{path} cannot be read: {getattr(error, 'strerror', None) or error}",
                            "XETILE_DEBUG=dump writes the stages to files that can be edited") from None
