"""Mistakes: each gets an error at the author's line that says what would work, and nothing is written."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from xetile.frontend import tracer

SENTINEL = 77
BF16, F16, F32 = ml_dtypes.bfloat16, np.float16, np.float32


def fails(code: str, call: Callable[[], Any], at: str) -> xt.XeError:
    """Run ``call``, which must fail with the error of this code, with its caret under ``at`` in a line of this file."""
    with pytest.raises(xt.XeError) as caught:
        call()
    text = str(caught.value)
    assert caught.value.code == code, text
    lines = text.splitlines()
    assert lines[-1].startswith("  help: "), text
    assert re.match(rf"  {re.escape(__file__)}:\d+", lines[1]), text
    source, caret = lines[2], lines[3]
    assert set(caret) == {" ", "^"}, text
    assert source[caret.index("^"):len(caret)].startswith(at), text
    return caught.value


def matrices(m: int = 32, n: int = 32, k: int = 64, dtype: Any = BF16, out: Any = F32) -> tuple[Any, Any, Any]:
    return np.ones((m, k), dtype), np.ones((k, n), dtype), np.full((m, n), SENTINEL, out)


@xt.kernel
def product(A, B, C, *, a=(16, 32), b=(32, 32), c=(16, 32), acc=xt.f32):
    total = xt.zeros(c, acc)
    ta, tb = xt.init_tile(A, (xt.group_id(0) * 16, 0), a), xt.init_tile(B, (0, 0), b)
    for _ in xt.range(0, A.shape[1], a[1]):
        total = xt.tile_mma(xt.load_tile(ta), xt.load_tile(tb), total)
        ta, tb = xt.update_tile_offset(ta, 0, a[1]), xt.update_tile_offset(tb, a[1], 0)
    xt.store_tile(total, xt.init_tile(C, (xt.group_id(0) * 16, 0), c))


@xt.kernel
def distributed(A, C, *, layout=(2, 2), data=(16, 16), shape=(32, 32)):
    map_ = xt.wg_map(sg_layout=layout, sg_data=data)
    value = xt.load_tile(xt.init_tile(A, (0, 0), shape, wg_map=map_))
    xt.store_tile(value, xt.init_tile(C, (0, 0), shape, wg_map=map_))


def works(where: str = "numpy", **options: Any) -> None:
    """The kernel of most of these tests is as good as new."""
    a, b, c = matrices()
    product.on(where, **options)[2](a, b, c)
    np.testing.assert_array_equal(c, 64)


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize(("constants", "code", "at"), [
    ({"b": (16, 32)}, "XT1250", "xt.tile_mma"),
    ({"c": (16, 16)}, "XT1253", "xt.tile_mma"),
    ({"acc": xt.i32}, "XT1252", "xt.tile_mma"),
    ({"a": (16, 0)}, "XT1106", "xt.init_tile"),
    ({"a": (-16, 32)}, "XT1106", "xt.init_tile"),
    ({"a": (16, 32, 1)}, "XT1106", "xt.init_tile"),
    ({"c": (16.0, 32)}, "XT1106", "xt.zeros"),
    ({"acc": "float33"}, "XT3270", "xt.zeros"),
])
def test_constants(where: str, constants: dict[str, Any], code: str, at: str) -> None:
    a, b, c = matrices()
    failure = fails(code, lambda: product.on(where)[2](a, b, c, **constants), at)
    assert "in product" in str(failure)
    assert (c == SENTINEL).all()
    works(where)


@pytest.mark.parametrize("dtype", [np.uint32, np.int16, np.bool_])
def test_types_that_no_engine_multiplies(dtype: Any) -> None:
    a, b, c = matrices(dtype=dtype)
    fails("XT1251", lambda: product[2](a, b, c), "xt.tile_mma")
    fails("XT1251", lambda: product[2](a.astype(F16), b.astype(BF16), c), "xt.tile_mma")
    assert (c == SENTINEL).all()
    works()


def test_types_that_the_target_does_not_multiply() -> None:
    a, b, c = matrices(dtype=F32)
    views = xt.view(a, "tf32"), xt.view(b, "tf32")
    fails("XT4101", lambda: product.on("numpy:xegpu", target="dg2")[2](*views, c), "xt.tile_mma")
    assert (c == SENTINEL).all()
    works("numpy:xegpu", target="dg2")


@pytest.mark.parametrize(("dtype", "depth"), [(BF16, 24), (BF16, 8), (np.int8, 48)])
def test_depth(dtype: Any, depth: int) -> None:
    integer = dtype is np.int8
    a, b, c = matrices(dtype=dtype, out=np.int32 if integer else F32)
    constants = {"a": (16, depth), "b": (depth, 32), "acc": xt.i32 if integer else xt.f32}
    launch = product.on("numpy:xegpu")[2]
    failure = fails("XT2510", lambda: launch(a, b, c, **constants), "xt.tile_mma")
    assert "called from" in str(failure)
    assert (c == SENTINEL).all()
    works("numpy:xegpu")


def test_columns_of_a_subgroup() -> None:
    a, b, c = matrices()
    fails("XT2511", lambda: product.on("numpy:xegpu")[2](a, b, c, b=(32, 24), c=(16, 24)), "xt.tile_mma")
    assert (c == SENTINEL).all()


@pytest.mark.parametrize(("constants", "code", "at"), [
    ({"data": (12, 16)}, "XT1153", "xt.init_tile"),
    ({"layout": (3, 2), "data": (8, 16)}, "XT1153", "xt.init_tile"),
    ({"layout": (0, 2)}, "XT1151", "xt.wg_map"),
    ({"data": 16}, "XT1151", "xt.wg_map"),
])
def test_maps(constants: dict[str, Any], code: str, at: str) -> None:
    a, c = np.ones((32, 32), F32), np.full((32, 32), SENTINEL, F32)
    fails(code, lambda: distributed.on("numpy")[1](a, c, **constants), at)
    assert (c == SENTINEL).all()
    distributed.on("numpy:xegpu")[1](a, c)
    assert (c == 1).all()


def test_too_many_subgroups() -> None:
    a, c = np.ones((256, 256), F32), np.full((256, 256), SENTINEL, F32)
    fails("XT2502", lambda: distributed.on("numpy:xegpu", target="pvc")[1](a, c, layout=(16, 16), shape=(256, 256)),
          "xt.init_tile")
    fails("XT2502", lambda: product.on("numpy:xegpu", subgroups=(9, 9))[2](*matrices()), "product")
    assert (c == SENTINEL).all()


def test_maps_that_contradict_each_other() -> None:
    @xt.kernel
    def counts(A, C):
        a = xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16)))
        xt.prefetch_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((8, 1), (4, 32))))
        xt.store_tile(xt.load_tile(a), xt.init_tile(C, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))

    @xt.kernel
    def sums(A, C):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))
        b = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((4, 1), (8, 32))))
        xt.store_tile(a + b, xt.init_tile(C, (0, 0), (32, 32)))

    @xt.kernel
    def stored(A, C):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))
        xt.store_tile(a, xt.init_tile(C, (0, 0), (32, 32)))

    @xt.kernel
    def both(A, C):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))
        xt.store_tile(a, xt.init_tile(C, (xt.subgroup_id(0), 0), (32, 32), wg_map=xt.wg_map((2, 2), (16, 16))))

    a, c = np.ones((32, 32), F32), np.full((32, 32), SENTINEL, F32)
    fails("XT1070", lambda: counts[1](a, c), "xt.init_tile")
    fails("XT1400", lambda: sums[1](a, c), "a + b")
    fails("XT1401", lambda: stored[1](a, c), "xt.store_tile")
    fails("XT1072", lambda: both[1](a, c), "xt.subgroup_id(0)")
    fails("XT1071", lambda: distributed.on("numpy", subgroups=(4, 2))[1](a, c), "xt.init_tile")
    assert (c == SENTINEL).all()


def _kernels_with_traced_values() -> dict[str, tuple[Any, str, str]]:
    @xt.kernel
    def branch(A, C):
        if xt.group_id(0):
            pass

    @xt.kernel
    def loop_while(A, C):
        k = xt.group_id(0)
        while k:
            k = k - 1

    @xt.kernel
    def both(A, C):
        return xt.group_id(0) and 3

    @xt.kernel
    def negated(A, C):
        return not xt.group_id(0)

    @xt.kernel
    def array_sum(A, C):
        return A + 1

    @xt.kernel
    def text_sum(A, C):
        return xt.full((8, 16), 1, xt.f32) + "1"

    @xt.kernel
    def one_offset(A, C):
        return xt.init_tile(A, 0, (8, 16))

    @xt.kernel
    def no_array(A, C):
        return xt.init_tile([1, 2], (0, 0), (8, 16))

    @xt.kernel
    def rounded(A, C):
        return xt.zeros((8, 16), xt.i32) * 1.5

    @xt.kernel
    def padded(A, C):
        return xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)), padding="edge")

    @xt.kernel
    def map_of_pairs(A, C):
        return xt.init_tile(A, (0, 0), (8, 16), wg_map=((1, 1), (8, 16)))

    return {kernel.name: (kernel, code, at) for kernel, code, at in [
        (branch, "XT1300", "xt.group_id(0)"),
        (loop_while, "XT1300", "k"),
        (both, "XT1300", "xt.group_id(0)"),
        (negated, "XT1300", "not xt.group_id(0)"),
        (array_sum, "XT1123", "A + 1"),
        (text_sum, "XT1201", "xt.full"),
        (one_offset, "XT1103", "xt.init_tile"),
        (no_array, "XT1101", "xt.init_tile"),
        (rounded, "XT1205", "xt.zeros"),
        (padded, "XT1124", "xt.load_tile"),
        (map_of_pairs, "XT1402", "xt.init_tile"),
    ]}


TRACED = _kernels_with_traced_values()


@pytest.mark.parametrize("name", TRACED)
def test_traced_values(name: str) -> None:
    kernel, code, at = TRACED[name]
    a, c = np.ones((16, 16), F32), np.full((16, 16), SENTINEL, F32)
    error = fails(code, lambda: kernel.on("numpy")[1](a, c), at)
    assert isinstance(error, (ValueError, TypeError, IndexError))
    assert (c == SENTINEL).all()


def test_traced_values_in_text() -> None:
    shown = []

    @xt.kernel
    def kernel(A):
        shown.append(f"{A} {A.shape[0]:>8} {xt.zeros((8, 16), xt.f32)!r}")

    kernel.on("numpy")[1](np.ones((8, 16), F32))
    assert shown == ["<2-dimensional array of f32> <run-time index> <vector of 8x16 f32>"]


def _kernels_with_loops() -> dict[str, tuple[Any, str, str]]:
    @xt.kernel
    def first(A, C):
        total, is_first = xt.zeros((8, 16), xt.f32), True
        for _ in xt.range(4):
            total = total + (1 if is_first else 2)
            is_first = False

    @xt.kernel
    def none(A, C):
        total = None
        for _ in xt.range(4):
            total = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))) if total is None else total + 1

    @xt.kernel
    def gone(A, C):
        total = xt.zeros((8, 16), xt.f32)
        for _ in xt.range(4):
            total = [total]

    @xt.kernel
    def standing(A, C):
        for _ in xt.range(0, 4, 0):
            pass

    @xt.kernel
    def split(A, C):
        x = y = [xt.zeros((8, 16), xt.f32)]
        for _ in xt.range(4):
            y = [x[0] + y[0]]

    return {kernel.name: (kernel, code, at) for kernel, code, at in [
        (first, "XT1312", "xt.range(4)"),
        (none, "XT1312", "xt.range(4)"),
        (gone, "XT1310", "xt.range(4)"),
        (standing, "XT1331", "xt.range(0, 4, 0)"),
        (split, "XT1314", "xt.range(4)"),
    ]}


LOOPS = _kernels_with_loops()


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    kernel, code, at = LOOPS[name]
    a, c = np.ones((16, 16), F32), np.full((16, 16), SENTINEL, F32)
    error = fails(code, lambda: kernel.on("numpy")[1](a, c), at)
    assert isinstance(error, (ValueError, TypeError, IndexError))
    assert (c == SENTINEL).all()
    assert not tracer._recordings.stack, "the recording has ended"


@xt.kernel
def copied(A, C, offset, *, rows=8):
    row = xt.group_id(0) * rows + offset
    xt.store_tile(xt.load_tile(xt.init_tile(A, (row, 0), (rows, 16))), xt.init_tile(C, (row, 0), (rows, 16)))


def arrays() -> tuple[Any, Any]:
    return np.ones((16, 16), F32), np.full((16, 16), SENTINEL, F32)


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_calls(where: str) -> None:
    a, c = arrays()
    on = copied.on(where)
    read_only = c[:]
    read_only.flags.writeable = False
    fails("XT1011", lambda: on[2](a, c), "on[2](a, c)")
    fails("XT1010", lambda: on[2](a, c, 0, offset=0), "on[2](a, c, 0, offset=0)")
    fails("XT1012", lambda: on[2](a, c, 0, row=8), "on[2]")
    fails("XT1020", lambda: on(a, c, 0), "on(a, c, 0)")
    for grid in (-1, (1, 2, 3, 4), 1.5, "2", True, (), 2**31, None, (1, None)):
        fails("XT1020" if grid is None else "XT1021", lambda grid=grid: on[grid](a, c, 0), "on[grid]")
    fails("XT1045", lambda: on[2](a, read_only, 0), "on[2]")
    fails("XT1203", lambda: on[2](a, c, True), "xt.group_id(0) * rows + offset")
    fails("XT1031", lambda: on[2](a, c, 2**64), "on[2]")
    fails("XT1203", lambda: on[2](a, c, 2**31), "xt.group_id(0) * rows + offset")
    fails("XT1030", lambda: on[2](a, c, "0"), "on[2]")
    fails("XT1030", lambda: on[2](a, c, None), "on[2]")
    fails("XT1030", lambda: on[2](a, c, xt.i32), "on[2]")
    fails("XT1030", lambda: on[2](a.tolist(), c, 0), "on[2]")
    fails("XT1032", lambda: on[2](a.astype(complex), c, 0), "on[2]")
    assert ".astype(numpy.int16)" in fails("XT1032", lambda: on[2](a.astype(">i2"), c, 0), "on[2]").hint
    fails("XT1102", lambda: on[2](a[0], c, 0), "xt.init_tile")
    fails("XT1103", lambda: on[2](a, c[None], 0), "xt.init_tile")
    fails("XT1203", lambda: on[2](a, c, 0.5), "xt.group_id(0) * rows + offset")
    fails("XT1131", lambda: on[2](a.astype(F16), c, 0), "xt.store_tile")
    assert (c == SENTINEL).all()
    on[2](a, c, 0)
    assert (c == 1).all()


def test_strides_that_are_not_whole_elements() -> None:
    _, c = arrays()
    odd = np.ones((16, 16), np.dtype([("x", F32), ("y", np.int8)]))["x"]
    fails("XT1033", lambda: copied[2](odd, c, 0), "copied[2]")
    assert (c == SENTINEL).all()


def test_where() -> None:
    a, c = arrays()
    fails("XT1052", lambda: copied.on("numpy:xetile"), 'copied.on("numpy:xetile")')
    fails("XT4104", lambda: copied.on("numpy", target="gen9"), "copied.on")
    fails("XT4104", lambda: copied.lower(a, c, 0, target="gen9"), "copied.lower")
    fails("XT1011", lambda: copied.lower(a, c), "copied.lower(a, c)")
    fails("XT1004", lambda: copied.on("numpy", subgroups=3)[2](a, c, 0), "copied.on")
    fails("XT1041", lambda: copied.on("numpy")[2](xt.Spec((16, 16), xt.f32), c, 0), "copied.on")
    assert (c == SENTINEL).all()


def test_division_by_a_number_that_is_zero() -> None:
    def scalar(A: Any) -> None:
        xt.group_id(0) % 0

    def vector(A: Any) -> None:
        xt.iota((8, 16), 1) // np.int32(0)

    for body in (scalar, vector):
        with pytest.raises(xt.ArgumentError, match="XT1216"):
            xt.kernel(body).lower(xt.Spec((8, 16), "f32"))


def test_generators_and_coroutines_are_no_kernels() -> None:
    def generator(A: Any) -> Any:
        yield xt.init_tile(A, (0, 0), (8, 16))

    async def coroutine(A: Any) -> None:
        xt.init_tile(A, (0, 0), (8, 16))

    async def both(A: Any) -> Any:
        yield xt.init_tile(A, (0, 0), (8, 16))

    for function in (generator, coroutine, both):
        with pytest.raises(xt.ArgumentError, match="XT1006"):
            xt.kernel(function)


def test_values_that_outlive_their_recording() -> None:
    @functools.lru_cache
    def positions(axis: int) -> Any:
        return xt.iota((8, 16), axis)

    kept: dict[str, Any] = {}

    def of_an_argument(A: Any, *, step: int) -> None:
        xt.init_tile(kept.setdefault("array", A), (0, 0), (8, 16))

    def of_the_body(A: Any, *, step: int) -> None:
        xt.abs(positions(0))

    def of_a_loop(A: Any, *, step: int) -> None:
        for _ in xt.range(2):
            xt.abs(positions(1))

    for body in (of_an_argument, of_the_body, of_a_loop):
        kernel = xt.kernel(body)
        kernel.lower(xt.Spec((8, 16), "f32"), step=1)
        with pytest.raises(xt.TraceError, match="XT1085"):
            kernel.lower(xt.Spec((8, 16), "f32"), step=2)


@pytest.mark.parametrize("dtype", ["i8", "u16", "i32", "u64", "index"])
def test_shifts_by_no_distance_within_the_integer(dtype: str) -> None:
    bits = 32 if dtype == "index" else int(dtype[1:])

    def scalar(A: Any, *, distance: int) -> None:
        xt.scalar(1, dtype) >> distance

    def vector(A: Any, *, distance: int) -> None:
        xt.zeros((8, 16), dtype) << np.int32(distance)

    for body in (scalar, vector):
        kernel = xt.kernel(body)
        for distance in (bits, -1, 1000):
            with pytest.raises(xt.ArgumentError, match="XT1217"):
                kernel.lower(xt.Spec((8, 16), "f32"), distance=distance)
            with pytest.raises(xt.ArgumentError, match="XT1217"):
                kernel.on("numpy:program")[1](np.zeros((8, 16), np.float32), distance=distance)
        for distance in (0, bits - 1):
            kernel.on("numpy")[1](np.zeros((8, 16), np.float32), distance=distance)


@pytest.mark.parametrize("distance", [2.0, np.float32(1)], ids=["python", "numpy"])
def test_shifts_by_a_float(distance: Any) -> None:
    """Of vectors and of run-time numbers, on either side."""
    for body in (lambda A: xt.zeros((8, 16), xt.i8) << distance, lambda A: xt.group_id(0) >> distance,
                 lambda A: xt.scalar(1, xt.u64) << distance, lambda A: distance << xt.zeros((8, 16), xt.i8)):
        with pytest.raises(xt.ElementTypeError, match="XT1205"):
            xt.kernel(body).lower(xt.Spec((8, 16), "f32"))


def test_a_kernel_in_a_kernel() -> None:
    @xt.kernel
    def inner(A: Any) -> None:
        pass

    def outer(A: Any) -> None:
        inner[1](A)

    for launch in (lambda: xt.kernel(outer).lower(xt.Spec((8, 16), "f32")),
                   lambda: xt.kernel(outer).on("numpy:program")[1](np.zeros((8, 16), np.float32))):
        with pytest.raises(xt.TraceError, match="XT1023"):
            launch()


def test_a_missing_constant() -> None:
    @xt.kernel
    def kernel(A, *, rows):
        xt.init_tile(A, (0, 0), (rows, 16))

    fails("XT1013", lambda: kernel[1](arrays()[0]), "kernel[1]")
    kernel[1](arrays()[0], rows=8)


def test_definitions() -> None:
    def starred(A, *rest):
        pass

    def named(A, **rest):
        pass

    def default(A, size=None):
        pass

    fails("XT1002", lambda: xt.kernel(starred), "starred")
    fails("XT1002", lambda: xt.kernel(named), "named")
    fails("XT1003", lambda: xt.kernel(default), "default")
    fails("XT1001", lambda: xt.kernel(3), "xt.kernel(3)")
    fails("XT1004", lambda: xt.kernel(subgroups=(0, 4))(starred), "xt.kernel")


@pytest.mark.parametrize("call", [
    lambda: xt.group_id(0), lambda: xt.zeros((8, 16), xt.f32), lambda: xt.range(3),
    lambda: xt.load_tile(None), lambda: xt.init_tile(None, (0, 0), (8, 16)), lambda: xt.maximum(1, 2),
    lambda: xt.subgroup_id(), lambda: xt.scalar(3), lambda: xt.tile_mma(None, None),
])
def test_outside_a_kernel(call: Callable[[], Any]) -> None:
    fails("XT1080", call, "xt.")


def test_views_and_specs() -> None:
    a = np.ones((4, 4), F32)
    fails("XT1034", lambda: xt.view(a, xt.bf16), "xt.view(a, xt.bf16)")
    fails("XT3270", lambda: xt.view(a, "bf17"), "xt.view")
    fails("XT1030", lambda: xt.view([1], xt.f32), "xt.view")
    fails("XT1035", lambda: xt.Spec((4, 4), xt.f32, (1,)), "xt.Spec")
    fails("XT1036", lambda: xt.Spec(4, xt.f32), "xt.Spec")
    fails("XT3270", lambda: xt.Spec((4, 4), "real"), "xt.Spec")


def test_maps_outside_a_kernel() -> None:
    assert xt.wg_map((2, 2), (8, 16)) == xt.WgMap((2, 2), (8, 16))
    fails("XT1151", lambda: xt.wg_map((2, 0), (8, 16)), "xt.wg_map")


def test_missing_device(monkeypatch: pytest.MonkeyPatch) -> None:
    a, c = arrays()
    fails("XT5002", lambda: copied.on("cuda:gpu")[2](a, c, 0), 'copied.on("cuda:gpu")')
    for name in [name for name in sys.modules if name.partition(".")[0] == "dpctl"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dpctl", None)
    monkeypatch.setattr("codegen.runtime.devices._queue_of_filter", functools.cache(_uncached_queue))
    fails("XT5000", lambda: copied.on("opencl:cpu")[2](a, c, 0), 'copied.on("opencl:cpu")')
    assert (c == SENTINEL).all()
    copied[2](a, c, 0)
    assert (c == 1).all()


def _uncached_queue(where: str) -> Any:
    from codegen.runtime import devices

    return devices.import_dpctl().SyclQueue(where)


def test_missing_ocloc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XETILE_OCLOC", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    lowered = copied.lower(xt.Spec((16, 16), xt.f32), xt.Spec((16, 16), xt.f32), 0)
    fails("XT5102", lowered.isa, "copied")
    monkeypatch.setenv("XETILE_OCLOC", "/nowhere/ocloc")
    fails("XT5101", lowered.binary, "copied")
    assert "kernel" in lowered.opencl


def test_machine_code_of_a_target_without_any() -> None:
    lowered = copied.lower(xt.Spec((16, 16), xt.f32), xt.Spec((16, 16), xt.f32), 0, target="cpu")
    fails("XT4002", lowered.isa, "copied")


def test_device_arrays(cpu_queue: Any) -> None:
    dpnp = require_dpnp()
    dpctl = pytest.importorskip("dpctl")
    a, c = arrays()
    one = dpnp.asarray(a, sycl_queue=cpu_queue)
    other = dpnp.asarray(c, sycl_queue=dpctl.SyclQueue("opencl:cpu", property="in_order"))
    fails("XT1042", lambda: copied[2](one, c, 0), "copied[2]")
    fails("XT1043", lambda: copied[2](one, other, 0), "copied[2]")
    fails("XT1044", lambda: copied.on(cpu_queue)[2](one, other, 0), "copied.on")
    fails("XT1040", lambda: copied.on("numpy")[2](one, c, 0), "copied.on")
    assert (dpnp.asnumpy(other) == SENTINEL).all()
    assert (c == SENTINEL).all()
    out = dpnp.asarray(c, sycl_queue=cpu_queue)
    copied[2](one, out, 0)
    assert (dpnp.asnumpy(out) == 1).all()


def test_mistakes_on_a_device(cpu_queue: Any) -> None:
    a, c = arrays()
    read_only = c[:]
    read_only.flags.writeable = False
    on = copied.on(cpu_queue)
    fails("XT1045", lambda: on[2](a, read_only, 0), "on[2]")
    fails("XT1011", lambda: on[2](a, c), "on[2](a, c)")
    fails("XT1102", lambda: on[2](a[0], c, 0), "xt.init_tile")
    assert (c == SENTINEL).all()
    on[2](a, c, 0)
    assert (c == 1).all()


SOURCE = """
import xetile as xt

