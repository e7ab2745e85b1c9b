"""NumPy semantics of every operation of the XeGPU level, from the module of each family."""

from __future__ import annotations

from xegpu.interpreter import arith, block_io, dpas, gather_scatter, reduction, vector
from xegpu.interpreter.interpreter import Meanings

MEANINGS: Meanings = {**arith.MEANINGS, **block_io.MEANINGS, **gather_scatter.MEANINGS, **dpas.MEANINGS,
                      **vector.MEANINGS, **reduction.MEANINGS}
