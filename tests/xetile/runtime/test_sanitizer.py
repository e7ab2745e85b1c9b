"""``.on("numpy", check=True)``: every fault is found, with its place, and clean kernels pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import float8_e4m3fn

import xetile as xt

RANDOM = np.random.default_rng(3)
MAP = xt.wg_map((2, 2), (8, 8))
ROWS = xt.wg_map((4, 1), (4, 16))


def whole(*shape: int) -> Any:
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


def finding(kernel: Any, grid: Any, *args: Any, check: Any = True, **constants: Any) -> str:
    with pytest.raises(xt.CheckError) as raised:
        kernel.on("numpy", check=check)[grid](*args, **constants)
    assert "help: " in str(raised.value)
    assert f"in {kernel.name}" in str(raised.value) or f"def {kernel.name}" in str(raised.value)
    return str(raised.value)


@xt.kernel
def all_write_one(A, C):
    x = xt.load_tile(xt.init_tile(A, (xt.group_id(0) * 8, 0), (8, 16)))
    xt.store_tile(x, xt.init_tile(C, (0, 0), (8, 16)))


@xt.kernel
def overlapping_rows(A, C):
    with xt.when(xt.group_id(0) < 5):
        for k in xt.range(0, 32, 16):
            x = xt.load_tile(xt.init_tile(A, (xt.group_id(0) * 8, k), (8, 16)))
            xt.store_tile(x, xt.init_tile(C, (xt.group_id(0) * 7, k), (8, 16)))


def test_two_work_groups_write_one_element() -> None:
    a, c = whole(32, 16), np.zeros((32, 16), np.float32)
    said = finding(all_write_one, 4, a, c)
    assert "writes C[0, 0], which work-group (3, 0, 0) has written in the same launch" in said
    assert "xt.store_tile(x, xt.init_tile(C, (0, 0), (8, 16)))" in said
    said = finding(overlapping_rows, 3, whole(64, 32), np.zeros((64, 32), np.float32))
    assert "work-group (0, 0, 0) writes C[7, 0], which work-group (1, 0, 0) has written" in said
    assert "in the loop, k = 0" in said


@xt.kernel
def shifted(A, n):
    row = xt.group_id(0) * 8
    for k in xt.range(0, 32, 16):
        x = xt.load_tile(xt.init_tile(A, (row + n, k), (8, 16)))
        xt.store_tile(x + 1.0, xt.init_tile(A, (row, k), (8, 16)))


@pytest.mark.parametrize("grid", [4, 2000])  # at once, and in several runs of the interpreter
def test_what_another_work_group_writes_is_read(grid: int) -> None:
    a = whole(8 * grid + 8, 32)
    before = a.copy()
    shifted.on("numpy", check=True)[grid](a, 0)  # in place is clean
    np.testing.assert_array_equal(a[:8 * grid], before[:8 * grid] + 1)
    said = finding(shifted, grid, a, 1)
    assert "A[8, 0], which work-group (" in said or "A[7, 0], which work-group (" in said
    assert "in the same launch (in the loop, k = 0)" in said


@xt.kernel
def stripes(C, *, step, width):
    x = xt.full((8, 16), 1.0, xt.f32)
    for k in xt.range(0, 64, 16):
        xt.store_tile(x, xt.init_tile(C, (xt.group_id(1) * 8, xt.group_id(0) * step + k), (8, 16)))
        y = xt.load_tile(xt.init_tile(C, (xt.group_id(1) * 8, xt.group_id(0) * step + k), (8, width)))
        xt.store_tile(y + 1.0, xt.init_tile(C, (xt.group_id(1) * 8, xt.group_id(0) * step + k), (8, width)))


def test_blocks_in_each_other_s_gaps() -> None:
    c = np.zeros((24, 256), np.float32)
    stripes.on("numpy", check=True)[4, 3](c, step=64, width=16)
    np.testing.assert_array_equal(c, 2)
    stripes.on("numpy", check=True)[4, 3](c, step=64, width=8)
    assert "writes C[0, 48], which work-group (1, 0, 0)" in finding(stripes, (4, 3), c, step=48, width=16)
    assert "reads C[0, 64], which work-group (1, 0, 0) has written in the same launch (in the loop, k = 48)" in \
        finding(stripes, (4, 3), c, step=64, width=32)


@xt.kernel
def scattered(A, C, step):
    at, all_of_them = xt.iota((8, 16), 0, xt.index) * 16 + xt.iota((8, 16), 1, xt.index), xt.full((8, 16), True, xt.i1)
    x = xt.load_gather(xt.init_tile(A, at), all_of_them)
    xt.store_scatter(x, xt.init_tile(C, at + xt.group_id(0) * step), all_of_them)


@xt.kernel(subgroups=(2, 1))
def written_twice(A, C, *, between):
    at, everywhere = xt.iota((8, 16), 0, xt.index) * 16 + xt.iota((8, 16), 1, xt.index), xt.full((8, 16), True, xt.i1)
    mine = xt.init_tile(A, at + xt.subgroup_id() * 128)
    xt.store_scatter(xt.full((8, 16), 1.0, xt.f32), mine, everywhere)
    if between:
        x = xt.load_gather(xt.init_tile(A, at + (1 - xt.subgroup_id()) * 128), at < 0)  # of the other one, but nothing
        y = xt.load_gather(mine, everywhere)
        xt.store_scatter(x + y, xt.init_tile(C, at + xt.subgroup_id() * 128), everywhere)
        z = xt.load_gather(xt.init_tile(C, at), at == 3)
        xt.store_scatter(z, xt.init_tile(C, at + xt.subgroup_id() * 128), everywhere)
    xt.store_scatter(xt.full((8, 16), 2.0, xt.f32), mine, everywhere)


def test_elements_that_an_instance_owns_and_another_reads() -> None:
    a, c = whole(16, 16), np.zeros((16, 16), np.float32)
    written_twice.on("numpy", check=True)[1](a, c, between=False)
    np.testing.assert_array_equal(a, 2)
    assert "subgroup 1 of work-group (0, 0, 0) reads element 3 of C, which subgroup 0 has written" in \
        finding(written_twice, 1, a, c, between=True)


@xt.kernel
def read_by_the_next(A, C):
    at, everywhere = xt.iota((8, 16), 0, xt.index) * 16 + xt.iota((8, 16), 1, xt.index), xt.full((8, 16), True, xt.i1)
    mine, last = xt.init_tile(A, at + xt.group_id(0) * 128), xt.num_groups(0) - 1
    xt.atomic_rmw_tile("addf", xt.full((8, 16), 1.0, xt.f32), mine, everywhere)
    with xt.when(xt.group_id(0) == last):
        x = xt.load_gather(xt.init_tile(C, at), at == 3)
        xt.store_scatter(x, xt.init_tile(C, at + 128), at == 3)
    with xt.when(xt.group_id(0) == 0):
        xt.store_scatter(xt.full((8, 16), 2.0, xt.f32), xt.init_tile(C, at), at < 2)
        xt.store_scatter(xt.full((8, 16), 2.0, xt.f32), xt.init_tile(C, at), at < 2)  # its own by now
        xt.store_scatter(xt.full((8, 16), 2.0, xt.f32), xt.init_tile(C, at), at == 3)


def test_an_element_that_another_instance_has_read() -> None:
    assert "(0, 0, 0) writes element 3 of C, which work-group (2, 0, 0) has read in the same launch" in \
        finding(read_by_the_next, 3, np.zeros(384, np.float32), np.zeros(256, np.float32))


def test_single_elements() -> None:
    a, c = whole(8, 16), np.zeros((32, 16), np.float32)
    scattered.on("numpy", check=True)[4](a, c, 128)
    np.testing.assert_array_equal(c, np.tile(a, (4, 1)))
    assert "work-group (0, 0, 0) writes element 127 of C, which work-group (1, 0, 0) has written" in \
        finding(scattered, 2, a, c, 127)


@xt.kernel
def edges(A, C, *, load, store):
    row = xt.group_id(0) * 8
    x = xt.load_tile(xt.init_tile(A, (row, 0), (8, 16)), oob=load)
    xt.store_tile(x, xt.init_tile(C, (row, 0), (8, 16)), oob=store)


def test_outside_an_array() -> None:
    a, c = whole(12, 16), np.zeros((16, 10), np.float32)
    run = edges.on("numpy", check=True)
    run[2](a, c, load="padding", store="drop")  # what the language says happens there
    np.testing.assert_array_equal(c[:12], a[:, :10])
    assert "work-group (1, 0, 0) reads A[12, 0], outside its 12x16 elements" in \
        finding(edges, 2, a, c, load="error", store="drop")
    assert "work-group (0, 0, 0) writes C[0, 10], outside its 16x10 elements" in \
        finding(edges, 2, a, c, load="padding", store="error")
    assert "reads A[12, 0], outside" in finding(edges, 2, a, c, load="padding", store="drop", check="bounds")
    edges.on("numpy")[2](a, c, load="error", store="error")  # unwatched it changes nothing


@xt.kernel(subgroups=(4, 1))
def exchanged(A, C, *, before=True, after=True, named=False):
    slm, me, split = xt.alloc_slm((16, 16), xt.f32), xt.subgroup_id(), xt.nbarrier(0, 4)
    for k in xt.range(0, 32, 16):
        x = xt.load_tile(xt.init_tile(A, (xt.group_id(0) * 16 + me * 4, k), (4, 16)))
        xt.store_tile(x, xt.init_tile(slm, (me * 4, 0), (4, 16)))
        if named:
            split.arrive()
            split.wait()
        elif before:
            xt.barrier()
        y = xt.load_tile(xt.init_tile(slm, ((3 - me) * 4, 0), (4, 16)))
        xt.store_tile(y, xt.init_tile(C, (xt.group_id(0) * 16 + me * 4, k), (4, 16)))
        if after:
            xt.barrier()


@xt.kernel
def shared(A, C, *, barrier=True, first=True):
    slm = xt.alloc_slm((16, 16), xt.f32)
    if first:
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (16, 16), wg_map=MAP)),
                      xt.init_tile(slm, (0, 0), (16, 16), wg_map=MAP))
    if barrier:
        xt.barrier()
    x = xt.load_tile(xt.init_tile(slm, (0, 0), (16, 16), wg_map=ROWS))
    xt.store_tile(x, xt.init_tile(C, (0, 0), (16, 16), wg_map=ROWS))


def test_shared_local_memory() -> None:
    a, c = whole(32, 32), np.zeros((32, 32), np.float32)
    exchanged.on("numpy", check=True)[2](a, c)
    np.testing.assert_array_equal(c, a.reshape(2, 4, 4, 32)[:, ::-1].reshape(32, 32))
    exchanged.on("numpy", check=True)[2](a, c, named=True)
    said = finding(exchanged, 2, a, c, before=False)
    assert "subgroup 0 of work-group (0, 0, 0) reads shared local memory[12, 0], which subgroup 3 has written since " \
        "the last barrier (in the loop, k = 0)" in said
    said = finding(exchanged, 2, a, c, after=False)
    assert "subgroup 0 of work-group (0, 0, 0) writes shared local memory[0, 0], which subgroup 3 has read since the " \
        "last barrier (in the loop, k = 16)" in said
    b, d = whole(16, 16), np.zeros((16, 16), np.float32)
    shared.on("numpy", check=True)[1](b, d)
    np.testing.assert_array_equal(d, b)
    assert "reads shared local memory[0, 8], which another subgroup has written since the last barrier" in \
        finding(shared, 1, b, d, barrier=False)
    assert "reads shared local memory[0, 0], which nothing has written yet" in finding(shared, 1, b, d, first=False)


def test_mistakes() -> None:
    with pytest.raises(xt.ArgumentError, match="XT1050"):
        edges.on("numpy:xegpu", check=True)
    with pytest.raises(xt.ArgumentError, match="XT1053"):
        edges.on("numpy", check="everything")
    with pytest.raises(xt.ArgumentError, match="XT1126"):
        edges.on("numpy")[1](whole(8, 16), whole(8, 16), load="clamp", store="drop")
    spec = xt.Spec((None, None), xt.f32)
    late = xt.parse(edges.lower(spec, spec, load="padding", store="drop").xegpu)["edges"]
    with pytest.raises(xt.DeviceError, match="XT6007"):
        late.on("numpy", check=True)[1](whole(8, 16), whole(8, 16))


@xt.kernel
def calculates(A, B, C, n, *, mask=False, edge=0):
    row = xt.group_id(0) * 8
    x = xt.load_tile(xt.init_tile(A, (row, 0), (8, 16)))
    total = xt.zeros((8, 16), xt.f32)
    for k in xt.range(0, n, 16):
        y = xt.load_tile(xt.init_tile(B, (row, k), (8, 16)))
        total = total + x / y
        total = xt.where(y == 0.0, 0.0, total) if mask else total
    z = xt.tile_reduce("maximumf", total, 1) + total
    xt.store_tile(z.to(xt.f16), xt.init_tile(C, (row, edge), (8, 16)))


@xt.kernel
def products(A, B, C, *, K=32):
    acc = xt.zeros((8, 16), xt.f32)
    for k in xt.range(0, A.shape[1], K):
        a = xt.load_tile(xt.init_tile(A, (xt.group_id(0) * 8, k), (8, K)))
        b = xt.load_tile(xt.init_tile(B, (k, 0), (K, 16)))
        acc = xt.tile_mma(a, b, acc)
    xt.store_tile(acc * 0.5, xt.init_tile(C, (xt.group_id(0) * 8, 0), (8, 16)))


def test_infinities_and_nans() -> None:
    a, b, c = np.ones((16, 16), np.float32), np.ones((16, 32), np.float32), np.zeros((16, 16), np.float16)
    run = calculates.on("numpy", check=True)
    run[2](a, b, c, 32)
    b[9, 20] = 0
    run[2](a, b, c, 16)  # nobody divides by it
    run[2](a, b, c, 32, mask=True)  # and nothing of it is left
    said = finding(calculates, 2, a, b, c, 32)
    assert "work-group (1, 0, 0) produces an infinity of finite numbers here, and stores what follows from it " \
        "to C[9, 0] (in the loop, k = 16)" in said
    assert "total = total + x / y" in said
    run[2](a, b, c, 32, edge=20)  # outside C
    a[9, 4] = 0
    assert "work-group (1, 0, 0) produces a NaN of operands without NaNs here" in finding(calculates, 2, a, b, c, 32)
    a[...], b[...] = 40000, 1
    assert "z.to(xt.f16)" in finding(calculates, 2, a, b, c, 16)
    a[0, 0] = np.inf  # the author's own
    a[:, 1:] = a[1:, 0] = 1
    run[1](a, b, c, 16)


@xt.kernel
def entropies(A, C, *, instead, least=0):
    x = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
    y = xt.tile_transpose(xt.where(x > least, x * xt.log2(x), instead))
    xt.store_tile(y, xt.init_tile(C, (0, 0), (16, 8)))


@pytest.mark.parametrize("instead", [-np.inf, np.nan, 0.0])
def test_what_a_selection_leaves_out(instead: float) -> None:
    """log2(0) is minus infinity; what is stored there is the author's constant."""
    a, c = whole(8, 16).astype(np.float32), np.zeros((16, 8), np.float32)
    a[...] = np.abs(a) + 1
    a[3, 5] = a[7, 15] = 0
    entropies.on("numpy", check=True)[1](a, c, instead=instead)
    np.testing.assert_array_equal(c[5, 3], np.float32(instead))
    said = finding(entropies, 1, a, c, instead=instead, least=-1)
    assert "xt.log2(x)" in said
    assert "to C[5, 3]" in said


