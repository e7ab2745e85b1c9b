"""Single elements of shared local memory: histograms, counters, scatters, and arrays of one dimension."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, FEW, Execution
from xegpu.ir.dtypes import DType

pytestmark = pytest.mark.unoptimised
MACHINE = [Execution("machine:pvc", "pvc"), Execution("machine:bmg", "bmg")]
NUMPY_EXECUTIONS = [execution for execution in EXECUTIONS if execution.where.startswith("numpy")]


@xt.kernel(subgroups=(2, 2))
def histogram(X, H, *, dtype, bins=80, one=1):
    """Counts of the numbers below ``bins``; each subgroup clears and publishes a quarter of its group's counters."""
    counts, share = xt.alloc_slm((bins,), dtype), bins // 4
    number = xt.subgroup_id(0) * 2 + xt.subgroup_id(1)
    own = xt.init_tile(counts, (number * share,), (share,))
    xt.store_tile(xt.zeros((share,), dtype), own)
    xt.barrier()
    x = xt.load_tile(xt.init_tile(X, ((xt.group_id(0) * 4 + number) * 8, 0), (8, 32)), padding=255)
    xt.atomic_rmw_tile("add", xt.full((8, 32), one, dtype), xt.init_tile(counts, x.to(xt.index)),
                       x.to(xt.i32) < bins)
    xt.barrier()
    xt.atomic_rmw_tile("add", xt.load_tile(own), xt.init_tile(H, (number * share,), (share,)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINE], ids=str)
@pytest.mark.parametrize(("dtype", "one"), [(xt.i32, 1), (xt.f32, 0.5), (xt.u16, 3)], ids=str)
def test_histograms(dtype: DType, one: float, execution: Execution) -> None:
    """Of 90 x 27 numbers, some beyond the last counter, by three work-groups."""
    x = np.random.default_rng(21).binomial(100, 0.6, (90, 27)).astype(np.uint8)
    h = np.zeros(80, dtype.numpy)
    execution.bind(histogram)[3](x, h, dtype=dtype, one=one)
    np.testing.assert_array_equal(h, one * np.bincount(x.ravel(), minlength=101)[:80])


@pytest.mark.parametrize("execution", [*FEW, MACHINE[0]], ids=str)
def test_a_counter_gives_each_subgroup_another_ticket(execution: Execution) -> None:
    @xt.kernel(subgroups=(8, 1))
    def tickets(C):
        counter = xt.init_tile(xt.alloc_slm((3,), xt.i32), (1,), (1,))
        with xt.when(xt.subgroup_id() == 0):
            xt.store_tile(xt.full((1,), 5, xt.i32), counter)
        xt.barrier()
        ticket = xt.atomic_rmw_tile("add", xt.full((1,), 2, xt.i32), counter)
        xt.store_tile(ticket, xt.init_tile(C, (xt.group_id(0) * 8 + xt.subgroup_id(),), (1,)))

    c = np.zeros(16, np.int32)
    execution.bind(tickets)[2](c)
    assert (np.sort(c.reshape(2, 8)) == np.arange(5, 21, 2)).all()


