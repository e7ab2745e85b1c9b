"""Kernels that run themselves: ``.on("numpy:program")``."""

from __future__ import annotations

import math
import sys
from typing import Any

import flash_attention
import gemm
import gemm_slm
import numpy as np
import pytest
import split_k

import xetile as xt
from xegpu.ir import dtypes

RANDOM = np.random.default_rng(11)


def whole(*shape: int, dtype: Any = np.float32) -> Any:
    return RANDOM.integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize(("module", "kernel", "constants"), [
    (gemm, "gemm", {}), (gemm_slm, "gemm_slm", {}), (split_k, "split_k", {})], ids=lambda value: str(value)[:30])
def test_products_of_the_examples(module: Any, kernel: str, constants: dict[str, Any]) -> None:
    a, b = whole(70, 150, dtype=dtypes.bf16.numpy), whole(150, 90, dtype=dtypes.bf16.numpy)
    c = np.zeros((70, 90), np.float32)
    grid = (1, 1, 2) if module is split_k else (1, 1)
    getattr(module, kernel).on("numpy:program")[grid](a, b, c, **constants)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_attention_as_the_recorded_program_computes_it() -> None:
    q, k, v = (RANDOM.standard_normal((2, n, 64)).astype(dtypes.bf16.numpy) for n in (40, 50, 50))
    results = []
    for where in ("numpy:program", "numpy"):
        out = np.zeros((2, 40, 64), np.float32)
        flash_attention.attention.on(where)[1, 2](q, k, v, out, BM=64, subgroups=4, causal=True)
        results.append(out)
    np.testing.assert_allclose(*results, rtol=1e-6, atol=1e-6)


@xt.kernel
def branches(A, C, n, *, log):
    g = xt.group_id(0)
    x = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
    with xt.when(g == 1):
        log.append(("first", int(g)))
        x = x + 1.0
    with xt.otherwise(): x = x * 2.0  # noqa: E701 - a body on the line of its statement
    with xt.when(g > 5): x = x * 0.0; log.append("never")  # noqa: E701
    for i in xt.range(n):
        if i == 2:  # a Python branch on a run-time value: only here
            log.append((int(i), float(x[0, 0]), len(x), np.asarray(x).shape))
        x = x + 1.0
    xt.store_tile(x, xt.init_tile(C, (g * 8, 0), (8, 16)))


class Log(list[Any]):
    """A compile-time constant with a hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_values_are_real_and_only_the_branch_that_holds_runs() -> None:
    a, c, log = whole(8, 16), np.zeros((24, 16), np.float32), Log()
    branches.on("numpy:program")[3](a, c, 3, log=log)
    np.testing.assert_array_equal(c, np.vstack([a * 2 + 3, a + 4, a * 2 + 3]))
    seen = [(2, float(x), 8, (8, 16)) for x in (a[0, 0] * 2 + 2, a[0, 0] + 3, a[0, 0] * 2 + 2)]
    assert log == [seen[0], ("first", 1), seen[1], seen[2]]


def test_chosen_instances() -> None:
    a, c, log = whole(8, 16), np.zeros((24, 16), np.float32), Log()
    branches.on("numpy:program", only=(1, 0))[3](a, c, 3, log=log)
    assert not c[:8].any()
    assert not c[16:].any()
    np.testing.assert_array_equal(c[8:16], a + 4)


def test_a_debuggers_trace_function_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[str] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda *_: stops.append(repr(sys._getframe(1).f_locals["x"])))

    @xt.kernel
    def kernel(A, C):
        x = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
        with xt.when(xt.group_id(0) == 9):
            x = x * 0.0
        breakpoint()
        xt.store_tile(x, xt.init_tile(C, (0, 0), (8, 16)))

    callers: list[str] = []

    def tracer(frame: Any, event: str, _: object) -> Any:
        caller = frame.f_back.f_code
        callers.extend([caller.co_name] if event == "call" and caller.co_filename.endswith("if_else.py") else [])
        return tracer

    a, c, before = whole(8, 16), np.zeros((8, 16), np.float32), sys.gettrace()
    sys.settrace(tracer)
    try:
        kernel.on("numpy:program")[1](a, c)
        assert sys.gettrace() is tracer
        assert "__enter__" in callers
        assert "__exit__" not in callers  # a tracer in C, as coverage has, would see such a call and lose count
    finally:
        sys.settrace(before)
    np.testing.assert_array_equal(c, a)
    assert len(stops) == 1
    assert "8x16 f32" in stops[0]
    assert "array([[" in stops[0]


@xt.kernel(subgroups=(2, 1))
def exchanged(A, C):
    slm, me = xt.alloc_slm((16, 16), xt.f32), xt.subgroup_id() * 8
    xt.store_tile(xt.load_tile(xt.init_tile(A, (me, 0), (8, 16))), xt.init_tile(slm, (me, 0), (8, 16)))
    xt.barrier()
    x = xt.load_tile(xt.init_tile(slm, (8 - me, 0), (8, 16)))
    with xt.when(me == 0):
        x = x + 1.0
    xt.store_tile(x, xt.init_tile(C, (me, 0), (8, 16)))


def test_a_debugger_sees_every_subgroup() -> None:
    """Each is a thread, and a trace function is one thread's."""
    code, lines = exchanged.function.__code__, []

    def tracer(frame: Any, event: str, _: object) -> Any:
        lines.extend([frame.f_lineno - code.co_firstlineno] if frame.f_code is code and event == "line" else [])
        return tracer if frame.f_code is code else None

    a, c, before = whole(16, 16), np.zeros((16, 16), np.float32), sys.gettrace()
    sys.settrace(tracer)
    try:
        exchanged.on("numpy:program")[1](a, c)
    finally:
        sys.settrace(before)
    np.testing.assert_array_equal(c, np.concatenate([a[8:] + 1, a[:8]]))
    assert [lines.count(line) for line in (5, 7, 8)] == [2, 1, 2]



