"""Products that read memory themselves, on the target cpu: what they compute, and where loads stay."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc, require_sycl_compiler
from tests.kernels import TYPES, Types, integers
from xegpu.support.errors import XeError
from xetile.compiler.compiled import CompiledKernel
from xetile.text.gpu_module import printed

Array = np.ndarray[Any, Any]
EXECUTIONS = ("numpy:xegpu", "opencl:cpu")


@xt.kernel
def product(A, B, C, down, *, acc=xt.f32, sg=(2, 2)):
    """24 x 96 of C a work-group, behind ``down`` rows and 5 columns; K from -7 on, in two loops, in steps of 32."""
    m, n = xt.group_id(0) * 24 - down, xt.group_id(1) * 96 - 5
    a = xt.init_tile(A, (m, -7), (24, 32), wg_map=xt.wg_map(sg, (24 // sg[0], 32)))
    b = xt.init_tile(B, (-7, n), (32, 96), wg_map=xt.wg_map(sg, (32, 96 // sg[1])))
    map_c = xt.wg_map(sg, (24 // sg[0], 96 // sg[1]))
    total = xt.full((24, 96), 1, acc, wg_map=map_c)
    for _ in xt.range(2):
        for _ in xt.range(2):
            total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
            a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
    xt.store_tile(total + total, xt.init_tile(C, (m, n), (24, 96), wg_map=map_c))


def _run(where: str, types: Types, a: Array, b: Array, **constants: Any) -> None:
    """An odd C, prefilled and with a border that must stay."""
    (rows, depth), columns = a.shape, b.shape[1]
    border = np.full((rows + 2, columns + 3), 7, types.acc.numpy)
    given, expected = border[1:-1, 1:-2], border.copy()
    most = min(depth, 121)
    exact = a.astype(np.int64)[:, :most] @ b.astype(np.int64)[:most]
    expected[1:-1, 1:-2] = (2 * (exact + 1)).astype(types.acc.numpy)
    a, b = xt.view(a, types.a), xt.view(b, types.b)
    product.on(where, target="cpu")[3, 2](a, b, given, 3, acc=types.acc, **constants)
    np.testing.assert_array_equal(border, expected)


@pytest.mark.parametrize(("types", "where"), [
    pytest.param(types, where, id=f"{types}-{where}") for types in TYPES for where in EXECUTIONS
    if where == "numpy:xegpu" or types.a.name == types.b.name  # mixed bytes are the same text but for their types
])
def test_all_types_at_all_edges(types: Types, where: str) -> None:
    """Rows, columns and depth begin before the arrays and end behind them; the tile's four edges are inside others."""
    if where != "numpy:xegpu":
        require_device()
    rng = np.random.default_rng(3)
    most = 1 << 22 if types.acc.name == "f64" else 5
    a, b = integers(rng, types.a, 65, 77, most=most), integers(rng, types.b, 77, 171, most=most)
    if types.acc.name in ("f16", "bf16"):
        a, b = np.clip(a, -1, 1).astype(a.dtype), np.clip(b, 0, 1).astype(b.dtype)
    _run(where, types, a, b)


@pytest.mark.parametrize("where", EXECUTIONS)
def test_arrays_of_any_strides(where: str) -> None:
    """Columns contiguous, and every second element."""
    if where != "numpy:xegpu":
        require_device()
    rng, types = np.random.default_rng(4), next(t for t in TYPES if str(t) == "f32-f32-f32")
    a, b = integers(rng, types.a, 65, 80), integers(rng, types.b, 80, 171)
    _run(where, types, np.asfortranarray(a), np.repeat(b, 2, 1)[:, ::2])
    if where == "numpy:xegpu":
        _run(where, types, np.repeat(a, 2, 1)[:, ::2], np.asfortranarray(b))


@pytest.mark.parametrize("where", EXECUTIONS)
def test_sums_of_large_bytes_are_exact(where: str) -> None:
    """255 * 255 * 512 is more than float32 counts to, and so is a whole K loop of any bytes."""
    if where != "numpy:xegpu":
        require_device()

    @xt.kernel
    def deep(A, B, C, *, BK=32):
        a, b = xt.init_tile(A, (0, 0), (8, BK)), xt.init_tile(B, (0, 0), (BK, 16))
        total = xt.zeros((8, 16), xt.i32)
        for _ in xt.range(0, A.shape[1], BK):
            total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
            a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
        xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))

    a, b = np.full((8, 2048), 255, np.uint8), np.full((2048, 16), 255, np.uint8)
    a[:, 7], b[11] = 254, 253
    for depth in (32, 512):
        c = np.zeros((8, 16), np.int32)
        deep.on(where, target="cpu")[1,](a, b, c, BK=depth)
        np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


