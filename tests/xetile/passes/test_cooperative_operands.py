"""Operands that several subgroups convert from 8 bits or gather by rows: made once by the work-group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.attention_kernels import gathered_keys, paged_cache
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Array, Execution, first_stages
from tests.xetile.passes.test_cooperative_loads import without_places

STORED = [xt.e4m3, xt.e5m2, xt.i8, xt.u8]
D, BM, BN = 64, 32, 32
STAGE = "cooperative-operands"


@xt.kernel
def two_products(Q: Any, K: Any, V: Any, O: Any, end: Any, *, to: Any = xt.f16, sg: int = 2,  # noqa: E741
                 form: str = "made", mask: str = "end", BM: int = BM) -> None:
    """(Q @ K^T, which is 0 where it is masked) @ V for a tile of rows, on keys and values up to ``end``."""
    m, layout, rows = xt.group_id(0) * BM, (sg, 1), BM // sg
    map_q, map_k, map_s, map_t = (xt.wg_map(layout, each) for each in ((rows, D), (BN, D), (rows, BN), (D, BN)))
    q = xt.load_tile(xt.init_tile(Q, (m, 0), (BM, D), wg_map=map_q))
    out = xt.zeros((BM, D), xt.f32, wg_map=map_q)
    row, column = (xt.iota((BM, BN), axis, wg_map=map_s) for axis in (0, 1))
    k, v = (xt.init_tile(A, (0, 0), (BN, D), wg_map=map_k) for A in (K, V))
    for n in xt.range(0, end, BN):
        if form != "carried":
            k, v = (xt.init_tile(A, (n, 0), (BN, D), wg_map=map_k) for A in (K, V))
        keys = xt.load_tile(k)
        if form == "transposed first":
            keys = xt.tile_transpose(keys, wg_map=map_t).to(to)
        else:
            keys = xt.tile_transpose(keys.to(to), wg_map=map_t)
        s = xt.tile_mma(q, keys)
        seen = column < (end - n).to(xt.i32)
        if mask == "causal":
            seen = seen & (column + n.to(xt.i32) <= row + m.to(xt.i32))
        out = xt.tile_mma(xt.where(seen, s, 0.0).to(to), xt.load_tile(v).to(to), out)
        if form == "carried":
            k, v = xt.update_tile_offset(k, BN, 0), xt.update_tile_offset(v, BN, 0)
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, D), wg_map=map_q))


def _arrays(dtype: Any, to: Any, rows: int, keys: int) -> tuple[Array, Array, Array]:
    generator = np.random.default_rng(rows + keys)
    q = generator.integers(-1, 2, (rows, D)).astype(to.numpy)
    low = 0 if dtype is xt.u8 else -2
    k, v = (generator.integers(low, 3, (keys, D)).astype(dtype.numpy) for _ in range(2))
    return q, k, v


def _expected(q: Array, k: Array, v: Array, end: int, mask: str) -> Array:
    s = q.astype(np.int64) @ k[:end].astype(np.int64).T
    if mask == "causal":
        s[np.arange(len(q))[:, None] < np.arange(s.shape[1])] = 0
    result: Array = s @ v[:end].astype(np.int64)
    return result


def _check(execution: Execution, dtype: Any, to: Any, keys: int, end: int, mask: str = "end", **options: Any) -> None:
    q, k, v = _arrays(dtype, to, 37, keys)
    out = np.full((37, D), 7, np.float32)
    execution.bind(two_products)[2](q, k, v, out, end, to=to, mask=mask, **options)
    np.testing.assert_array_equal(out, _expected(q, k, v, end, mask))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize("to", [xt.f16, xt.bf16], ids=str)
@pytest.mark.parametrize("form", ["made", "carried", "transposed first"])
@pytest.mark.parametrize(("keys", "end"), [(33, 33), (97, 70), (64, 64), (20, 0)])
@pytest.mark.parametrize("sg", [2, 4])
def test_the_result_is_right(execution: Execution, dtype: Any, to: Any, form: str, keys: int, end: int,
                             sg: int) -> None:
    """Several steps, a part of one, and none; each subgroup has one block of a share, or two."""
    _check(execution, dtype, to, keys, end, form=form, sg=sg)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("keys", [31, 64, 110])
def test_masks_that_differ_between_subgroups(execution: Execution, keys: int) -> None:
    """The steps without a mask end for all subgroups at once, where the first of them needs it."""
    _check(execution, xt.e4m3, xt.f16, keys, keys, "causal", BM=64)


@xt.kernel
def selected(A: Any, B: Any, C: Any, *, to: Any = xt.f16) -> None:
    """A @ B, B converted from 8 bits."""
    layout = (2, 1)
    map_c = xt.wg_map(layout, (8, D))
    acc = xt.zeros((16, D), xt.f32, wg_map=map_c)
    for k in xt.range(0, A.shape[1], 32):
        a = xt.load_tile(xt.init_tile(A, (0, k), (16, 32), wg_map=xt.wg_map(layout, (8, 32))))
        b = xt.load_tile(xt.init_tile(B, (k, 0), (32, D), wg_map=xt.wg_map(layout, (32, D))))
        acc = xt.tile_mma(a, b.to(to), acc)
    xt.store_tile(acc, xt.init_tile(C, (0, 0), (16, D), wg_map=map_c))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("dtype", "to"), [(xt.e4m3, xt.f16), (xt.e4m3, xt.bf16), (xt.e5m2, xt.bf16), (xt.i8, xt.f16)],
                         ids=str)
def test_every_code(execution: Execution, dtype: Any, to: Any) -> None:
    """All 256 codes of a type, subnormal numbers, infinities and NaN among them; NaN is in columns of its own."""
    codes = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    finite = np.isfinite(codes.astype(np.float32))
    b = np.zeros((96, D), dtype.numpy)
    places = np.arange(finite.sum())
    b[places // 40, places % 40] = codes[finite]
    others = codes[~finite]
    b[:len(others), 50] = others
    for number, code in enumerate(others):
        b[70 + number, 51 + number] = code
    results = []
    for first in range(0, 96, 16):
        a = np.zeros((16, 96), to.numpy)
        a[np.arange(16), first + np.arange(16)] = 1
        c = np.full((16, D), 7, np.float32)
        execution.bind(selected)[1](a, b, c, to=to)
        results.append(c)
        with np.errstate(invalid="ignore"):
            expected = a.astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_array_equal(c, expected)
    assert np.isnan(results[0][:, 50]).all() == bool(len(others))


@xt.kernel
def gathered_products(Q: Any, K: Any, V: Any, O: Any, slots: Any, *, sg: int = 2, both: bool = True,  # noqa: E741
                      first: int = 0) -> None:
    """(Q @ K^T, 0 behind the last key) @ V for a tile of rows, where ``slots`` has the rows of V, and of K if ``both``;
    columns of V from ``first`` on."""
    m, layout, rows = xt.group_id(0) * BM, (sg, 1), BM // sg
    map_q, map_k, map_s, map_t = (xt.wg_map(layout, each) for each in ((rows, D), (BN, D), (rows, BN), (D, BN)))
    q = xt.load_tile(xt.init_tile(Q, (m, 0), (BM, D), wg_map=map_q))
    out = xt.zeros((BM, D), xt.f32, wg_map=map_q)
    column = xt.iota((BM, BN), 1, wg_map=map_s)
    keys = slots.shape[0]
    for n in xt.range(0, keys, BN):
        index = xt.load_tile(xt.init_tile(slots, (n, 0), (BN, 1), wg_map=xt.wg_map(layout, (BN, 1))))
        k = xt.load_tile(xt.init_tile(K, (index if both else n, 0), (BN, D), wg_map=map_k))
        v = xt.load_tile(xt.init_tile(V, (index, first), (BN, D), wg_map=map_k))
        s = xt.tile_mma(q, xt.tile_transpose(k, wg_map=map_t))
        s = xt.where(column < (keys - n).to(xt.i32), s, 0.0)
        out = xt.tile_mma(s.to(Q.dtype), v, out)
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, D), wg_map=map_q))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [xt.f16, xt.bf16], ids=str)
@pytest.mark.parametrize("keys", [1, 32, 70])
@pytest.mark.parametrize("sg", [2, 4])
@pytest.mark.parametrize(("both", "first"), [(True, 0), (False, 0), (True, 3)])
def test_gathered_rows(execution: Execution, dtype: Any, keys: int, sg: int, both: bool, first: int) -> None:
    """Rows in disorder, several times, and rows that there are not, which are zeros; columns to behind the last one."""
    generator = np.random.default_rng(keys)
    q, k, v = (generator.integers(-2, 3, (rows, D)).astype(dtype.numpy) for rows in (37, 50 if both else keys, 50))
    slots = generator.integers(0, 50, (keys, 1)).astype(np.int32)
    slots[keys // 2:keys // 2 + 3] = [[-1], [50], [7]][:len(slots[keys // 2:keys // 2 + 3])]
    out = np.full((37, D), 7, np.float32)
    execution.bind(gathered_products)[2](q, k, v, out, slots, sg=sg, both=both, first=first)
    named = slots[:, 0]
    inside = (named >= 0) & (named < 50)
    taken_v = np.where(inside[:, None], v[named * inside].astype(np.int64), 0)
    taken_k = np.where(inside[:, None], k[named * inside].astype(np.int64), 0) if both else k.astype(np.int64)
    shifted = np.zeros((keys, D), np.int64)
    shifted[:, :D - first] = taken_v[:, first:]
    np.testing.assert_array_equal(out, q.astype(np.int64) @ taken_k.T @ shifted)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("stored", [xt.e4m3, xt.i8], ids=str)
def test_pages_of_a_table(execution: Execution, stored: Any) -> None:
    """Sequences of 33, 64 and 150 keys in pages of 32, looked up in a table that ends with the longest one's last."""
    generator = np.random.default_rng(1)
    pages, lengths = generator.permutation(15).reshape(3, 5).astype(np.int32), np.array([33, 64, 150], np.int32)
    q = generator.integers(-1, 2, (3, 2, 32, D)).astype(np.float16)
    cache = [generator.integers(-2, 3, (15, 1, 32, D)).astype(stored.numpy) for _ in range(2)]
    out = np.full((3, 2, 32, D), 7, np.float32)
    execution.bind(paged_cache)[1, 2, 3](q, *(each.reshape(-1, D) for each in cache), out, pages, lengths, BM=32, BN=32,
                                         page=32, subgroups=2, share=2)
    for sequence, length in enumerate(lengths):
        k, v = (each[pages[sequence], 0].reshape(-1, D)[:length].astype(np.float64) for each in cache)
        s = q[sequence].astype(np.float64) @ k.T / 8
        s[:, np.arange(32)[:, None] + length - 32 < np.arange(length)] = -np.inf
        p = np.exp(s - s.max(axis=-1, keepdims=True))
        np.testing.assert_allclose(out[sequence], p @ v / p.sum(axis=-1, keepdims=True), atol=0.01)