@xt.kernel(subgroups=(4, 1))
def ring(A, C, *, wrong=False):
    shared, i = xt.alloc_slm((32, 16), xt.f32), xt.subgroup_id(0)
    xt.store_tile(xt.load_tile(xt.init_tile(A, (i * 8, 0), (8, 16))), xt.init_tile(shared, (i * 8, 0), (8, 16)))
    if not wrong or int(i) != 2:
        xt.barrier()
    j = (i + 1) % 4
    xt.store_tile(xt.load_tile(xt.init_tile(shared, (j * 8, 0), (8, 16))), xt.init_tile(C, (i * 8, 0), (8, 16)))


def test_subgroups_take_turns_at_barriers() -> None:
    a, c = whole(32, 16), np.zeros((32, 16), np.float32)
    ring.on("numpy:program")[1](a, c)
    np.testing.assert_array_equal(c, np.roll(a, -8, 0))
    with pytest.raises(xt.TraceError) as caught:
        ring.on("numpy:program")[1](a, c, wrong=True)
    assert caught.value.code == "XT1483"
    ring.on("numpy:program")[1](a, c)


def test_long_loops_do_not_pile_up() -> None:
    @xt.kernel
    def count(C, n):
        tile, x = xt.init_tile(C, (0, 0), (8, 16)), xt.zeros((8, 16), xt.f32)
        for _ in xt.range(n):
            x, tile = x + 1.0, xt.update_tile_offset(tile, 1, 0)
        xt.store_tile(x, xt.update_tile_offset(tile, -1 * n, 0))

    c = np.zeros((8, 16), np.float32)
    count.on("numpy:program")[1](c, 300)
    np.testing.assert_array_equal(c, np.full((8, 16), 300, np.float32))


def test_mistakes() -> None:
    a, c = whole(8, 16), np.zeros((24, 16), np.float32)
    bound = branches.on("numpy:program")
    c.flags.writeable = False
    with pytest.raises(xt.ElementTypeError, match="XT1045"):
        bound[3](a, c, 3, log=Log())
    with pytest.raises(xt.ArgumentError, match="XT1602"):
        branches.on("numpy:program", only="first")
    with pytest.raises(xt.ArgumentError, match="XT1051"):
        branches.on("numpy", only=(1,))
    with pytest.raises(xt.ShapeError, match="XT1603"):
        branches.on("numpy:program", only=(7,))[3](a, a, 3, log=Log())
    parsed = xt.parse(gemm.gemm.lower(*[xt.Spec((None, None), xt.bf16)] * 2, xt.Spec((None, None), xt.f32)).xetile)
    with pytest.raises(xt.DeviceError, match="XT1601"):
        parsed["gemm"].on("numpy:program")
    with pytest.raises(xt.TraceError, match="XT1302"):
        branches.on("numpy")[3](a, c, 3, log=Log())
    assert math.isfinite(a.sum())


@xt.kernel
def shares(A, C, *, wg_map=None):
    x = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32), wg_map=wg_map))
    turned = xt.tile_transpose(x) if wg_map is None else x
    xt.store_tile(turned / xt.tile_reduce("add", turned, 1), xt.init_tile(C, (0, 0), turned.shape, wg_map=wg_map))


@pytest.mark.parametrize("wg_map", [None, xt.wg_map((2, 1), (8, 32))])
def test_what_was_reduced_is_spread_again(wg_map: Any) -> None:
    a = RANDOM.integers(1, 5, (16, 32)).astype(np.float32)
    c = np.zeros((32, 16) if wg_map is None else (16, 32), np.float32)
    shares.on("numpy:program")[1](a, c, wg_map=wg_map)
    expected = a.T if wg_map is None else a
    np.testing.assert_array_equal(c, expected / expected.sum(1, keepdims=True))