@pytest.mark.parametrize("execution", [*FEW, MACHINE[0]], ids=str)
@pytest.mark.parametrize("dtype", [xt.f32, xt.i8], ids=str)
def test_elements_are_scattered_and_gathered(dtype: DType, execution: Execution) -> None:
    """One subgroup scatters with a mask, the other gathers; masked-off offsets are wild."""
    @xt.kernel(subgroups=(2, 1))
    def permuted(X, P, C):
        memory = xt.alloc_slm((128,), dtype)
        here = xt.init_tile(memory, (xt.subgroup_id() * 64,), (64,))
        xt.store_tile(xt.load_tile(xt.init_tile(X, (xt.subgroup_id() * 64,), (64,))), here)
        xt.barrier()
        at = xt.load_tile(xt.init_tile(P, (xt.group_id(0), xt.subgroup_id() * 64), (64,))).to(xt.index)
        elements = xt.init_tile(memory, at)
        value = xt.load_gather(elements, at >= 0, padding=9)
        xt.barrier()
        xt.store_scatter(value + value, elements, at >= 0)
        xt.barrier()
        xt.store_tile(xt.load_tile(here), xt.init_tile(C, (xt.group_id(0), xt.subgroup_id() * 64), (64,)))

    rng = np.random.default_rng(22)
    x, c = rng.integers(-60, 60, 128).astype(dtype.numpy), np.zeros((2, 128), dtype.numpy)
    p = np.array([rng.permutation(128), rng.permutation(128)], np.int32)
    p[rng.random(p.shape) < 0.3] = -(1 << 30)
    execution.bind(permuted)[2](x, p, c)
    for offsets, result in zip(p, c, strict=True):
        expected = x.copy()
        for offset in offsets[offsets >= 0]:
            expected[offset] *= 2
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_tiles_of_one_dimension(execution: Execution) -> None:
    """Stores over the end are dropped, loads there give padding."""
    @xt.kernel
    def over_the_end(X, C):
        memory = xt.alloc_slm((40,), xt.f32)
        assert (memory.shape, memory.strides) == ((40,), (1,))
        xt.store_tile(xt.load_tile(xt.init_tile(X, (0,), (32,))), xt.init_tile(memory, (0,), (32,)))
        xt.barrier()
        tile = xt.update_tile_offset(xt.init_tile(xt.view(memory, xt.i32), (8,), (32,)), 16)
        xt.store_tile(xt.full((32,), 7, xt.i32), tile)
        xt.barrier()
        xt.store_tile(xt.load_tile(xt.init_tile(memory, (16,), (32,)), padding=2.5), xt.init_tile(C, (0,), (32,)))

    x, c = np.random.default_rng(23).random(32).astype(np.float32), np.zeros(32, np.float32)
    execution.bind(over_the_end)[1](x, c)
    sevens = np.full(16, 7, np.int32).view(np.float32)
    np.testing.assert_array_equal(c, np.concatenate([x[16:24], sevens, np.full(8, 2.5, np.float32)]))


@xt.kernel
def reached(P, C, *, access):
    """Elements at the offsets that each work-group reads from P; 16 there are."""
    memory = xt.alloc_slm((16,), xt.i32)
    xt.store_tile(xt.zeros((16,), xt.i32), xt.init_tile(memory, (0,), (16,)))
    tile = xt.init_tile(memory, xt.load_tile(xt.init_tile(P, (xt.group_id(0), 0), (16,))).to(xt.index))
    value = xt.full((16,), 1, xt.i32)
    if access == "store_scatter":
        xt.store_scatter(value, tile)
    elif access == "atomic_rmw_tile":
        xt.atomic_rmw_tile("add", value, tile)
    else:
        value = xt.load_gather(tile)
    xt.store_tile(value, xt.init_tile(C, (xt.group_id(0), 0), (16,)))


@pytest.mark.parametrize("execution", NUMPY_EXECUTIONS[:2], ids=str)
@pytest.mark.parametrize("access", ["load_gather", "store_scatter", "atomic_rmw_tile"])
def test_another_groups_memory_is_out_of_bounds(access: str, execution: Execution) -> None:
    """The offset behind the last element of the first group's array, and the one before the second's."""
    for group, offset in ((0, 16), (1, -1), (0, 31)):
        p, c = np.tile(np.arange(16, dtype=np.int32), (3, 1)), np.zeros((3, 16), np.int32)
        execution.bind(reached)[3](p, c, access=access)
        p[group, 3] = offset
        with pytest.raises(xt.ShapeError, match=rf"element {offset} lies outside .* elements 0 to 15"):
            execution.bind(reached)[3](p, c, access=access)


