"""Buffers in shared local memory, one for each subgroup, through which it passes its own operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects import arith, func, gpu, memref
from xdsl.dialects.builtin import MemRefType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.analysis.slm import allocations, bytes_of
from xegpu.ir.dtypes import DType
from xegpu.ir.kernel_attributes import subgroup_count
from xegpu.ir.memref import SHARED_SPACE
from xegpu.rewrite.rewriter import Rewriter, Rule
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.wg_map import Pair
from xetile.passes.blocking.block_sizes import BlockSizes


class SubgroupBuffers(Rewriter):
    """Rewriter of one function that allocates such buffers, one for all operands of a shape, a type and a purpose.

    Each subgroup has rows of its own, so that nobody waits: messages of one subgroup to shared local memory keep their
    order.

    Attributes:
        target: its block messages and its shared local memory.
        subgroups: of a work-group.
        kinds: access kinds of the arrays.
        sizes: roles and block sizes of tiles.
    """

    def __init__(self, rules: Mapping[type[Operation], Rule], function: func.FuncOp, target: Target,
                 access: Sequence[str]) -> None:
        super().__init__(rules)
        self.target, self.subgroups = target, subgroup_count(function)
        self.kinds = dict(zip(function.body.block.args, access, strict=True))
        self.sizes = BlockSizes(function, target)
        self._free = target.slm_bytes - sum(map(bytes_of, allocations(function)))
        self._fits: dict[tuple[Pair, DType, str], bool] = {}
        self._arrays: dict[tuple[Pair, Attribute, str], SSAValue] = {}
        self._subgroup: SSAValue | None = None

    def has_room(self, shape: Pair, dtype: DType, purpose: str) -> bool:
        """Whether there is a buffer for tiles of a shape, or room for one; tiles use it one after the other."""
        key = shape, dtype, purpose
        if key not in self._fits:
            taken = self.subgroups * prod(shape) * dtype.bytes
            self._fits[key] = taken <= self._free
            self._free -= taken if self._fits[key] else 0
        return self._fits[key]

    def array(self, shape: Pair, element: Attribute, purpose: str) -> SSAValue:
        """The array in shared local memory, with rows for each subgroup, for tiles of a shape."""
        key = shape, element, purpose
        if key not in self._arrays:
            type_ = MemRefType(element, (self.subgroups * shape[0], shape[1]), memory_space=SHARED_SPACE)
            alloc = memref.AllocOp([], [], type_)
            alloc.memref.name_hint = purpose
            self._arrays[key] = self.at_head(alloc)
        return self._arrays[key]

    def first_row(self, rows: int) -> SSAValue:
        """The first row of this subgroup."""
        if self.subgroups == 1:
            return self.constant(0)
        if self._subgroup is None:
            self._subgroup = self.at_head(gpu.SubgroupIdOp())  # type: ignore[no-untyped-call]
        return self.at_head(arith.MuliOp(self._subgroup, self.constant(rows)))

    def in_bounds(self, init_tile: tile_ops.InitTileOp) -> SSAValue:
        """A tile that is known to be in bounds."""
        init_tile.attributes = {tile_ops.IN_BOUNDS: UnitAttr(), **init_tile.attributes}
        return self.at_head(init_tile)

    def at_head(self, operation: Operation) -> SSAValue:
        """Emit an operation in front of all others, behind the constants."""
        self._at_head(operation)
        return operation.results[0]