MATRIX = xt.Spec((None, None), "f32")


def _text_after(kernel: CompiledKernel, name: str) -> str:
    """The text of a kernel after a pass, which may have changed nothing."""
    module = kernel.after(name)
    assert module is not None
    return printed(module)


def _operations(kernel: Any, **constants: Any) -> tuple[int, int, int]:
    """Counts of products that read memory themselves, of those that do not, and of the loads that are left."""
    text = _text_after(kernel.lower(*[MATRIX] * 3, target="cpu", **constants), "fuse-load-mma")
    return text.count("xetile.load_mma"), text.count("xetile.tile_mma"), text.count("xetile.load_tile")


@xt.kernel
def between(A, B, C, *, what=""):
    """A product, and something between its loads and it."""
    ta, tb, tc = (xt.init_tile(array, (0, 0), (16, 16)) for array in (A, B, C))
    a, b = xt.load_tile(ta), xt.load_tile(tb, **({"padding": 1} if what == "padding" else {}))
    c = xt.load_tile(tc)
    if what == "store":
        xt.store_tile(c, ta)
    if what == "prefetch":
        xt.prefetch_tile(ta)
    if what == "barrier":
        xt.barrier()
    if what == "use":
        c = c + a
    if what == "convert":
        a = a * 2
    if what == "both":
        b = a
    xt.store_tile(xt.tile_mma(a, b, c), tc)


@pytest.mark.parametrize(("what", "fused"), [("", True), ("prefetch", True), ("store", False), ("barrier", False),
                                              ("use", False), ("convert", False), ("padding", False),
                                              ("both", False)])
def test_what_may_stand_between(what: str, fused: bool) -> None:
    assert _operations(between, what=what) == ((1, 0, 1) if fused else (0, 1, 3))


@pytest.mark.parametrize("where", EXECUTIONS)
@pytest.mark.parametrize("what", ["store", "use", "both"])
def test_loads_that_stay_give_what_was_there(what: str, where: str) -> None:
    if where != "numpy:xegpu":
        require_device()
    rng = np.random.default_rng(5)
    a, b, c = (rng.integers(-5, 6, (16, 16)).astype(np.float32) for _ in range(3))
    expected = a @ (a if what == "both" else b) + c + (a if what == "use" else 0)
    between.on(where, target="cpu")[1,](a, b, c, what=what)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("compiler", ["sycl", "ocloc"])
