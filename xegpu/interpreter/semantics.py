"""NumPy semantics of every operation of the XeGPU level, from the module of each family."""

from __future__ import annotations

from xegpu.interpreter import (
    arith,
    block_io,
    debug,
    dpas,
    gather_scatter,
    kernel,
    reduction,
    slm,
    sync,
    vector,
)
from xegpu.interpreter.arith import compare, fma, inline
from xegpu.interpreter.gather_scatter import scalar
from xegpu.interpreter.interpreter import Semantics

SEMANTICS: Semantics = {operation: semantic
                        for family in (arith, compare, fma, inline, block_io, gather_scatter, scalar, dpas, vector,
                                       reduction, slm, sync, debug, kernel)
                        for operation, semantic in family.SEMANTICS.items()}