@xt.kernel
def kernel(A):
    if xt.group_id(0):
        pass
"""


def test_source_without_a_file() -> None:
    names: dict[str, Any] = {"__name__": "typed_in"}
    exec(SOURCE, names)
    with pytest.raises(xt.TraceError) as caught:
        names["kernel"][1](np.ones((8, 16), F32))
    text = str(caught.value)
    assert "  <string>:6, in kernel" in text
    assert text.splitlines()[-1].startswith("  help: ")
    with pytest.raises(xt.XeError, match="XT1011"):
        names["kernel"][1]()
    assert repr(names["kernel"]) == "<kernel kernel(A)>"


def test_source_of_a_notebook() -> None:
    import linecache

    linecache.cache["<cell>"] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), "<cell>")
    names: dict[str, Any] = {"__name__": "notebook"}
    exec(compile(SOURCE, "<cell>", "exec"), names)
    with pytest.raises(xt.TraceError) as caught:
        names["kernel"][1](np.ones((8, 16), F32))
    assert "    if xt.group_id(0):\n       ^^^^^^^^^^^^^^\n" in str(caught.value)


def test_the_call_chain() -> None:
    def deep(value: Any) -> Any:
        return value + "x"

    def middle(value: Any) -> Any:
        return deep(value)

    @xt.kernel
    def kernel(A):
        middle(xt.zeros((8, 16), xt.f32))

    error = fails("XT1201", lambda: kernel[1](np.ones((8, 16), F32)), 'value + "x"')
    assert re.findall(r"called from .*, in (.+)", str(error)) == ["middle", "kernel", "<lambda>"]


def test_an_error_of_the_author_passes_through() -> None:
    @xt.kernel
    def kernel(A, *, fail):
        for _ in xt.range(3):
            if fail:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        kernel[1](np.ones((8, 16), F32), fail=True)
    kernel[1](np.ones((8, 16), F32), fail=False)


def test_every_error_is_one_of_pythons_own() -> None:
    for error in (xt.ShapeError, xt.TargetError, xt.TextError, xt.TraceError):
        assert issubclass(error, ValueError)
    assert issubclass(xt.ElementTypeError, TypeError)
    assert issubclass(xt.RankError, IndexError)
    for error in (xt.DeviceError, xt.ToolError):
        assert issubclass(error, RuntimeError)


def test_importing_needs_no_device_package() -> None:
    code = ("import sys; sys.modules['dpctl'] = sys.modules['dpnp'] = None\n"
            "import numpy as np, xetile as xt\n"
            "print('dpctl' in sys.modules and sys.modules['dpctl'] is None)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.stdout.strip() == "True"


def test_constants_that_cannot_be_told_apart() -> None:
    a, c = arrays()
    fails("XT1014", lambda: copied[2](a, c, 0, rows={1, 2}), "copied[2]")
    assert (c == SENTINEL).all()