@xt.kernel
def shared_halves(V: Any, slots: Any, O: Any) -> None:  # noqa: E741
    """16 rows of V, whose halves are stored to shared local memory from the last on."""
    index = xt.load_tile(xt.init_tile(slots, (0, 0), (16, 1)), padding=-1)
    halves = [xt.load_tile(xt.init_tile(V, (index, column), (16, 32))) for column in (0, 32)]
    arrays = [xt.alloc_slm((16, 32), V.dtype) for _ in halves]
    for half, array in zip(reversed(halves), reversed(arrays), strict=True):
        xt.store_tile(half, xt.init_tile(array, (0, 0), (16, 32)))
    xt.barrier()
    for number, array in enumerate(arrays):
        xt.store_tile(xt.load_tile(xt.init_tile(array, (0, 0), (16, 32))), xt.init_tile(O, (0, 32 * number), (16, 32)))


@pytest.mark.parametrize("execution", [EXECUTIONS[1], EXECUTIONS[5]], ids=str)
def test_rows_that_are_stored_in_another_order(execution: Execution) -> None:
    """Operations common to two blocks of rows stand before the first block, not before the first store."""
    v = np.arange(40 * D).reshape(40, D).astype(np.float16)
    slots = np.random.default_rng(4).integers(0, 40, (16, 1)).astype(np.int32)
    out = np.zeros((16, D), np.float16)
    assert "load_rows" in str(shared_halves.lower(v, slots, out, target="pvc").stages["coalesce-gathers"])
    execution.bind(shared_halves)[1](v, slots, out)
    np.testing.assert_array_equal(out, v[slots[:, 0]])


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("width", "first"), [(62, 0), (50, 4), (96, 32)])
def test_gathered_rows_that_end_in_a_tile(execution: Execution, width: int, first: int) -> None:
    """Rows of V end in the middle of what a lane loads, or behind the tile; what follows them in memory is no part."""
    generator = np.random.default_rng(width)
    q, k = (generator.integers(-2, 3, (rows, D)).astype(np.float16) for rows in (37, 33))
    v = generator.integers(1, 4, (50, 128)).astype(np.float16)[:, :width]
    slots = generator.permutation(50)[:33, None].astype(np.int32)
    slots[[4, 9, 32], 0] = -1, 50, 7
    out = np.full((37, D), 7, np.float32)
    execution.bind(gathered_products)[2](q, k, v, out, slots, sg=4, both=False, first=first)
    taken = np.zeros((33, D), np.int64)
    for row, slot in enumerate(slots[:, 0].tolist()):
        if 0 <= slot < 50:
            taken[row, :min(D, width - first)] = v[slot, first:first + D]
    np.testing.assert_array_equal(out, q.astype(np.int64) @ k.T.astype(np.int64) @ taken)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("width", "sg"), [(32, 4), (40, 4), (62, 2)])
