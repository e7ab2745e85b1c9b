"""Loop interleaving: unrolled steps by twos, where each transposes an operand in shared local memory.

    load a ; barrier, store a, barrier, load a' ; load b ; dpas a', b ;
    load c ; barrier, store c, barrier, load c' ; load d ; dpas c', d
becomes
    load a ; load c ; barrier, store a, barrier, load a' ; barrier, store c, barrier, load c' ; load b ; load d ;
    dpas a', b ; dpas c', d

A subgroup that transposes its own operand waits for a load, and for what it stores and loads again, before it
multiplies. Of two steps it waits for both at once. Messages to shared local memory stay in order, so that both go
through the same part of it. It takes the registers of two steps, for which loads of the next two wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from xdsl.dialects import scf
from xdsl.ir import Block, Operation

from xegpu.analysis.gemm_loops import has_barrier, is_shared
from xegpu.analysis.register_pressure import bytes_of, loop_bytes
from xegpu.dialect.block_io import LoadNdOp, StoreNdOp
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.sync import SubgroupBarrierOp
from xegpu.ir.kernel_attributes import function_of, subgroup_size
from xegpu.layout.slm_panels import MESSAGE
from xegpu.rewrite.inserter import Inserter
from xegpu.target.grf_mode import requested_registers
from xegpu.target.targets import Target

_ROOM = 0.9
"""Part of the registers that two steps may take: on bmg 0.875 saved 5 instructions in 8 steps, and 1.25 cost 7."""
_EXCHANGED = 2
"""Least messages to shared local memory for each load from memory: on bmg a step of 16 x 16 in bf16 or tf32 (2) saved
0.5 instructions, and steps of 8 x 16 in bf16 (1.5), 16 x 16 (1) and 8 x 16 in i8 (0.75) cost 0.3 to 0.9."""
_PHASES = 4


def pays_in_pairs(loop: scf.ForOp, target: Target) -> bool:
    """Whether a step exchanges in a subgroup's own shared local memory before it multiplies, and registers hold two."""
    step = list(loop.body.block.ops)[:-1]
    if has_barrier(loop) or not _is_exchanged_first(_phases(step)) or not _exchanges_much(step, subgroup_size(loop)):
        return False
    carried = sum(map(bytes_of, loop.iter_args))
    taken = (2 * loop_bytes(loop) - carried) * subgroup_size(loop) / target.register_bytes
    return taken <= _ROOM * (requested_registers(function_of(loop)) or min(target.registers))


def pair_steps(inserter: Inserter, steps: Sequence[Sequence[Operation]]) -> None:
    """Write the steps of an unrolled loop by twos, those whose operands allow it."""
    for first, second in zip(steps[::2], steps[1::2], strict=False):
        phases = [_phases(step) for step in (first, second)]
        moved = [operation for pair in zip(*phases, strict=True) for part in pair for operation in part]
        if not _are_defined_before_use(moved):
            continue
        block, last = first[0].parent, second[-1]
        assert isinstance(block, Block)
        behind = last.next_op
        assert behind is not None
        for operation in moved:
            operation.detach()  # type: ignore[no-untyped-call]
        block.insert_ops_before(moved, behind)


def _phases(step: Sequence[Operation]) -> list[list[Operation]]:
    """Phases of a step: before the transposition, the transposition, loads behind it, and from the first product on."""
    found: list[list[Operation]] = [[] for _ in range(_PHASES)]
    last = max((i for i, operation in enumerate(step) if _is_exchange(operation)), default=0)
    phase = 0
    for i, operation in enumerate(step):
        if phase == 0 and isinstance(operation, SubgroupBarrierOp):
            phase = 1
        elif phase < 3 and isinstance(operation, DpasOp):
            phase = 3
        elif phase == 1 and i > last:
            phase = 2
        found[phase].append(operation)
    return found


def _is_exchange(operation: Operation) -> bool:
    """Whether an operation is part of an exchange in shared local memory."""
    return isinstance(operation, SubgroupBarrierOp) or (
        isinstance(operation, (LoadNdOp, StoreNdOp)) and is_shared(operation))


def _is_exchanged_first(phases: list[list[Operation]]) -> bool:
    """Whether all of a step's exchanges stand together, in front of its products."""
    before, exchange, *behind = phases
    return bool(exchange) and not any(map(_is_exchange, chain(before, *behind)))


def _exchanges_much(step: Sequence[Operation], lanes: int) -> bool:
    """Whether most messages of a step go to shared local memory, so that it waits for those above all."""
    vectors = [operation.value if isinstance(operation, StoreNdOp) else operation.results[0]
               for operation in step if isinstance(operation, (LoadNdOp, StoreNdOp)) and is_shared(operation)]
    loads = sum(isinstance(operation, LoadNdOp) and not is_shared(operation) for operation in step)
    return sum(max(bytes_of(vector) * lanes // MESSAGE, 1) for vector in vectors) >= _EXCHANGED * loads


def _are_defined_before_use(operations: Sequence[Operation]) -> bool:
    """Whether each of some operations comes behind those of them whose results it takes."""
    later = set(operations)
    for operation in operations:
        if any(value.owner in later for value in operation.operands):
            return False
        later.discard(operation)
    return True
