"""The ready kernels against float64, on NumPy's arrays and on a device's."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from codegen.runtime.usm import row_major, usm_interface
from tests.conftest import require_dpnp, require_ocloc
from tests.device import DEVICE_FILTER, device_targets
from tests.kernels import Execution
from xetile.library.attention import attention_of_heads, blocks_for
from xetile.library.grouped_matmul import FIELDS, Access, grouped_product, table_of
from xetile.library.int4_matmul import STEP, WORDS, int4_product, tilings
from xetile.library.matmul_kernels import product
from xetile.library.tile_heuristics import BLOCK_IO, choose, choose_for_all

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(7)
ERF = np.vectorize(math.erf, otypes=[float])


def whole(*shape: int, dtype: Any = np.float32) -> Array:
    return RANDOM.integers(-4, 5, shape).astype(dtype)


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


def on_device(value: Any) -> Any:
    """An array on the device; dpnp has no bfloat16."""
    if not isinstance(value, np.ndarray):
        return value
    dpnp = require_dpnp()
    if value.dtype == ml_dtypes.bfloat16:
        return xt.view(dpnp.asarray(value.view(np.uint16), device=DEVICE_FILTER), xt.bf16)
    return dpnp.asarray(value, device=DEVICE_FILTER)


def both(function: Any, *args: Any, **options: Any) -> list[Array]:
    """Results of a function for NumPy's arrays and for a device's."""
    host = function(*args, **options)
    device = function(*map(on_device, args), **{name: on_device(value) for name, value in options.items()})
    got = require_dpnp().asnumpy(device)
    return [host, got.view(host.dtype) if got.dtype == np.uint16 else got]


def check_bound(result: Array, a: Array, b: Array) -> None:
    """Summing K products in f32 errs by at most K + 2 roundings of the sum of magnitudes, and the result is rounded."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    exact, magnitude = a @ b, np.abs(a) @ np.abs(b)
    last = float(ml_dtypes.finfo(result.dtype).eps)
    bound = (a.shape[-1] + 2) * 2.0**-24 * magnitude + last * np.abs(exact) + 1e-30
    assert result.shape == exact.shape
    assert (np.abs(result.astype(np.float64) - exact) <= bound).all()


@pytest.mark.launches
@pytest.mark.parametrize(("shape_a", "shape_b"), [
    ((33, 50), (50, 70)), ((50,), (50, 70)), ((33, 50), (50,)), ((50,), (50,)), ((3, 33, 50), (50, 20)),
    ((2, 1, 9, 50), (3, 50, 20)), ((3, 4, 0), (0, 5)), ((0, 5), (5, 3)), ((4, 8192), (8192, 30)),
])
def test_shapes_follow_numpys_rules(shape_a: tuple[int, ...], shape_b: tuple[int, ...]) -> None:
    a, b = whole(*shape_a), whole(*shape_b)
    for result in both(xt.matmul, a, b):
        np.testing.assert_array_equal(result, np.matmul(a, b))
        assert result.dtype == np.float32


@pytest.mark.launches
@pytest.mark.parametrize("types", [
    ("f16", "f16"), ("bf16", "bf16"), ("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("i8", "f16")])
def test_types_are_numpys_and_errors_within_the_bound(types: tuple[str, str]) -> None:
    a, b = ((whole if name == "i8" else normal)(*shape, dtype=getattr(xt, name).numpy)
            for name, shape in zip(types, ((37, 129), (129, 66)), strict=True))
    for result in both(xt.matmul, a, b):
        assert result.dtype == np.result_type(a.dtype, b.dtype)
        check_bound(result, a, b)


@pytest.mark.launches
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "i8"])
@pytest.mark.parametrize(("m", "n", "k"), [(261, 150, 333), (128, 17, 64), (7, 300, 1)])
def test_products_that_are_stored_as_they_are(dtype: str, m: int, n: int, k: int) -> None:
    """On a CPU device its subgroups have all rows of a work-group; operands and result are parts of larger arrays."""
    types = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8}
    a, b = whole(2, m, k + 3, dtype=types[dtype]), whole(2, k, n + 5, dtype=types[dtype])
    dpnp, sums = require_dpnp(), np.int32 if dtype == "i8" else np.float32
    out = dpnp.full((2, m + 1, n + 2), 7, dtype=sums, device=DEVICE_FILTER)
    left, right = (on_device(x) for x in (a, b))
    if dtype == "bf16":
        left, right = xt.view(left.array[..., 2:-1], xt.bf16), xt.view(right.array[..., 5:], xt.bf16)
    else:
        left, right = left[..., 2:-1], right[..., 5:]
    xt.matmul(left, right, out=out[:, :m, 1:-1])
    expected = np.full(out.shape, 7, sums)
    expected[:, :m, 1:-1] = a[..., 2:-1].astype(sums) @ b[..., 5:].astype(sums)
    np.testing.assert_array_equal(dpnp.asnumpy(out), expected)


