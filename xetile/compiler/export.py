"""Export of a compiled kernel to other dialects of XeGPU: LLVM's, and the earlier generation's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from xegpu.interop.llvm import block_level
from xegpu.support.errors import TargetError
from xegpu.target.targets import Target
from xetile.compiler.pipeline import after
from xetile.dialect.stage import only_function, stage_of
from xetile.text import read_module
from xetile.text.llvm import tile_level

Level = Literal["subgroup", "workgroup"]
_EXPORTS: dict[Level, tuple[str, Callable[[func.FuncOp, Target, Sequence[str]], ModuleOp]]] = {
    "subgroup": ("normalize", block_level.export),
    "workgroup": ("lower-supervector", tile_level.export),
}
"""The stage that LLVM's form is exported from, and how, for each level."""


def llvm_text(modules: Mapping[str, ModuleOp], level: Level, target: Target, access: Sequence[str]) -> str:
    """A kernel as MLIR text in LLVM's form of XeGPU.

    Args:
        modules: its stages in order, the first as it was recorded or read.
        level: whether operations are a subgroup's or a work-group's.
        target: the device that it is compiled for.
        access: for each argument its access kind.

    Raises:
        TargetError: it was read at a later stage than the one that is exported; or LLVM's dialect lacks something.
    """
    stage, export = _EXPORTS[level]
    module = _module_at(modules, stage, "LLVM's form is exported from")
    return str(export(only_function(module), target, access))


def v1_text(modules: Mapping[str, ModuleOp]) -> str:
    """A kernel as MLIR text in the earlier generation of XeGPU.

    Args:
        modules: its stages in order, the first as it was recorded or read.

    Raises:
        TargetError: it was read at a later stage than the one that is exported.
    """
    return read_module.v1_text(_module_at(modules, "pack-vnni", "the earlier generation's form is exported after"))


def _module_at(modules: Mapping[str, ModuleOp], stage: str, exported: str) -> ModuleOp:
    module = after(modules, stage)
    if module is None:
        first = next(iter(modules.values()))
        raise TargetError("XT4003", f"the text of {only_function(first).sym_name.data} is at the stage "
                          f"{stage_of(first)}, and {exported} {stage}",
                          f"start from the kernel, or from its text at {stage} or before")
    return module
