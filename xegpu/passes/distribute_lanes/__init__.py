"""Lane distribution: whole vectors become fragments of one lane (XeGPU.md, "Work Item Level semantics").

    %d = create_nd_tdesc ... -> tensor_desc<32x16xbf16, array_length = 2>
    %v = load_nd %d -> vector<2x32x16xbf16>
    %a = vector.extract_strided_slice (%v[0]) {offsets = [8, 0], sizes = [8, 16]}
becomes
    %d = create_nd_tdesc ... -> tensor_desc<32x16xbf16, array_length = 2, sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>
    %v = load_nd %d -> vector<2x32x1xbf16>
    %a = vector.extract_strided_slice (%v[0]) {offsets = [8, 0], sizes = [8, 1]}

Operands that come straight from memory are loaded in the layout that DPAS reads. Everything else lies one element a
lane along its rows; ``convert_layout`` goes from there to a layout of A that differs.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation

from xegpu.analysis.webs import view_webs
from xegpu.ir.kernel_attributes import SUBGROUP_SIZE
from xegpu.passes.distribute_lanes import block_io, debug, dpas, gather_scatter, reduction, vector
from xegpu.passes.distribute_lanes.dequantize import fuse_dequantize
from xegpu.passes.distribute_lanes.rewriter import DistributeLanesRewriter
from xegpu.rewrite.dce import erase_dead
from xegpu.rewrite.rewriter import Rule, rewrite
from xegpu.rewrite.sink_shuffles import sink_shuffles
from xegpu.target.targets import Target

RULES: dict[type[Operation], Rule] = {
    **block_io.RULES, **vector.RULES, **dpas.RULES, **reduction.RULES, **gather_scatter.RULES, **debug.RULES,
}


@dataclass(frozen=True)
class DistributeLanes:
    """Pass ``distribute-lanes``.

    Attributes:
        target: its subgroup size is the number of lanes.
        access: for each argument its access kind (:func:`xegpu.target.block2d.access`).
    """

    target: Target
    access: tuple[str, ...] = ()

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with a lane's fragments in the place of whole blocks."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        if SUBGROUP_SIZE in function.attributes:
            return function  # distributed already
        kinds = dict(zip(function.body.block.args, self.access, strict=False))
        rewriter = DistributeLanesRewriter(RULES, self.target, view_webs(function), kinds)
        new = rewriter.function(function)
        if self.target.block_io:
            fuse_dequantize(new)
        if sink_shuffles([shuffle for shuffle in rewriter.shuffles if shuffle.parent is not None]):
            erase_dead(new.body.block)
        new.attributes[SUBGROUP_SIZE] = IntegerAttr(self.target.subgroup_size, i64)
        return new
