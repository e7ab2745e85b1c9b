"""Loads at their first use in loops that exceed the register file."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import FunctionType, VectorType, f32
from xdsl.ir import Block, Operation, Region

import xetile as xt
from benchmarks.trial_kernels.attention_backward import backward_dkdv, backward_dq
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, integers
from xegpu.passes.schedule.list_scheduler import list_scheduled
from xetile.passes.loops.strip_mine.columns import StripMineColumns

pytestmark = pytest.mark.unoptimised
SPECS = [xt.Spec((1024, 64), xt.bf16)] * 4 + [xt.Spec((1024, 64), xt.f32)]


@xt.kernel
def gradient(Q, G, K, V, O, *, D=64, BM=16, BN=32, layout=(1, 1)):  # noqa: E741
    """((Q @ K.T) * (G @ V.T)) @ K, 16 rows a subgroup."""
    m = xt.group_id(0) * BM
    map_q, map_k, map_t = xt.wg_map(layout, (BM, D)), xt.wg_map(layout, (BN, D)), xt.wg_map(layout, (D, BN))
    q, g = (xt.load_tile(xt.init_tile(array, (m, 0), (BM, D), wg_map=map_q)) for array in (Q, G))
    out = xt.zeros((BM, D), xt.f32, wg_map=map_q)
    for n in xt.range(0, K.shape[0], BN):
        keys, values = (xt.load_tile(xt.init_tile(array, (n, 0), (BN, D), wg_map=map_k)) for array in (K, V))
        s = xt.tile_mma(q, xt.tile_transpose(keys, wg_map=map_t))
        t = xt.tile_mma(g, xt.tile_transpose(values, wg_map=map_t))
        out = xt.tile_mma((s * t).to(K.dtype), keys, out)
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, D), wg_map=map_q))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_all_executions(execution: Execution) -> None:
    """Odd numbers of rows; each number of the sparse operands is exact in bf16."""
    rng = np.random.default_rng(7)
    q, g, k, v = (_sparse(rng, rows) for rows in (19, 19, 71, 71))
    wide = [array.astype(np.int64) for array in (q, g, k, v)]
    both = (wide[0] @ wide[2].T) * (wide[1] @ wide[3].T)
    assert abs(both).max() <= 256
    out = np.full((19, 64), 7, np.float32)
    execution.bind(gradient)[2](q, g, k, v, out)
    np.testing.assert_array_equal(out, (both @ wide[2]).astype(np.float32))


def _sparse(rng: np.random.Generator, rows: int) -> Any:
    numbers = rng.integers(-1, 2, (rows, 64)) * (rng.random((rows, 64)) < 0.3)
    return numbers.astype(ml_dtypes.bfloat16)


def _positions(target: str) -> list[str]:
    text = gradient.lower(*SPECS, target=target).stages["schedule"]
    loop = text.split("scf.for")[1].split("scf.yield")[0]
    return [word for line in loop.splitlines() for word in ("load_nd", "dpas") if f"xegpu.{word} " in line]


def test_loads_stand_between_the_products() -> None:
    """Operands of the last product are not loaded in front of the first."""
    order = _positions("pvc")
    assert order.index("dpas") < len(order) - 1 - order[::-1].index("load_nd")


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_nothing_is_spilled(target: str) -> None:
    """A gradient of attention, of which 960 (pvc) and 1472 bytes (bmg) are spilled where its loads stand together."""
    require_ocloc()
    heads, wide, rows = (xt.Spec((4, 1024, size), dtype) for size, dtype in ((64, xt.bf16), (64, xt.f32), (1, xt.f32)))
    report = backward_dq.lower(heads, heads, heads, heads, rows, rows, wide, target=target).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.density >= 0.15


@xt.kernel
def gradients(K, V, Q, G, X, Y, *, D=64, BM=32, BN=16, layout=(1, 1)):
    """X = (K @ Q.T) @ G and Y = ((K @ Q.T) * (V @ G.T)) @ Q, 16 rows a subgroup: as dV and dK of attention."""
    n = xt.group_id(0) * BN
    map_k, map_q, map_t = xt.wg_map(layout, (BN, D)), xt.wg_map(layout, (BM, D)), xt.wg_map(layout, (D, BM))
    k, v = (xt.load_tile(xt.init_tile(array, (n, 0), (BN, D), wg_map=map_k)) for array in (K, V))
    x, y = (xt.zeros((BN, D), xt.f32, wg_map=map_k) for _ in range(2))
    for m in xt.range(0, Q.shape[0], BM):
        q, g = (xt.load_tile(xt.init_tile(array, (m, 0), (BM, D), wg_map=map_q)) for array in (Q, G))
        s = xt.tile_mma(k, xt.tile_transpose(q, wg_map=map_t))
        t = xt.tile_mma(v, xt.tile_transpose(g, wg_map=map_t))
        x = xt.tile_mma(s.to(Q.dtype), g, x)
        y = xt.tile_mma((s * t).to(Q.dtype), q, y)
    for sums, array in ((x, X), (y, Y)):
        xt.store_tile(sums, xt.init_tile(array, (n, 0), (BN, D), wg_map=map_k))


@pytest.mark.parametrize("execution", [*EXECUTIONS, Execution("machine:pvc", "pvc"), Execution("machine:bmg", "bmg")],
                         ids=str)
def test_sliced_products(execution: Execution) -> None:
    """The rows of Q are no multiple of a step, those of K none of a tile."""
    rng = np.random.default_rng(8)
    k, v, q, g = (_sparse(rng, rows) for rows in (19, 19, 71, 71))
    wide = [array.astype(np.int64) for array in (k, v, q, g)]
    scores = wide[0] @ wide[2].T
    both = scores * (wide[1] @ wide[3].T)
    assert abs(both).max() <= 256
    x, y = np.full((2, 19, 64), 7, np.float32)
    execution.bind(gradients)[2](k, v, q, g, x, y)
    np.testing.assert_array_equal(x, (scores @ wide[3]).astype(np.float32))
    np.testing.assert_array_equal(y, (both @ wide[2]).astype(np.float32))


def test_slices_stand_one_after_another() -> None:
    """Of 64 products the 32 of the first 16 rows come first, with loads of 16 rows."""
    text = gradients.lower(*SPECS[:4], *SPECS[4:] * 2, target="pvc").stages["schedule"]
    loop = text.split("scf.for")[1].split("scf.yield")[0].splitlines()
    starts = [number for number, line in enumerate(line for line in loop if "xegpu.dpas " in line)
              if line.count(", %") == 1]
    assert starts == [0, 1, 8, 9, 32, 33, 40, 41]
    assert not any("tensor_desc<32x16" in line for line in loop if "load_nd" in line)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_gradients_of_keys_and_values(target: str) -> None:
    """dK and dV of attention, of which 6848 (pvc) and 1024 bytes (bmg) are spilled where products are not sliced."""
    require_ocloc()
    heads, wide, rows = (xt.Spec((4, *shape), dtype) for shape, dtype in (
        ((1024, 64), xt.bf16), ((1024, 64), xt.f32), ((1, 1024), xt.f32)))
    lowered = backward_dkdv.lower(heads, heads, heads, heads, rows, rows, wide, wide, target=target)
    report = lowered.report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.density >= 0.15


@xt.kernel
def scores(Q, K, V, O, R, *, D=64, W=64, BM=16, BN=64, layout=(1, 1)):  # noqa: E741
    """(Q @ K.T + 1) @ V, and times W columns of it again: with Q in registers these barely suffice."""
    m = xt.group_id(0) * BM
    map_q, map_k, map_t = xt.wg_map(layout, (BM, D)), xt.wg_map(layout, (BN, D)), xt.wg_map(layout, (D, BN))
    q = xt.load_tile(xt.init_tile(Q, (m, 0), (BM, D), wg_map=map_q))
    out, again = xt.zeros((BM, D), xt.f32, wg_map=map_q), xt.zeros((BM, W), xt.f32, wg_map=xt.wg_map(layout, (BM, W)))
    for n in xt.range(0, K.shape[0], BN):
        keys, values = (xt.load_tile(xt.init_tile(array, (n, 0), (BN, D), wg_map=map_k)) for array in (K, V))
        s = (xt.tile_mma(q, xt.tile_transpose(keys, wg_map=map_t)) + 1.0).to(K.dtype)
        out = xt.tile_mma(s, values, out)
        some = xt.load_tile(xt.init_tile(V, (n, D - W), (BN, W), wg_map=xt.wg_map(layout, (BN, W))))
        again = xt.tile_mma(s, some, again)
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, D), wg_map=map_q))
    xt.store_tile(again, xt.init_tile(R, (m, 0), (BM, W), wg_map=xt.wg_map(layout, (BM, W))))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_loads_from_before_a_loop(execution: Execution) -> None:
    rng = np.random.default_rng(8)
    q, k, v = (_sparse(rng, rows) for rows in (19, 150, 150))
    expected = (q.astype(np.int64) @ k.astype(np.int64).T + 1) @ v.astype(np.int64)
    out, again = np.full((19, 64), 7, np.float32), np.full((19, 64), 7, np.float32)
    execution.bind(scores)[2](q, k, v, out, again)
    np.testing.assert_array_equal(out, expected.astype(np.float32))
    np.testing.assert_array_equal(again, expected.astype(np.float32))


@pytest.mark.parametrize(("target", "columns", "inside"), [("pvc", 64, True), ("bmg", 64, True), ("pvc", 16, False)])
def test_they_are_loaded_again_where_registers_are_short(target: str, columns: int, inside: bool) -> None:
    results = SPECS[4], xt.Spec((1024, columns), xt.f32)
    text = scores.lower(*SPECS[:3], *results, target=target, W=columns).stages["schedule"]
    assert ("xegpu.load_nd" not in text.split("scf.for")[0]) == inside


@xt.kernel(fast_math=True)
def attention(Q, K, V, O, scale, *, D=128, BM=8, BN=64):  # noqa: E741
    """Attention forward for one head, causal, as in a tutorial."""
    m = xt.group_id(0) * BM
    q, keys = xt.load_tile(xt.init_tile(Q, (m, 0), (BM, D))), K.shape[0]
    largest, total, out = xt.full((BM, 1), -1e30, xt.f32), xt.zeros((BM, 1), xt.f32), xt.zeros((BM, D), xt.f32)
    row = xt.iota((BM, 1), 0) + m.to(xt.i32)
    for n in xt.range(0, xt.minimum(m + BM, keys), BN):
        k, v = (xt.load_tile(xt.init_tile(array, (n, 0), (BN, D))) for array in (K, V))
        column = xt.iota((1, BN), 1) + n.to(xt.i32)
        s = xt.tile_mma(q, xt.tile_transpose(k)) * scale
        s = xt.where((column < keys.to(xt.i32)) & (column <= row), s, -1e30)
        above = xt.maximum(largest, xt.tile_reduce("max", s, 1))
        p, shrink = xt.exp2(s - above), xt.exp2(largest - above)
        total = total * shrink + xt.tile_reduce("add", p, 1)
        out, largest = xt.tile_mma(p.to(V.dtype), v, out * shrink), above
    xt.store_tile((out / total).to(O.dtype), xt.init_tile(O, (m, 0), (BM, D)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, Execution("machine:pvc", "pvc"), Execution("machine:bmg", "bmg")],
                         ids=str)
def test_products_of_a_loaded_block_stand_together(execution: Execution) -> None:
    rng = np.random.default_rng(9)
    q, k, v = (rng.standard_normal((rows, 128)).astype(np.float16) for rows in (11, 83, 83))
    out = np.full((11, 128), 7, np.float16)
    execution.bind(attention)[2](q, k, v, out, 0.125)
    scores = np.where(np.arange(83) <= np.arange(11)[:, None], q.astype(float) @ k.astype(float).T * 0.125, -np.inf)
    power = np.exp2(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out, power / power.sum(1, keepdims=True) @ v.astype(float), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("size", "rows"), [(64, 16), (128, 8)])
def test_attention_as_in_a_tutorial(target: str, size: int, rows: int) -> None:
    """Up to 4.7 KB were spilled where products keep their order, or Q its registers."""
    require_ocloc()
    matrix = xt.Spec((None, size), "f16")
    lowered = attention.lower(matrix, matrix, matrix, matrix, 0.125, target=target, D=size, BM=rows)
    report = lowered.report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.density >= 0.09


def scaled_row(X, G, B, Y, *, N=256):  # type: ignore[no-untyped-def]
    """Y = (X - max(X)) * G + B, one row a subgroup."""
    row = xt.group_id(0)
    x, g, b = (xt.load_tile(xt.init_tile(array, (at, 0), (1, N))) for array, at in ((X, row), (G, 0), (B, 0)))
    xt.store_tile((x - xt.tile_reduce("max", x, 1)) * g + b, xt.init_tile(Y, (row, 0), (1, N)))


def normalized_row(X, W, B, Y, *, N=1024):  # type: ignore[no-untyped-def]
    """Layer norm of one row a subgroup, in 16 bits but for what is computed."""
    row = xt.group_id(0)
    x, w, b = (xt.load_tile(xt.init_tile(array, (at, 0), (1, N))).to(xt.f32)
               for array, at in ((X, row), (W, 0), (B, 0)))
    x = x - xt.tile_reduce("add", x, 1) * (1 / N)
    y = x * xt.rsqrt(xt.tile_reduce("add", x * x, 1)) * w + b
    xt.store_tile(y.to(Y.dtype), xt.init_tile(Y, (row, 0), (1, N)))


@xt.kernel
def replaced_rows(X, Y, *, N=1024):
    """Two rows, each of which is stored where the other was, with a third."""
    first, second = (xt.init_tile(X, (row, 0), (1, N)) for row in (0, 1))
    other = xt.load_tile(xt.init_tile(Y, (0, 0), (1, N)))
    a, b = xt.load_tile(first), xt.load_tile(second)
    xt.store_tile(b + 1, first)
    xt.store_tile(a + other, second)


def _order(text: str) -> list[str]:
    """Loads, products and stores of a stage."""
    return [word for line in text.splitlines() for word in ("load_nd", "mulf", "store_nd") if f".{word} " in line]


@pytest.mark.parametrize("target", ["dg2", "arl"])
def test_loads_and_stores_without_block_io(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads stand where they are used; behind stores to other arrays if registers run short, and none may alias."""
    monkeypatch.setattr(StripMineColumns, "apply", lambda _self, module: module)  # rows stay whole
    half = [xt.Spec((None, None), xt.f16)] * 4
    apart = _order(xt.kernel(normalized_row).lower(*half, target=target).stages["schedule"])
    assert "load_nd" in apart[apart.index("store_nd"):]
    aliased = _order(xt.kernel(normalized_row, may_alias=True).lower(*half, target=target).stages["schedule"])
    assert "load_nd" not in aliased[aliased.index("store_nd"):]
    specs = [xt.Spec((rows, 256), xt.f32) for rows in (None, 1, 1, None)]
    order = _order(xt.kernel(scaled_row).lower(*specs, target=target).stages["schedule"])
    first_store = order.index("store_nd")
    assert set(order[first_store:]) == {"store_nd"}
    assert order.index("mulf") < first_store - 1 - order[:first_store][::-1].index("load_nd")


