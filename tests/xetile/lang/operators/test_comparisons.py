"""Comparisons of vectors and run-time numbers, and what is selected by them, in every execution."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, NUMPY, Array, Execution, chosen, viewed, wide
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.target.targets import find_target

pytestmark = pytest.mark.unoptimised

EXECUTIONS = [NUMPY, Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "dg2"), *DEVICE]
TYPES = [dtype for dtype in dtypes.ALL if dtype.name not in ("index", "i4", "u4") and dtype.kind != "s"]
ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
          "!=": operator.ne}


def on(execution: Execution, dtype: DType) -> bool:
    """Whether an execution supports arithmetic of an element type."""
    return execution.where == "numpy" or dtype not in find_target(execution.target).unsupported_types


CASES = [pytest.param(dtype, execution, id=f"{dtype}-{execution}")
         for dtype in TYPES for execution in EXECUTIONS if on(execution, dtype)]


def data(dtype: DType, shape: tuple[int, int], seed: int) -> Array:
    """Few different numbers, so that many are equal; the limits of integers; NaN, infinities and both zeros."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return rng.choice([-2.5, -1.0, -0.0, 0.0, 1.0, 3.0, np.inf, -np.inf, np.nan], shape).astype(dtype.numpy)
    if dtype is dtypes.i1:
        return rng.integers(0, 2, shape).astype(bool)
    limits = np.iinfo(dtype.numpy)
    return rng.choice(np.array([limits.min, limits.max, 0, 1, 3, 5], dtype.numpy), shape)


@xt.kernel
def compare(A, B, C, *, number):
    a = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))
    b = xt.load_tile(xt.init_tile(B, (0, 0), (8, 32)))
    for i, compared in enumerate(ORDERS.values()):
        for j, result in enumerate((compared(a, b), compared(a, number), compared(number, b))):
            xt.store_tile(result, xt.init_tile(C, (8 * i, 32 * j), (8, 32)))


@pytest.mark.parametrize(("dtype", "execution"), CASES)
def test_every_comparison_of_every_type(dtype: DType, execution: Execution) -> None:
    a, b = data(dtype, (8, 32), 1), data(dtype, (8, 32), 2)
    number = 1 if dtype is dtypes.i1 else 3
    c = np.zeros((8 * len(ORDERS), 96), bool)
    execution.bind(compare)[1](viewed(a, dtype), viewed(b, dtype), c, number=number)
    a, b, third = (side.astype(dtype.compute) for side in (a, b, np.asarray(number)))
    for i, (name, compared) in enumerate(ORDERS.items()):
        expected = np.hstack([compared(a, b), compared(a, third), compared(third, b)])
        np.testing.assert_array_equal(c[8 * i:8 * i + 8], expected, err_msg=name)
    raw = c.view(np.uint8)
    assert set(np.unique(raw)) <= {0, 1}  # NumPy wants nothing else in an array of bool


@xt.kernel
def choose(A, B, M, C):
    a, b, m = (xt.load_tile(xt.init_tile(array, (0, 0), (8, 32))) for array in (A, B, M))
    kept = m
    for k in xt.range(2):
        kept = xt.where(k == 0, ~kept, kept)
    xt.store_tile(xt.where(m, a, b), xt.init_tile(C, (0, 0), (8, 32)))
    xt.store_tile(xt.where(kept, a, 1), xt.init_tile(C, (8, 0), (8, 32)))
    xt.store_tile(xt.where(a == b, 0, b), xt.init_tile(C, (16, 0), (8, 32)))
    xt.store_tile(xt.where(M.shape[0] > 5, a, b), xt.init_tile(C, (24, 0), (8, 32)))
    xt.store_tile(xt.where(M.shape[0] < 5, a, 1), xt.init_tile(C, (32, 0), (8, 32)))


@pytest.mark.parametrize(("dtype", "execution"), CASES)
def test_where_on_every_type(dtype: DType, execution: Execution) -> None:
    """The mask's array is smaller than the tile: outside it is false."""
    a, b = data(dtype, (8, 32), 3), data(dtype, (8, 32), 4)
    m = np.random.default_rng(5).integers(0, 2, (7, 29)).astype(bool)
    c = np.zeros((40, 32), dtype.numpy)
    execution.bind(choose)[1](viewed(a, dtype), viewed(b, dtype), m, viewed(c, dtype))
    whole = np.pad(m, ((0, 1), (0, 3)))
    one = np.ones_like(a)
    expected = np.vstack([np.where(whole, a, b), np.where(whole, one, a), np.where(a == b, 0 * one, b), a, one])
    expected[8:16] = np.where(~whole, a, one)
    np.testing.assert_array_equal(wide(c), wide(expected.astype(dtype.numpy)))


