"""Dataflow analysis: the scalars of a function that are taken out of vectors, or computed of such."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import ReductionOp
from xdsl.ir import Operation, SSAValue

from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.mlir.vector import ExtractOp
from xetile.text.vector.ops import GeneralContractOp, ToElementsOp

_TAKING = (ExtractOp, GeneralContractOp, MultiReductionOp, ReductionOp, ToElementsOp)


def taken_scalars(function: func.FuncOp) -> set[SSAValue]:
    """Scalars that operations take out of vectors, and all that is computed of those, also through loops."""
    taken: set[SSAValue] = set()
    before = -1
    while before < len(taken):
        before = len(taken)
        for operation in function.walk():
            taken.update(value for value in _made(operation, taken) if not isinstance(value.type, VectorType))
    return taken


def _made(operation: Operation, taken: set[SSAValue]) -> Iterator[SSAValue]:
    if isinstance(operation, _TAKING):
        yield from operation.results
    elif isinstance(operation, scf.ForOp):
        end = operation.body.block.last_op
        assert end is not None
        groups = zip(operation.iter_args, operation.body.block.args[1:], end.operands, operation.res, strict=True)
        yield from (value for group in groups if taken.intersection(group) for value in group[1::2])
    elif isinstance(operation, scf.IfOp):
        ends = [region.block.last_op for region in operation.regions if region.blocks]
        for end in ends:
            values = end.operands if end is not None else ()
            yield from (result for value, result in zip(values, operation.output, strict=False) if value in taken)
    elif operation.name.partition(".")[0] in ("arith", "math") and taken.intersection(operation.operands):
        yield from operation.results
