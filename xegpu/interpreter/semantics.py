"""NumPy semantics of every operation of the XeGPU level, from the module of each family."""

from __future__ import annotations

from xegpu.interpreter import (
    arith,
    block_io,
    compare,
    debug,
    dpas,
    gather_scatter,
    reduction,
    scalar,
    slm,
    sync,
    vector,
)
from xegpu.interpreter.interpreter import Semantics

SEMANTICS: Semantics = {operation: semantic
                        for family in (arith, compare, block_io, gather_scatter, dpas, vector, reduction, slm, sync,
                                       debug, scalar)
                        for operation, semantic in family.SEMANTICS.items()}
