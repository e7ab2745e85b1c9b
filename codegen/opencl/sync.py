"""Barriers, fences and compile hints in OpenCL C.

A barrier waits for memory only where a kernel may hand something over in it: for shared local memory if it has any, for
global memory if it reads an array argument that it also writes. Intel's compiler makes of each flag a fence message
(``fence.slm.none.group``, ``fence.ugm.none.group``), and of none nothing but the barrier itself.

A named barrier of all subgroups is OpenCL's split work-group barrier. One of some of them is an instruction of its
own, which no function of OpenCL C gives: it is written in the compiler's virtual assembly, behind macros, since the CPU
device has another meaning for them (:mod:`codegen.runtime.program_source`).
"""

from __future__ import annotations

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import Operation, SSAValue

from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import SCHEDULE_BARRIER, SIGNAL, WAIT
from xegpu.dialect.sync import (
    AllocNbarrierOp,
    CompileHintOp,
    ControlBarrierArriveOp,
    ControlBarrierWaitOp,
    FenceOp,
    InitNbarrierOp,
    NbarrierArriveOp,
    NbarrierWaitOp,
    SubgroupBarrierOp,
)
from xegpu.ir.traits import read_operands, written_operand
from xegpu.ir.use_def import arrays_of

_FLAGS = {"shared": "CLK_LOCAL_MEM_FENCE", "global": "CLK_GLOBAL_MEM_FENCE"}
_SCOPES = {"workgroup": "memory_scope_work_group", "gpu": "memory_scope_device",
           "system": "memory_scope_all_svm_devices"}


def _barrier(emitter: Emitter, operation: BarrierOp) -> None:
    emitter.line(f"barrier({_flags(operation) or '0'});")


def _control_arrive(emitter: Emitter, operation: ControlBarrierArriveOp) -> None:
    emitter.line("intel_work_group_barrier_arrive(0);")


def _control_wait(emitter: Emitter, operation: ControlBarrierWaitOp) -> None:
    emitter.line("intel_work_group_barrier_wait(0);")


def _subgroup_barrier(emitter: Emitter, operation: SubgroupBarrierOp) -> None:
    """Emit OpenCL's barrier, for which Intel's compiler makes no instruction: messages of one thread to shared local
    memory keep their order."""
    emitter.line("sub_group_barrier(CLK_LOCAL_MEM_FENCE);")


def _fence(emitter: Emitter, operation: FenceOp) -> None:
    flag, scope = _FLAGS[operation.memory_kind.data], _SCOPES[operation.scope.data]
    emitter.line(f"atomic_work_item_fence({flag}, memory_order_acq_rel, {scope});")


def _allocate(emitter: Emitter, operation: AllocNbarrierOp) -> None:
    """Emit nothing: Intel's compiler counts the named barriers of a kernel itself."""


def _init(emitter: Emitter, operation: InitNbarrierOp) -> None:
    if operation.result in emitter.split_barriers:
        emitter.values[operation.result] = None
        return
    emitter.needs_named_barriers = True
    id_, count = operation.id, operation.participants
    # The barrier of the whole work-group has the id 0.
    if operation.result in emitter.producer_consumer_barriers:
        emitter.values[operation.result] = _sides(emitter, operation)
        return
    if id_ is not None:
        emitter.values[operation.result] = (f"{SIGNAL}({id_ + 1}, {count})", f"{WAIT}({id_ + 1})")
        return
    at = f"(ushort)({emitter.values[operation.nbarrier_id]} + 1)"
    emitter.values[operation.result] = (f"{SIGNAL}_AT({at}, {count})", f"{WAIT}_AT({at})")


def _sides(emitter: Emitter, operation: InitNbarrierOp) -> tuple[str, str]:
    """Signals of a producer and of a consumer, which also waits: the hardware releases consumers only."""
    producers, consumers = emitter.producer_consumer_barriers[operation.result]
    at, suffix = (operation.id + 1, "") if operation.id is not None else (
        f"(ushort)({emitter.values[operation.nbarrier_id]} + 1)", "_AT")
    signals = [f"{SIGNAL}_SIDE{suffix}({at}, {side}, {producers}, {consumers})" for side in (1, 2)]
    return signals[0], f"{signals[1]}; {WAIT}{suffix}({at})"


def _arrive(emitter: Emitter, operation: NbarrierArriveOp) -> None:
    """Emit a fence and a signal; all fences have one order, since LLVM merges those of two branches."""
    flags, named = _flags(operation), emitter.values[operation.nbarrier]
    if named is None:
        emitter.line(f"intel_work_group_barrier_arrive({flags or '0'});")
        return
    if flags:
        emitter.line(f"atomic_work_item_fence({flags}, memory_order_acq_rel, memory_scope_work_group);")
    emitter.line(f"{named[0]};")