def test_integers_wrap_around_or_widen() -> None:
    a, b = (RANDOM.integers(-128, 128, shape).astype(np.int8) for shape in ((9, 40), (40, 8)))
    for result in both(xt.matmul, a, b):
        np.testing.assert_array_equal(result, np.matmul(a, b))
    for result in both(xt.matmul, a, b, out_dtype=np.int32):
        np.testing.assert_array_equal(result, np.matmul(a.astype(np.int32), b.astype(np.int32)))


def test_views_are_read_and_written_in_place() -> None:
    big, other = whole(80, 120), whole(64, 48)
    a, b, frame = big[::2, 5:77:3], other.T[::2], np.full((50, 90), 7, np.float32)
    xt.matmul(a, b, out=frame[4:44, 8:72])
    expected = np.full_like(frame, 7)
    expected[4:44, 8:72] = a @ b
    np.testing.assert_array_equal(frame, expected)
    square = whole(32, 32)
    before = square.copy()
    assert xt.matmul(square, square, out=square) is square  # it shares its operands' memory
    np.testing.assert_array_equal(square, before @ before)


EXACT = {
    "relu": lambda x: np.maximum(x, 0), "gelu": lambda x: 0.5 * x * (1 + ERF(x * math.sqrt(0.5))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh,
}


@pytest.mark.parametrize("name", EXACT)
def test_activations(name: str) -> None:
    a, b, bias = normal(20, 30), normal(30, 40), normal(40)
    expected = EXACT[name](a.astype(np.float64) @ b + bias)
    np.testing.assert_allclose(xt.matmul(a, b, bias=bias, activation=name), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.launches
def test_everything_at_once() -> None:
    a, b, c = normal(3, 17, 600), normal(3, 600, 20), normal(3, 17, 20)
    for bias in (normal(20), normal(17, 1), normal(3, 17, 20)):
        held = c.copy()
        xt.matmul(a, b, out=held, bias=bias, alpha=0.5, beta=-2, activation=lambda x: xt.maximum(x, 0) * x)
        inner = 0.5 * (a.astype(np.float64) @ b) - 2 * c + bias
        np.testing.assert_allclose(held, np.maximum(inner, 0) * inner, rtol=1e-4, atol=1e-3)
    results = both(xt.matmul, normal(20, 30), normal(30, 40), bias=normal(40), activation="gelu", alpha=0.1)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)


def test_parts_of_k_are_added_up() -> None:
    assert choose(4, 30, 4096, 2, xt.f32, xt.TARGETS["pvc"], sharing=True).parts > 1
    a, b, bias = whole(2, 4, 4096), whole(2, 4096, 30), whole(30)
    for result in both(xt.matmul, a, b, bias=bias, activation="relu", target="pvc"):
        np.testing.assert_array_equal(result, np.maximum(a @ b + bias, 0))


@pytest.mark.launches
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "i8"])
def test_groups_of_different_sizes(kind: str) -> None:
    sizes = [(33, 40, 70), (1, 7, 200), (130, 64, 5), (0, 4, 4), (3, 0, 5), *[(9, 9, 9)] * 9]
    dtype, wide = getattr(xt, kind).numpy, np.int32 if kind == "i8" else np.float32
    a, b = [whole(m, k, dtype=dtype) for m, k, _ in sizes], [whole(k, n, dtype=dtype) for _, k, n in sizes]
    out = [np.full((m + 1, n + 2), 7, wide) for m, _, n in sizes]
    xt.grouped_matmul(a, b, out=[frame[:-1, :-2] for frame in out])
    device = xt.grouped_matmul([on_device(x) for x in a], [on_device(x) for x in b], out_dtype=wide)
    for x, y, frame, second in zip(a, b, out, device, strict=True):
        expected = x.astype(wide) @ y.astype(wide)
        np.testing.assert_array_equal(frame[:-1, :-2], expected)
        assert (frame[-1] == 7).all()
        assert (frame[:, -2:] == 7).all()
        np.testing.assert_array_equal(require_dpnp().asnumpy(second), expected)