@pytest.mark.parametrize("execution", [Execution("numpy:xegpu", "dg2"), *EXECUTIONS[-2:]], ids=str)
def test_rows_that_are_stored_in_turn(execution: Execution) -> None:
    x, y = (integers(np.random.default_rng(seed), np.float32, 2, 1024) for seed in (1, 2))
    result = x.copy()
    execution.bind(replaced_rows)[1](result, y)
    np.testing.assert_array_equal(result, [x[1] + 1, x[0] + y[0]])


def sorted_rows(X, Y, *, BM=8, BN=64):  # type: ignore[no-untyped-def]
    """Rows of X, sorted, at a place that is asked for behind the load."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (BM, BN)))
    y = xt.init_tile(Y, (xt.group_id(0) * BM, 0), (BM, BN))
    xt.store_tile(xt.sort(x), y)


def test_comparators_stand_together() -> None:
    """The smaller and the larger of two values stand together: a lane's row is in registers once. Loads wait past
    positions."""
    lowered = xt.kernel(sorted_rows).lower(*[xt.Spec((None, None), xt.f32)] * 2, target="dg2")
    stage = lowered.stages["schedule"]
    assert stage.index("gpu.block_id") < stage.index(".load_nd ")
    row = 64 * 4
    assert lowered.live_bytes() <= 1.5 * row


def _products_by_one_row(count: int) -> func.FuncOp:
    type_ = VectorType(f32, [16])
    entry = Block(arg_types=[type_, type_])
    operations: list[Operation] = [math.ExpOp(entry.args[1])]
    for _ in range(count):
        product = operations[-1].results[0] if len(operations) > 1 else entry.args[0]
        operations.append(arith.MulfOp(product, operations[0].results[0]))
    entry.add_ops([*operations, func.ReturnOp(operations[-1].results[0])])
    return func.FuncOp("products", FunctionType.from_lists([type_, type_], [type_]), Region(entry))


def _lines_of_scheduling(function: func.FuncOp) -> int:
    """Lines of Python that run until last uses are in order; of a loop or comprehension one for each turn."""
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        list_scheduled(function, loads=True, stores=False)
    finally:
        sys.settrace(before)
    return lines


def test_a_value_of_many_uses_takes_no_longer_for_each() -> None:
    """Where last uses of values are looked for: the uses of a value were all read for each of them."""
    few, many = (_lines_of_scheduling(_products_by_one_row(count)) for count in (200, 800))
    assert many < 6 * few
