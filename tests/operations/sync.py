"""Cases of barriers and fences between the subgroups of a work-group, which exchange blocks in shared memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import xetile as xt
from tests.operations.case import Case, Operands, operands
from xegpu.ir.dtypes import DType

SUBGROUPS = (4, 1)
SHAPE = (32, 32)


def cases(dtype: DType) -> Iterator[Case]:
    """Split and named barriers, fences."""
    a, _, _ = operands(dtype)
    x = a[4:36, 8:40]
    yield Case("split barrier", _rotate, np.vstack((x[8:], x[:8])), dtype)
    yield Case("named barriers", _publish, x, dtype, runs=lambda where, target: where == "numpy" or (
        target.named_barriers and not where.startswith("opencl")))

def _rotate(x: Operands) -> None:
    """Each subgroup publishes its rows, and stores the next one's."""
    shared, group = xt.alloc_slm(SHAPE, x.A.dtype), xt.subgroup_id()
    arrived = xt.nbarrier(0, 4)
    own = xt.load_tile(xt.init_tile(x.A, (group * 8 + 4, 8), (8, 32)))
    xt.store_tile(own, xt.init_tile(shared, (group * 8, 0), (8, 32)))
    xt.fence()
    arrived.arrive()
    arrived.wait()
    value = xt.load_tile(xt.init_tile(shared, ((group * 8 + 8) % 32, 0), (8, 32)))
    xt.store_tile(value, xt.init_tile(x.out, (group * 8, 0), (8, 32)))


def _publish(x: Operands) -> None:
    """One subgroup loads, another one stores what it finds in shared memory."""
    slot, full = xt.init_tile(xt.alloc_slm(SHAPE, x.A.dtype), (0, 0), SHAPE), xt.nbarrier(1, 2)
    with xt.when(xt.subgroup_id() == 0):
        xt.store_tile(xt.load_tile(xt.init_tile(x.A, (4, 8), SHAPE)), slot)
        full.arrive()
    with xt.when(xt.subgroup_id() == 1):
        full.wait()
        xt.store_tile(xt.load_tile(slot), xt.init_tile(x.out, (0, 0), SHAPE))
