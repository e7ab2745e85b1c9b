"""``kernel.override(stage, path)``: a stage's text, edited by hand, in the place of what the passes made."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from xegpu.errors import ArgumentError
from xetile.pipeline import PASSES, stage_of

OPENCL = "opencl"
STAGES = (*(name for name, _ in PASSES), OPENCL)
"""What can be overridden: the stages of the pipeline, and the emitted text."""


def parse_stage(text: str, name: str) -> tuple[Mapping[str, Any], str]:
    """The kernels of a text by name, and which stage it is. The readers of text are imported when they are needed.

    Raises:
        TextError: the text does not parse.
    """
    kernels: Mapping[str, Any] = import_module("xetile.parsing").parse(text, name)
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