def test_infinite_products() -> None:
    a, b, c = whole(16, 64), whole(64, 16), np.zeros((16, 16), np.float32)
    products.on("numpy", check=True)[2](a, b, c)
    np.testing.assert_array_equal(c, a @ b / 2)
    a[12, 40], b[40, 3] = 1e30, 1e30
    said = finding(products, 2, a, b, c)
    assert "work-group (1, 0, 0) produces an infinity of finite numbers here" in said
    assert "stores what follows from it to C[12, 3]" in said
    assert "acc = xt.tile_mma(a, b, acc)" in said
    products.on("numpy", check={"races", "shared"})[2](a, b, c)


@xt.kernel(subgroups=(2, 1))
def counts(A, C, *, how, barrier=False):
    group, at = xt.group_id(0), xt.iota((8, 16), 0, xt.index) * 16 + xt.iota((8, 16), 1, xt.index)
    ones, everywhere = xt.full((8, 16), 1.0, xt.f32), xt.full((8, 16), True, xt.i1)
    window, single = xt.init_tile(C, (0 if how != "own" else group * 8, 0), (8, 16)), xt.init_tile(C, at)
    if how == "read before":
        x = xt.load_tile(window)
        xt.store_tile(x, xt.init_tile(A, (group * 16 + xt.subgroup_id() * 8, 0), (8, 16)))
    xt.atomic_rmw_tile("addf", ones, window)
    xt.atomic_rmw_tile("addf", ones, single if how != "own" else window, *[everywhere] * (how != "own"))
    if barrier:
        xt.barrier()
    if how == "write":
        with xt.when(group == 1):
            xt.store_scatter(ones, single, at == 21)
    if how in ("read", "own"):
        x = xt.load_tile(window)
        xt.store_tile(x, xt.init_tile(A, (group * 16 + xt.subgroup_id() * 8, 0), (8, 16)))