@pytest.mark.parametrize("target", ["pvc", "dg2", None])
@pytest.mark.parametrize("way", ["columns", "mixed", "aligned"])
def test_groups_of_views(target: str | None, way: str) -> None:
    sizes = [(8, 64, 64), (20, 96, 128), (1, 128, 64)] if way == "aligned" else [(8, 17, 9), (20, 30, 40), (1, 40, 7)]
    a, b = [whole(m, k) for m, k, _ in sizes], [whole(n, k).T for _, k, n in sizes]
    if way != "columns":
        b[1] = np.ascontiguousarray(b[1])
    if way == "aligned":
        b = [np.ascontiguousarray(y) for y in b]
    dpnp = require_dpnp()
    there = [dpnp.asarray(y.T).T if y.flags.f_contiguous else dpnp.asarray(y) for y in b]
    device = xt.grouped_matmul([dpnp.asarray(x) for x in a], there, target=target)
    for x, y, host, other in zip(a, b, xt.grouped_matmul(a, b, target=target), device, strict=True):
        np.testing.assert_array_equal(host, x @ y)
        np.testing.assert_array_equal(dpnp.asnumpy(other), x @ y)


def test_groups_may_be_written_over_what_they_read() -> None:
    a, b, frame = [whole(8, 8) for _ in range(5)], [whole(8, 8) for _ in range(5)], whole(8, 40)
    before, columns = frame.copy(), [frame[:, at:at + 8] for at in range(0, 40, 8)]
    xt.grouped_matmul([*a[:3], columns[0], columns[4]], b, out=columns)  # columns lie between each other
    for x, y, result in zip([*a[:3], before[:, :8], before[:, 32:]], b, columns, strict=True):
        np.testing.assert_array_equal(result, x @ y)
    assert xt.grouped_matmul(a, b, out=a) is not a
    kept = [x.copy() for x in a]
    for x, y, z in zip(kept, b, xt.grouped_matmul(a, b, out=a), strict=True):
        np.testing.assert_array_equal(z, x @ y)


def test_attributes_say_what_the_interface_says() -> None:
    """The interface of dpnp's arrays waits for the queue, so it is not asked."""
    dpnp = require_dpnp()
    array = dpnp.asarray(np.arange(240, dtype=np.int32).reshape(4, 6, 10))
    fixed = dpnp.asarray(np.zeros((3, 4), np.float32))
    fixed.flags["W"] = False
    for view in (array, array[1:, ::-2, 3:], array.transpose(), array[:0], array[2, 3], fixed, array[0, 0, :1]):
        said, usm = view.__sycl_usm_array_interface__, usm_interface(view)
        dtype = np.dtype(said["typestr"])
        assert usm.pointer == said["data"][0] + said.get("offset", 0) * dtype.itemsize
        assert (usm.shape, np.dtype(usm.typestr), usm.read_only) == (said["shape"], dtype, said["data"][1])
        assert usm.strides == (said["strides"] or row_major(said["shape"]))
        assert usm.queue == view.sycl_queue


def test_groups_take_one_launch() -> None:
    assert xt.grouped_matmul([], []) == []
    sizes = [(m, 33, n) for m in (1, 20, 200) for n in (5, 300)]
    tiling = choose_for_all([(m, n, k) for m, k, n in sizes], xt.f16, xt.TARGETS["pvc"])
    groups = [tiling.groups(m, n) for m, _, n in sizes]
    table = table_of([(m, n, k) for m, k, n in sizes], groups, [[(0, 1, 1)] * len(sizes)] * 3)
    tiles = sum(map(math.prod, groups))
    assert len(table) == tiles + FIELDS * len(sizes)
    assert np.bincount(table[:tiles]).tolist() == [math.prod(group) for group in groups]