def _wait(emitter: Emitter, operation: NbarrierWaitOp) -> None:
    """Emit a wait, with a fence for global memory alone.

    Stores to shared local memory are done when their subgroups have arrived, by a fence in front of that, and loads
    behind the wait find them: what is left for a fence there is the compiler's order.
    """
    flags, named = _flags(operation), emitter.values[operation.nbarrier]
    if named is None:
        emitter.line(f"intel_work_group_barrier_wait({_flags(operation, besides='shared') or '0'});")
        return
    emitter.line(f"{named[1]};")
    if flags:
        emitter.line(f"atomic_work_item_fence({flags}, memory_order_acq_rel, memory_scope_work_group);")


def _flags(operation: Operation, besides: str = "") -> str:
    return " | ".join(_FLAGS[kind] for kind in communicated_memory(_function_of(operation)) if kind != besides)


_AT = "%0(0,0)<0;1,0>"  # vISA operand: the first element of %0, as a scalar (region <0;1,0>)
# #side and the counts are pasted by the macro's parameters; vISA takes them as 16-bit immediates (:uw).
_SIDES = '" #side ":uw " #p ":uw " #c ":uw'
MACROS = f"""#ifndef {SIGNAL}
#define {SIGNAL}(id, count) __asm__ volatile("nbarrier.signal " #id ":uw " #count ":uw" : : : "memory")
#define {WAIT}(id) __asm__ volatile("nbarrier.wait " #id ":uw" : : : "memory")
#define {SIGNAL}_SIDE(id, side, p, c) __asm__ volatile("nbarrier.signal " #id ":uw {_SIDES}" : : : "memory")
#define {SIGNAL}_SIDE_AT(id, side, p, c) __asm__ volatile("nbarrier.signal {_AT} {_SIDES}" : : "rw.u"(id) : "memory")
#define {SIGNAL}_AT(id, count) __asm__ volatile("nbarrier.signal {_AT} " #count ":uw" : : "rw.u"(id) : "memory")
#define {WAIT}_AT(id) __asm__ volatile("nbarrier.wait {_AT}" : : "rw.u"(id) : "memory")
#endif

"""
"""Named barriers on Intel's GPUs, in their compiler's virtual assembly (vISA). An id that is known when the kernel is
compiled stands in the instruction; for one that is not the compiler reserves all 32 barriers. Of a barrier with sides,
1 is a producer and 2 a consumer; one that all signal without a side wakes all, who must all wait."""


def communicated_memory(function: func.FuncOp) -> list[str]:
    """Memory kinds through which subgroups of a kernel may communicate.

    An address that is no array may be that of any array.
    """
    shared = any(isinstance(operation, memref.AllocOp) for operation in function.walk())
    written, read = set[SSAValue](), set[SSAValue]()
    for operation in function.walk():
        if (operand := written_operand(type(operation))) is not None:
            written |= _global_bases(operation.operands[operand])
        for operand in read_operands(type(operation)):
            read |= _global_bases(operation.operands[operand])
    unknown = any(not isinstance(base.type, MemRefType) for base in written | read)
    is_exchanged = bool(written and read) if unknown else not written.isdisjoint(read)
    return ["shared"] * shared + ["global"] * is_exchanged


def _global_bases(view: SSAValue) -> set[SSAValue]:
    """Global arrays and addresses that a descriptor or memref may alias."""
    return {base for base in arrays_of(view) if not isinstance(base.owner, memref.AllocOp)}


def _function_of(operation: Operation) -> func.FuncOp:
    above = operation.parent_op()
    while above is not None and not isinstance(above, func.FuncOp):
        above = above.parent_op()
    assert above is not None
    return above


SCHEDULE_BARRIER_DEFINITION = f"""#ifndef {SCHEDULE_BARRIER}
#define {SCHEDULE_BARRIER} __asm__ volatile("fence_sw" ::: "memory")
#endif
"""
"""The vISA instruction ``fence_sw``, which costs nothing at run time: neither the finaliser nor LLVM moves instructions
across it. A device without vISA has no use for it."""


def schedule_barrier(emitter: Emitter) -> None:
    """Emit a scheduling barrier."""
    emitter.function(SCHEDULE_BARRIER_DEFINITION)
    emitter.line(f"{SCHEDULE_BARRIER};")


RULES: dict[type[Operation], Rule] = {
    BarrierOp: _barrier,
    ControlBarrierArriveOp: _control_arrive,
    ControlBarrierWaitOp: _control_wait,
    SubgroupBarrierOp: _subgroup_barrier,
    FenceOp: _fence,
    AllocNbarrierOp: _allocate,
    InitNbarrierOp: _init,
    NbarrierArriveOp: _arrive,
    NbarrierWaitOp: _wait,
    CompileHintOp: lambda emitter, _: schedule_barrier(emitter),
}