def test_atomic_updates() -> None:
    a, c = np.zeros((64, 16), np.float32), np.zeros((32, 16), np.float32)
    run = counts.on("numpy", check=True)
    run[4](a, c, how="alone")
    np.testing.assert_array_equal(c, np.repeat([16.0, 0], (8, 24))[:, None] * np.ones(16))
    run[4](a, c, how="own", barrier=True)  # each group its own, and its subgroups wait
    assert "subgroup 0 of work-group (0, 0, 0) reads C[0, 0], which another subgroup has updated atomically since " \
        "the last barrier" in finding(counts, 4, a, c, how="own")
    assert "of work-group (1, 0, 0) writes element 21 of C, which other work-groups have updated atomically in the " \
        "same launch" in finding(counts, 4, a, c, how="write", barrier=True)
    assert "reads C[0, 0], which other work-groups have updated atomically" in \
        finding(counts, 4, a, c, how="read", barrier=True)
    said = finding(counts, 4, a, c, how="read before")
    assert "updates C[0, 0] atomically, which other work-groups have read in the same launch" in said
    assert "atomic updates race with other accesses" in said
    run[1](a, c, how="read", barrier=True)  # one work-group, whose subgroups wait
    counts.on("numpy", check={"shared", "bounds"})[4](a, c, how="read")


