"""Arithmetic, conversions and positions inside kernels, compared with NumPy in the same element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from xegpu.ir import dtypes

SHAPE = (16, 32)
EXECUTIONS = [("numpy", None), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("numpy:xegpu", "cpu"),
              ("opencl:cpu", "pvc"), ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]
Operation = Callable[..., Any]


@xt.kernel
def compute(A, B, C, s, *, of, shape=SHAPE):
    a, b = (xt.load_tile(xt.init_tile(array, (0, 0), shape)) for array in (A, B))
    xt.store_tile(of(xt, a, b, s), xt.init_tile(C, (0, 0), shape))


class NumPyLanguage:
    """The functions of the language that the operations below use, on NumPy arrays."""

    maximum, minimum = np.maximum, np.minimum
    f32 = f16 = bf16 = None

    @staticmethod
    def full(shape: tuple[int, int], value: Any, dtype: str) -> Any:
        return np.full(shape, value, dtypes.of(dtype).numpy)

    @staticmethod
    def group_id(d: int) -> int:
        return 0


def to(x: Any, value: Any, dtype: str) -> Any:
    """A conversion; NumPy's own of a float to an integer that it does not fit is undefined, and avoided below."""
    if x is not NumPyLanguage:
        return value.to(dtype)
    return np.asarray(value).astype(dtypes.of(dtype).numpy)


def like(x: Any, value: Any, number: float) -> Any:
    """A number, which ml_dtypes does not take as one of the array's own type, as NumPy does."""
    return value.dtype.type(number) if x is NumPyLanguage else number