def four_bits(depth: int, columns: int, group: int, zeros: Any) -> tuple[Array, Array, Any, Array, Array]:
    """Weights, scales, zero points, what they stand for, and what the sums of products are made of in magnitude.

    A weight w is multiplied as 16 + w, and 16 + z times the sum of a row is taken off.
    """
    weights = RANDOM.integers(0, 16, (depth, columns)).astype(np.uint8)
    scales = RANDOM.random((depth // group, columns)).astype(np.float16)
    points = RANDOM.integers(0, 16, scales.shape).astype(np.float16) if zeros == "all" else zeros
    zero = np.repeat(np.broadcast_to(np.float64(0) if points is None else points, scales.shape), group, 0)
    spread = np.repeat(scales.astype(np.float64), group, 0)
    return weights, scales, points, (weights - zero) * spread, (32 + weights + zero) * spread


@pytest.mark.launches
@pytest.mark.parametrize(("dtype", "depth", "group", "zeros"), [
    ("f16", 256, 64, None), ("bf16", 288, 96, 8), ("f16", 384, 128, "all"), ("bf16", 96, 32, "all")])
def test_weights_of_four_bits(dtype: str, depth: int, group: int, zeros: Any) -> None:
    a, bias = normal(7, depth, dtype=getattr(xt, dtype).numpy), normal(75)
    weights, scales, points, full, magnitude = four_bits(depth, 75, group, zeros)
    wide = a.astype(np.float64)
    bound = (depth + 8) * 2.0**-24 * (np.abs(wide) @ magnitude + np.abs(bias))
    results = both(xt.int4_matmul, a, xt.pack_int4(weights), scales, points, bias=bias, out_dtype=np.float32)
    if target := device_targets({"f16": "pvc", "bf16": "dg2"}[dtype])[0] if zeros == "all" else None:
        operands = [on_device(x) for x in (a, xt.pack_int4(weights), scales, points, bias)]
        got = xt.int4_matmul(*operands[:4], bias=operands[4], out_dtype=np.float32, target=target)
        results.append(require_dpnp().asnumpy(got))
    for result in results:
        assert (np.abs(result - (wide @ full + bias)) <= bound).all()
    device = require_dpnp().asnumpy(xt.pack_int4(on_device(weights)))
    np.testing.assert_array_equal(device, xt.pack_int4(weights))


@pytest.mark.parametrize(("target", "dtype", "group"), [
    ("pvc", xt.f16, 128), ("bmg", xt.bf16, 128), ("pvc", xt.bf16, 32)])
def test_weights_of_four_bits_are_masked_where_they_lie(target: str, dtype: Any, group: int) -> None:
    require_ocloc()
    floats, words = xt.Spec((None, None), dtype), xt.Spec((None, None), xt.u32)
    tiling = tilings(group, xt.TARGETS[target])[1]
    report = int4_product.lower(floats, words, floats, floats, floats, floats, target=target, BM=tiling.rows,
                                BN=tiling.columns, sg=tiling.layout, group=group, offset=True, biased=False,
                                activation=None).report()
    assert (report.spill_size, report.private_size) == (0, 0)
    words_held = WORDS * 64 // 16
    rows = tiling.rows // tiling.layout[0]
    scaled = 2 * (STEP // group) * rows * 64 // 16  # two multiply-adds an element of the result
    assert report.loop["dpas"] == (STEP // 16) * rows // 8 * (4 + 1)  # the last for the sums of A's rows
    assert report.loop["vector"] <= 8 * words_held + scaled + 200
    assert report.loop["vector"] >= 8 * words_held


@pytest.mark.launches
def test_integers_with_scales_of_rows_and_columns() -> None:
    a, b = (RANDOM.integers(-128, 128, shape).astype(np.int8) for shape in ((19, 256), (256, 75)))
    rows, columns = RANDOM.random(19).astype(np.float32), RANDOM.random(75).astype(np.float32)
    expected = (a.astype(np.float64) @ b) * rows[:, None] * columns
    for result in both(xt.scaled_matmul, a, b, rows, columns):
        np.testing.assert_allclose(result, expected, rtol=3e-7)


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2"])
def test_floats_of_eight_bits(name: str) -> None:
    kind = getattr(ml_dtypes, f"float8_{name}")
    every = np.arange(256, dtype=np.uint8)
    one = np.ones((1, 3), kind)
    for result in (xt.scaled_matmul(every[:, None].view(kind), one),
                   both(xt.scaled_matmul, every[:, None], one.view(np.uint8), formats=(name[:4], name[:4]))[1],
                   both(xt.scaled_matmul, every[:, None], one.view(np.uint8), formats=name[:4])[1]):
        np.testing.assert_array_equal(result[:, 0], every.view(kind).astype(np.float32))
    a, b = normal(19, 96, dtype=kind), normal(96, 33, dtype=kind)
    check_bound(xt.scaled_matmul(a, b), a, b)


def attention_in_f64(q: Array, k: Array, v: Array, causal: bool, scale: float | None = None) -> Array:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    share = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, share, -3), np.repeat(v, share, -3)
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    queries, keys = scores.shape[-2:]
    if causal:
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None] + keys - queries, scores, -np.inf)
    weights = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e30))
    total = weights.sum(-1, keepdims=True)
    return (weights / np.where(total > 0, total, 1)) @ v