@xt.kernel(subgroups=(2, 2))
def passed_on(A, C, n, *, barrier):
    slm, me = xt.alloc_slm((3, 16, 32), xt.f32), xt.subgroup_id()
    for k in xt.range(0, n):  # a ring: what is written now was read a step ago
        x = xt.load_tile(xt.init_tile(A, (me * 4, k * 32), (4, 32)))
        xt.store_tile(x, xt.init_tile(slm, (k % 3, me * 4, 0), (4, 32)))
        if barrier:
            xt.barrier()
        y = xt.load_tile(xt.init_tile(slm, (k % 3, 0, me * 8), (16, 8)))
        xt.store_tile(y, xt.init_tile(C, (0, k * 32 + me * 8), (16, 8)))


def test_a_ring_of_buffers() -> None:
    a, c = whole(16, 160), np.zeros((16, 160), np.float32)
    passed_on.on("numpy", check=True)[1](a, c, 5, barrier=True)
    np.testing.assert_array_equal(c, a)
    assert "reads shared local memory[0, 4, 0], which subgroup 1 has written since the last barrier" in \
        finding(passed_on, 1, a, c, 5, barrier=False)


@xt.kernel(subgroups=(2, 1))
def handed_over(A, C, *, barrier):
    mine, top = xt.subgroup_id() * 8, xt.group_id(0) * 16
    x = xt.load_tile(xt.init_tile(A, (top + mine, 0), (8, 16)))
    xt.store_tile(x, xt.init_tile(C, (top + mine, 0), (8, 16)))
    if barrier:
        xt.barrier()
    y = xt.load_tile(xt.init_tile(C, (top, 0), (8, 16))) + xt.load_tile(xt.init_tile(C, (top + 8, 0), (8, 16)))
    xt.store_tile(y, xt.init_tile(C, (top + mine, 16), (8, 16)))


