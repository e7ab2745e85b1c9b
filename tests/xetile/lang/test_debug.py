"""``xt.device_print`` and ``xt.device_assert`` in every execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

pytestmark = pytest.mark.unoptimised

EXECUTIONS = [("numpy", "pvc"), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("numpy:program", None),
              ("opencl:cpu", "pvc"), ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]
MAPS = [(None, (8, 8)), (xt.wg_map((2, 2), (8, 16)), (16, 32)), (xt.wg_map((2, 2), (8, 4)), (8, 4))]
RANDOM = np.random.default_rng(5)


def bound(kernel: Any, execution: tuple[str, str | None]) -> Any:
    if execution[0] == "opencl:cpu":
        require_device()
    return kernel.on(execution[0], target=execution[1])


@xt.kernel
def says(A, C, n, *, wg_map, shape):
    g = xt.group_id(0)
    x = xt.load_tile(xt.init_tile(A, (g * shape[0], 0), shape, wg_map=wg_map))
    xt.device_print('100% "{}" of {:3d}\\ {:.2f} {:x} {{{}}} é', g, n, 1.5, n + 10, -(2**40))
    with xt.when(g == 1):
        xt.device_print("g{} {} {:5.1f} {}", g, x, x * 0.5, x > 2.0)
    xt.store_tile(x + 1.0, xt.init_tile(C, (g * shape[0], 0), shape, wg_map=wg_map))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("wg_map", "shape"), MAPS, ids=str)
def test_a_line_for_each_instance_and_each_element(execution: Any, wg_map: Any, shape: Any, capfd: Any) -> None:
    a = RANDOM.integers(-9, 10, (2 * shape[0], shape[1])).astype(np.float16)
    c = np.zeros_like(a)
    bound(says, execution)[2](a, c, 5, wg_map=wg_map, shape=shape)
    expected = [f'100% "{g}" of   5\\ 1.50 f {{-1099511627776}} é' for g in (0, 1)]
    for row, values in enumerate(a[shape[0]:]):
        expected += [f"[{row}, {column}] g1 {v:g} {v * 0.5:5.1f} {int(v > 2)}" for column, v in enumerate(values)]
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(expected)
    np.testing.assert_array_equal(c, a + 1)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_negative_integers_show_their_bits_in_hexadecimal(execution: Any, capfd: Any) -> None:
    """32 of them, or 64, as C's printf."""
    @xt.kernel
    def kernel(A, n):
        xt.device_print("n {:x} {:9x} {:4d}", n, n.to(xt.i64), n)
        for dtype in (xt.i8, xt.i16, xt.i32, xt.i64, xt.u8):
            xt.device_print(dtype.name + " {:x}", xt.load_tile(xt.init_tile(A, (0, 0), (1, 2))).to(dtype))

    bound(kernel, execution)[1](np.array([[-5, 7]], np.int32), -5)
    shown = {"i8": "fffffffb", "i16": "fffffffb", "i32": "fffffffb", "i64": "f" * 15 + "b", "u8": "fb"}
    expected = [f"n fffffffb {'f' * 15}b   -5"]
    expected += [f"[0, {i}] {name} {text}" for name, bits in shown.items() for i, text in enumerate((bits, "7"))]
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(expected)


def test_every_stage_reads_back(capfd: Any) -> None:
    a, c = np.ones((16, 8), np.float16), np.zeros((16, 8), np.float16)
    lowered = says.lower(a, c, 5, wg_map=None, shape=(8, 8), target="pvc")
    for text in lowered.stages.values():
        xt.parse(text)["says"].on("numpy:xegpu")[1](a, c, 5)
        assert capfd.readouterr().out == '100% "0" of   5\\ 1.50 f {-1099511627776} é\n'


@xt.kernel
def claims(A, C, n, *, wg_map, shape):
    g = xt.group_id(0)
    x = xt.load_tile(xt.init_tile(A, (g * shape[0], 0), shape, wg_map=wg_map))
    xt.device_assert(n < 7, "n is too large")
    xt.device_assert((x >= 0.0) | (x < -50.0), "x is negative")  # this line
    xt.store_tile(x + 1.0, xt.init_tile(C, (g * shape[0], 0), shape, wg_map=wg_map))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("wg_map", "shape"), MAPS, ids=str)
def test_assertions(execution: Any, wg_map: Any, shape: Any) -> None:
    a = RANDOM.integers(0, 10, (3 * shape[0], shape[1])).astype(np.float16)
    c = np.zeros_like(a)
    run = bound(claims, execution)[3]
    run(a, c, 6, wg_map=wg_map, shape=shape)
    np.testing.assert_array_equal(c, a + 1)
    with pytest.raises(xt.CheckError, match="XT1710"):
        run(a, c, 7, wg_map=wg_map, shape=shape)
    row, column = shape[0] - 2, shape[1] - 3
    a[shape[0] + row, column] = -3
    with pytest.raises(xt.CheckError) as raised:
        run(a, c, 6, wg_map=wg_map, shape=shape)
    said = str(raised.value)
    assert "x is negative: work-group (1, 0, 0), subgroup " in said
    assert f"element [{row}, {column}]" in said
    assert 'xt.device_assert((x >= 0.0) | (x < -50.0), "x is negative")' in said
    assert "help: " in said


def test_stages_read_back() -> None:
    spec = xt.Spec((None, None), xt.f16)
    low = claims.lower(spec, spec, 5, wg_map=MAPS[1][0], shape=MAPS[1][1])
    a = np.full((16, 32), -1, np.float16)
    for stage in ("xetile", "legalize"):
        with pytest.raises(xt.CheckError, match="XT1710"):
            xt.parse(low.stages[stage])["claims"].on("numpy" if stage == "xetile" else "numpy:xegpu")[1](a, a.copy(), 5)


def mistaken(body: Any) -> str:
    @xt.kernel
    def kernel(A, n):
        body(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), n, A)

    with pytest.raises(xt.XeError) as raised:
        kernel.lower(xt.Spec((None, None), xt.f32), 3)
    assert "test_debug.py" in str(raised.value)
    return raised.value.message


@pytest.mark.parametrize(("body", "said"), [
    (lambda x, n, A: xt.device_print("{} {}", n), "has 2 fields, and there is 1 value"),
    (lambda x, n, A: xt.device_print("{:d}", x), "f32 has no format 'd'"),
    (lambda x, n, A: xt.device_print("{:.2f}", n), "index has no format 'f'"),
    (lambda x, n, A: xt.device_print("{name}", n), "the field {name} has a name"),
    (lambda x, n, A: xt.device_print("{", n), "Single '{'"),
    (lambda x, n, A: xt.device_print("{:>5}", n), "there is no format '>5'"),
    (lambda x, n, A: xt.device_print("{!r}", n), "there is no format '!r'"),
    (lambda x, n, A: xt.device_print("{} {}", x, xt.zeros((8, 8), xt.f32)), "different shapes"),
    (lambda x, n, A: xt.device_print(x), "takes a text first, not a vector of 8x16 f32"),
    (lambda x, n, A: xt.device_print("{}", A), "cannot show a"),
    (lambda x, n, A: xt.device_print("{}", xt.tile_pack(x, (8, 8))), "8x8 f32 is not a matrix"),
    (lambda x, n, A: xt.device_assert(x), "the condition of xt.device_assert is a vector of 8x16 f32"),
    (lambda x, n, A: xt.device_assert(True), "the condition of xt.device_assert is True"),
    (lambda x, n, A: xt.device_assert(x > 0.0, n), "takes a text as its message"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_mistakes(body: Any, said: str) -> None:
    assert said in mistaken(body)