@pytest.mark.launches
@pytest.mark.parametrize(("q", "k", "size", "causal", "dtype"), [
    ((2, 4, 37, 64), (2, 2, 50, 64), 64, False, np.float16), ((4, 37, 40), (4, 50, 40), 40, True, np.float32),
    ((1, 2, 1, 128), (1, 1, 300, 128), 128, True, np.float16), ((2, 50, 80), (2, 20, 80), 96, True, np.float16),
    ((1, 1, 20, 256), (1, 1, 40, 256), 256, True, np.float16),
])
def test_attention(q: tuple[int, ...], k: tuple[int, ...], size: int, causal: bool, dtype: Any) -> None:
    arrays = normal(*q, dtype=dtype), normal(*k, dtype=dtype), normal(*k[:-1], size, dtype=dtype)
    expected = attention_in_f64(*arrays, causal)
    for result in both(xt.attention, *arrays, causal=causal):
        assert result.dtype == dtype
        # weights are rounded to the operands' type, and so is the result
        assert np.abs(result - expected).max() <= 4 * float(np.finfo(dtype).eps) * np.abs(arrays[2]).max() + 1e-5


@pytest.mark.parametrize(("q", "k", "size", "causal", "scale", "dtype", "cores"), [
    ((2, 4, 101, 48), (2, 2, 131, 48), 80, True, None, np.float32, (1, 64)),  # an edge of each tile, heads share keys
    ((1, 3, 70, 40), (1, 1, 20, 40), 24, True, 2.0, np.float16, (1, 64)),  # queries that see no key
    ((2, 130, 64), (2, 257, 64), 64, False, -0.25, ml_dtypes.bfloat16, (1, 64)),
    ((1, 16, 8), (1, 7, 8), 8, True, 0.0, np.float32, (1,)),
    ((2, 37, 24), (2, 90, 24), 24, True, -0.5, np.float32, (64,)),  # all scores of a row in registers
    ((2, 33, 16), (2, 100, 16), 16, False, -0.25, ml_dtypes.bfloat16, (1,)),
    ((1, 70, 24), (1, 128, 24), 24, True, 1.0, np.float32, (1,)),
])
def test_attention_on_a_processor(q: tuple[int, ...], k: tuple[int, ...], size: int, causal: bool, scale: float | None,
                                  dtype: Any, cores: tuple[int, ...]) -> None:
    """Keys are transposed by the work-groups of one core, and for 64 cores by a launch of their own."""
    arrays = [normal(*shape, dtype=dtype) for shape in (q, k, (*k[:-1], size))]
    expected = attention_in_f64(*arrays, causal, scale)
    bound = 4 * float(ml_dtypes.finfo(dtype).eps) * np.abs(arrays[2].astype(np.float32)).max() + 1e-5
    for target in (replace(xt.TARGETS["cpu"], cores=count) for count in cores):
        for result in both(partial(xt.attention, target=target), *arrays, causal=causal, scale=scale):
            assert np.abs(result.astype(np.float64) - expected).max() <= bound


