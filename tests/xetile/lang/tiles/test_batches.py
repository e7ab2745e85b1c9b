"""Arrays of more than two dimensions: batches of matrices, in every execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, EXECUTIONS, LANES, NUMPY, Array, Execution, Types, integers, product
from xegpu.target import block2d
from xegpu.target.targets import find_target

pytestmark = pytest.mark.unoptimised

BF16 = Types(xt.bf16, xt.bf16, xt.f32)
I8 = Types(xt.i8, xt.i8, xt.i32)


@xt.kernel
def batched(A, B, C, *, BM=16, BN=32, BK=32, acc=xt.f32, back=0):
    """C[i, j] = A[i, j - back] @ B[i, j - back] for every matrix; where there is none, zero."""
    heads = C.shape[1]
    which = xt.group_id(2)
    i, j = which // heads, which % heads
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (i, j - back, m, 0), (BM, BK))
    b = xt.init_tile(B, (i, j - back, 0, n), (BK, BN))
    total = xt.zeros((BM, BN), acc)
    for _ in xt.range(0, A.shape[3], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (i, j, m, n), (BM, BN)))


def run(execution: Execution, types: Types, a: Array, b: Array, c: Array, **constants: Any) -> None:
    grid = -(-c.shape[2] // 16), -(-c.shape[3] // 32), c.shape[0] * c.shape[1]
    execution.bind(batched)[grid](a, b, c, acc=types.acc, **constants)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("types", [BF16, I8], ids=str)
@pytest.mark.parametrize("size", [(32, 64, 64), (17, 33, 65)], ids=str)
def test_every_matrix_has_its_product(types: Types, execution: Execution, size: tuple[int, int, int]) -> None:
    rng, (m, n, k) = np.random.default_rng(1), size
    a, b = integers(rng, types.a, 2, 3, m, k), integers(rng, types.b, 2, 3, k, n)
    c = np.full((2, 3, m, n), 7, types.acc.numpy)
    run(execution, types, a, b, c)
    np.testing.assert_array_equal(c, product(a, b, types.acc))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("back", [1, -1, 5])
def test_there_is_nothing_outside_the_batch(execution: Execution, back: int) -> None:
    rng = np.random.default_rng(2)
    a, b = integers(rng, xt.bf16, 2, 3, 32, 64), integers(rng, xt.bf16, 2, 3, 64, 64)
    c = np.full((2, 3, 32, 64), 7, np.float32)
    expected = np.zeros_like(c)
    for j in range(3):
        if 0 <= j - back < 3:
            expected[:, j] = product(a[:, j - back], b[:, j - back], xt.f32)
    run(execution, BF16, a, b, c, back=back)
    np.testing.assert_array_equal(c, expected)


@xt.kernel
def shifted(A, C, *, by=1, padding=0):
    """C[i + by] = A[i], by tiles; what leaves C is dropped, what A does not have is padding."""
    i, m = xt.group_id(2), xt.group_id(0) * 8
    value = xt.load_tile(xt.init_tile(A, (i - 1, m, 0), (8, 32)), padding=padding)
    xt.store_tile(value, xt.init_tile(C, (i - 1 + by, m, 0), (8, 32)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("by", [0, 2, -1])
def test_stores_outside_the_batch_are_dropped(execution: Execution, by: int) -> None:
    whole = np.full((6, 13, 32), 9, np.float32)
    a, c = integers(np.random.default_rng(3), xt.f32, 4, 13, 32), whole[1:5]
    execution.bind(shifted)[2, 1, 6](a, c, by=by, padding=5)
    expected = np.full((6, 13, 32), 9, np.float32)
    for i in range(-1, 5):
        if 0 <= i + by < 4:
            expected[1 + i + by] = a[i] if 0 <= i < 4 else 5
    np.testing.assert_array_equal(whole, expected)


LAYOUTS: dict[str, Any] = {
    "A transposed": lambda a, b: (a.swapaxes(2, 3).copy().swapaxes(2, 3), b),
    "B transposed": lambda a, b: (a, b.swapaxes(2, 3).copy().swapaxes(2, 3)),
    "heads behind rows": lambda a, b: (a.swapaxes(1, 2).copy().swapaxes(1, 2), b.swapaxes(1, 2).copy().swapaxes(1, 2)),
    "one matrix for all": lambda a, b: (a, np.broadcast_to(b[:1, :1], b.shape)),
    "backwards": lambda a, b: (a[::-1, ::-1], b[:, :, ::-1]),
    "every second column": lambda a, b: (a.repeat(2, 3)[..., ::2], b),
}


@pytest.mark.parametrize("execution", [NUMPY, *LANES, *DEVICE], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_matrices_may_lie_in_any_way(layout: str, execution: Execution) -> None:
    rng = np.random.default_rng(4)
    a, b = integers(rng, xt.bf16, 2, 3, 32, 64), integers(rng, xt.bf16, 2, 3, 64, 64)
    a, b = LAYOUTS[layout](a, b)
    c = np.full((2, 3, 32, 64), 7, np.float32)
    run(execution, BF16, a, b, c)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_an_empty_batch_is_all_outside(execution: Execution) -> None:
    c = np.full((2, 13, 32), 9, np.float32)
    execution.bind(shifted)[2, 1, 3](np.zeros((0, 13, 32), np.float32), c, by=0, padding=5)
    np.testing.assert_array_equal(c, np.full_like(c, 5))


@xt.kernel
def distributed(A, C):
    map_ = xt.wg_map((2, 2), (8, 16))
    i, m = xt.group_id(1), xt.group_id(0) * 32
    value = xt.load_tile(xt.init_tile(A, (i, m, 0), (32, 32), wg_map=map_))
    xt.store_tile(value + value, xt.init_tile(C, (i, m, 0), (32, 32), wg_map=map_))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_work_groups_tile_of_a_batch(execution: Execution) -> None:
    a = integers(np.random.default_rng(5), xt.f32, 3, 50, 30)
    c = np.zeros_like(a)
    execution.bind(distributed)[2, 3](a, c)
    np.testing.assert_array_equal(c, 2 * a)


@xt.kernel
def summed(A, C):
    """The sum of all matrices: the loop makes each tile anew and carries it."""
    m, n = xt.group_id(0) * 8, xt.group_id(1) * 16
    tile = xt.init_tile(A, (0, m, n), (8, 16))
    total = xt.zeros((8, 16), xt.f32)
    for i in xt.range(1, A.shape[0] + 1):
        total = total + xt.load_tile(tile)
        tile = xt.init_tile(A, (i, m, n), (8, 16))
    xt.store_tile(total, xt.init_tile(C, (m, n), (8, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_loop_may_move_on_to_the_next_matrix(execution: Execution) -> None:
    a = integers(np.random.default_rng(6), xt.f32, 5, 19, 40)
    c = np.zeros((19, 40), np.float32)
    execution.bind(summed)[3, 3](a, c)
    np.testing.assert_array_equal(c, a.sum(0))


@xt.kernel
def alternating(A, B, C, D):
    """Tiles that a loop carries from one array to another, read and written."""
    tile, out = xt.init_tile(A, (0, 0), (8, 16)), xt.init_tile(C, (0, 0), (8, 16))
    for _ in xt.range(2):
        xt.store_tile(xt.load_tile(tile), out)
        tile, out = xt.init_tile(B, (8, 0), (8, 16)), xt.init_tile(D, (8, 0), (8, 16))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_loop_may_carry_a_tile_from_one_array_to_another(execution: Execution) -> None:
    rng = np.random.default_rng(7)
    a, b = integers(rng, xt.f32, 16, 16), integers(rng, xt.f32, 16, 16)
    c, d = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    execution.bind(alternating)[1](a, b, c, d)
    np.testing.assert_array_equal(c[:8], a[:8])
    np.testing.assert_array_equal(d[8:], b[8:])
    assert not c[8:].any()
    assert not d[:8].any()


@pytest.mark.parametrize("execution", [NUMPY, LANES[0], DEVICE[0]], ids=str)
def test_five_dimensions(execution: Execution) -> None:
    @xt.kernel
    def copied(A, C):
        x, y, z = (xt.group_id(d) for d in range(3))
        value = xt.load_tile(xt.init_tile(A, (x, y, z, 0, 0), (8, 16)))
        xt.store_tile(value, xt.init_tile(C, (z, y, x, 0, 0), (8, 16)))

    a = integers(np.random.default_rng(8), xt.f32, 2, 3, 4, 8, 16)
    c = np.zeros((4, 3, 2, 8, 16), np.float32)
    execution.bind(copied)[2, 3, 4](a, c)
    np.testing.assert_array_equal(c, a.transpose(2, 1, 0, 3, 4))


def test_text_goes_round_at_every_stage() -> None:
    rng = np.random.default_rng(9)
    a, b = integers(rng, xt.bf16, 2, 2, 20, 40), integers(rng, xt.bf16, 2, 2, 40, 35)
    for stage, text in batched.lower(a, b, xt.Spec((2, 2, 20, 35), xt.f32)).stages.items():
        read = xt.parse(text)
        assert str(read) == text, stage
        c = np.zeros((2, 2, 20, 35), np.float32)
        read["batched"].on("numpy")[2, 2, 4](a, b, c)
        np.testing.assert_array_equal(c, product(a, b, xt.f32), err_msg=stage)


def access(shape: tuple[int | None, ...], strides: tuple[int | None, ...]) -> str:
    return block2d.access(find_target("pvc"), 0, shape, strides, 2)


def test_block_io_wants_every_matrix_on_a_line_of_64_bytes() -> None:
    assert access((2, 3, 32, 64), (6144, 2048, 64, 1)) == "block"
    assert access((2, 3, 31, 72), (6696, 2232, 72, 1)) == "rows"
    assert access((1, 3, 32, 64), (5, 2048, 64, 1)) == "block"
    assert access((0, 3, 32, 64), (6144, 2048, 64, 1)) == "rows"
    assert access((2, 3, 64, 32), (6144, 2048, 1, 64)) == "block-columns"
    assert access((None, None, 64, None), (None, None, None, 1)) == "block"


SPECS = [xt.Spec((None, None, None, None), dtype) for dtype in (xt.bf16, xt.bf16, xt.f32)]


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_the_machine_code_is_that_of_one_product(target: str) -> None:
    require_ocloc()
    tile = {"BM": 16, "BN": 32, "BK": 16} if target == "dg2" else {"BM": 32, "BN": 32, "BK": 32}
    report = batched.lower(*SPECS, target=target, **tile).report()
    assert (report.spill_size, report.private_size) == (0, 0)
    if target != "dg2":
        assert (report.loop["dpas"], report.loop["load_block2d"]) == (16 * report.unrolled, 2 * report.unrolled)


def test_mistakes() -> None:
    @xt.kernel
    def few(A):
        xt.init_tile(A, (0, 0), (8, 16))

    @xt.kernel
    def wandering(A):
        xt.update_tile_offset(xt.init_tile(A, (0, 0, 0), (8, 16)), 1, 0, 0)

    a = np.zeros((2, 16, 16), np.float32)
    with pytest.raises(xt.RankError, match="XT1103"):
        few[1](a)
    with pytest.raises(xt.RankError, match="XT1129"):
        wandering[1](a)
    with pytest.raises(xt.RankError, match="XT1102"):
        few[1](np.zeros(16, np.float32))
    text = str(few.lower(np.zeros((16, 16), np.float32)).stages["xetile"])
    with pytest.raises(xt.TextError, match="XT3022"):
        xt.parse(text.replace("[%0, %0]", "[%0]"))