def test_arrays_between_subgroups() -> None:
    a, c = whole(32, 16), np.zeros((32, 32), np.float32)
    handed_over.on("numpy", check=True)[2](a, c, barrier=True)
    sums = a.reshape(2, 2, 8, 16).sum(1, keepdims=True)
    np.testing.assert_array_equal(c[:, 16:].reshape(2, 2, 8, 16), sums[:, [0, 0]])
    said = finding(handed_over, 2, a, c, barrier=False)
    assert "subgroup 1 of work-group (0, 0, 0) reads C[0, 0], which subgroup 0 has written since the last" in said
    assert "note: it may have been written here" in said  # by the one store or the other


@xt.kernel
def stencil(A, n):
    for k in xt.range(0, 32, 16):
        next_one = xt.init_tile(A, (xt.group_id(0) * 8 + n, k), (8, 16))
        x = xt.load_tile(next_one)
        own = xt.init_tile(A, (xt.group_id(0) * 8, k), (8, 16))
        xt.store_tile(x, own)


def test_the_other_party_is_shown() -> None:
    said = finding(stencil, 3, whole(32, 32), 4)
    assert "work-group (1, 0, 0) writes A[8, 0], which work-group (0, 0, 0) has read in the same launch" in said
    lines = said.splitlines()
    assert lines[lines.index("  note: it was read here") + 2].strip() == "x = xt.load_tile(next_one)"
    made = lines.index("  note: the tile, which is at [8, 0] now, is initialized here")
    assert lines[made + 2].strip().startswith("own = xt.init_tile")


