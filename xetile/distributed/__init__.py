"""Products over many ranks, on MPI: ``import xetile.distributed as xd`` (docs/distributed.md).

Each rank passes its own block, an array of NumPy or dpnp, and a :class:`Grid` says which block that is. Nothing here
imports MPI until a communicator is needed.
"""

from xetile.distributed.grid import Grid
from xetile.distributed.memory import queue
from xetile.distributed.out_of_core import matmul_out_of_core
from xetile.distributed.product_plan import Plan
from xetile.distributed.products import all_gather_matmul, matmul, matmul_reduce_scatter, plan

__all__ = ["Grid", "Plan", "all_gather_matmul", "matmul", "matmul_out_of_core", "matmul_reduce_scatter", "plan",
           "queue"]
