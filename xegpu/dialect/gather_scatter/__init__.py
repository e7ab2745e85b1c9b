"""Scattered descriptors, gather, scatter, prefetch and atomics (XeGPU.md, "scattered load").

A descriptor has one element per lane of the subgroup, or ``chunk_size`` of them. Vectors cover the subgroup before
``distribute-lanes``, ``vector<16xf32>``, and are the elements of one lane after it, ``vector<1xf32>``.
"""

from __future__ import annotations

from xegpu.dialect.gather_scatter.atomic import AtomicKindAttr, AtomicRMWOp, check_kind
from xegpu.dialect.gather_scatter.descriptor import (
    LANES,
    BlockElementsOp,
    CreateTdescOp,
    UpdateOffsetOp,
    check_elements,
    scatter_of,
)
from xegpu.dialect.gather_scatter.load import CHUNK_BYTES, WORD_BITS, LoadColumnsOp, LoadGatherOp, LoadRowsOp
from xegpu.dialect.gather_scatter.store import PrefetchOp, StoreScatterOp

__all__ = ["CHUNK_BYTES", "LANES", "OPERATIONS", "WORD_BITS", "AtomicKindAttr", "AtomicRMWOp", "BlockElementsOp",
           "CreateTdescOp", "LoadColumnsOp", "LoadGatherOp", "LoadRowsOp", "PrefetchOp", "StoreScatterOp",
           "UpdateOffsetOp", "check_elements", "check_kind", "scatter_of"]

OPERATIONS = (CreateTdescOp, UpdateOffsetOp, LoadGatherOp, LoadRowsOp, LoadColumnsOp, StoreScatterOp, PrefetchOp,
              AtomicRMWOp, BlockElementsOp)