def test_gathered_keys_that_end_in_a_tile(execution: Execution, width: int, sg: int) -> None:
    """Rows of K end where the share of a subgroup does, so that others have nothing, or in the middle of one."""
    generator = np.random.default_rng(width)
    q, k, v = (generator.integers(-2, 3, (rows, D)).astype(np.float16) for rows in (37, 50, 50))
    slots = generator.permutation(50)[:33, None].astype(np.int32)
    slots[[4, 9, 32], 0] = -1, 50, 7
    out = np.full((37, D), 7, np.float32)
    execution.bind(gathered_products)[2](q, k[:, :width], v, out, slots, sg=sg)
    named = slots[:, 0]
    inside = ((named >= 0) & (named < 50))[:, None]
    taken_k, taken_v = (np.where(inside, each[named % 50].astype(np.int64), 0) for each in (k, v))
    taken_k[:, width:] = 0
    np.testing.assert_array_equal(out, q.astype(np.int64) @ taken_k.T @ taken_v)


def _stages(*, dtype: Any = xt.e4m3, target: str = "pvc", pitch: int = D, **options: Any) -> list[str]:
    keys = xt.Spec((None, D), dtype, (pitch, 1))
    rows = xt.Spec((None, D), options.get("to", xt.f16))
    return [*first_stages(two_products.lower(rows, keys, keys, xt.Spec((None, D), xt.f32), 64, target=target,
                                              **options))]


