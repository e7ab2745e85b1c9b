"""Many small products in one launch, several for each subgroup."""

from __future__ import annotations

import importlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp, require_ocloc
from tests.device import DEVICE_FILTER
from tests.kernels import DEVICE, LANES, NUMPY, Array, Execution
from xetile.library.array_operands import Operand
from xetile.library.stacked_products import launch_stacked, stacked_product, stacks

library = importlib.import_module("xetile.library.matmul")  # the package names its function so
RANDOM = np.random.default_rng(29)


def whole(*shape: int, dtype: Any = np.float16) -> Array:
    return RANDOM.integers(-4, 5, shape).astype(dtype)


@pytest.mark.launches
@pytest.mark.parametrize("size", [(32, 32, 32), (48, 40, 48), (8, 96, 64), (16, 16, 16), (24, 48, 16),
                                  (17, 33, 21)], ids=str)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("execution", [NUMPY, LANES[0], *DEVICE[:1]], ids=str)
def test_each_product_is_its_own(size: tuple[int, int, int], parts: int, execution: Execution) -> None:
    (m, n, k), count, each = size, 7, 3
    a, b, c = whole(count, m, k), whole(count, k, n), whole(count, m, n, dtype=np.float32)
    a[3], b[5] = np.inf, np.nan  # what one product reads of another shows
    with np.errstate(invalid="ignore"):
        expected = np.maximum(np.matmul(a.astype(np.float32), b.astype(np.float32)) * 0.5 - c, 0)
    got = c.copy()
    stacked = (x if x.shape[-1] < 32 or m % 8 else x.reshape(-1, x.shape[-1]) for x in (a, b, got))
    rows, columns = -(-m // 8) * 8, -(-n // 16) * 16
    down, across = (parts if size % (unit * parts) == 0 else 1 for size, unit in ((rows, 8), (columns, 16)))
    execution.bind(stacked_product)[-(-count // each), down, across](
        *stacked, 0.5, -1.0, count, each, M=rows, N=columns, K=-(-k // 16) * 16, BM=rows // down, BN=columns // across,
        scaled=True, added=True, activation=lambda x: xt.maximum(x, 0))
    sound = [i for i in range(count) if i not in (3, 5)]
    np.testing.assert_array_equal(got[sound], expected[sound])
    assert not np.isfinite(got[3]).all()


@pytest.mark.launches
@pytest.mark.parametrize(("dtype", "size"), [(np.float16, (32, 40, 48)), (ml_dtypes.bfloat16, (16, 16, 16))], ids=str)
def test_matmul_takes_it(dtype: Any, size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    dpnp, (m, n, k) = require_dpnp(), size
    a, b = whole(20, 9, m, k, dtype=dtype), whole(20, 9, k, n, dtype=dtype)
    exact = np.matmul(a.astype(np.float32), b.astype(np.float32))
    taken = []
    monkeypatch.setattr(library, "launch_stacked", lambda *args, real=library.launch_stacked, **options: (
        taken.append(args), real(*args, **options)))
    there = [dpnp.asarray(x.view(np.uint16), device=DEVICE_FILTER) for x in (a, b)]
    views = [xt.view(x, xt.f16 if dtype is np.float16 else xt.bf16) for x in there]
    for got in (xt.matmul(a, b, out_dtype=np.float32, target="bmg"),
                dpnp.asnumpy(xt.matmul(*views, out_dtype=np.float32, target="bmg"))):
        np.testing.assert_array_equal(got, exact)
    assert len(taken) == 2


def test_others_are_left_to_the_plain_kernel() -> None:
    def taken(shape_a: tuple[int, ...], shape_b: tuple[int, ...], target: str = "bmg", *, dtype: Any = np.float16,
              order: str = "C") -> bool:
        a, b = Operand.of("a", np.zeros(shape_a, dtype, order=order)), Operand.of("b", np.zeros(shape_b, dtype))
        c = Operand.of("c", np.zeros((*shape_a[:-1], shape_b[-1]), np.float32))
        return stacks(a, b, c, xt.TARGETS[target]) is not None

    assert taken((160, 32, 32), (160, 32, 32))
    assert not taken((160, 32, 32), (160, 32, 32), "pvc")  # fewer than engines
    assert not taken((160, 32, 32), (160, 32, 32), "dg2")  # no block messages
    assert not taken((160, 32, 32), (160, 32, 32), dtype=np.float32)
    assert not taken((160, 32, 32), (160, 32, 32), order="F")
    assert taken((160, 30, 32), (160, 32, 32))  # its tile has rows of the next product, and is compiled for 30
    assert taken((160, 17, 33), (160, 33, 21))
    assert taken((160, 16, 16), (160, 16, 16))  # short rows that a tile has whole
    assert taken((160, 33, 33), (160, 33, 33), dtype=np.int8)
    assert not taken((160, 49, 40), (160, 40, 48))
    assert not taken((160, 64, 64), (160, 64, 64))  # more sums than registers


@pytest.mark.parametrize(("count", "size", "each"), [(5000, 33, 4), (2000, 33, 2), (2000, 16, 1), (50000, 17, 16)])
def test_a_subgroup_has_whole_steps_where_all_engines_are_busy(count: int, size: int, each: int) -> None:
    a, b = (Operand.of(name, np.broadcast_to(np.float16(1), (count, size, size))) for name in "ab")
    c = Operand.of("c", np.broadcast_to(np.float32(1), (count, size, size)))
    launched: dict[int, tuple[Any, ...]] = {}

    class Recorder:
        def __getitem__(self, groups: int) -> Any:
            return lambda *args, **_: launched.update({groups: args})

    launch_stacked([a, b, c], size, size, (1.0, 0.0), xt.TARGETS["pvc"], Recorder())
    (groups, args), = launched.items()
    assert (groups, args[5:7]) == (-(-count // each), (count, each))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("size", [32, 48])
def test_a_quarter_of_the_loop_is_dpas(size: int, target: str) -> None:
    require_ocloc()
    inputs, result = xt.Spec((10000 * size, size), xt.bf16), xt.Spec((10000 * size, size), xt.f32)
    report = stacked_product.lower(inputs, inputs, result, 1.0, 0.0, 10000, 4, M=size, N=size, K=size,
                                   BM=size, BN=size, target=target).report(remedies=False)
    assert report.density >= 0.25
    assert report.spill_size + report.private_size == 0


@pytest.mark.parametrize(("target", "size"), [("dg2", 33), ("arl", 48)])
def test_a_part_of_a_product_fits_registers_of_32_bytes(target: str, size: int) -> None:
    require_ocloc()
    rows, columns, inner = (-(-size // multiple) * multiple for multiple in (8, 16, 16))
    shape = (10000 * size, size) if size == rows else (10000, size, size)
    inputs, result = xt.Spec(shape, xt.bf16), xt.Spec(shape, xt.f32)

    def lowered(BM: int, BN: int) -> Any:
        return stacked_product.lower(inputs, inputs, result, 1.0, 0.0, 10000, 4, M=rows, N=columns, K=inner, BM=BM,
                                     BN=BN, target=target)

    remedy = lowered(rows, columns).report().remedy
    assert remedy is not None
    assert remedy.constants is not None
    assert set(remedy.constants) <= {"BM", "BN"}
    assert lowered(**{"BM": rows, "BN": columns, **remedy.constants}).in_memory() == 0