def test_attention_on_a_processor_keeps_nan_to_its_row() -> None:
    q, k, v = (normal(1, rows, 16, dtype=np.float32) for rows in (20, 40, 40))
    q[0, 3, 5] = np.nan
    for result in both(partial(xt.attention, target="cpu"), q, k, v):
        assert np.isnan(result).all(-1).nonzero()[1].tolist() == [3]
        assert np.isnan(result).sum() == 16


def test_attention_of_threads_and_of_other_lengths_shares_scratch_memory() -> None:
    """Launches of one queue that follow each other without a wait, of shapes that fit each other's memory.

    One program serves all lengths.
    """
    cases = [[normal(3, rows, 16, dtype=np.float32) for rows in (32, keys, keys)] for keys in (40, 41, 64, 33)]
    held = [[on_device(x) for x in case] for case in cases]

    def results(case: int) -> list[Any]:
        return [xt.attention(*held[(case + i) % 4], target="cpu") for i in range(8)]

    with ThreadPoolExecutor(4) as pool:
        for case, got in enumerate(pool.map(results, range(4))):
            for i, result in enumerate(got):
                expected = attention_in_f64(*cases[(case + i) % 4], causal=False)
                np.testing.assert_allclose(require_dpnp().asnumpy(result), expected, atol=1e-5)


def test_attention_where_subgroups_share_queries() -> None:
    q, k, v = (normal(2, *shape, dtype=np.float16) for shape in ((50, 80), (20, 80), (20, 96)))
    assert blocks_for(96, 50, xt.TARGETS["dg2"]).parts == 2
    got = require_dpnp().asnumpy(xt.attention(*map(on_device, (q, k, v)), causal=True, target="dg2"))
    assert np.abs(got - attention_in_f64(q, k, v, True)).max() <= 4 * float(np.finfo(np.float16).eps) * np.abs(v).max()


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [Execution("opencl:cpu", target) for target in ("pvc", "bmg")], ids=str)
@pytest.mark.parametrize(("q", "k", "size", "causal"), [
    ((2, 2, 70, 64), (2, 1, 150, 64), 64, True), ((1, 1, 20, 40), (1, 1, 133, 40), 48, False),
    ((1, 1, 70, 128), (1, 1, 140, 128), 128, True), ((1, 2, 30, 80), (1, 2, 64, 80), 96, False)])
