"""Blocks that the author chooses: tiles with ``inner_blocks``, vectors of four dimensions, ``tile_pack`` and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, TYPES, Execution, Types, integers, operands, product, tiles, viewed

pytestmark = pytest.mark.unoptimised

BF16 = Types(xt.bf16, xt.bf16, xt.f32)


@xt.kernel
def gemm_blocked(A, B, C, *, BM=32, BN=32, BK=32, a_blocks=(16, 16), b_blocks=(16, 16), c_blocks=(16, 16), types=BF16):
    """All in blocks: the loop carries vectors of four dimensions."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (m, 0), (BM, BK), inner_blocks=a_blocks)
    b = xt.init_tile(B, (0, n), (BK, BN), inner_blocks=b_blocks)
    total = xt.tile_pack(xt.zeros((BM, BN), types.acc), c_blocks)
    for _ in xt.range(0, A.shape[1], BK):
        left = xt.load_tile(a)
        assert left.shape == (BM // a_blocks[0], BK // a_blocks[1], *a_blocks)
        if a_blocks[1] != b_blocks[0]:
            left = xt.tile_pack(xt.tile_unpack(left), (a_blocks[0], b_blocks[0]))
        total = xt.tile_mma(left, xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), inner_blocks=c_blocks))


BLOCKS = [((16, 16), (16, 16), (16, 16)), ((8, 32), (32, 16), (8, 16)), ((32, 16), (16, 32), (32, 32)),
          ((4, 8), (8, 4), (4, 4)), ((1, 32), (32, 1), (1, 1))]


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_any_blocks_give_the_product(blocks: Any, execution: Execution) -> None:
    a, b = operands(np.random.default_rng(1), BF16, 50, 70, 64)
    c = np.full((50, 70), 7, np.float32)
    names = dict(zip(("a_blocks", "b_blocks", "c_blocks"), blocks, strict=True))
    execution.bind(gemm_blocked)[2, 3](a, b, c, **names)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


@pytest.mark.parametrize(("types", "execution"),
                         [(types, execution) for types in TYPES for execution in EXECUTIONS if types.on(execution)],
                         ids=str)
def test_every_type_comes_in_blocks(types: Types, execution: Execution) -> None:
    a, b = operands(np.random.default_rng(2), types, 33, 40, 64)
    c = np.full((33, 40), 7, types.acc.numpy)
    execution.bind(gemm_blocked)[tiles(33, 32), tiles(40, 32)](viewed(a, types.a), viewed(b, types.b), c, types=types)
    np.testing.assert_array_equal(c, product(a, b, types.acc))


@xt.kernel
def computed(A, B, C, *, shape=(16, 32), blocks=(8, 16), other=(4, 32), map_=None):
    """Arithmetic in blocks, and between blocks of two kinds."""
    m = xt.group_id(0) * shape[0]
    a = xt.load_tile(xt.init_tile(A, (m, 0), shape, inner_blocks=blocks, wg_map=map_), padding=2)
    b = xt.load_tile(xt.init_tile(B, (m, 0), shape, inner_blocks=other, wg_map=map_))
    same = xt.tile_pack(xt.tile_unpack(b), blocks)
    value = xt.maximum(a * 2 + same, -1) - 3
    xt.store_tile(value, xt.init_tile(C, (m, 0), shape, inner_blocks=blocks, wg_map=map_))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("map_", [None, xt.wg_map((2, 1), (8, 32))], ids=["subgroup", "work-group"])
