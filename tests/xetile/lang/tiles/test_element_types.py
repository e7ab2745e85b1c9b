"""Every element type that vectors have: loaded, calculated with, carried by loops, converted and stored, everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, NUMPY, Array, Bordered, Execution, chosen, viewed, wide
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType, bf16, i1, round_to, tf32
from xegpu.target.targets import find_target

pytestmark = pytest.mark.unoptimised

EXECUTIONS = [NUMPY, Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "dg2"), *DEVICE]
TYPES = [dtype for dtype in dtypes.ALL if dtype.name not in ("index", "i4", "u4") and dtype.kind != "s"]
ROWS, COLUMNS = 21, 43


def cases(types: list[DType] = TYPES) -> list[Any]:
    return [pytest.param(dtype, execution, id=f"{dtype}-{execution}") for dtype in types for execution in EXECUTIONS
            if execution.where == "numpy" or dtype not in find_target(execution.target).unsupported_types]


@xt.kernel
def steps(A, B, C, D, *, BM, BN, sg):
    """C = A + 2 B, one B an iteration, D = A, on tiles that hang over the edges."""
    map_ = None if sg is None else xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b, c, d = (xt.init_tile(array, (m, n), (BM, BN), wg_map=map_) for array in (A, B, C, D))
    total, other = xt.load_tile(a), xt.zeros((BM, BN), A.dtype, wg_map=map_)
    for _ in xt.range(2):
        step = xt.load_tile(b)
        total, other = (total ^ step, total) if A.dtype is xt.i1 else (total + step, total)
    xt.store_tile(total, c)
    xt.store_tile(other ^ xt.load_tile(b) if A.dtype is xt.i1 else other - xt.load_tile(b), d)


def numbers(dtype: DType, shape: tuple[int, int], seed: int) -> Array:
    """Small whole numbers, and for integers the whole range: sums wrap around."""
    rng = np.random.default_rng(seed)
    if dtype is i1:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_float:
        return rng.integers(-40, 41, shape).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)


def check_steps(dtype: DType, execution: Execution, tile: tuple[int, int], sg: tuple[int, int] | None,
                turned: bool) -> None:
    shape = (ROWS, COLUMNS)
    a, b = numbers(dtype, shape, 1), numbers(dtype, shape, 2)
    c, d = (Bordered(dtype, shape) for _ in range(2))
    given = np.asfortranarray(b) if turned else b
    grid = -(-ROWS // tile[0]), -(-COLUMNS // tile[1])
    execution.bind(steps)[grid](*(viewed(x, dtype) for x in (a, given, c.array, d.array)), BM=tile[0], BN=tile[1],
                                sg=sg)
    c.check(a if dtype is i1 else a + b + b)
    d.check(a)


@pytest.mark.parametrize(("dtype", "execution"), cases())
def test_loaded_calculated_carried_and_stored(dtype: DType, execution: Execution) -> None:
    check_steps(dtype, execution, (8, 32), None, turned=False)


@pytest.mark.parametrize(("dtype", "execution"), cases([xt.f64, xt.i64, xt.u8, xt.i1, xt.bf16]))
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_dealt_to_subgroups_and_stored_by_columns(dtype: DType, execution: Execution, turned: bool) -> None:
    check_steps(dtype, execution, (32, 32), (2, 2), turned)


def converter(source: DType, targets: list[DType]) -> Any:
    """A kernel that stores A's elements as every target type, each to an array of its own."""
    names = [f"T_{dtype}" for dtype in targets]
    lines = [f"    xt.store_tile(v.to('{dtype}'), xt.init_tile({name}, (0, 0), (8, 32)))"
             for dtype, name in zip(targets, names, strict=True)]
    text = "\n".join([f"def convert(A, {', '.join(names)}):", "    v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))",
                      *lines])
    scope: dict[str, Any] = {"xt": xt}
    exec(compile(text, f"<from {source}>", "exec"), scope)
    return xt.kernel(scope["convert"])


