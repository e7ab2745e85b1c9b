"""Loops of products that do nothing beside: those that passes and the emitter may take apart and put together anew."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects import vector as xvector

from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp
from xegpu.dialect.descriptors import UpdateNdOffsetOp, desc_of
from xegpu.dialect.products import DpasOp
from xegpu.dialect.vectors import ExtractStridedSliceOp, ShapeCastOp

_PLAIN = (LoadNdOp, PrefetchNdOp, DpasOp, UpdateNdOffsetOp, xvector.ExtractOp, xvector.ShuffleOp,
          ExtractStridedSliceOp, ShapeCastOp,
          arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ConstantOp, scf.YieldOp)


def is_plain(loop: scf.ForOp) -> bool:
    """Whether a loop loads by block messages, prefetches and multiplies, and does nothing else."""
    loads = (operation for operation in loop.body.block.ops if isinstance(operation, LoadNdOp))
    return all(isinstance(operation, _PLAIN) for operation in loop.body.block.ops) \
        and all(desc_of(load.desc).block.access == "block" for load in loads)
