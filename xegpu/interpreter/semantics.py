"""NumPy semantics of every operation of the XeGPU level, from the module of each family."""

from __future__ import annotations

from xegpu.interpreter import arith, block_io, dpas, gather_scatter, reduction, vector
from xegpu.interpreter.interpreter import Semantics

SEMANTICS: Semantics = {**arith.SEMANTICS, **block_io.SEMANTICS, **gather_scatter.SEMANTICS, **dpas.SEMANTICS,
                      **vector.SEMANTICS, **reduction.SEMANTICS}