def test_supervector_takes_rows_and_columns() -> None:
    @xt.kernel
    def transferred(C, *, cast):
        memory = xt.alloc_slm((16,), xt.f32)
        if cast:
            xt.vector.type_cast(memory)
        xt.vector.transfer_write(xt.vector.broadcast(1.0, (16,), xt.f32), memory, (0,))

    for cast in (False, True):
        with pytest.raises(xt.RankError, match=r"XT1508(.|\n)*alloc_slm\(\(1, 16\), xt\.f32\)"):
            transferred[1](np.zeros(16, np.float32), cast=cast)


def updates(dtype: DType, target: str) -> Counter[str]:
    """Atomic messages in the histogram's machine code."""
    arrays = xt.Spec((None, None), "u8"), xt.Spec((None,), dtype)
    lowered = histogram.lower(*arrays, dtype=dtype, bins=128, target=target)
    return Counter(re.findall(r"\b(atomic_\w+\.\w+)\.", str(lowered.isa())))


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_counting_is_one_message_a_register(target: str) -> None:
    """256 elements are 16 messages of 16 lanes, or 32 of 8; 32 counters of each subgroup are 2 or 4."""
    require_ocloc()
    lanes = 8 if target == "dg2" else 16
    assert updates(xt.i32, target) == {"atomic_iinc.slm": 256 // lanes, "atomic_iadd.ugm": 32 // lanes}


def test_sums_of_floats_compare_and_swap_in_shared_memory() -> None:
    require_ocloc()
    found = updates(xt.f32, "pvc")
    assert found["atomic_icas.slm"] == 16
    assert not any(name.startswith("atomic_fadd.slm") for name in found)


@xt.kernel(subgroups=(2, 1))
def counted(X, C, *, cleared=True, barriers=(True, True), scattered=False):
    """Counts of X, with or without the barriers between clearing, counting and reading."""
    counts = xt.alloc_slm((32,), xt.i32)
    own = xt.init_tile(counts, (xt.subgroup_id() * 16,), (16,))
    if cleared:
        xt.store_tile(xt.zeros((16,), xt.i32), own)
    if barriers[0]:
        xt.barrier()
    x = xt.load_tile(xt.init_tile(X, (xt.group_id(0), xt.subgroup_id() * 16), (16,)))
    elements = xt.init_tile(counts, x.to(xt.index))
    xt.atomic_rmw_tile("add", xt.full((16,), 1, xt.i32), elements)
    if barriers[1]:
        xt.barrier()
    read = xt.load_gather(elements) if scattered else xt.load_tile(own)
    xt.store_tile(read, xt.init_tile(C, (xt.group_id(0), xt.subgroup_id() * 16), (16,)))


def test_checks_follow_single_elements() -> None:
    """Subgroup 0 counts in elements 3, 5, ... of both subgroups, subgroup 1 in element 21 alone, in two work-groups."""
    x, c = np.full((2, 32), 21, np.int32), np.zeros((2, 32), np.int32)
    x[:, :16] = np.arange(3, 32, 2)[np.arange(16) % 15]
    checked = counted.on("numpy", check=True)
    checked[2](x, c)
    np.testing.assert_array_equal(c[1], np.bincount(x[1], minlength=32))
    checked[2](x, c, scattered=True)
    np.testing.assert_array_equal(c[0], np.bincount(x[0])[x[0]])
    for missing, code, message in [
            ({"cleared": False}, "XT6004", "updates element 3 of shared local memory, which nothing has written yet"),
            ({"barriers": (False, True)}, "XT6003", "updates element 17 of shared local memory atomically, which "
                                                    "subgroup 1 has written since the last barrier"),
            ({"barriers": (True, False)}, "XT6003", "which subgroup 0 has updated atomically since the last barrier"),
            ({"barriers": (True, False), "scattered": True}, "XT6003", "of shared local memory, which another ")]:
        with pytest.raises(xt.CheckError) as caught:
            checked[2](x, c, **missing)
        assert code in str(caught.value)
        assert message in str(caught.value)
