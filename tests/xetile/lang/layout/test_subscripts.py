"""Subscripts of vectors: elements, rows, columns, slices, new dimensions; ``reshape``, ``concatenate``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EAGER, EXECUTIONS, FEW, LANES, NUMPY, Array, Execution, integers
from xegpu.ir import dtypes

pytestmark = pytest.mark.unoptimised
ROWS, COLUMNS = 16, 32


def stored(execution: Execution, function: Any, *arrays: Array, shape: tuple[int, int], number: int = 0) -> Array:
    """Results of a function of vectors, each the whole of an array; a border around it stays."""
    vectors = [((0,), a.shape) if a.ndim == 1 else ((0, 0), a.shape) for a in arrays]

    @xt.kernel
    def store(A, B, C, n):
        loaded = [xt.load_tile(xt.init_tile(array, *where)) for array, where in zip((A, B), vectors, strict=False)]
        value = function(*loaded, n)
        xt.store_tile(value if len(value.shape) == 2 else value[None], xt.init_tile(C, (1, 1), shape))

    border = np.asarray(3).astype(arrays[0].dtype)
    c = np.full((shape[0] + 3, shape[1] + 2), border)
    execution.bind(store)[1](arrays[0], arrays[-1], c, number)
    inner = c[1:-2, 1:-1].copy()
    c[1:-2, 1:-1] = border
    assert (c == border).all(), "something beside the vector changed"
    return inner


SUBSCRIPTS = {
    "a row": lambda v, n: v[3],
    "the last row": lambda v, n: v[-1],
    "a column": lambda v, n: v[:, 2],
    "a column as a column": lambda v, n: v[:, 17][:, None],
    "some rows": lambda v, n: v[5:9],
    "some columns": lambda v, n: v[..., 7:12],
    "a corner": lambda v, n: v[9:, :-3],
    "a row of a corner": lambda v, n: v[2:11, 3:20][4],
    "a part of a row": lambda v, n: v[6, 3:19],
    "a new dimension": lambda v, n: v[1][None, :],
    "every other row": lambda v, n: v[::2],
    "every third column": lambda v, n: v[:, 1::3],
    "the columns from the last on": lambda v, n: v[:, ::-1],
    "a corner, backwards": lambda v, n: v[::-3, 30:3:-5],
    "a part of a row, backwards": lambda v, n: v[6, 20:3:-2],
    "half of it": lambda v, n: v[:, 16:],
    "all of it": lambda v, n: v[:, :],
}
AT_RUN_TIME = {
    "a row": lambda v, n: v[n],
    "a column": lambda v, n: v[:, n],
    "an element of a row": lambda v, n: v[n, 4:20],
    "a column of some rows": lambda v, n: v[3:11, n],
}


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_a_subscript_is_numpys(name: str, execution: Execution) -> None:
    function = SUBSCRIPTS[name]
    a = integers(np.random.default_rng(1), xt.f32, ROWS, COLUMNS, most=99)
    expected = np.atleast_2d(function(a, 0))
    np.testing.assert_array_equal(stored(execution, function, a, shape=expected.shape), expected)


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize(("name", "element"), [*((name, "f32") for name in AT_RUN_TIME), ("a row", "f16"),
                                               ("a column", "i8"), ("a column of some rows", "f64"),
                                               ("a column", "i1")])
def test_a_row_or_column_at_a_run_time_index(name: str, element: str, execution: Execution) -> None:
    if element == "f64" and execution.target == "dg2":
        element = "i64"  # dg2 has no f64
    function, rng = AT_RUN_TIME[name], np.random.default_rng(2)
    a = rng.integers(0, 2, (ROWS, COLUMNS)).astype(bool) if element == "i1" else \
        integers(rng, dtypes.of(element), ROWS, COLUMNS, most=99)
    if dtypes.of(element).is_float:
        a[6] = -0.0
        a[7, :9] = np.nan
    for number in (0, 6, 7):
        expected = np.atleast_2d(function(a, number))
        found = stored(execution, function, a, shape=expected.shape, number=number)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found.astype(np.float32)), np.signbit(expected.astype(np.float32)))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_an_element_is_a_run_time_number(execution: Execution) -> None:
    @xt.kernel
    def elements(A, B, C, n):
        a, b = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32))), xt.load_tile(xt.init_tile(B, (0,), (48,)))
        for i, number in enumerate((a[3, 5], a[-1, n], a[n, n], b[17], b[n], b[1:][n])):
            xt.store_tile(xt.full((1, 1), number, xt.f32), xt.init_tile(C, (i, 0), (1, 1)))
        first = xt.load_tile(xt.init_tile(A, (b[2].to(xt.index), 0), (1, 32)))
        xt.store_tile(first, xt.init_tile(C, (6, 0), (1, 32)))

    rng = np.random.default_rng(3)
    a, b, c = integers(rng, xt.f32, 16, 32, most=99), integers(rng, xt.f32, 48, most=99), np.zeros((7, 32), np.float32)
    b[2] = 11
    execution.bind(elements)[1](a, b, c, 9)
    assert c[:6, 0].tolist() == [a[3, 5], a[-1, 9], a[9, 9], b[17], b[9], b[10]]
    np.testing.assert_array_equal(c[6], a[11])


SHAPES: dict[str, tuple[Any, Any, tuple[int, ...], tuple[int, ...]]] = {
    "rows of half the length": (lambda v, n: xt.reshape(v, (32, 16)), lambda v: v.reshape(32, 16), (16, 32), ()),
    "one dimension": (lambda v, n: xt.reshape(v, -1), lambda v: v.reshape(1, -1), (8, 16), ()),
    "odd rows": (lambda v, n: xt.reshape(v, (12, -1)), lambda v: v.reshape(12, 4), (6, 8), ()),
    "a column": (lambda v, n: xt.reshape(v, (48, 1)), lambda v: v.reshape(48, 1), (48,), ()),
    "a matrix of a line": (lambda v, n: xt.reshape(v, (4, 12)), lambda v: v.reshape(4, 12), (48,), ()),
    "below each other": (lambda v, w, n: xt.concatenate([v, w]), lambda v, w: np.concatenate([v, w]), (5, 16), (8, 16)),
    "side by side": (lambda v, w, n: xt.concatenate((v, w), axis=1), lambda v, w: np.concatenate([v, w], 1),
                     (8, 16), (8, 9)),
    "lines": (lambda v, w, n: xt.concatenate([v, w, v], -1), lambda v, w: np.concatenate([v, w, v])[None], (16,), (7,)),
    "alternating columns": (lambda v, w, n: xt.interleave([v, w]), lambda v, w: np.stack([v, w], 2).reshape(8, 32),
                            (8, 16), (8, 16)),
    "three alternate": (lambda v, w, n: xt.interleave([v, w, v + w], 1),
                        lambda v, w: np.stack([v, w, v + w], 2).reshape(3, 21), (3, 7), (3, 7)),
    "alternating rows": (lambda v, w, n: xt.interleave((v, w), axis=0),
                         lambda v, w: np.stack([v, w], 1).reshape(10, 16), (5, 16), (5, 16)),
    "alternating lines": (lambda v, w, n: xt.interleave([v, w], -1), lambda v, w: np.stack([v, w], 1).reshape(1, 40),
                          (20,), (20,)),
    "shifted right": (lambda v, n: xt.shift(v, 3, fill=1), lambda v: moved(v, 3, 1, 1), (8, 16), ()),
    "shifted up": (lambda v, n: xt.shift(v, -1, 0), lambda v: moved(v, -1, 0, 0), (8, 32), ()),
    "a shifted line": (lambda v, n: xt.shift(v, -5), lambda v: moved(v[None], -5, 1, 0), (48,), ()),
    "shifted out": (lambda v, n: xt.shift(v, 40, fill=2), lambda v: np.full_like(v, 2), (4, 16), ()),
}


def moved(v: Array, distance: int, axis: int, fill: int) -> Array:
    """Elements moved along an axis, one by one."""
    result = np.full_like(v, fill)
    for at in np.ndindex(v.shape):
        source = [*at]
        source[axis] -= distance
        if 0 <= source[axis] < v.shape[axis]:
            result[at] = v[tuple(source)]
    return result


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
@pytest.mark.parametrize(("name", "element"), [*((name, "f32") for name in SHAPES), ("odd rows", "bf16"),
                                               ("one dimension", "u8"), ("lines", "e4m3"), ("shifted up", "e4m3"),
                                               ("side by side", "bf16"), ("shifted right", "u8"),
                                               ("alternating columns", "i8"), ("alternating columns", "e4m3"),
                                               ("alternating lines", "bf16"), ("alternating rows", "e5m2")])
def test_a_shape_is_numpys(name: str, element: str, execution: Execution) -> None:
    function, numpys, first, second = SHAPES[name]
    rng = np.random.default_rng(4)
    arrays = [integers(rng, dtypes.of(element), *shape, most=9) for shape in (first, second) if shape]
    expected = numpys(*arrays)
    np.testing.assert_array_equal(stored(execution, function, *arrays, shape=expected.shape).astype(np.float32),
                                  expected.astype(np.float32))


@pytest.mark.parametrize("execution", [NUMPY, LANES[0]], ids=str)
def test_a_slice_may_be_an_operand_of_a_product(execution: Execution) -> None:
    @xt.kernel
    def product(A, B, C):
        a, b = xt.load_tile(xt.init_tile(A, (0, 0), (16, 64))), xt.load_tile(xt.init_tile(B, (0, 0), (64, 16)))
        total = xt.tile_mma(a[3:11, 32:], b[8:40])
        xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))

    rng = np.random.default_rng(5)
    a, b, c = integers(rng, xt.f16, 16, 64), integers(rng, xt.f16, 64, 16), np.zeros((8, 16), np.float32)
    execution.bind(product)[1](a, b, c)
    np.testing.assert_array_equal(c, a[3:11, 32:].astype(np.float32) @ b[8:40].astype(np.float32))


def test_whole_registers_are_not_shuffled() -> None:
    @xt.kernel
    def half(A, C):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (32, 64)))
        xt.store_tile(v[8:24, 32:48], xt.init_tile(C, (0, 0), (16, 16)))

    spec = xt.Spec((None, 64), "f32")
    assert "shuffle" not in half.lower(spec, spec, target="pvc").opencl


MAP = xt.wg_map((2, 2), (8, 16))


@pytest.mark.parametrize(("function", "code"), [
    (lambda v: v[16], "XT1248"), (lambda v: v[:, -33], "XT1248"), (lambda v: v[4:4], "XT1248"),
    (lambda v: v[0, 0, 0], "XT1247"), (lambda v: v[None, :, :], "XT1247"), (lambda v: v[::0], "XT1246"),
    (lambda v: v["a"], "XT1246"), (lambda v: v[xt.group_id(0):], "XT1246"), (lambda v: v[v], "XT1246"),
    (lambda v: v.to(xt.f16)[0, 0], "XT1245"), (lambda v: xt.reshape(v, (16, 31)), "XT1249"),
    (lambda v: xt.reshape(v, (2, 2, -1)), "XT1249"), (lambda v: xt.concatenate([v, v[:3, :3]], 1), "XT1208"),
    (lambda v: xt.concatenate([v, v.to(xt.f16)]), "XT1207"), (lambda v: xt.concatenate(v), "XT1225"),
    (lambda v: xt.interleave([v, v[:3]]), "XT1208"), (lambda v: xt.interleave([v, v.to(xt.f16)]), "XT1207"),
    (lambda v: xt.interleave([]), "XT1225"), (lambda v: xt.interleave(v), "XT1225"),
    (lambda v: xt.interleave([v, v], 2), "XT1224"), (lambda v: xt.interleave([v, 1]), "XT1225"),
    (lambda v: xt.shift(v, xt.group_id(0)), "XT1246"), (lambda v: xt.shift(v, 1, 2), "XT1224"),
    (lambda v: xt.shift(v, 1, fill="x"), "XT1204")])
def test_what_is_refused(function: Any, code: str) -> None:
    @xt.kernel
    def refused(A):
        function(xt.load_tile(xt.init_tile(A, (0, 0), (16, 32))))

    with pytest.raises(xt.XeError) as raised:
        refused.lower(xt.Spec((None, None), "f32"))
    assert raised.value.code == code


@xt.kernel
def every_eighth(A, C, *, way=None):
    k = xt.group_id(0)
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32)))
    columns = xt.reshape(xt.reshape(v, (-1, 8))[:, k], (16, 4)) if way else v[:, k::8]
    xt.store_tile(columns, xt.init_tile(C, (k * 16, 0), (16, 4)))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_columns_from_a_run_time_one_on_are_written_as_the_message_says(execution: Execution) -> None:
    a, c = integers(np.random.default_rng(6), xt.i16, 16, 32), np.zeros((8 * 16, 4), np.int16)
    with pytest.raises(xt.ShapeError) as raised:
        every_eighth.on("numpy")[8](a, c)
    assert "this is xt.reshape(xt.reshape(v, (-1, 8))[:, k], (16, 4))" in str(raised.value)
    execution.bind(every_eighth)[8](a, c, way="the message's")
    np.testing.assert_array_equal(c, np.concatenate([a[:, k::8] for k in range(8)]))


@pytest.mark.parametrize("function", [lambda v: v[3], lambda v: xt.reshape(v, -1), lambda v: xt.shift(v, 1),
                                      lambda v: xt.concatenate([v, v]), lambda v: xt.interleave([v, v])])
def test_a_work_groups_vector_is_not_cut(function: Any) -> None:
    @xt.kernel
    def cut(A):
        function(xt.load_tile(xt.init_tile(A, (0, 0), (16, 32), wg_map=MAP)))

    with pytest.raises(xt.ShapeError) as raised:
        cut.lower(xt.Spec((None, None), "f32"))
    assert raised.value.code == "XT1418"