def test_attention_by_block_messages(execution: Execution, q: tuple[int, ...], k: tuple[int, ...], size: int,
                                     causal: bool) -> None:
    """Keys that all queries see, in blocks of 64, and keys that a mask leaves out."""
    arrays = normal(*q, dtype=np.float16), normal(*k, dtype=np.float16), normal(*k[:-1], size, dtype=np.float16)
    blocks = blocks_for(max(size, q[-1]), q[-2], xt.TARGETS[str(execution.target)], xt.f16)
    out = np.full((*q[:-1], size), 7, np.float16)
    execution.bind(attention_of_heads)[-(-q[2] // blocks.queries), q[1], q[0]](
        *arrays, out, 1 / math.sqrt(q[-1]), D=q[-1], DV=size, share=q[1] // k[1], causal=causal, **blocks.constants)
    bound = 4 * float(np.finfo(np.float16).eps) * np.abs(arrays[2]).max()
    assert np.abs(out - attention_in_f64(*arrays, causal)).max() <= bound


BAD = [
    (lambda: xt.matmul(whole(3, 4), whole(5, 6)), "a has 4 columns and b 5 rows"),
    (lambda: xt.matmul(whole(2, 3, 4), whole(3, 4, 6)), "do not broadcast"),
    (lambda: xt.matmul(np.float32(1), whole(3, 4)), "float"),
    (lambda: xt.matmul(whole(3, 4, dtype=np.float64), whole(4, 5)), "does not multiply f64 by f32"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), activation="geluu"), "did you mean 'gelu'?"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), beta=1), "there is no out"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), bias=whole(4)), "does not broadcast"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), out=np.zeros((3, 6), np.float32)), "the result (3, 5)"),
    (lambda: xt.matmul(whole(3, 4), whole(5, 6)), "pass b with 4 rows, or a with 5 columns"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), alpha=whole(2)), "alpha is an array of 2"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), out=np.broadcast_to(np.float32(0), (3, 5))), "goes into out, which"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), out=whole(3, 5), out_dtype="f16"), "out holds f32, and out_dtype=f16"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), activation=lambda: 0), "cannot be called with one vector"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), activation=lambda x: 0), "and returns 0"),
    (lambda: xt.matmul(whole(3, 4), whole(4, 5), activation=np.tanh), "write xt.tanh(x)"),
    (lambda: xt.grouped_matmul([whole(3, 4)], []), "1 and 0 matrices"),
    (lambda: xt.grouped_matmul([whole(3, 4), whole(3, 4, dtype=np.float16)], [whole(4, 5)] * 2), "of f16 and f32"),
    (lambda: xt.grouped_matmul([whole(3, 4)], [whole(4, 5)], out=[np.broadcast_to(np.float32(0), (3, 5))]),
     "goes into out[0], which is read-only"),
    (lambda: xt.grouped_matmul([whole(3, 4)], [whole(2, 4, 5)]), "pass matrices"),
    (lambda: xt.grouped_matmul(iter([whole(3, 4)]), [whole(4, 5)]), "not a list of matrices"),
    (lambda: xt.pack_int4(np.full((32, 2), 16)), "4 bits hold 0 to 15"),
    (lambda: xt.pack_int4(np.zeros(32, np.uint8)), "pass (K, N)"),
    (lambda: xt.int4_matmul(whole(3, 64), np.zeros((16, 4), np.uint32), whole(1, 4)), "a of f16 or bf16"),
    (lambda: xt.int4_matmul(whole(3, 64, dtype=np.float16), np.zeros((32, 4), np.uint8), whole(1, 4)),
     "weights of u32 from xt.pack_int4"),
    (lambda: xt.int4_matmul(whole(3, 64, dtype=np.float16), np.zeros((8, 4), np.uint32), whole(1, 4)),
     "weights of (16, 4)"),
    (lambda: xt.scaled_matmul(whole(3, 4), whole(4, 5)), "pass i8 or u8"),
    (lambda: xt.attention(whole(2, 3, 4), whole(2, 3, 5), whole(2, 3, 4)), "must be equal"),
]


def test_a_bias_may_be_a_number() -> None:
    a, b = whole(3, 20), whole(20, 5)
    assert np.array_equal(xt.matmul(a, b, bias=2.5), a @ b + 2.5)
    small = np.ones((3, 4), np.int8)
    got = xt.matmul(small, small.T, bias=-7)
    assert got.dtype == np.int8
    assert np.array_equal(got, np.full((3, 3), -3))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_bias_of_floats_makes_floats_of_integers(dtype: Any) -> None:
    """Its fraction stays, before an activation as well; old values with a whole beta are integers up to there."""
    a, b = (RANDOM.integers(0, 100, shape).astype(dtype) for shape in ((9, 40), (40, 8)))
    product, bias = a.astype(np.int64) @ b.astype(np.int64), np.arange(8, dtype=np.float32) / 4 - 0.75
    for result in both(xt.matmul, a, b, bias=bias, activation="relu"):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, np.maximum(product + bias, 0))
    old = np.full((9, 8), 3, np.float32)
    np.testing.assert_array_equal(xt.matmul(a, b, out=old.copy(), beta=1, bias=bias), product + 3 + bias)


