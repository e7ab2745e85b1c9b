"""NumPy semantics of every operation, from the module of each family: XeTile, SuperVector and XeGPU."""

from __future__ import annotations

from xegpu.interpreter.interpreter import Semantics
from xegpu.interpreter.semantics import SEMANTICS as XEGPU
from xetile.interpreter import gather_scatter, mma, reduction, supervector, tile_ops, vector

SEMANTICS: Semantics = {**XEGPU, **{operation: semantic
                                    for family in (tile_ops, gather_scatter, mma, vector, reduction, supervector)
                                    for operation, semantic in family.SEMANTICS.items()}}