def wild(dtype: DType) -> Array:
    """Numbers of all sizes, halves between neighbours of narrower types, the limits, and what floats have besides."""
    rng = np.random.default_rng(11)
    if dtype is i1:
        return rng.integers(0, 2, (8, 32)).astype(bool)
    if not dtype.is_float:
        limits = np.iinfo(dtype.numpy)
        wide_range = rng.integers(limits.min, limits.max, (8, 32), dtype.numpy, endpoint=True)
        wide_range[:4] >>= rng.integers(0, limits.bits - 1, (4, 32)).astype(dtype.numpy)
        wide_range[7, :4] = [limits.min, limits.max, 0, 1]
        return wide_range
    with np.errstate(over="ignore", invalid="ignore"):
        a = (rng.standard_normal((8, 32)) * 10.0 ** rng.integers(-3, 11, (8, 32))).astype(dtype.numpy)
        a[6] = (rng.integers(0, 1 << 20, 32) + 0.5) / 4
        a[7] = rng.choice([0, -0.0, 0.5, -0.5, 1.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 127.5, -128.5, 255.5], 32)
    return a


def expected(a: Array, source: DType, target: DType) -> Array:
    """NumPy's conversion; floats saturate as integers, and what becomes bf16 or tf32 is float32 first."""
    with np.errstate(all="ignore"):
        if target is i1:
            return a.astype(bool)
        if source.is_float and not target.is_float:
            limits, exact = np.iinfo(target.numpy), np.trunc(a.astype(np.float64))
            flat = [0 if np.isnan(x) else limits.max if x > limits.max else limits.min if x < limits.min else int(x)
                    for x in exact.ravel()]
            return np.array(flat, target.numpy).reshape(a.shape)
        if target in (bf16, tf32):
            return round_to(a.astype(np.float32), target)
        return a.astype(target.numpy)


SOURCES = [case for case in cases() if case.values[1].where != "opencl:cpu" or case.values[1].target == "pvc"
           or case.values[0] in (xt.f32, xt.i8, xt.u32, i1)]
"""On the device a kernel of all targets takes seconds to build; the text for others differs in the loads alone."""


@pytest.mark.parametrize(("source", "execution"), SOURCES)
def test_every_conversion(source: DType, execution: Execution) -> None:
    lacks = frozenset() if execution.where == "numpy" else find_target(execution.target).unsupported_types
    targets = [dtype for dtype in TYPES if dtype not in lacks]
    a = round_to(wild(source), source).astype(source.numpy) if source is tf32 else wild(source)
    outputs = [np.zeros((8, 32), dtype.numpy) for dtype in targets]
    execution.bind(converter(source, targets))[1](viewed(a, source), *(viewed(c, dtype) for c, dtype
                                                                       in zip(outputs, targets, strict=True)))
    for dtype, output in zip(targets, outputs, strict=True):
        np.testing.assert_array_equal(wide(output), wide(expected(a, source, dtype)), err_msg=f"{source} to {dtype}")


@xt.kernel
def sums(A, B, C, *, BM, BN, sg):
    """C = A + B + B; ``steps`` without the vector of the iteration before, over which Intel's compiler may hang."""
    map_ = None if sg is None else xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a, b, c = (xt.init_tile(array, (0, 0), (BM, BN), wg_map=map_) for array in (A, B, C))
    total = xt.load_tile(a)
    for _ in xt.range(A.shape[0]):
        total = total ^ xt.load_tile(b) if A.dtype is xt.i1 else total + xt.load_tile(b)
    xt.store_tile(total, c)


@pytest.mark.parametrize(("dtype", "target"), chosen(
    TYPES, ("pvc", "bmg", "dg2"), lambda *pair: pair[0] not in find_target(pair[1]).unsupported_types))
def test_machine_code_without_spills(dtype: DType, target: str) -> None:
    require_ocloc()
    matrix = xt.Spec((None, None), dtype)
    for tile, sg in (((16, 32), None), ((32, 64), (2, 2))):
        lowered = sums.lower(matrix, matrix, matrix, target=target, BM=tile[0], BN=tile[1], sg=sg)
        assert lowered.report().spill_size == 0


SPILLS = pytest.mark.xfail(strict=True, reason="dg2 spills 2 to 5 KB here")