@xt.kernel
def raised(A, C, *, single=False):
    x = xt.load_tile(xt.init_tile(A, (0, 0, 0), (8, 16))) * 1e38
    if single:
        at = xt.iota((8, 16), 0, xt.index) * 16 + xt.iota((8, 16), 1, xt.index)
        xt.atomic_rmw_tile("addf", x, xt.init_tile(C, at), at < 20)
    else:
        xt.atomic_rmw_tile("addf", x, xt.init_tile(C, (1, 0, 0), (8, 16)))


def test_what_is_added_atomically() -> None:
    a, c = np.ones((1, 8, 16), np.float32), np.zeros((2, 8, 12), np.float32)
    a[0, 3, 13] = 10  # C has no such column
    raised.on("numpy", check=True)[1](a, c)
    raised.on("numpy", check=True)[1](a, c, single=True)  # masked off
    a[0, 1, 2] = 10
    said = finding(raised, 1, a, c)
    assert "produces an infinity of finite numbers here, and updates C[1, 1, 2] with what follows from it" in said
    assert "and updates C with what follows from it" in finding(raised, 1, a, c, single=True)


@xt.kernel
def whole_numbers(A, B, C, n, *, how):
    row = xt.group_id(0) * 8
    a, b = (xt.load_tile(xt.init_tile(array, (row, 0), (8, 16))) for array in (A, B))
    if how == "loop":
        for _k in xt.range(0, n):
            a = a + b
    if how == "branch":
        with xt.when(row == 8):
            a = a + b
    product = a // b * b if how == "part of %" else a
    x = {"%": lambda: a % b, "part of %": lambda: a - product + product, "+": lambda: a + b, "-": lambda: a - b,
         "*": lambda: a * b, "<<": lambda: a << b, "abs": lambda: xt.abs(a),
         "masked": lambda: xt.where(b < 100, a + b, b), "condition": lambda: xt.where(a + b < 0, a, b),
         "sum": lambda: xt.tile_reduce("add", a, 1) + xt.zeros((8, 16), C.dtype), "to": lambda: a.to(C.dtype),
         "unused": lambda: (a + b, b)[1], "masked off": lambda: a + b}.get(how, lambda: a)()
    if how == "masked off":
        at = xt.iota((8, 16), 0, xt.index) * 16 + xt.iota((8, 16), 1, xt.index)
        xt.store_scatter(x, xt.init_tile(C, at), b < 100)
        return
    xt.store_tile(x, xt.init_tile(C, (row, 0), (8, 16)))


