"""Launching: arguments, grids, constants, the caches, and what ``lower`` returns."""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
from collections import Counter
from typing import Any
from weakref import ref

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from tests.device import device_targets
from xegpu.target.targets import find_target
from xetile.compiler.pipeline import precedes


@xt.kernel
def product(A, B, C, *, BM=16, BN=32, BK=32):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    acc = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


def matrices(m: int, n: int, k: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    return a, b, np.zeros((m, n), np.float32)


def grid(m: int, n: int) -> tuple[int, int]:
    return -(-m // 16), -(-n // 32)


def check(a: Any, b: Any, c: Any) -> None:
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of recordings, lowerings and builds of a kernel."""
    counter: Counter[str] = Counter()

    def count(path: str, name: str) -> None:
        module = importlib.import_module(path)  # xetile.kernel, as an attribute, is the decorator
        original = getattr(module, name)

        def counted(*args: Any, **options: Any) -> Any:
            counter[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(module, name, counted)

    count("xetile.jit.kernel", "trace")
    count("xetile.compiler.pipeline", "stages")
    count("codegen.runtime.program_cache", "build_program")
    return counter


def test_repeated_launches_on_numpy(calls: Counter[str]) -> None:
    own = xt.kernel(product.function)
    for where in ("numpy", "numpy:xegpu"):
        for seed in range(3):
            for m, n, k in ((16, 32, 64), (48, 64, 96)):
                a, b, c = matrices(m, n, k, seed)
                own.on(where)[grid(m, n)](a, b, c)
                check(a, b, c)
    assert calls["trace"] == 1
    assert calls["build_program"] == 0
    assert calls["stages"] <= 8, "once for each set of ways in which the arrays can be reached"
    a, b, c = matrices(16, 32, 64)
    own.on("numpy")[grid(16, 32)](a, b, c, BK=16)
    own.on("numpy")[grid(16, 32)](a, b, c, BK=16)
    own.on("numpy")[grid(16, 32)](a, b, c, BM=16)
    assert calls["trace"] == 2, "other constants, and the defaults said aloud"


@pytest.mark.launches
@pytest.mark.parametrize("target", device_targets("pvc", "cpu"))
def test_repeated_launches_on_a_device(calls: Counter[str], target: str, device_queue: Any) -> None:
    own = xt.kernel(product.function)
    for seed in range(3):
        for m, n, k in ((64, 64, 64), (128, 64, 96)):
            a, b, c = matrices(m, n, k, seed)
            own.on(device_queue, target=target)[grid(m, n)](a, b, c)
            check(a, b, c)
    assert calls == {"trace": 1, "stages": 1, "build_program": 1}
    a, b, c = matrices(33, 35, 37)
    for _ in range(2):
        own.on(device_queue, target=target)[grid(33, 35)](a, b, c)
        check(a, b, c)
    assert calls["trace"] == 1
    assert calls["build_program"] == (1 + find_target(target).block_io), "arrays that block IO may not read"


@pytest.mark.launches
def test_dpnp_arrays_run_on_their_own_queue(calls: Counter[str], device_queue: Any) -> None:
    dpnp = require_dpnp()
    own = xt.kernel(product.function)
    a, b, c = matrices(64, 64, 64)
    bits = [xt.view(dpnp.asarray(x.view(np.uint16), sycl_queue=device_queue), "bf16") for x in (a, b)]
    out = dpnp.asarray(c, sycl_queue=device_queue)
    for _ in range(3):
        own[grid(64, 64)](*bits, out)
    check(a, b, dpnp.asnumpy(out))
    assert calls == {"trace": 1, "stages": 1, "build_program": 1}


def test_constants_differ_by_type() -> None:
    seen = []

    @xt.kernel
    def own(A, *, value):
        seen.append(value)

    a = np.zeros((8, 16), np.float32)
    values = (1, 1.0, True, 1, (1, 2), (1.0, 2), [1, 2], "1", np.float32(1), xt.f32, {"a": 1}, {"a": 1.0}, {"a": 1})
    for value in values:
        own[1](a, value=value)
    kinds = [int, float, bool, tuple, tuple, list, str, np.float32, type(xt.f32), dict, dict]
    assert [type(value) for value in seen] == kinds
    first, second = np.zeros(5000), np.zeros(5000)
    second[2500] = 1
    for value in (first, second, second.copy()):
        own[1](a, value=value)
    assert len(seen) == 13, "arrays count by what they hold"


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_grids(where: str) -> None:
    @xt.kernel
    def own(C):
        at = (xt.group_id(0) * xt.num_groups(1) + xt.group_id(1)) * xt.num_groups(2) + xt.group_id(2)
        xt.store_tile(xt.full((8, 16), (at + 1).to(xt.i32), xt.i32), xt.init_tile(C, (at * 8, 0), (8, 16)))

    for sizes in (3, (3,), [2, 3], (2, 1, 3), (np.int64(2), 2), np.int32(4)):
        count = int(np.prod(sizes))
        c = np.zeros((8 * count + 8, 16), np.int32)
        own.on(where)[sizes](c)
        np.testing.assert_array_equal(c[::8, 0], [*range(1, count + 1), 0])
    for sizes in (0, (3, 0), (0, 1, 2)):
        c = np.zeros((16, 16), np.int32)
        own.on(where)[sizes](c)
        assert (c == 0).all()


def test_the_kernels_own_grid() -> None:
    @xt.kernel(grid=lambda A, C, scale, *, rows: (-(-A.shape[0] // rows),))
    def own(A, C, scale, *, rows=8):
        row = xt.group_id(0) * rows
        a, c = (xt.init_tile(array, (row, 0), (rows, 16)) for array in (A, C))
        xt.store_tile(xt.load_tile(a) * scale, c)

    a = np.arange(37 * 16, dtype=np.float32).reshape(37, 16)
    for where in (None, "numpy", "numpy:xegpu"):
        for rows in (8, 16):
            c = np.zeros_like(a)
            (own if where is None else own.on(where))(a, c, 3.0, rows=rows)
            np.testing.assert_array_equal(c, a * 3)
    c = np.zeros_like(a)
    own(a, c, 2.0)
    np.testing.assert_array_equal(c, a * 2)
    c = np.zeros_like(a)
    own[1](a, c, 2.0)
    np.testing.assert_array_equal(c, np.concatenate([a[:8] * 2, np.zeros_like(a[8:])]))


def test_arguments_of_numpys_types() -> None:
    @xt.kernel
    def own(C, i, f):
        xt.store_tile(xt.full((8, 16), f, xt.f32) + i.to(xt.f32), xt.init_tile(C, (0, 0), (8, 16)))

    for i, f in ((2, 0.5), (np.int8(-3), np.float32(0.25)), (np.uint16(9), np.float16(2)), (-(2**31), 1.0)):
        c = np.zeros((8, 16), np.float32)
        own[1](c, i, f)
        assert (c == np.float32(i) + np.float32(f)).all()


def test_lower() -> None:
    specs = xt.Spec((None, None), xt.bf16), xt.Spec((None, 64), "bf16"), xt.Spec((64, 64), np.float32)
    for target in xt.TARGETS:
        low = product.lower(*specs, target=target)
        assert low.target.name == target
        assert low.name == "product"
        assert "xetile.tile_mma" in low.xetile
        assert "xegpu." in low.xegpu
        assert "product" in low.opencl
        assert next(iter(low.stages)) == "xetile"
        last = next(reversed(low.stages))
        assert not precedes(last, "legalize")  # which of the passes after it change something depends on the target
        assert f'xetile.stage = "{last}"' in low.xegpu
        assert xt.parse(low.xegpu)["product"].lower(*specs, target=target).xegpu == low.xegpu
    assert product.lower(*specs) is product.lower(*specs, target="pvc")
    assert "load_block2d" in product.lower(*specs, target="pvc").opencl.lower() or "2d" in product.lower(*specs).opencl
    assert repr(product) == "<kernel product(A, B, C)>"


def test_specs() -> None:
    assert xt.Spec((4, 6), xt.f32).strides == (6, 1)
    assert xt.Spec((4, None, 2), xt.f32).strides == (None, 2, 1)
    assert xt.Spec((None, None), xt.f32).strides == (None, 1)
    assert xt.Spec([np.int64(4), 6], "f32", (1, None)).strides == (1, None)
    assert repr(xt.Spec((4, 6), xt.f32)) == "Spec((4, 6), f32, (6, 1))"


def test_the_same_object_serves_every_array() -> None:
    a, b, _ = matrices(64, 64, 64)
    wide = np.zeros((64, 129), ml_dtypes.bfloat16)
    wide[:, 1::2] = a
    for left in (a, wide[:, 1::2], np.asfortranarray(a), a[::-1][::-1]):
        c = np.zeros((64, 64), np.float32)
        product.on("numpy:xegpu")[grid(64, 64)](left, b, c)
        check(a, b, c)


def test_a_kernel_keeps_its_documentation() -> None:
    @xt.kernel
    def own(A):
        """What it does."""

    assert own.__doc__ == "What it does."
    assert own.__name__ == "own"
    assert own.__wrapped__ is own.function


class Family:
    """Kernels in a class, found by their qualified names."""

    @staticmethod
    @xt.kernel
    def member(A, C):
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), xt.init_tile(C, (0, 0), (8, 16)))


tuned = xt.autotune({"BM": [8, 16]})(product)


def test_kernels_are_copied_and_pickled_as_functions_are() -> None:
    """Copies are the kernel itself, also of one that is bound to a queue; a pickle has its name."""
    bound = product.on("numpy")
    product[grid(5, 5)](*matrices(5, 5, 5))  # what it looked up, such as queues, is in no copy
    for kernel in (product, Family.member, bound, tuned):
        assert copy.deepcopy({"kernel": kernel})["kernel"] is kernel
    assert copy.copy(product) is product
    for kernel in (product, Family.member):
        assert pickle.loads(pickle.dumps(kernel)) is kernel
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(tuned)  # its name is that of the kernel, which is another object here


def test_a_kernel_may_forget_what_it_compiled(calls: Counter[str]) -> None:
    for traced, forgets in ((1, True), (1, False), (2, True)):
        if forgets:
            product.forget()
        a, b, c = matrices(32, 64, 64, seed=traced)
        product[grid(32, 64)](a, b, c)
        check(a, b, c)
        assert calls["trace"] == traced


def test_what_is_forgotten_is_freed() -> None:
    """Of a bound kernel that the author still references, too; it launches again."""
    bound = product.on("numpy:xegpu", target="pvc")
    for _ in range(2):
        a, b, c = matrices(32, 64, 64)
        bound[grid(32, 64)](a, b, c)
        check(a, b, c)
        alive = [ref(compiled) for compiled in product.cache.compiled.values()]
        assert alive
        product.forget()
        gc.collect()
        assert [each() for each in alive if each() is not None] == []
