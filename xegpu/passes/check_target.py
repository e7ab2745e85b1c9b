"""Checks of a kernel against the limits of a target: element types, barriers, cache hints, shared local memory.

It changes nothing: what it raises points at the author's line.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from xegpu import barriers, slm
from xegpu.passes.cache_hints import check_cache_hints
from xegpu.passes.element_types import check_element_types
from xegpu.passes.operands import descriptor_webs
from xegpu.targets import Target


@dataclass(frozen=True)
class CheckTarget:
    """The pass.

    Attributes:
        target: what the kernel is checked against.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module itself.

        Raises:
            TargetError: the target lacks something that the kernel uses.
            ShapeError: a descriptor is carried between arrays of other shapes in shared local memory.
        """
        for function in module.body.block.ops:
            assert isinstance(function, func.FuncOp)
            check_element_types(function, self.target)
            barriers.check_target(function, self.target)
            check_cache_hints(function, self.target)
            if slm.allocations(function):
                slm.check_bytes(function, self.target)
                slm.check_webs(function, descriptor_webs(function))
        return module