def of(dtype: Any, value: Any, at: Any = (), other: Any = 0) -> Any:
    """All one value, but for one element."""
    array = np.full((16, 16), value, dtype)
    if at:
        array[at] = other
    return array


CLEAN: list[tuple[str, Any, Any, Any]] = [
    ("+", of("i1", 100), of("i1", 27), "i1"), ("+", of("u1", 200), of("u1", 100), "u1"),
    ("*", of("u4", 2**31), of("u4", 3), "u4"), ("-", of("i4", -2**31), of("i4", 0), "i4"),
    ("<<", of("i2", -1), of("i2", 15), "i2"), ("%", of("i1", -128), of("i1", 3), "i1"),
    ("%", of("i8", -2**63), of("i8", 3), "i8"), ("sum", of("i1", -8), of("i1", 0), "i1"),
    ("masked", of("i1", 100), of("i1", 100), "i1"), ("masked off", of("i1", 100), of("i1", 100), "i1"),
    ("unused", of("i1", 100), of("i1", 100), "i1"), ("branch", of("i1", 27, slice(8), 127), of("i1", 100), "i1"),
    ("loop", of("i1", 100), of("i1", 9), "i1"), ("to", of("i4", 300), of("i4", 0), "u1"),
    ("to", of("f4", -300.0), of("f4", 0), float8_e4m3fn),
    ("to", of("f4", 127.9), of("f4", 0), "i1"), ("to", of("f4", 2.0**31 - 128), of("f4", 0), "i4"),
]
LOST: list[tuple[str, Any, Any, Any, str]] = [
    ("+", of("i1", 1, (9, 4), 100), of("i1", 100), "i1", "(1, 0, 0) makes 100 + 100 = 200 here, which i8 does "
     "not hold, and stores what follows from it to C[9, 4]"),
    ("-", of("i4", -2**31), of("i4", 0, (3, 3), 1), "i4", "makes -2147483648 - 1 = -2147483649 here, which i32"),
    ("*", of("i8", 2**40), of("i8", 1, (1, 2), 2**23), "i8", "makes 1099511627776 * 8388608 = 9223372036854775808"),
    ("<<", of("i2", 1), of("i2", 3, (0, 5), 15), "i2", "makes 1 << 15 = 32768 here, which i16 does not hold"),
    ("<<", of("i2", 1), of("i2", 3, (0, 5), -1), "i2", "makes 1 << (-1) here"),
    ("part of %", of("i1", -128), of("i1", 3), "i1", "makes -43 * 3 = -129 here"),
    ("abs", of("i1", -128), of("i1", 0), "i1", "makes 128 of -128 here"),
    ("sum", of("i1", 8), of("i1", 0), "i1", "makes a sum here, which i8 does not hold"),
    ("masked", of("i1", 100), of("i1", 99), "i1", "makes 100 + 99 = 199 here"),
    ("masked off", of("i1", 100), of("i1", 100, (2, 0), 99), "i1", "makes 100 + 99 = 199 here"),
    ("condition", of("i1", 100), of("i1", 100), "i1", "makes 100 + 100 = 200 here"),
    ("branch", of("i1", 101), of("i1", 27), "i1", "work-group (1, 0, 0) makes 101 + 27 = 128 here"),
    ("loop", of("i1", 101), of("i1", 9), "i1", "and stores what follows from it to C[0, 0] (in the loop, _k = 2)"),
    ("to", of("i4", 127, (8, 8), 128), of("i4", 0), "i1", "(1, 0, 0) converts 128 here, which i8 does not hold"),
    ("to", of("f4", 0, (15, 1), np.nan), of("f4", 0), "i1", "converts nan here, which i8 does not hold"),
    ("to", of("f4", -1), of("f4", 0), "u1", "converts -1.0 here, which u8 does not hold"),
    ("to", of("f4", 2.0**31), of("f4", 0), "i4", "converts 2147483648.0 here, which i32 does not hold"),
]


