"""Barriers and fences, in NumPy and in OpenCL C.

A barrier waits for memory only where a kernel may hand something over in it: for shared local memory if it has any, for
global memory if it reads an array argument that it also writes. Intel's compiler makes of each flag a fence message
(``fence.slm.none.group``, ``fence.ugm.none.group``), and of none nothing but the barrier itself.

NumPy runs all instances in lock step: there is nothing to wait for.
"""

from __future__ import annotations

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import Operation, SSAValue

from codegen.emitter import Emitter, Rule
from codegen.interpreter import Meanings
from xegpu.dialect.attributes import TensorDescType
from xegpu.dialect.synchronisation import FenceOp
from xegpu.origins import arrays_of

_FLAGS = {"shared": "CLK_LOCAL_MEM_FENCE", "global": "CLK_GLOBAL_MEM_FENCE"}
_SCOPES = {"workgroup": "memory_scope_work_group", "gpu": "memory_scope_device"}


def _barrier(emitter: Emitter, operation: BarrierOp) -> None:
    flags = [_FLAGS[kind] for kind in handed_over(_function(operation))]
    emitter.line(f"barrier({' | '.join(flags) or '0'});")


def _fence(emitter: Emitter, operation: FenceOp) -> None:
    flag, scope = _FLAGS[operation.memory_kind.data], _SCOPES[operation.scope.data]
    emitter.line(f"atomic_work_item_fence({flag}, memory_order_acq_rel, {scope});")


def handed_over(function: func.FuncOp) -> list[str]:
    """The kinds of memory in which a kernel may hand something from one subgroup to another.

    An address that is no array may be that of any array.
    """
    shared = any(isinstance(operation, memref.AllocOp) for operation in function.walk())
    written, read = (_reached(function, *kinds) for kinds in (("store", "atomic"), ("load", "atomic")))
    unknown = any(not isinstance(base.type, MemRefType) for base in written | read)
    handed = bool(written and read) if unknown else not written.isdisjoint(read)
    return ["shared"] * shared + ["global"] * handed


def _reached(function: func.FuncOp, *kinds: str) -> set[SSAValue]:
    """What operations of these kinds reach in global memory."""
    prefixes = tuple(f"xegpu.{kind}" for kind in kinds)
    bases = [arrays_of(operand) for operation in function.walk() if operation.name.startswith(prefixes)
             for operand in operation.operands if isinstance(operand.type, TensorDescType)]
    return {base for some in bases for base in some if not isinstance(base.owner, memref.AllocOp)}


def _function(operation: Operation) -> func.FuncOp:
    above = operation.parent_op()
    while above is not None and not isinstance(above, func.FuncOp):
        above = above.parent_op()
    assert above is not None
    return above


RULES: dict[type[Operation], Rule] = {BarrierOp: _barrier, FenceOp: _fence}
MEANINGS: Meanings = dict.fromkeys((BarrierOp, FenceOp), lambda machine, operation, operands: None)
