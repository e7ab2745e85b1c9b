"""Layout of arrays in shared local memory: panels of blocks where these save messages, else rows.

    %s = memref.alloc() : memref<32x256xbf16, 3>
becomes
    %s = memref.alloc() {xegpu.panels = [2, 16]} : memref<32x256xbf16, 3>
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.memref import AllocOp

from xegpu.analysis import slm
from xegpu.analysis.webs import view_webs
from xegpu.rewrite.rewriter import Rewriter, rewrite


@dataclass(frozen=True)
class SlmPanels:
    """Pass ``slm-panels``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with a layout on every array that is not row-major; itself if there is none."""
        return rewrite(module, _rewrite_function)


def _rewrite_function(function: func.FuncOp) -> func.FuncOp:
    if not slm.allocations(function):
        return function
    panels = slm.choose_panels(function, view_webs(function))
    if not panels:
        return function

    def allocate(rewriter: Rewriter, operation: AllocOp) -> None:
        rewriter.copy(operation)
        if operation in panels:
            rewriter.single(operation.memref).owner.attributes[slm.PANELS] = panels[operation]  # type: ignore[union-attr]

    return Rewriter({AllocOp: allocate}).function(function)