def test_integers_that_fit() -> None:
    for how, a, b, dtype in CLEAN:
        whole_numbers.on("numpy", check=True)[2](a, b, np.zeros((16, 16), dtype), 3, how=how)


def test_integers_that_do_not_fit() -> None:
    for how, a, b, dtype, says in LOST:
        c = np.zeros((16, 16), dtype)
        assert says in finding(whole_numbers, 2, a, b, c, 3, how=how), how
        whole_numbers.on("numpy", check={"races", "numbers"})[2](a, b, c, 3, how=how)


@xt.kernel
def far(A, C, n, *, wide=True):
    x = xt.load_tile(xt.init_tile(A, (n * 65536 if wide else 0, 0), (8, 16)))
    at = xt.iota((8, 16), 1, xt.i32) * n.to(xt.i32)
    y = xt.load_gather(xt.init_tile(A, at.to(xt.index)), at == 0)
    xt.store_tile(x + y, xt.init_tile(C, (0, 0), (8, 16)))


def test_indices_of_32_bits() -> None:
    a, c = whole(8, 16), np.zeros((8, 16), np.float32)
    far.on("numpy", check=True)[1](a, c, 2**14)
    assert "makes 32768 * 65536 = 2147483648 here, which index does not hold, and goes on with it" in \
        finding(far, 1, a, c, 2**15)
    assert "makes 4 * 1073741824 = 4294967296 here, which i32 does not hold, and uses what follows from it to find " \
        "elements of A" in finding(far, 1, a, c, 2**30, wide=False)


@xt.kernel(subgroups=(4, 1))
def split(A, C, *, store):
    slm, mine, barrier = xt.alloc_slm((32, 16), xt.f32), xt.subgroup_id() * 8, xt.nbarrier(0, 4)
    x = xt.load_tile(xt.init_tile(A, (mine, 0), (8, 16)))
    for here in ("before", "between"):
        if store == here:
            xt.store_tile(x, xt.init_tile(slm, (mine, 0), (8, 16)))
        if here == "before":
            barrier.arrive()
    barrier.wait()
    y = xt.load_tile(xt.init_tile(slm, (24 - mine, 0), (8, 16)))
    xt.store_tile(y, xt.init_tile(C, (mine, 0), (8, 16)))


@xt.kernel(subgroups=(2, 1))
def sometimes(A, C, n):
    slm, mine = xt.alloc_slm((16, 16), xt.f32), xt.subgroup_id() * 8
    xt.store_tile(xt.load_tile(xt.init_tile(A, (mine, 0), (8, 16))), xt.init_tile(slm, (mine, 0), (8, 16)))
    with xt.when(xt.group_id(0) < n):
        xt.barrier()
    y = xt.load_tile(xt.init_tile(slm, (8 - mine, 0), (8, 16)))
    xt.store_tile(y, xt.init_tile(C, (xt.group_id(0) * 16 + mine, 0), (8, 16)))


def test_barriers_that_do_not_order_all() -> None:
    a, c = whole(32, 16), np.zeros((32, 16), np.float32)
    split.on("numpy", check=True)[1](a, c, store="before")
    np.testing.assert_array_equal(c, a.reshape(4, 8, 16)[::-1].reshape(32, 16))
    assert "reads shared local memory[24, 0], which subgroup 3 has written since the last barrier" in \
        finding(split, 1, a, c, store="between")  # the others may have waited before it writes
    sometimes.on("numpy", check=True)[2](a, c, 2)
    assert "subgroup 0 of work-group (1, 0, 0) reads shared local memory[8, 0], which subgroup 1 has written" in \
        finding(sometimes, 2, a, c, 1)