def test_arithmetic_in_blocks(map_: Any, execution: Execution) -> None:
    a, b = (integers(np.random.default_rng(seed), xt.f32, 40, 30) for seed in (3, 4))
    c = np.zeros((40, 32), np.float32)
    execution.bind(computed)[3](a, b, c, map_=map_)
    wide_a, wide_b = np.full((40, 32), 2.0), np.zeros((40, 32))
    wide_a[:, :30], wide_b[:, :30] = a, b
    np.testing.assert_array_equal(c, np.maximum(wide_a * 2 + wide_b, -1) - 3)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_work_groups_product_in_blocks(execution: Execution) -> None:
    @xt.kernel
    def shared(A, B, C, *, N=32):
        map_a, map_b, map_c = xt.wg_map((2, 2), (16, 32)), xt.wg_map((2, 2), (32, 16)), xt.wg_map((2, 2), (16, 16))
        a = xt.load_tile(xt.init_tile(A, (0, 0), (N, N), wg_map=map_a, inner_blocks=(8, 16)))
        b = xt.load_tile(xt.init_tile(B, (0, 0), (N, N), wg_map=map_b, inner_blocks=(16, 16)))
        xt.store_tile(xt.tile_mma(a, b), xt.init_tile(C, (0, 0), (N, N), wg_map=map_c, inner_blocks=(8, 16)))

    a, b = operands(np.random.default_rng(5), BF16, 32, 32, 32)
    c = np.full((32, 32), 7, np.float32)
    execution.bind(shared)[1](a, b, c)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


@xt.kernel
def copied(A, C, *, shape=(12, 24), blocks=(1, 6), dtype=xt.u16):
    """A copy to shared local memory, at both ends in the same blocks, and back."""
    memory = xt.alloc_slm(shape, dtype)
    value = xt.load_tile(xt.init_tile(A, (0, 0), shape, inner_blocks=blocks))
    xt.store_tile(value, xt.init_tile(memory, (0, 0), shape, inner_blocks=blocks))
    xt.barrier()
    xt.store_tile(xt.load_tile(xt.init_tile(memory, (0, 0), shape)), xt.init_tile(C, (0, 0), shape))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [xt.i8, xt.u16, xt.f32], ids=str)
@pytest.mark.parametrize("blocks", [(1, 6), (2, 24), (3, 8), (1, 2)], ids=str)
def test_copies_in_any_blocks(blocks: Any, dtype: Any, execution: Execution) -> None:
    """Also in those whose rows do not spread over the lanes."""
    a = integers(np.random.default_rng(6), dtype, 12, 22)
    c = np.full((12, 24), 7, dtype.numpy)
    execution.bind(copied)[1](a, c, blocks=blocks, dtype=dtype)
    np.testing.assert_array_equal(c, np.pad(a, ((0, 0), (0, 2))))


SPECS = [xt.Spec((None, None), dtype) for dtype in (xt.bf16, xt.bf16, xt.f32)]


def test_messages_move_the_authors_blocks_where_there_are_such() -> None:
    text = gemm_blocked.lower(*SPECS, a_blocks=(8, 16), b_blocks=(16, 16), c_blocks=(8, 16)).opencl
    assert text.count("read_16b_8r16x1c(") == 2 * 4
    assert text.count("read_transform_16b_16r16x1c(") == 2 * 2
    assert text.count("write_32b_8r16x1c(") == 2 * 4
    text = gemm_blocked.lower(*SPECS, a_blocks=(32, 16), b_blocks=(16, 16), c_blocks=(32, 16)).opencl
    assert text.count("read_16b_32r16x1c(") == 2
    text = gemm_blocked.lower(*SPECS, a_blocks=(4, 8), b_blocks=(8, 4), c_blocks=(4, 4)).opencl
    assert text.count("read_16b_32r16x2c(") == 1


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_the_machine_code_is_no_worse(target: str) -> None:
    require_ocloc()
    lowered = gemm_blocked.lower(*SPECS, target=target, BM=16, BK=16, a_blocks=(8, 16), c_blocks=(8, 16))
    report = lowered.report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] // report.unrolled == (8 if target == "dg2" else 4)


def test_opposite_pairs_cancel() -> None:
    @xt.kernel
    def back_and_forth(A, C, *, shape=(16, 32)):
        v = xt.load_tile(xt.init_tile(A, (0, 0), shape))
        for blocks in ((4, 8), (8, 16), (16, 1)):
            v = xt.tile_unpack(xt.tile_pack(v, blocks))
        xt.store_tile(v, xt.init_tile(C, (0, 0), shape))

    specs = [xt.Spec((None, None), xt.f32)] * 2
    stages = back_and_forth.lower(*specs).stages
    assert stages["xetile"].count("tile_pack") == 3
    assert "tile_pack" not in stages["distribute-subgroups"]

    @xt.kernel
    def straight(A, C, *, shape=(16, 32)):
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), shape)), xt.init_tile(C, (0, 0), shape))

    assert back_and_forth.lower(*specs).xegpu.replace("back_and_forth", "") == \
        straight.lower(*specs).xegpu.replace("straight", "")