@xt.kernel
def by_group(C, x, limit):
    """Run-time numbers compared: positions, sizes, integers and floats, some different in every group."""
    i, j = xt.group_id(0), xt.group_id(1)
    chosen = xt.where((i < j) | (i == limit), x, 2.0 * x)
    chosen = xt.where((i > 0) & ~(j != 1) ^ (x >= 0.5), chosen, -chosen)
    column = xt.where(j <= i, 16, 0)
    xt.store_tile(xt.full((8, 16), chosen, xt.f32), xt.init_tile(C, (8 * i, 32 * j + column), (8, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_run_time_numbers(execution: Execution) -> None:
    c = np.zeros((8 * 4, 32 * 3), np.float32)
    expected = c.copy()
    for i in range(4):
        for j in range(3):
            value = 0.75 if i < j or i == 3 else 1.5
            value = value if (i > 0 and j == 1) ^ True else -value
            column = 32 * j + (16 if j <= i else 0)
            expected[8 * i:8 * i + 8, column:column + 16] = value
    execution.bind(by_group)[4, 3](c, 0.75, 3)
    np.testing.assert_array_equal(c, expected)


@xt.kernel
def counted(P, M, W, n):
    """Positions as other languages write them: of 32 and of 64 bits with an index, and as indices with an i32."""
    i, first = xt.group_id(0), xt.load_scalar(P, xt.group_id(0))
    offsets = i * 32 - 9 + xt.iota(32)
    tiles = [xt.init_tile(array, (i, 0), (1, 32)) for array in (M, W)]
    xt.store_tile(xt.where((offsets >= 0) & (offsets < n), offsets, n)[None, :], tiles[0])
    wide = (1 << 33) * xt.iota((1, 32), 1, xt.i64) - i
    xt.store_tile(xt.where(xt.iota((1, 32), 1, xt.index) + first == i, wide, -1), tiles[1])


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_an_index_beside_integers(execution: Execution) -> None:
    p, m, w = np.array([0, -5, 2, -40], np.int32), np.zeros((4, 32), np.int32), np.zeros((4, 32), np.int64)
    execution.bind(counted)[4](p, m, w, 70)
    i, j = np.arange(4)[:, None], np.arange(32)
    offsets = i * 32 - 9 + j
    np.testing.assert_array_equal(m, np.where((offsets >= 0) & (offsets < 70), offsets, 70))
    np.testing.assert_array_equal(w, np.where(j + p[:, None] == i, (j << 33) - i, -1))


@xt.kernel
def shifted(A, distances, C, s, wide):
    """Shifts by distances of other types: a position, a row of i32, an argument, a number of 64 bits."""
    a = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))
    by = xt.load_tile(xt.init_tile(distances, (0, 0), (1, 32)))
    value = (a << by) ^ (a >> xt.group_id(0)) ^ (a >> s) ^ (a << wide) ^ (a >> (xt.iota((8, 1)) & 3))
    number = (wide << s) >> xt.load_scalar(distances, (0, 1))  # a shift of a number by one of another type
    value = xt.where(xt.iota((8, 32)) < 7, value, number.to(A.dtype))
    xt.store_tile(value, xt.init_tile(C, (xt.group_id(0), 0, 0), (8, 32)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [xt.i8, xt.u16, xt.i32, xt.u32, xt.u64], ids=str)
def test_distances_of_other_types(dtype: DType, execution: Execution) -> None:
    rng, limits = np.random.default_rng(6), np.iinfo(dtype.numpy)
    a = rng.integers(limits.min, limits.max, (8, 32), dtype.numpy, endpoint=True)
    by = rng.integers(0, dtype.bits, (1, 32)).astype(np.int32)
    by[0, 1] = 1
    c = np.zeros((3, 8, 32), dtype.numpy)
    execution.bind(shifted)[3](a, by, c, 5, np.uint64(3))
    for i in range(3):
        five, three, rows = (dtype.numpy.type(n) for n in (5, 3, i))
        expected = (a << by.astype(dtype.numpy)) ^ (a >> rows) ^ (a >> five) ^ (a << three)
        expected ^= a >> (np.arange(8)[:, None] & 3).astype(dtype.numpy)
        expected[7] = 3 << 5 >> 1
        np.testing.assert_array_equal(c[i], expected)


@xt.kernel
def segments(X, ends, Y):
    """Numbers of a table as they are: as an offset, a bound of a loop, and in sums and remainders with indices."""
    i = xt.group_id(0)
    first, last = xt.load_scalar(ends, i), xt.load_scalar(ends, i + 1)
    total = xt.zeros((1, 32), xt.i32)
    for k in xt.range(first, last):
        total = total + xt.load_tile(xt.init_tile(X, (k, 0), (1, 32)))
    total = total + xt.load_tile(xt.init_tile(X, (first, i), (1, 32)))
    number = (first - 9 - i) % (i + 4) + (first - 9) % xt.scalar(4) * 10 + xt.where(first < i * 3, 100, 0)
    xt.store_tile(total + number, xt.init_tile(Y, (last - first + i * 8, 0), (1, 32)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_an_i32_as_an_index(execution: Execution) -> None:
    x = np.random.default_rng(4).integers(-99, 99, (9, 40)).astype(np.int32)
    ends, y, expected = np.array([0, 2, 2, 7, 9], np.int32), np.zeros((32, 32), np.int32), np.zeros((32, 32), np.int32)
    execution.bind(segments)[4](x, ends, y)
    for i, (first, last) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        number = (first - 9 - i) % (i + 4) + (first - 9) % 4 * 10 + (100 if first < i * 3 else 0)
        expected[last - first + i * 8] = x[first:last, :32].sum(0) + x[first, i:i + 32] + number
    np.testing.assert_array_equal(y, expected)


INTEGERS = {"eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater,
            "sge": np.greater_equal, "ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal}
FLOATS = {"false": lambda a, b: a != a, "oeq": np.equal, "ogt": np.greater, "oge": np.greater_equal, "olt": np.less,
          "ole": np.less_equal, "one": np.not_equal, "ord": lambda a, b: a == a, "ueq": np.equal, "ugt": np.greater,
          "uge": np.greater_equal, "ult": np.less, "ule": np.less_equal, "une": np.not_equal,
          "uno": lambda a, b: a != a, "true": lambda a, b: a == a}


def as_text(predicates: dict[str, Any], operation: str, element: str) -> str:
    """A kernel that compares A and B by each predicate, and stores the results one below the other."""
    def tile(i: int, memref: str, type_: str) -> str:
        return f'%t{i} = xetile.init_tile {memref}, [%row{i}, %zero], [%h, %w], [%w, %one] : ' \
               f'memref<?x?x{type_}, strided<[?, ?]>> -> !xetile.tile<8x16x{type_}>'

    lines = ["%zero = arith.constant 0 : index", "%one = arith.constant 1 : index", "%w = arith.constant 16 : index",
             f"%h = arith.constant {8 * len(predicates)} : index", "%row1000 = arith.constant 0 : index",
             "%row1001 = arith.constant 0 : index", tile(1000, "%A", element), tile(1001, "%B", element)]
    lines += [f"%{name} = xetile.load_tile %t{i} : !xetile.tile<8x16x{element}> -> vector<8x16x{element}>"
              for i, name in ((1000, "a"), (1001, "b"))]
    for i, predicate in enumerate(predicates):
        lines += [f"%row{i} = arith.constant {8 * i} : index", tile(i, "%C", "i1"),
                  f"%c{i} = {operation} {predicate}, %a, %b : vector<8x16x{element}>",
                  f"xetile.store_tile %c{i}, %t{i} : vector<8x16xi1>, !xetile.tile<8x16xi1>"]
    arrays = ", ".join(f"%{name}: memref<?x?x{type_}, strided<[?, ?]>>"
                       for name, type_ in (("A", element), ("B", element), ("C", "i1")))
    return f"func.func @compare({arrays}) {{\n" + "\n".join(lines) + "\nfunc.return\n}"


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("element", ["i32", "i8", "i1"])
def test_every_predicate_of_integers_from_text(element: str, execution: Execution) -> None:
    """A signed i1 is 0 or -1."""
    dtype = dtypes.BY_NAME[element]
    a, b = data(dtype, (8, 16), 6), data(dtype, (8, 16), 7)
    c = np.zeros((8 * len(INTEGERS), 16), bool)
    execution.bind(xt.parse(as_text(INTEGERS, "arith.cmpi", element))["compare"])[1](a, b, c)
    for i, (name, compared) in enumerate(INTEGERS.items()):
        signed = [-side.astype(np.int8) if element == "i1" else side for side in (a, b)]
        sides = [side.view(f"u{side.itemsize}") for side in (a, b)] if name.startswith("u") else signed
        np.testing.assert_array_equal(c[8 * i:8 * i + 8], compared(*sides), err_msg=name)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_every_predicate_of_floats_from_text(element: str, execution: Execution) -> None:
    """NaN on one side makes ordered predicates false and unordered ones true."""
    dtype = dtypes.BY_NAME[element]
    a, b = data(dtype, (8, 16), 8), data(dtype, (8, 16), 9)
    c = np.zeros((8 * len(FLOATS), 16), bool)
    execution.bind(xt.parse(as_text(FLOATS, "arith.cmpf", element))["compare"])[1](a, b, c)
    wide_a, wide_b = wide(a), wide(b)
    unordered = np.isnan(wide_a) | np.isnan(wide_b)
    assert unordered.any()
    for i, (name, compared) in enumerate(FLOATS.items()):
        expected = np.where(unordered, name[0] == "u" or name == "true", compared(wide_a, wide_b))
        np.testing.assert_array_equal(c[8 * i:8 * i + 8], expected, err_msg=name)


@pytest.mark.parametrize(("line", "message"), [
    ("%c = arith.cmpi slt, %x, %x : f32", "XT3241"),
    ("%c = arith.cmpf olt, %i, %i : i32", "XT3241"),
    ("%c = arith.cmpi less, %i, %i : i32", "XT3242"),
    ('%c = "arith.cmpi"(%i, %i) <{predicate = 12 : i64}> : (i32, i32) -> i1', "XT3242"),
    ('%c = "arith.cmpi"(%i, %i) <{predicate = 0 : i64}> : (i32, i32) -> i32', "XT3244"),
    ('%c = "arith.cmpf"(%x, %y) <{predicate = 1 : i64}> : (f32, f64) -> i1', "XT3240"),
    ("%c = arith.select %i, %x, %x : i32, f32", "XT3247"),
    ("%c = arith.select %x, %x : f32", "XT3248"),
    ('%b = arith.cmpi eq, %i, %i : i32\n%c = "arith.select"(%b, %x, %y) : (i1, f32, f64) -> f32',
     "XT3246"),
])
def test_mistakes_in_text(line: str, message: str) -> None:
    with pytest.raises(xt.TextError, match=message):
        xt.parse(f"func.func @wrong(%i: i32, %x: f32, %y: f64) {{\n{line}\nfunc.return\n}}")


@pytest.mark.parametrize("dtype", [xt.f32, xt.f16, xt.i32], ids=str)
@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_a_selection_is_a_comparison_and_a_sel(target: str, dtype: DType) -> None:
    """Truth values between a comparison and its use are a flag register to the hardware."""
    @xt.kernel
    def larger(A, B, C):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
        b = xt.load_tile(xt.init_tile(B, (0, 0), (8, 16)))
        xt.store_tile(xt.where(a * a < b, a, b), xt.init_tile(C, (0, 0), (8, 16)))

    require_ocloc()
    matrix = xt.Spec((None, None), dtype)
    lowered = larger.lower(matrix, matrix, matrix, target=target)
    words = [line.split(")", 1)[-1].split()[0] if line.startswith("(") else line.split()[0]
             for line in str(lowered.isa()).splitlines() if line.strip() and not line.startswith(("//", "(W"))]
    assert words.count("cmp") == 8
    assert words.count("sel") <= 8  # a move under a flag does as well
    assert words.count("and") == words.count("asr") == 0
    assert lowered.report().spill_size == 0


@pytest.mark.parametrize(("dtype", "target"), chosen(
    TYPES, ("pvc", "bmg", "dg2"), lambda dtype, target: dtype not in find_target(target).unsupported_types), ids=str)
def test_machine_code_of_every_type(dtype: DType, target: str) -> None:
    require_ocloc()
    matrix, mask = xt.Spec((None, None), dtype), xt.Spec((None, None), xt.i1)
    assert choose.lower(matrix, matrix, mask, matrix, target=target).report().spill_size == 0


def test_values_keep_their_identity() -> None:
    """``==`` makes an operation, but dictionaries, sets and loops tell values apart by identity."""
    seen = []

    @xt.kernel
    def kernel(A):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
        w = v == v
        seen.append(({v: 1}[v], len({v, w, v}), w.dtype))
        for _ in xt.range(2):
            v = v + v
        xt.store_tile(v, xt.init_tile(A, (0, 0), (8, 16)))

    a = np.ones((8, 16), np.float32)
    kernel[1](a)
    assert seen[0] == (1, 2, xt.i1)
    assert (a == 4).all()


def a_chain(v: Any, k: Any) -> Any:
    return 0 < k < 5


def a_conjunction(v: Any, k: Any) -> Any:
    return k > 0 and k < 5


def a_negation(v: Any, k: Any) -> Any:
    return not (v > 0)


def a_vector_in_if(v: Any, k: Any) -> Any:
    return 1 if v > 0 else 2


@pytest.mark.parametrize("branch", [a_chain, a_conjunction, a_negation, a_vector_in_if])
def test_python_does_not_branch_on_truth_values(branch: Any) -> None:
    @xt.kernel
    def kernel(A):
        branch(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), xt.group_id(0))

    with pytest.raises(xt.TraceError, match="XT1300") as caught:
        kernel[1](np.ones((8, 16), np.float32))
    assert "xt.where" in caught.value.hint
    assert "& | ~" in caught.value.hint


@pytest.mark.parametrize(("wrong", "message"), [
    (lambda v, t, k: v < "a", "XT1201"),
    (lambda v, t, k: v == None, "XT1201"),  # noqa: E711
    (lambda v, t, k: v == t, "XT1201"),
    (lambda v, t, k: v < v.to(xt.f16), "XT1207"),
    (lambda v, t, k: v < xt.zeros((8, 32), xt.f32), "XT1208"),
    (lambda v, t, k: k < 2.5, "XT1205"),
    (lambda v, t, k: (v < 0) + (v > 1), "XT1202"),
    (lambda v, t, k: xt.where(v, v, v), "XT1165"),
    (lambda v, t, k: xt.where(True, v, v), "XT1165"),
    (lambda v, t, k: xt.where(v > 0, v, t), "XT1201"),
    (lambda v, t, k: xt.where(v > 0, v, v.to(xt.f16)), "XT1207"),
    (lambda v, t, k: xt.where(xt.zeros((8, 32), xt.i1), v, v), "XT1208"),
    (lambda v, t, k: xt.where(v > 0, xt.zeros((8, 32), xt.f32), v), "XT1208"),
    (lambda v, t, k: (v > 0) & 2, "XT1206"),
    (lambda v, t, k: xt.where(v > 0, v, -1e39), "XT1206"),
    (lambda v, t, k: v.to(xt.f16) < 65520.0, "XT1206"),
    (lambda v, t, k: v.to(xt.bf16) * 3.4e38, "XT1206"),
    (lambda v, t, k: v / 2**2000, "XT1206"),
])
def test_mistakes(wrong: Any, message: str) -> None:
    @xt.kernel
    def kernel(A):
        tile = xt.init_tile(A, (0, 0), (8, 16))
        wrong(xt.load_tile(tile), tile, xt.group_id(0))

    with pytest.raises(xt.XeError, match=message) as caught:
        kernel[1](np.ones((8, 16), np.float32))
    assert caught.value.hint


def test_the_largest_numbers() -> None:
    """Finite numbers are those that do not round to infinity; infinities are themselves."""
    @xt.kernel
    def kernel(A):
        tile = xt.init_tile(A, (0, 0), (8, 16))
        v = xt.load_tile(tile).to(xt.f16)
        xt.store_tile(xt.where(v > 65519.9, v, -float("inf")).to(xt.f32), tile)

    a = np.array([[65504.0, 1.0] * 8] * 8, np.float32)
    kernel[1](a)
    np.testing.assert_array_equal(a, [[-np.inf] * 16] * 8)


def test_maps_must_agree() -> None:
    @xt.kernel
    def kernel(A):
        here, there = xt.wg_map((2, 1), (8, 32)), xt.wg_map((1, 2), (16, 16))
        v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32), wg_map=here))
        xt.where(xt.iota((16, 32), 0, wg_map=there) < 3, v, 0)

    with pytest.raises(xt.ShapeError, match="XT1400"):
        kernel[1](np.ones((16, 32), np.float32))
