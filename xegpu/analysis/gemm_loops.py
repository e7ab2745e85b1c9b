"""Pure GEMM loops: loops of block loads, prefetches and products, which passes and the emitter may restructure."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import UnrealizedConversionCastOp, VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from xegpu.analysis.block_position import is_inside
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.bounds import is_row_of_words, is_unaligned_copy
from xegpu.dialect.dpas import DpasOp, ProductOp
from xegpu.dialect.gather_scatter import LoadColumnsOp, LoadGatherOp
from xegpu.dialect.sync import NbarrierArriveOp, NbarrierWaitOp, SubgroupBarrierOp
from xegpu.ir.dtypes import tf32
from xegpu.ir.kernel_attributes import subgroup_size
from xegpu.ir.traversal import is_a, of_kind
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, ShapeCastOp

_GEMM_OPS = frozenset((LoadNdOp, PrefetchNdOp, DpasOp, UpdateNdOffsetOp, ExtractOp, xvector.ShuffleOp,
          ExtractStridedSliceOp, ShapeCastOp,
          arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ConstantOp, scf.YieldOp))

_PEELED = (LoadNdOp, StoreNdOp, PrefetchNdOp, LoadGatherOp, LoadColumnsOp, xvector.ShuffleOp,
           UnrealizedConversionCastOp, scf.YieldOp)
_BARRIERS = (NbarrierArriveOp, NbarrierWaitOp)


def is_gemm_loop(loop: scf.ForOp, *, cooperative: bool = False) -> bool:
    """Whether a loop is a pure GEMM loop: block loads, prefetches and products only.

    Args:
        loop: the loop.
        cooperative: whether exchanges of operands through shared local memory (cooperative loads) are allowed too.
    """
    loads = (operation for operation in loop.body.block.ops if type(operation) is LoadNdOp)
    return all(type(operation) in _GEMM_OPS or (cooperative and _is_exchange(operation))
               for operation in loop.body.block.ops) \
        and all(desc_of(load.desc).block.access == "block" or (cooperative and (is_shared(load) or is_copy(load)))
                for load in loads)


def keeps_operands(loop: scf.ForOp) -> bool:
    """Whether operands of a loop's products are loaded by 2D block messages in front of it."""
    found = [operand for product in of_kind(loop, ProductOp) for operand in product.operands]
    seen: set[SSAValue] = set()
    while found:
        value = found.pop()
        if value in seen or not isinstance(value.type, VectorType) or not isinstance(owner := value.owner, Operation):
            continue
        seen.add(value)
        if type(owner) is LoadNdOp:
            if not is_inside(value, loop) and desc_of(owner.desc).block.access == "block":
                return True
        elif owner.has_trait(Pure):
            found += owner.operands
    return False


def is_copy(load: LoadNdOp) -> bool:
    """Whether a load is of rows of any alignment, which go to shared local memory."""
    desc = desc_of(load.desc)
    return is_unaligned_copy(desc) or (desc.dtype is tf32 and not load.transposes
                                       and is_row_of_words(desc, subgroup_size(load)))


def is_shared(operation: LoadNdOp | PrefetchNdOp | StoreNdOp) -> bool:
    """Whether a message goes to shared local memory, whose latency is short."""
    return desc_of(operation.desc).block.memory_scope == "slm"


def may_peel(loop: scf.ForOp, product: type[Operation] = DpasOp) -> bool:
    """Whether a loop may run in two parts, first the steps whose blocks lie inside their arrays (``peel-bounds``).

    It is straight, multiplies, loads something without 2D block IO, and has no barrier but those of cooperative loads:
    a barrier must be one and the same for all subgroups, so that they may not leave the first part at different times.

    Args:
        loop: the loop.
        product: the operation that multiplies.
    """
    body = loop.body.block.ops
    accesses = {desc_of(operation.desc).block.access for operation in body if type(operation) is LoadNdOp
                and not is_shared(operation)}
    return not accesses <= {"block"} and any(type(operation) is product for operation in body) and all(
        is_a(operation, _PEELED) or is_a(operation, _BARRIERS) or _is_exchange(operation)
        or (operation.has_trait(Pure) and not operation.regions) for operation in body)


def has_barrier(loop: scf.ForOp) -> bool:
    """Whether subgroups wait for each other in a step, so that all must do the same steps in each part of a loop."""
    return any(isinstance(operation, _BARRIERS) for operation in loop.body.block.ops)


def _is_exchange(operation: Operation) -> bool:
    """Whether an operation belongs to the exchange of operands in shared local memory."""
    if isinstance(operation, CreateNdTdescOp):
        return desc_of(operation.result).block.memory_scope == "slm"
    return isinstance(operation, (*_BARRIERS, SubgroupBarrierOp)) or (
        isinstance(operation, StoreNdOp) and is_shared(operation))