def test_text_goes_round_at_every_stage() -> None:
    a, b = operands(np.random.default_rng(6), BF16, 32, 32, 64)
    c = np.zeros((32, 32), np.float32)
    for stage, text in gemm_blocked.lower(a, b, c).stages.items():
        read = xt.parse(text)  # once: reading takes longer than running
        assert str(read) == text, stage
        for where in ("numpy", "numpy:xegpu"):
            c[...] = 7
            read["gemm_blocked"].on(where)[1, 1](a, b, c)
            np.testing.assert_array_equal(c, product(a, b, xt.f32), err_msg=stage)


CALLS = {
    "one number": (lambda t, v: xt.tile_pack(v, (8,)), "XT1232"),
    "zero": (lambda t, v: xt.tile_pack(v, (0, 8)), "XT1232"),
    "blocks that do not divide": (lambda t, v: xt.tile_pack(v, (8, 12)), "XT1233"),
    "packed twice": (lambda t, v: xt.tile_pack(xt.tile_pack(v, (8, 8)), (2, 2)), "XT1230"),
    "nothing to unpack": (lambda t, v: xt.tile_unpack(v), "XT1231"),
    "a tile": (lambda t, v: xt.tile_pack(t, (8, 8)), "XT1225"),
    "a number": (lambda t, v: xt.tile_unpack(3), "XT1225"),
    "stored flat": (lambda t, v: xt.store_tile(xt.tile_pack(v, (8, 16)), t), "XT1130"),
    "added to flat": (lambda t, v: v + xt.tile_pack(v, (8, 16)), "XT1208"),
    "half in blocks": (lambda t, v: xt.tile_mma(xt.tile_pack(v, (8, 16)), v), "XT1254"),
    "other depths": (lambda t, v: xt.tile_mma(xt.tile_pack(v, (8, 16)), xt.tile_pack(v, (8, 16))),
                     "XT1255"),
}


@pytest.mark.parametrize("name", CALLS)
def test_mistakes(name: str) -> None:
    make, message = CALLS[name]

    @xt.kernel
    def wrong(A):
        tile = xt.init_tile(A, (0, 0), (16, 32))
        make(tile, xt.load_tile(tile))

    with pytest.raises(xt.XeError, match=message) as caught:
        wrong[1](np.zeros((16, 32), np.float32))
    assert caught.value.hint


def test_mistakes_in_tiles() -> None:
    @xt.kernel
    def wrong(A, *, blocks, map_=None):
        xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), inner_blocks=blocks, wg_map=map_))

    a = np.zeros((32, 32), np.float32)
    with pytest.raises(xt.ShapeError, match="XT1233"):
        wrong[1](a, blocks=(12, 16))
    with pytest.raises(xt.ShapeError, match="XT1233"):
        wrong[1](a, blocks=(16, 16), map_=xt.wg_map((4, 1), (8, 32)))
    with pytest.raises(xt.ShapeError, match="XT1232"):
        wrong[1](a, blocks=16)


TEXT = """func.func @copy(%A : memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %t = xetile.init_tile %A, [%c0, %c0] : memref<64x64xf32> -> !xetile.tile<32x32xf32, #xetile.tile_attr<ENCODING>>
  func.return
}"""


@pytest.mark.parametrize(("encoding", "message"), [
    ("inner_blocks = [12, 16]", "XT1233"),
    ("inner_blocks = [0, 16]", "XT1232"),
    ("wg_map = #xetile.wg_map<sg_layout = [4, 1], sg_data = [8, 32]>, inner_blocks = [16, 16]", "XT1233"),
])
def test_mistakes_in_text(encoding: str, message: str) -> None:
    with pytest.raises(xt.TextError, match=message):
        xt.parse(TEXT.replace("ENCODING", encoding))