def test_by_way_of_spirv(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is C++ as well, and none of its words is strange to a compiler for GPUs."""
    require_device()
    require_ocloc() if compiler == "ocloc" else require_sycl_compiler()
    monkeypatch.setenv("XETILE_SPIRV", compiler)
    rng = np.random.default_rng(6)
    a, b, c = (rng.integers(-5, 6, (16, 16)).astype(np.float32) for _ in range(3))
    expected = a @ b + c
    between.on("opencl:cpu", target="cpu")[1,](a, b, c)
    np.testing.assert_array_equal(c, expected)


def test_one_reader_of_a_tile_that_is_no_product_keeps_all_loads() -> None:
    @xt.kernel
    def twice(A, B, C):
        ta, tb, tc = (xt.init_tile(array, (0, 0), (16, 16)) for array in (A, B, C))
        c = xt.tile_mma(xt.load_tile(ta), xt.load_tile(tb))
        xt.store_tile(c + xt.load_tile(ta), tc)

    assert _operations(twice) == (0, 1, 3)


@xt.kernel
def gated(X, W, V, C, *, also=False):
    """(X @ W) * (X @ V): one load of X serves two products; what is ``also`` stored of it keeps all loads."""
    x, w, v = xt.init_tile(X, (0, 0), (16, 16)), xt.init_tile(W, (0, 0), (16, 32)), xt.init_tile(V, (0, 0), (16, 32))
    left = right = xt.zeros((16, 32), xt.f32)
    for _ in xt.range(0, X.shape[1], 16):
        a = xt.load_tile(x)
        left = xt.tile_mma(a, xt.load_tile(w), left)
        right = xt.tile_mma(a, xt.load_tile(v), right)
        if also:
            right = xt.tile_mma(a * 2, xt.load_tile(v), right)
        x, w, v = xt.update_tile_offset(x, 0, 16), xt.update_tile_offset(w, 16, 0), xt.update_tile_offset(v, 16, 0)
    xt.store_tile(left * right, xt.init_tile(C, (0, 0), (16, 32)))


@pytest.mark.parametrize("where", EXECUTIONS)
@pytest.mark.parametrize("also", [False, True])
def test_one_load_for_two_products(also: bool, where: str) -> None:
    if where != "numpy:xegpu":
        require_device()
    text = _text_after(gated.lower(*[MATRIX] * 4, target="cpu", also=also), "deepen-k")
    assert text.count("xetile.load_mma") == (0 if also else 2)
    assert text.count("xetile.load_tile") == (4 if also else 0)
    rng = np.random.default_rng(8)
    x, w, v = (rng.integers(-3, 4, size).astype(np.float32) for size in ((16, 150), (150, 30), (150, 30)))
    c = np.full((17, 31), 7, np.float32)
    expected = c.copy()
    expected[:16, :30] = (x @ w) * (3 if also else 1) * (x @ v)
    gated.on(where, target="cpu")[1,](x, w, v, c[:16, :30], also=also)
    np.testing.assert_array_equal(c, expected)


@xt.kernel
def added_to_itself(A, B, C):
    """``A + A @ B``: A is loaded for a product that also adds to it."""
    a = xt.load_tile(xt.init_tile(A, (0, 0), (16, 16)))
    xt.store_tile(xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (0, 0), (16, 16))), a), xt.init_tile(C, (0, 0), (16, 16)))


@pytest.mark.parametrize("where", EXECUTIONS)
def test_an_operand_that_is_added_to(where: str) -> None:
    a, b = np.random.default_rng(3).integers(-5, 6, (2, 16, 16)).astype(np.float32)
    c = np.zeros_like(a)
    added_to_itself.on(where, target="cpu")[1](a, b, c)
    np.testing.assert_array_equal(c, a + a @ b)


def test_the_stages_read_back() -> None:
    """Each is the same text again, and leads to the same kernel."""
    lowered = product.lower(MATRIX, MATRIX, MATRIX, 0, target="cpu")
    assert "fuse-load-mma" in lowered.stages
    assert "fuse-load-mma" not in product.lower(MATRIX, MATRIX, MATRIX, 0, target="pvc").stages
    for stage in ("fuse-load-mma", "blocking", "to-xegpu", "legalize"):
        again = xt.parse(lowered.stages[stage])["product"].lower(MATRIX, MATRIX, MATRIX, 0, target="cpu")
        assert again.stages[stage] == lowered.stages[stage]
        assert again.xegpu == lowered.xegpu


@pytest.mark.parametrize("stage", ["fuse-load-mma", "to-xegpu"])
def test_wrong_text_is_refused(stage: str) -> None:
    text = product.lower(MATRIX, MATRIX, MATRIX, 0, target="cpu").stages[stage]
    with pytest.raises(XeError, match="32 columns and B 16 rows"):
        xt.parse(text.replace("<32x48xf32", "<16x48xf32"))


@xt.kernel
def summed(A, B, C, *, first=0, ahead=0, twice=False, seen=False, acc=xt.f32, step=16, rounded=None):
    """16 x 16 a work-group in steps of 16 columns of A, from ``first`` on; K is known at run time.

    The loop ends at K, or at K ``rounded`` up to a multiple.
    """
    m, n = xt.group_id(0) * 16, xt.group_id(1) * 16
    a, b = xt.init_tile(A, (m, first), (16, 16)), xt.init_tile(B, (first, n), (16, 16))
    pa = xt.init_tile(A, (m, ahead), (16, 16))
    total = xt.zeros((16, 16), acc)
    stop = A.shape[1] if rounded is None else (A.shape[1] + (rounded - 1)) // rounded * rounded
    for k in xt.range(0, stop, step):
        xt.prefetch_tile(pa)
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        if twice:
            total = total + total
        if seen:
            total = total + k.to(xt.f32)
        a, b = xt.update_tile_offset(a, 0, step), xt.update_tile_offset(b, step, 0)
        pa = xt.update_tile_offset(pa, 0, step)
    xt.store_tile(total, xt.init_tile(C, (m, n), (16, 16)))


@pytest.mark.parametrize(("constants", "depth"), [
    ({}, 256), ({"first": 16}, 16), ({"twice": True}, 16), ({"seen": True}, 16), ({"step": 32}, 16),
    ({"rounded": 16}, 256), ({"rounded": 24}, 16), ({"rounded": 32}, 16),
], ids=str)
def test_how_long_a_step_may_be(constants: dict[str, Any], depth: int) -> None:
    text = _text_after(summed.lower(MATRIX, MATRIX, MATRIX, target="cpu", **constants), "deepen-k")
    (product,) = [line for line in text.splitlines() if "load_mma" in line]
    assert f"tile<16x{depth}xf32>, !xetile.tile<{depth}x16xf32>" in product


def test_sums_that_are_rounded_at_each_step_keep_it() -> None:
    half = xt.Spec((None, None), "f16")
    for acc, depth in ((xt.f16, 16), (xt.f32, 256)):
        lowered = summed.lower(half, half, xt.Spec((None, None), acc), target="cpu", acc=acc)
        text = _text_after(lowered, "deepen-k")
        assert f"tile<16x{depth}xf16>, !xetile.tile<{depth}x16xf16>" in text


@pytest.mark.parametrize("rounded", [None, 16])
@pytest.mark.parametrize("where", EXECUTIONS)
def test_long_steps_go_over_the_end(where: str, rounded: int | None) -> None:
    """A and B end in the midst of a step, and at other places; what B has there is no number."""
    if where != "numpy:xegpu":
        require_device()
    rng = np.random.default_rng(7)
    a, b = rng.integers(-5, 6, (40, 141)).astype(np.float32), rng.integers(-5, 6, (150, 40)).astype(np.float32)
    b[141:] = 1e30
    c = np.full((42, 43), 7, np.float32)
    expected = c.copy()
    expected[1:41, 1:41] = a @ b[:141]
    summed.on(where, target="cpu")[3, 3](a, b, c[1:41, 1:41], rounded=rounded)
    np.testing.assert_array_equal(c, expected)


@xt.kernel
def from_the_second_step(A, B, C):
    """A's columns from 16 on, in steps of 16: the constant is the loop's start and step."""
    a, b, total = xt.init_tile(A, (0, 16), (16, 16)), xt.init_tile(B, (16, 0), (16, 16)), xt.zeros((16, 16), xt.f32)
    for _ in xt.range(16, A.shape[1], 16):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, 16), xt.update_tile_offset(b, 16, 0)
    xt.store_tile(total, xt.init_tile(C, (0, 0), (16, 16)))


@pytest.mark.parametrize("where", EXECUTIONS)
def test_long_steps_from_where_a_short_one_ends(where: str) -> None:
    if where != "numpy:xegpu":
        require_device()
    rng = np.random.default_rng(8)
    a, b = rng.integers(-5, 6, (16, 77)).astype(np.float32), rng.integers(-5, 6, (77, 16)).astype(np.float32)
    c = np.zeros((16, 16), np.float32)
    from_the_second_step.on(where, target="cpu")[1](a, b, c)
    np.testing.assert_array_equal(c, a[:, 16:] @ b[16:])


def test_the_depth_must_suit_the_lanes() -> None:
    @xt.kernel
    def odd(A, B, C):
        a, b = xt.init_tile(A, (0, 0), (16, 24)), xt.init_tile(B, (0, 0), (24, 16))
        xt.store_tile(xt.tile_mma(xt.load_tile(a), xt.load_tile(b)), xt.init_tile(C, (0, 0), (16, 16)))

    with pytest.raises(XeError, match="XT2510") as caught:
        _ = odd.lower(MATRIX, MATRIX, MATRIX, target="cpu").opencl
    assert "xt.tile_mma" in str(caught.value)


def test_the_text_of_bf16() -> None:
    """No number is handed from lane to lane, and no sum is part of a vector in the loop."""
    pair = [xt.Spec((None, None), ml_dtypes.bfloat16)] * 2
    text = product.lower(*pair, MATRIX, 0, target="cpu").opencl.partition("kernel void")[2]
    assert text.count("sub_group_broadcast") == 2  # the subgroup's number, and the memory that a function sees
    assert text.count("= fma(") < 3 * 12 * 3  # a loop over rows where the product is not one call
    assert "shuffle" not in text
