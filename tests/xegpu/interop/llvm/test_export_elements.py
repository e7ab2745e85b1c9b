"""LLVM's form of integers and of what rounds: mlir-opt takes it, and what is read back means what the kernel does."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.xegpu.interop.llvm.test_exporter import mlir_opt

SHAPE = (16, 32)
MAP = ((2, 1), (8, 16))
LEVELS = {None: "xegpu_upstream", MAP: "xegpu_upstream_workgroup"}
FUNCTIONS: dict[str, Any] = {
    "wraps": lambda x: (x + 3) * x - (x ^ 5) | ~x,
    "divides": lambda x: x // 7 + x % 10,
    "shifts": lambda x: (x >> 3) ^ (x << 2),
    "compares": lambda x: xt.where(x < 100, x, x - 100) + xt.maximum(x, 9) - xt.minimum(x, 90),
    "widens": lambda x: x.to(xt.f32),
    "as i64": lambda x: x.to(xt.i64).to(xt.i32),
    "as u16": lambda x: x.to(xt.u16),
    "add": lambda x: xt.tile_reduce("add", x, 1) + 0 * x,
    "max": lambda x: xt.tile_reduce("max", x, 0) + 0 * x,
    "min": lambda x: xt.tile_reduce("min", x, 1) + 0 * x,
    "add all": lambda x: xt.tile_reduce("add", x, (0, 1)) + 0 * x,
    "max all": lambda x: xt.tile_reduce("max", x + 1, (0, 1)) + 0 * x,
}


def _kernel(function: Any, wg_map: Any) -> Any:
    @xt.kernel
    def kernel(X, Y):
        kw = {} if wg_map is None else {"wg_map": xt.wg_map(*wg_map)}
        value = function(xt.load_tile(xt.init_tile(X, (0, 0), SHAPE, **kw)))
        xt.store_tile(value, xt.init_tile(Y, (0, 0), SHAPE, **kw))

    return kernel


def _result_type(function: Any, source: str) -> str:
    found = []

    @xt.kernel
    def probe(X):
        found.append(str(function(xt.load_tile(xt.init_tile(X, (0, 0), SHAPE))).dtype))

    str(probe.lower(xt.Spec((None, None), source)).xetile)
    return found[0]


def _numpy(name: str) -> Any:
    return xt.__dict__[name].numpy


def _signless(array: Any) -> Any:
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array


def _compare(kernel: Any, level: str, x: Any, y: Any) -> str:
    """Text of a kernel that mlir-opt takes and that, read back, gives what the kernel gives; returns the text."""
    specs = [xt.Spec((None, None), array.dtype) for array in (x, y)]
    text: str = getattr(kernel.lower(*specs, target="pvc"), level)
    mlir_opt(text)
    expected, got = y.copy(), y.copy()
    kernel.on("numpy")[1](x, expected)
    (again,) = xt.parse(text).values()
    again.on("numpy")[1](_signless(x), _signless(got))
    assert np.array_equal(got, expected)
    return text


@pytest.mark.parametrize("source", ["u8", "u16", "u32", "i8", "i32"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers(source: str, name: str) -> None:
    dtype = _numpy(source)
    x = np.random.default_rng(0).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, SHAPE, dtype, endpoint=True)
    x[0, :4] = np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 7
    result = _result_type(FUNCTIONS[name], source)
    y = np.zeros(SHAPE, _numpy(result))
    for wg_map, level in LEVELS.items():
        if wg_map is not None and name.split()[0] in ("add", "max", "min"):
            continue  # needs maps of its own: below
        text = _compare(_kernel(FUNCTIONS[name], wg_map), level, x, y)
        assert not re.search(r"\d+xui\d|: ui\d", text)


@pytest.mark.parametrize("source", ["u8", "u32"])
def test_reduction_of_a_work_group(source: str) -> None:
    @xt.kernel
    def smallest(X, Y):
        x = xt.load_tile(xt.init_tile(X, (0, 0), SHAPE, wg_map=xt.wg_map((2, 1), (8, 32))))
        xt.store_tile(xt.tile_reduce("min", x, 1), xt.init_tile(Y, (0, 0), (16, 1), wg_map=xt.wg_map((2, 1), (8, 1))))

    x = np.random.default_rng(1).integers(100, 256, SHAPE).astype(_numpy(source))
    _compare(smallest, "xegpu_upstream_workgroup", x, np.zeros((16, 1), x.dtype))


def test_unsigned_products_stay_unsigned() -> None:
    def kernel(function: Any) -> Any:
        @xt.kernel
        def product(A, B, C):
            a = function(xt.load_tile(xt.init_tile(A, (0, 0), (8, 32))))
            xt.store_tile(xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (0, 0), (32, 16)))),
                          xt.init_tile(C, (0, 0), (8, 16)))

        return product

    specs = [xt.Spec((None, None), dtype) for dtype in ("u8", "u8", "i32")]
    text = mlir_opt(kernel(lambda a: a).lower(*specs).xegpu_upstream)
    assert "xegpu.dpas" in text
    assert "vector<8x32xui8>, vector<32x16xui8> -> vector<8x16xi32>" in text
    with pytest.raises(xt.TargetError, match="XT3659"):
        kernel(lambda a: a + 1).lower(*specs).xegpu_upstream  # noqa: B018


@pytest.mark.parametrize("source", ["f32", "f16"])
@pytest.mark.parametrize("target", ["i8", "u8", "i16", "u16", "i32", "u32"])
@pytest.mark.parametrize("wg_map", [None, MAP], ids=["subgroup", "workgroup"])
def test_conversions_saturate(source: str, target: str, wg_map: Any) -> None:
    """MLIR's conversion is poison beyond the limits: what reaches it lies between them, by a selection."""
    width = int(target[1:])
    limits = [0.0, 1.5, -1.5, 2.0**(width - 1), -(2.0**(width - 1)), 2.0**width, -300.25, np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore"):
        x = np.resize(np.array(limits).astype(_numpy(source)), SHAPE)
    y = np.ones(SHAPE, _numpy(target))
    text = _compare(_kernel(lambda v: v.to(target), wg_map), LEVELS[wg_map], x, y)
    found = re.findall(r"arith\.fpto[su]i (%\S+)", text)
    assert found
    for operand in found:
        assert re.search(rf"{operand} = arith\.select ", text)


@pytest.mark.parametrize("dtype", ["i32", "i8", "u16", "f32", "f16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_iota_of_each_type(dtype: str, axis: int) -> None:
    y = np.zeros(SHAPE, _numpy(dtype))
    _compare(_kernel(lambda x: x * 3 + xt.iota(SHAPE, axis, dtype), None), "xegpu_upstream", y + y.dtype.type(2), y)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_are_rounded_once(dtype: str) -> None:
    """256 + 31 x 1 is 287 in f32 and 256 in bf16: MLIR's reduction rounds after each step."""
    for axis in (0, 1):
        kernel = _kernel(lambda v, axis=axis: xt.tile_reduce("add", v, axis) + v * 0.0, None)
        text = kernel.lower(*[xt.Spec((None, None), dtype)] * 2, target="pvc").xegpu_upstream
        mlir_opt(text)
        assert set(re.findall(r"multi_reduction\s*<add>.* to vector<\d+x(\w+)>", text)) == {"f32"}