@pytest.mark.parametrize(("dtype", "target"), [
    pytest.param(dtype, target, marks=[SPILLS] if target == "dg2" and dtype in (xt.i8, xt.u64, i1) else [])
    for dtype in (xt.f32, xt.bf16, xt.i8, xt.u64, i1) for target in ("pvc", "bmg", "dg2")])
def test_machine_code_of_conversions(dtype: DType, target: str) -> None:
    require_ocloc()
    targets = [other for other in TYPES if other not in find_target(target).unsupported_types]
    specs = (xt.Spec((None, None), other) for other in (dtype, *targets))
    assert converter(dtype, targets).lower(*specs, target=target).report().spill_size == 0


def test_a_target_without_doubles_says_so() -> None:
    matrix = xt.Spec((None, None), xt.f64)
    with pytest.raises(xt.TargetError, match="XT4105") as caught:
        steps.lower(matrix, matrix, matrix, matrix, target="dg2", BM=8, BN=16, sg=None).xegpu  # noqa: B018
    assert caught.value.location.line > 0
    assert "pvc" in caught.value.hint
    half = xt.Spec((None, None), xt.f32)
    with pytest.raises(xt.TargetError, match="XT4105"):
        converter(xt.f32, [xt.f64]).lower(half, matrix, target="dg2").opencl  # noqa: B018


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_any_byte_but_zero_is_true(execution: Execution) -> None:
    """Bytes seen as truth values; what is stored is 0 or 1."""
    @xt.kernel
    def copy(A, C, D):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))
        xt.store_tile(v, xt.init_tile(C, (0, 0), (8, 32)))
        xt.store_tile(v.to(xt.i32), xt.init_tile(D, (0, 0), (8, 32)))

    a = np.random.default_rng(3).choice(np.array([0, 1, 2, 128, 255], np.uint8), (8, 32))
    c, d = np.zeros((8, 32), np.uint8), np.zeros((8, 32), np.int32)
    execution.bind(copy)[1](xt.view(a, xt.i1), xt.view(c, xt.i1), d)
    np.testing.assert_array_equal(c, a != 0)
    np.testing.assert_array_equal(d, a != 0)


LIMITS: list[tuple[DType, Any]] = [(xt.i1, True), (xt.i64, -(2**63)), (xt.u64, 2**64 - 1), (xt.f64, 0.1), (xt.u8, 255),
                                   (xt.i8, -128)]


@pytest.mark.parametrize(("dtype", "padding", "execution"), [
    (dtype, padding, execution) for dtype, padding in LIMITS for execution in EXECUTIONS
    if execution.where == "numpy" or dtype not in find_target(execution.target).unsupported_types], ids=str)
def test_padding_and_constants_at_the_limits(dtype: DType, padding: Any, execution: Execution) -> None:

    @xt.kernel
    def padded(A, C):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)), padding=padding)
        xt.store_tile(v, xt.init_tile(C, (0, 0), (8, 32)))
        xt.store_tile(xt.full((8, 32), padding, dtype), xt.init_tile(C, (8, 0), (8, 32)))
        xt.store_tile((v == padding).to(dtype), xt.init_tile(C, (16, 0), (8, 32)))

    a, c = numbers(dtype, (5, 30), 4), np.zeros((24, 32), dtype.numpy)
    a[a == padding] = 0
    execution.bind(padded)[1](a, c)
    whole = np.full((8, 32), padding, dtype.numpy)
    whole[:5, :30] = a
    np.testing.assert_array_equal(c, np.vstack([whole, np.full_like(whole, padding), whole == padding]))


@pytest.mark.parametrize(("padding", "dtype"), [
    (2, bool), (-1, bool), (float("nan"), np.int32), (float("inf"), np.uint8), (0.5, np.int8), (128, np.int8),
    (-1, np.uint64)])
def test_paddings_that_a_type_lacks(padding: float, dtype: Any) -> None:
    @xt.kernel
    def padded(A, *, padding):
        xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)), padding=padding)

    with pytest.raises(xt.ElementTypeError, match="XT1125"):
        padded[1](np.zeros((8, 32), dtype), padding=padding)