def test_a_function_that_is_written_into_the_call_is_compiled_once() -> None:
    def product_at_most(limit: float) -> Any:
        return xt.matmul(ones, ones, activation=lambda x: xt.minimum(x, limit))

    ones = np.ones((8, 8), np.float32)
    assert product_at_most(3.0)[0, 0] == 3
    before = len(product.cache.compiled)
    assert product_at_most(3.0)[0, 0] == 3
    assert len(product.cache.compiled) == before
    assert product_at_most(4.0)[0, 0] == 4

    reached = [5.0]
    for reached[0] in (5.0, 6.0):  # a list may change: such functions are taken anew
        got = xt.matmul(ones, ones, activation=lambda x: xt.minimum(x, reached[0]))
        assert got[0, 0] == reached[0]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_mistakes(number: int) -> None:
    call, text = BAD[number]
    with pytest.raises(xt.XeError) as caught:
        call()
    assert text in str(caught.value)
    assert "test_library.py" in str(caught.value)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_the_table_costs_the_hot_loop_nothing(target: str) -> None:
    require_ocloc()
    spec, options = xt.Spec((None, None), xt.bf16), {**BLOCK_IO[0].constants, "as_type": xt.bf16, "ahead": 3}
    plain = product.lower(spec, spec, spec, spec, 1.0, 0.0, target=target, **options).report()
    access = (Access(xt.bf16, "rows", True),) * 3
    report = grouped_product.lower(xt.Spec((None,), xt.i64), target=target, access=access, **options).report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] == plain.loop["dpas"]
    assert report.density >= plain.density - 0.02


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_no_tiling_spills(target: str) -> None:
    require_ocloc()
    spec = xt.Spec((None, None), xt.bf16)
    for tiling in (BLOCK_IO[0], BLOCK_IO[1], BLOCK_IO[-2]):
        low = product.lower(spec, spec, spec, spec, 1.0, 0.0, target=target, **tiling.constants, as_type=xt.bf16,
                            spread=(True, False))
        report = low.report()
        assert (report.spill_size, report.private_size) == (0, 0)
        products = tiling.rows * tiling.columns // math.prod(tiling.layout) * 32 // (8 * 16 * 16)
        assert report.loop["dpas"] == products * report.unrolled


@pytest.mark.parametrize(("target", "size"), [
    ("pvc", 64), ("bmg", 64), ("pvc", 128), ("bmg", 128), ("pvc", 80), ("bmg", 80), ("pvc", 96), ("bmg", 96),
    ("pvc", 192), ("bmg", 256),
    ("dg2", 64), ("dg2", 256), ("arl", 128)])
def test_attention_does_not_spill(target: str, size: int) -> None:
    require_ocloc()
    spec, blocks = xt.Spec((None, None, None, size), xt.bf16), blocks_for(size, 1000, xt.TARGETS[target])
    report = attention_of_heads.lower(spec, spec, spec, spec, 1.0, target=target, D=size, DV=size, share=1, causal=True,
                                      **blocks.constants).report()
    assert (report.spill_size, report.private_size) == (0, 0)
    lanes = xt.TARGETS[target].subgroup_size
    sums = blocks.ones * blocks.rows // 8 * blocks.keys // 16
    values = blocks.rows // 8 * blocks.keys // 16 * size // blocks.parts // lanes + sums
    if not xt.TARGETS[target].block_io:
        scores = blocks.rows // 8 * blocks.keys // lanes * (size if blocks.resident else blocks.chunk) // 16
        products = report.loop["dpas"]  # of the loop over keys, or over chunks of a row, which the compiler unrolls
        assert products % scores == 0 if products < values else (products - values) % scores == 0
        return
    assert report.loop["dpas"] == values + blocks.rows // 8 * blocks.keys // lanes * size // 16
    scores, outs = blocks.rows * blocks.keys // 16, blocks.rows * (size + 16) // 16  # registers
    lanes_of_rows = 3 * (blocks.rows - 1)
    # of each score: maximum, multiply-add, power, conversion; of each sum: rescaling
    copies = 10 if size <= 128 else 40  # the loop over chunks moves the scores
    # payloads of a group are made by vector instructions, one at most for each block of K
    payloads = 0 if xt.TARGETS[target].immediate_offsets else blocks.keys // 16 * (size // 16)
    assert report.loop["vector"] <= 4 * scores + outs + lanes_of_rows + copies + payloads
    assert report.density >= 0.12


@pytest.mark.parametrize(("target", "size"), [("pvc", 64), ("bmg", 64), ("pvc", 128), ("bmg", 256)])
def test_attention_in_f32_does_not_spill(target: str, size: int) -> None:
    """Products of f32 are multiply-adds, of which each score takes as many as a head has columns, times lanes."""
    require_ocloc()
    spec, blocks = xt.Spec((None, None, None, size), xt.f32), blocks_for(size, 1000, xt.TARGETS[target], xt.f32)
    report = attention_of_heads.lower(spec, spec, spec, spec, 1.0, target=target, D=size, DV=size, share=1, causal=True,
                                      **blocks.constants).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