OPERATIONS: dict[str, tuple[Operation, str, str, str]] = {
    "f32 with an argument": (lambda x, a, b, s: a * s + b / s - 2, "f32", "f32", "f32"),
    "f32 reversed": (lambda x, a, b, s: 1 - a + 2.0 / b + s * a - (s - b), "f32", "f32", "f32"),
    "f32 numpy numbers": (lambda x, a, b, s: np.float32(3) * a + b * np.int8(2), "f32", "f32", "f32"),
    "f16 rounds": (lambda x, a, b, s: a * b / 3 + 0.1, "f16", "f16", "f16"),
    "bf16 rounds": (lambda x, a, b, s: a * b / like(x, a, 3) + like(x, a, 0.1), "bf16", "bf16", "bf16"),
    "f64": (lambda x, a, b, s: a * b / 3, "f64", "f64", "f64"),
    "i32 floor division": (lambda x, a, b, s: a // b, "i32", "i32", "i32"),
    "i32 modulo": (lambda x, a, b, s: a % b, "i32", "i32", "i32"),
    "i32 by numbers": (lambda x, a, b, s: a // -3 + a % -4 + a // 4 + a % 5, "i32", "i32", "i32"),
    "i8 floor division": (lambda x, a, b, s: a // b, "i8", "i8", "i8"),
    "i8 modulo": (lambda x, a, b, s: a % b, "i8", "i8", "i8"),
    "i8 wraps": (lambda x, a, b, s: a * b * 20, "i8", "i8", "i8"),
    "i16": (lambda x, a, b, s: a * b - 3, "i16", "i16", "i16"),
    "i64": (lambda x, a, b, s: a * b + (1 << 40), "i64", "i64", "i64"),
    "u8 constants": (lambda x, a, b, s: (a + 200) // b, "u8", "u8", "u8"),
    "u8 modulo": (lambda x, a, b, s: (a * 30) % b, "u8", "u8", "u8"),
    "u8 maximum": (lambda x, a, b, s: x.maximum(a + 250, b), "u8", "u8", "u8"),
    "u32": (lambda x, a, b, s: (a - 20) // b, "u32", "u32", "u32"),
    "extremes": (lambda x, a, b, s: x.maximum(a, b) + x.minimum(a, 0) * 10, "f32", "f32", "f32"),
    "bf16 extremes": (lambda x, a, b, s: x.maximum(a, b) - x.minimum(a, b), "bf16", "bf16", "bf16"),
    "negative f16": (lambda x, a, b, s: -a + -2.5, "f16", "f16", "f16"),
    "negative i8": (lambda x, a, b, s: -a, "i8", "i8", "i8"),
    "bits": (lambda x, a, b, s: ((a & b) | (a ^ 3)) << 2, "i32", "i32", "i32"),
    "bits reversed": (lambda x, a, b, s: (7 & a) | (3 ^ b), "i32", "i32", "i32"),
    "i32 shift": (lambda x, a, b, s: a >> 1, "i32", "i32", "i32"),
    "u32 shift": (lambda x, a, b, s: to(x, a, "u32") >> 4, "i32", "i32", "u32"),
    "f32 to i32": (lambda x, a, b, s: to(x, a * 1.5, "i32"), "f32", "f32", "i32"),
    "f32 to u8": (lambda x, a, b, s: to(x, a * a + 0.75, "u8"), "f32", "f32", "u8"),
    "f32 to bf16": (lambda x, a, b, s: to(x, a / 3, "bf16"), "f32", "f32", "bf16"),
    "f32 to f16": (lambda x, a, b, s: to(x, a / 3, "f16"), "f32", "f32", "f16"),
    "f16 to bf16": (lambda x, a, b, s: to(x, a / 3, "bf16"), "f16", "f16", "bf16"),
    "bf16 to f32": (lambda x, a, b, s: to(x, a / 3, "f32") + to(x, b, "f32"), "bf16", "bf16", "f32"),
    "i8 and u8 to f32": (lambda x, a, b, s: to(x, a, "f32") * to(x, b, "f32"), "i8", "u8", "f32"),
    "i32 to i8": (lambda x, a, b, s: to(x, a * 100, "i8"), "i32", "i32", "i8"),
    "u8 to i32": (lambda x, a, b, s: to(x, a + 200, "i32"), "u8", "i32", "i32"),
    "i8 to u8": (lambda x, a, b, s: to(x, a, "u8"), "i8", "i8", "u8"),
    "full": (lambda x, a, b, s: x.full(SHAPE, s, "f32") + a, "f32", "f32", "f32"),
    "full f16": (lambda x, a, b, s: x.full(SHAPE, s, "f16") + a, "f16", "f16", "f16"),
    "index": (lambda x, a, b, s: a * to(x, x.group_id(0) + 3, "f32") + to(x, x.group_id(0) - 2, "f32"),
              "f32", "f32", "f32"),
}


def array(rng: np.random.Generator, name: str, shape: tuple[int, ...] = SHAPE) -> Any:
    dtype = dtypes.of(name)
    values = rng.integers(1 if dtype.kind == "u" else -7, 8, shape)
    values[values == 0] = 3
    return values.astype(dtype.numpy)


@pytest.mark.parametrize(("name", "where", "target"), [
    (name, *execution) for name in OPERATIONS for execution in EXECUTIONS
    if name != "f64" or execution[1] != "dg2"])  # has no doubles
def test_elementwise(name: str, where: str, target: str | None, request: pytest.FixtureRequest) -> None:
    if where == "opencl:cpu":
        request.getfixturevalue("cpu_queue")
    operation, left, right, out = OPERATIONS[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    a, b = array(rng, left), array(rng, right)
    c = np.zeros(SHAPE, dtypes.of(out).numpy)
    if "f64" in (left, right, out) and target == "dg2":  # its vector engine has no 64-bit floats
        with pytest.raises(xt.TargetError, match="dg2 does not calculate in f64"):
            compute.on(where, target=target)[1](a, b, c, 1.5, of=operation)
        return
    compute.on(where, target=target)[1](a, b, c, 1.5, of=operation)
    with np.errstate(over="ignore"):
        want = operation(NumPyLanguage, a, b, np.float32(1.5) if out == "f32" else 1.5)
    assert want.dtype == c.dtype
    np.testing.assert_array_equal(c.astype(np.float64), want.astype(np.float64))


@xt.kernel
def indices(C, s, *, of):
    value = of(xt.group_id(0), s)
    xt.store_tile(xt.full((8, 16), value.to(xt.i32), xt.i32), xt.init_tile(C, (xt.group_id(0) * 8, 0), (8, 16)))


INDICES: dict[str, Operation] = {
    "floor division": lambda i, s: (i - 3) // 2 + (i - 4) // 3 + (i - s) // s,
    "modulo": lambda i, s: (i - 3) % 4 + 10 * ((i - 4) % 3) + 100 * ((i - 3) % s),
    "negative divisor": lambda i, s: (i - 2) // -3 + (i - 2) % -4,
    "shifts and bits": lambda i, s: ((i << 3) >> 1) + (i & 1) + (i | 4) + (i ^ s),
    "reversed": lambda i, s: 10 - i + 3 * i + 17 // (i + 1) + 17 % (i + 1),
    "neutral": lambda i, s: (i + 0) * 1 // 1 - 0 + 0 * i,
    "negated": lambda i, s: -i + +s,
}


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
@pytest.mark.parametrize("name", INDICES)
def test_index_arithmetic(name: str, where: str, request: pytest.FixtureRequest) -> None:
    if where == "opencl:cpu":
        request.getfixturevalue("cpu_queue")
    c = np.zeros((5 * 8, 16), np.int32)
    indices.on(where)[5](c, 5, of=INDICES[name])
    np.testing.assert_array_equal(c[::8, 0], [INDICES[name](i, 5) for i in range(5)])


@xt.kernel
def extremes(C, s):
    row = xt.minimum(xt.group_id(0), s) + xt.maximum(2, 1) - xt.maximum(xt.group_id(0) - 3, 0)
    xt.store_tile(xt.full((8, 16), row.to(xt.i32), xt.i32), xt.init_tile(C, (xt.group_id(0) * 8, 0), (8, 16)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_extremes_of_numbers(where: str) -> None:
    c = np.zeros((48, 16), np.int32)
    extremes.on(where)[6](c, 3)
    np.testing.assert_array_equal(c[::8, 0], [min(i, 3) + 2 - max(i - 3, 0) for i in range(6)])


@xt.kernel(subgroups=(2, 2))
def positions(C):
    row, column = xt.subgroup_id(0), xt.subgroup_id(1)
    value = xt.subgroup_id() + xt.num_groups(0) * 100 + xt.group_id(1) * 1000 + xt.num_groups(2) * 10000
    xt.store_tile(xt.full((8, 16), value.to(xt.i32), xt.i32),
                  xt.init_tile(C, ((xt.group_id(0) * 2 + row) * 8, (xt.group_id(1) * 2 + column) * 16), (8, 16)))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_positions(where: str, target: str | None, request: pytest.FixtureRequest) -> None:
    if where == "opencl:cpu":
        request.getfixturevalue("cpu_queue")
    c = np.zeros((3 * 16, 2 * 32), np.int32)
    positions.on(where, target=target)[3, 2](c)
    want = [[row % 2 * 2 + column % 2 + 300 + column // 2 * 1000 + 10000 for column in range(4)] for row in range(6)]
    np.testing.assert_array_equal(c[::8, ::16], want)
    np.testing.assert_array_equal(c, np.repeat(np.repeat(c[::8, ::16], 8, 0), 16, 1))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_subgroups_where_launched(where: str) -> None:
    c = np.zeros((16, 128), np.int32)
    positions.on(where, subgroups=(1, 4))[1](c)
    np.testing.assert_array_equal(c[::8, ::16], np.array([[10100, 10101, 10102, 10103, 0, 0, 0, 0], [0] * 8]))


@xt.kernel
def viewed(A, C):
    a = xt.load_tile(xt.init_tile(xt.view(A, xt.bf16), (0, 0), (8, 16)))
    xt.store_tile(a.to(xt.f32), xt.init_tile(C, (0, 0), (8, 16)))


@xt.kernel
def widened(A, C):
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))).to(xt.f32), xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_views(where: str, target: str | None, request: pytest.FixtureRequest) -> None:
    if where == "opencl:cpu":
        request.getfixturevalue("cpu_queue")
    a = np.random.default_rng(5).integers(-9, 9, (8, 16)).astype(ml_dtypes.bfloat16)
    inside, outside = np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32)
    viewed.on(where, target=target)[1](a.view(np.uint16), inside)
    widened.on(where, target=target)[1](xt.view(a.view(np.uint16), xt.bf16), outside)
    for c in (inside, outside):
        np.testing.assert_array_equal(c, a.astype(np.float32))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_a_view_of_an_output(where: str, target: str | None, request: pytest.FixtureRequest) -> None:
    if where == "opencl:cpu":
        request.getfixturevalue("cpu_queue")
    a = np.arange(128, dtype=np.float32).reshape(8, 16)
    c = np.zeros((8, 16), np.uint16)
    narrowed.on(where, target=target)[1](a, xt.view(c, "bf16"))
    np.testing.assert_array_equal(c.view(ml_dtypes.bfloat16), a.astype(ml_dtypes.bfloat16))


@xt.kernel
def narrowed(A, C):
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))).to(C.dtype), xt.init_tile(C, (0, 0), (8, 16)))


@xt.kernel
def strided(A, C):
    value = A.shape[0] * 1000 + A.shape[1] * 100 + A.strides[0] * 10 + A.strides[1]
    xt.store_tile(xt.full((8, 16), value.to(xt.i32), xt.i32), xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
def test_sizes_and_strides(where: str, request: pytest.FixtureRequest) -> None:
    if where == "opencl:cpu":
        request.getfixturevalue("cpu_queue")
    a, c = np.zeros((5, 7), np.float32), np.zeros((8, 16), np.int32)
    for array_, want in ((a, 5771), (a[:, ::2], 5000 + 400 + 70 + 2), (a[::-1], 5000 + 700 - 70 + 1)):
        strided.on(where)[1](array_, c)
        assert (c == want).all()


@xt.kernel
def several_ranks(V, A, C):
    value = V.shape[0] + A.shape[2] * 100
    xt.store_tile(xt.full((8, 16), value.to(xt.i32), xt.i32), xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
def test_sizes_of_arrays_of_other_ranks(where: str, request: pytest.FixtureRequest) -> None:
    if where == "opencl:cpu":
        request.getfixturevalue("cpu_queue")
    c = np.zeros((8, 16), np.int32)
    several_ranks.on(where)[1](np.zeros(9, np.float32), np.zeros((2, 3, 4), np.float16), c)
    assert (c == 409).all()


@xt.kernel
def limited(C, n, *, limit):
    value = xt.maximum(n, limit) - xt.minimum(limit, n)
    xt.store_tile(xt.full((8, 16), value, xt.i64), xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("limit", [-2 ** 31, 2 ** 31, -2 ** 63, 7])
@pytest.mark.parametrize("where", ["numpy", "opencl:cpu"])
def test_limits_of_numbers_of_64_bits(where: str, limit: int, request: pytest.FixtureRequest) -> None:
    if where == "opencl:cpu":
        request.getfixturevalue("cpu_queue")
    c, number = np.zeros((8, 16), np.int64), np.int64(-5_000_000_000)
    limited.on(where)[1](c, number, limit=limit)
    assert (c == abs(int(number) - limit)).all()