def test_where_it_applies() -> None:
    """Where several subgroups convert the same, in more instructions than one a register, from block messages."""
    assert STAGE in _stages()
    assert STAGE in _stages(target="bmg", dtype=xt.i8, sg=4)
    assert STAGE not in _stages(sg=1)
    assert STAGE not in _stages(dtype=xt.e5m2)
    assert STAGE in _stages(dtype=xt.e5m2, to=xt.bf16)
    assert STAGE not in _stages(dtype=xt.f16)
    assert STAGE not in _stages(pitch=D + 1)
    assert STAGE not in _stages(target="dg2", sg=4)
    assert STAGE not in _stages(target="cpu")


def test_where_it_applies_to_gathers() -> None:
    rows, slots = xt.Spec((None, D), xt.bf16), xt.Spec((None, 1), xt.i32)
    for sg, applies in ((1, False), (4, True)):
        args = rows, rows, rows, xt.Spec((None, D), xt.f32), slots
        low = gathered_products.lower(*args, target="bmg", sg=sg)
        found = first_stages(low)
        assert (STAGE in found) == applies
        assert "xetile.load_columns" in found["transpose-gathers"]
        assert "index-set-splitting" in found
        if applies:
            text = str(low.stages["coalesce-gathers"])
            again = xt.parse(text)["gathered_products"].lower(*args, target="bmg")
            assert without_places(again.opencl) == without_places(low.opencl)
            assert "{whole}" in text
            assert "xegpu.load_gather" not in text
            assert text.count("memref.alloc") == 2


def test_steps_without_a_mask() -> None:
    assert "index-set-splitting" in _stages()
    assert "index-set-splitting" in _stages(mask="causal")


def test_stages_read_back() -> None:
    keys, rows = xt.Spec((None, D), xt.e4m3), xt.Spec((None, D), xt.f16)
    args = rows, keys, keys, xt.Spec((None, D), xt.f32), 64
    low = two_products.lower(*args, target="bmg")
    for stage in (STAGE, "distribute-subgroups", "blocking", "distribute-lanes"):
        again = xt.parse(low.stages[stage])["two_products"].lower(*args, target="bmg")
        assert without_places(again.opencl) == without_places(low.opencl), stage


@pytest.mark.parametrize(("target", "least"), [("pvc", 0.09), ("bmg", 0.1)])
def test_instructions(target: str, least: float) -> None:
    """A step of eight subgroups: four loads of shares, four stores and 32 loads of blocks, in the place of 768
    instructions that convert."""
    require_ocloc()
    heads, cache = xt.Spec((None, None, None, 64), xt.f16), xt.Spec((None, 64), xt.e4m3)
    report = paged_cache.lower(heads, cache, cache, heads, xt.Spec((None, None), xt.i32), xt.Spec((None,), xt.i32),
                               target=target).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert (report.loop["load_block2d"], report.loop["slm"]) == (4, 36)
    assert report.density > least


@pytest.mark.parametrize(("target", "least"), [("pvc", 0.12), ("bmg", 0.13)])
def test_instructions_of_gathered_keys(target: str, least: float) -> None:
    """A step of eight subgroups: two gathers and two stores of a share, and 16 loads of blocks."""
    require_ocloc()
    heads = xt.Spec((None, None, 64), xt.bf16)
    report = gathered_keys.lower(heads, xt.Spec((None, 64), xt.bf16), heads, heads, xt.Spec((None, 1), xt.i32),
                                 target=target).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["slm"] == 18
    assert report.density > least
