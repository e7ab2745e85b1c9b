"""``kernel.override(stage, path)``: a stage's text, edited by hand, in the place of what the passes made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from xegpu.errors import ArgumentError
from xetile.pipeline import PASSES

OPENCL = "opencl"
STAGES = ("xetile", *(name for name, _ in PASSES), OPENCL)
"""What can be overridden: the stages of the pipeline, and the emitted text."""

parse_stage: Callable[[str, str], tuple[Mapping[str, Any], str]] = NotImplemented  # type: ignore[assignment]
"""Reads the kernels of a text, and which stage it is; :mod:`xetile.parsing` sets it."""


def stage_reader() -> Callable[[str, str], tuple[Mapping[str, Any], str]]:
    """What reads the kernels of a text; it is loaded when a text is first read."""
    if parse_stage is NotImplemented:
        import_module("xetile.parsing")
    return parse_stage


def check_stage(stage: Any) -> str:
    """The name of a stage.

    Raises:
        ArgumentError: there is none of that name.
    """
    if stage not in STAGES:
        raise ArgumentError(f"there is no stage {stage!r} to override", f"the stages are {', '.join(STAGES)}")
    return str(stage)


def text_of(path: str | Path) -> str:
    """What is in a file.

    Raises:
        ArgumentError: it cannot be read.
    """
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError, TypeError) as error:
        raise ArgumentError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}",
                            "XETILE_DEBUG=dump writes the stages to files that can be edited") from None
