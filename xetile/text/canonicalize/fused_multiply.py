"""``vector.fma``, MLIR's fused multiply-add of vectors, as ``math.fma``, which the passes know.

    %d = vector.fma %a, %b, %c : vector<8x16xf32>
becomes
    %d = math.fma %a, %b, %c : vector<8x16xf32>
"""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.vector import FMAOp

from xegpu.rewrite.dce import erase


def fma_as_math(module: ModuleOp) -> None:
    """Replace each ``vector.fma`` whose operands have the type of its result; the verifier refuses others."""
    for operation in [each for each in module.walk() if isinstance(each, FMAOp)]:
        types = [operand.type for operand in operation.operands]
        if len(operation.results) != 1 or types != [operation.results[0].type] * 3:
            continue
        fused = math.FmaOp(*operation.operands)
        fused.attributes.update(operation.attributes)
        fused.location = operation.location
        assert operation.parent is not None
        operation.parent.insert_op_before(fused, operation)
        fused.result.name_hint = operation.res.name_hint
        operation.res.replace_all_uses_with(fused.result)
        erase(operation)
