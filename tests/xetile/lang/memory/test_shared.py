"""Arrays in shared local memory, in every execution; in machine code, how many messages move a block of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import (
    DEVICE,
    EXECUTIONS,
    LANES,
    NUMPY,
    TYPES,
    Array,
    Execution,
    Types,
    integers,
    operands,
    product,
    viewed,
)
from xegpu.ir import dtypes

BF16 = Types(xt.bf16, xt.bf16, xt.f32)
COPIED = ["bf16", "f32", "i8", "u16", "f16", "i32"]


@xt.kernel
def gemm_cooperative(A, B, C, *, BM=64, BN=64, BK=32, sg=(2, 2), types=BF16):
    """Every subgroup brings its share of A and B to shared local memory, and reads what it multiplies there."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    count = sg[0] * sg[1]
    in_a, in_b = xt.alloc_slm((BM, BK), types.a), xt.alloc_slm((BK, BN), types.b)
    bring_a, bring_b = xt.wg_map((count, 1), (BM // count, BK)), xt.wg_map((count, 1), (BK // count, BN))
    map_a, map_b = xt.wg_map(sg, (BM // sg[0], BK)), xt.wg_map(sg, (BK, BN // sg[1]))
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=bring_a)
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=bring_b)
    to_a = xt.init_tile(in_a, (0, 0), (BM, BK), wg_map=bring_a)
    to_b = xt.init_tile(in_b, (0, 0), (BK, BN), wg_map=bring_b)
    from_a = xt.init_tile(in_a, (0, 0), (BM, BK), wg_map=map_a)
    from_b = xt.init_tile(in_b, (0, 0), (BK, BN), wg_map=map_b)
    total = xt.zeros((BM, BN), types.acc, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        xt.store_tile(xt.load_tile(a), to_a)
        xt.store_tile(xt.load_tile(b), to_b)
        xt.barrier()
        total = xt.tile_mma(xt.load_tile(from_a), xt.load_tile(from_b), total)
        xt.barrier()
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@pytest.mark.parametrize(("types", "execution"),
                         [(types, execution) for types in TYPES for execution in EXECUTIONS if types.on(execution)],
                         ids=str)
def test_a_product_through_shared_memory(types: Types, execution: Execution) -> None:
    a, b = operands(np.random.default_rng(1), types, 100, 130, 96)
    c = np.full((100, 130), 7, types.acc.numpy)
    execution.bind(gemm_cooperative)[2, 3](viewed(a, types.a), viewed(b, types.b), c, types=types)
    np.testing.assert_array_equal(c, product(a, b, types.acc))


@xt.kernel
def gemm_ring(A, B, C, *, BM=32, BN=32, BK=16, stages=3, sg=(2, 2), along=False):
    """A ring of buffers, a matrix each, or side by side: what is read in a step was written two steps before."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    count, ahead = sg[0] * sg[1], stages - 1
    in_a = xt.alloc_slm((BM, stages * BK) if along else (stages, BM, BK), xt.bf16)
    in_b = xt.alloc_slm((stages * BK, BN) if along else (stages, BK, BN), xt.bf16)
    bring_a, bring_b = xt.wg_map((count, 1), (BM // count, BK)), xt.wg_map((count, 1), (BK // count, BN))
    map_a, map_b = xt.wg_map(sg, (BM // sg[0], BK)), xt.wg_map(sg, (BK, BN // sg[1]))
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))

    def stage(which, map_of_a, map_of_b):
        at_a, at_b = ((0, which * BK), (which * BK, 0)) if along else ((which, 0, 0), (which, 0, 0))
        return (xt.init_tile(in_a, at_a, (BM, BK), wg_map=map_of_a),
                xt.init_tile(in_b, at_b, (BK, BN), wg_map=map_of_b))

    def bring(a, b, which):
        to_a, to_b = stage(which, bring_a, bring_b)
        xt.store_tile(xt.load_tile(a), to_a)
        xt.store_tile(xt.load_tile(b), to_b)
        return xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)

    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=bring_a)
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=bring_b)
    for i in range(ahead):
        a, b = bring(a, b, i)
    total = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for k in xt.range(0, A.shape[1], BK):
        step = k // BK
        xt.barrier()
        a, b = bring(a, b, (step + ahead) % stages)
        from_a, from_b = stage(step % stages, map_a, map_b)
        total = xt.tile_mma(xt.load_tile(from_a), xt.load_tile(from_b), total)
        xt.barrier()
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("stages", "along"), [(3, False), (4, False), (3, True), (2, True)])
def test_a_ring_of_buffers(stages: int, along: bool, execution: Execution) -> None:
    a, b = operands(np.random.default_rng(2), BF16, 50, 70, 7 * 16)
    c = np.full((50, 70), 7, np.float32)
    execution.bind(gemm_ring)[2, 3](a, b, c, stages=stages, along=along)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


def moved(array: Array, row: int, column: int, shape: tuple[int, int], padding: float = 0) -> Array:
    """Reference of a load of ``shape`` at (row, column) of an array."""
    whole = np.full((3 * 64 + array.shape[0], 3 * 64 + array.shape[1]), padding, array.dtype)
    whole[64:64 + array.shape[0], 64:64 + array.shape[1]] = array
    return whole[64 + row:64 + row + shape[0], 64 + column:64 + column + shape[1]]


@xt.kernel
def through(A, C, row, column, *, shape, store, load, dtype, padding=0):
    """A to shared memory in tiles of ``store``; a tile of ``load`` from anywhere in it to C."""
    memory = xt.alloc_slm(shape, dtype)
    for r in range(0, shape[0], store[0]):
        for c in range(0, shape[1], store[1]):
            xt.store_tile(xt.load_tile(xt.init_tile(A, (r, c), store)), xt.init_tile(memory, (r, c), store))
    value = xt.load_tile(xt.init_tile(memory, (row, column), load), padding=padding)
    xt.store_tile(value, xt.init_tile(C, (0, 0), load))


SHAPES = [((32, 32), (8, 16), (16, 32)), ((24, 48), (8, 48), (8, 16)), ((20, 24), (4, 24), (4, 8)),
          ((16, 80), (16, 16), (32, 16)), ((13, 19), (16, 32), (16, 32))]
AT = [(0, 0), (8, 16), (-3, 5), (11, -7), (2, 1), (16, 0), (60, 60)]


@pytest.mark.optimised  # lanes run side by side, as a GPU's do: one reads what another has stored
@pytest.mark.parametrize("execution", [NUMPY, *LANES, *DEVICE], ids=str)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("name", COPIED)
def test_any_tile_of_any_array_reads_what_was_written(name: str, sizes: tuple[Any, Any, Any],
                                                      execution: Execution) -> None:
    shape, store, load = sizes
    dtype = dtypes.of(name)
    a = integers(np.random.default_rng(3), dtype, *shape)
    for row, column in AT:
        c = np.full(load, 7, dtype.numpy)
        execution.bind(through)[1](a, c, row, column, shape=shape, store=store, load=load, dtype=dtype)
        np.testing.assert_array_equal(c, moved(a, row, column, load), err_msg=f"at {row}, {column}")


@pytest.mark.parametrize("execution", [NUMPY, LANES[0], LANES[2], *DEVICE], ids=str)
def test_stores_over_the_edge_are_dropped_and_loads_are_padded(execution: Execution) -> None:
    @xt.kernel
    def shifted(A, C, row, column):
        memory = xt.alloc_slm((2, 24, 32), xt.bf16)
        for i in range(2):
            for r in range(0, 24, 8):
                xt.store_tile(xt.zeros((8, 32), xt.bf16), xt.init_tile(memory, (i, r, 0), (8, 32)))
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (16, 32))), xt.init_tile(memory, (0, row, column), (16, 32)))
        value = xt.load_tile(xt.init_tile(memory, (0, 0, 0), (32, 64)), padding=3)
        xt.store_tile(value, xt.init_tile(C, (0, 0, 0), (32, 64)))
        xt.store_tile(xt.load_tile(xt.init_tile(memory, (1, 0, 0), (32, 64))), xt.init_tile(C, (1, 0, 0), (32, 64)))

    a = integers(np.random.default_rng(4), xt.bf16, 16, 32)
    for row, column in AT:
        c = np.full((2, 32, 64), 7, a.dtype)
        execution.bind(shifted)[1](a, c, row, column)
        inner = moved(a, -row, -column, (24, 32))
        expected = np.zeros((2, 32, 64), a.dtype)
        expected[0] = 3
        expected[0, :24, :32] = inner
        np.testing.assert_array_equal(c, expected, err_msg=f"at {row}, {column}")


@xt.kernel(subgroups=(2, 2))
def exchanged(A, C, *, M=8, N=16):
    """Each subgroup writes its tile and reads that of the one across; its work-group's offset is added."""
    memory = xt.alloc_slm((2 * M, 2 * N), xt.f32)
    row, column = xt.subgroup_id(0), xt.subgroup_id(1)
    m = xt.group_id(0) * 2 * M
    xt.store_tile(xt.load_tile(xt.init_tile(A, (m + row * M, column * N), (M, N))),
                  xt.init_tile(memory, (row * M, column * N), (M, N)))
    xt.barrier()
    value = xt.load_tile(xt.init_tile(memory, ((1 - row) * M, (1 - column) * N), (M, N)))
    xt.store_tile(value, xt.init_tile(C, (m + row * M, column * N), (M, N)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_each_work_group_has_its_own(execution: Execution) -> None:
    a = integers(np.random.default_rng(5), xt.f32, 5 * 16, 32)
    c = np.zeros_like(a)
    execution.bind(exchanged)[5](a, c)
    blocks = a.reshape(5, 2, 8, 2, 16)
    np.testing.assert_array_equal(c.reshape(blocks.shape), blocks[:, ::-1, :, ::-1])


TURNED = [BF16, Types(xt.i8, xt.i8, xt.i32), Types(xt.f16, xt.f16, xt.f32), Types(xt.f32, xt.f32, xt.f32)]


@pytest.mark.parametrize(("types", "execution"), [(types, execution) for types in TURNED for execution in EXECUTIONS
                                                  if types.on(execution)], ids=str)
@pytest.mark.parametrize("side", ["a", "b"])
def test_operands_may_be_transposed_in_shared_memory(types: Types, side: str, execution: Execution) -> None:
    @xt.kernel
    def transposed(A, B, C, *, N=32):
        memory = xt.alloc_slm((N, N), types.a)
        turns, whole = (A, B) if side == "a" else (B, A)
        for r in range(0, N, 8):
            xt.store_tile(xt.load_tile(xt.init_tile(turns, (r, 0), (8, N))), xt.init_tile(memory, (r, 0), (8, N)))
        xt.barrier()
        first = xt.tile_transpose(xt.load_tile(xt.init_tile(memory, (0, 0), (N, N))))
        second = xt.load_tile(xt.init_tile(whole, (0, 0), (N, N)))
        pair = (first, second) if side == "a" else (second, first)
        xt.store_tile(xt.tile_mma(*pair), xt.init_tile(C, (0, 0), (N, N)))

    a, b = operands(np.random.default_rng(6), types, 32, 32, 32)
    c = np.full((32, 32), 7, types.acc.numpy)
    execution.bind(transposed)[1](a, b, c)
    np.testing.assert_array_equal(c, product(a.T, b, types.acc) if side == "a" else product(a, b.T, types.acc))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_what_nobody_wrote_shows(where: str) -> None:
    @xt.kernel
    def unwritten(C, *, dtype=xt.f32):
        memory = xt.alloc_slm((8, 16), dtype)
        xt.store_tile(xt.load_tile(xt.init_tile(memory, (0, 0), (8, 16))), xt.init_tile(C, (0, 0), (8, 16)))

    c = np.zeros((8, 16), np.float32)
    unwritten.on(where)[1](c)
    assert np.isnan(c).all()
    d = np.zeros((8, 16), np.int16)
    unwritten.on(where)[1](d, dtype=xt.i16)
    assert (d.view(np.uint16) == 0xA5A5).all()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_loop_may_carry_a_tile_through_shared_memory(execution: Execution) -> None:
    @xt.kernel
    def walked(A, C, *, rows=40):
        memory = xt.alloc_slm((rows, 16), xt.f32)
        a, to = xt.init_tile(A, (0, 0), (8, 16)), xt.init_tile(memory, (0, 0), (8, 16))
        for _ in xt.range(0, rows, 8):
            xt.store_tile(xt.load_tile(a) + 1, to)
            a, to = xt.update_tile_offset(a, 8, 0), xt.update_tile_offset(to, 8, 0)
        total, at = xt.zeros((8, 16), xt.f32), xt.init_tile(memory, (rows - 8, 0), (8, 16))
        for _ in xt.range(0, rows, 8):
            total = total * 2 + xt.load_tile(at)
            at = xt.update_tile_offset(at, -8, 0)
        xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))

    a = integers(np.random.default_rng(7), xt.f32, 40, 16)
    c = np.zeros((8, 16), np.float32)
    execution.bind(walked)[1](a, c)
    expected = np.zeros((8, 16))
    for block in (a.reshape(5, 8, 16) + 1)[::-1]:
        expected = expected * 2 + block
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_it_may_be_read_as_another_type(execution: Execution) -> None:
    @xt.kernel
    def reinterpreted(A, C):
        memory = xt.alloc_slm((16, 32), xt.bf16)
        words = xt.view(memory, xt.u16)
        assert words.shape == memory.shape == (16, 32)
        assert memory.strides == (32, 1)
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (16, 32))), xt.init_tile(memory, (0, 0), (16, 32)))
        xt.store_tile(xt.load_tile(xt.init_tile(words, (8, 0), (8, 32))), xt.init_tile(C, (0, 0), (8, 32)))

    a = integers(np.random.default_rng(9), xt.bf16, 16, 32)
    c = np.zeros((8, 32), np.uint16)
    execution.bind(reinterpreted)[1](a, c)
    np.testing.assert_array_equal(c, a[8:].view(np.uint16))


def test_text_goes_round_at_every_stage() -> None:
    a, b = operands(np.random.default_rng(8), BF16, 40, 60, 48)
    c = np.zeros((40, 60), np.float32)
    for stage, text in gemm_ring.lower(a, b, c).stages.items():
        read = xt.parse(text)
        assert str(read) == text, stage
        c[...] = 7
        read["gemm_ring"].on("numpy")[2, 2](a, b, c)
        np.testing.assert_array_equal(c, product(a, b, xt.f32), err_msg=stage)


def messages(lowered: Any) -> dict[str, int]:
    """Messages of shared local memory in machine code, by name."""
    found = re.findall(r"\b((?:load|store)\.slm\.\w+)", str(lowered.isa()))
    return {name: found.count(name) for name in sorted(set(found))}


SPECS = [xt.Spec((None, None), dtype) for dtype in (xt.bf16, xt.bf16, xt.f32)]


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("kernel", [gemm_cooperative, gemm_ring], ids=lambda kernel: kernel.name)
def test_a_message_moves_512_bytes(kernel: Any, target: str) -> None:
    """A 32x32 share of each operand is 2 KB: four messages. In the ring, a 16x16 share of each is one."""
    require_ocloc()
    lowered = kernel.lower(*SPECS, target=target)
    report, ring = lowered.report(), kernel is gemm_ring
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.slm_size == (3 * 2 * 32 * 16 * 2 if ring else 2 * 64 * 32 * 2)
    assert report.loop["dpas"] == (2 if ring else 16)
    loads = sum(count for name, count in messages(lowered).items() if name.startswith("load"))
    assert loads == (2 if ring else 8)
    assert sum(count for name, count in messages(lowered).items() if name.startswith("load.slm.d64x64t")) == loads


def test_nothing_is_checked_where_the_sizes_say_that_it_is_inside() -> None:
    lowered = gemm_ring.lower(*SPECS)
    assert lowered.xegpu.count("boundary_check = false") > 4
    assert "boundary_check = false" not in lowered.stages["distribute-lanes"]
    assert "store_slm_ushort" not in lowered.opencl


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_b_transposed_is_read_by_wide_messages(target: str) -> None:
    require_ocloc()

    @xt.kernel
    def transposed(A, B, C, *, N=32):
        memory = xt.alloc_slm((N, N), xt.bf16)
        for r in range(0, N, 8):
            xt.store_tile(xt.load_tile(xt.init_tile(B, (r, 0), (8, N))), xt.init_tile(memory, (r, 0), (8, N)))
        xt.barrier()
        b = xt.tile_transpose(xt.load_tile(xt.init_tile(memory, (0, 0), (N, N))))
        xt.store_tile(xt.tile_mma(xt.load_tile(xt.init_tile(A, (0, 0), (N, N))), b), xt.init_tile(C, (0, 0), (N, N)))

    lowered = transposed.lower(*SPECS, target=target)
    assert lowered.report().spill_size == 0
    loads = {name: count for name, count in messages(lowered).items() if name.startswith("load")}
    assert loads == {"load.slm.d32x8": 4}


def test_the_grf_and_slm_of_dg2() -> None:
    require_ocloc()
    report = gemm_ring.lower(*SPECS, target="dg2").report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.slm_size == 3 * 2 * 32 * 16 * 2


def test_mistakes() -> None:
    @xt.kernel
    def wrong(A, *, shape=(8, 16), dtype=xt.f32, prefetch=False, order=(1, 0)):
        memory = xt.alloc_slm(shape, dtype)
        tile = xt.init_tile(memory, (0,) * max(len(shape), 2), (8, 16), order=order)
        if prefetch:
            xt.prefetch_tile(tile)
        xt.store_tile(xt.load_tile(tile), tile)

    @xt.kernel
    def changing(A):
        xt.alloc_slm((A.shape[0], 16), xt.f32)

    a = np.zeros((8, 16), np.float32)
    for shape in ((), (8, 0), 8, (8, 1.5)):
        with pytest.raises(xt.ShapeError, match="XT1141"):
            wrong[1](a, shape=shape)
    with pytest.raises(xt.RankError, match=r"XT1102[\s\S]*allocate xt.alloc_slm\(\(1, 128\), xt.f32\)"):
        wrong[1](a, shape=(128,))
    with pytest.raises(xt.ShapeError, match="XT1140"):
        changing[1](a)
    with pytest.raises(xt.ElementTypeError, match="XT3270"):
        wrong[1](a, dtype="float23")
    with pytest.raises(xt.ElementTypeError, match="XT1142"):
        wrong[1](a, dtype=xt.i4)
    with pytest.raises(xt.ShapeError, match="XT2138"):
        wrong[1](a, prefetch=True)
    with pytest.raises(xt.ShapeError, match="XT2131"):
        wrong[1](a, order=(0, 1))
    with pytest.raises(xt.TraceError, match="XT1080"):
        xt.alloc_slm((8, 16), xt.f32)


def test_too_many_bytes() -> None:
    @xt.kernel
    def large(A, *, stages=8):
        first = xt.alloc_slm((64, 64), xt.f32)
        second = xt.alloc_slm((stages, 64, 64), xt.f32)
        xt.store_tile(xt.load_tile(xt.init_tile(first, (0, 0), (8, 16))), xt.init_tile(second, (0, 0, 0), (8, 16)))

    a = np.zeros((8, 16), np.float32)
    with pytest.raises(xt.TargetError) as caught:
        _ = large.lower(a, target="bmg").xegpu
    assert "147456 bytes of shared local memory, and a work-group of bmg has 65536" in str(caught.value)
    assert "second = xt.alloc_slm((stages, 64, 64), xt.f32)" in str(caught.value)
    assert large.lower(a, target="bmg", stages=3).xegpu
    with pytest.raises(xt.TargetError, match="XT4107"):
        _ = large.lower(a, target="cpu", stages=3).xegpu


ARGUMENT = """func.func @copy(%A : memref<8x16xf32, 3>) {
  %c0 = arith.constant 0 : index
  %t = xetile.init_tile %A, [%c0, %c0] : memref<8x16xf32, 3> -> !xetile.tile<8x16xf32>
  func.return
}"""
INSIDE = """func.func @copy() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {
    %A = memref.alloc() : memref<8x16xf32, 3>
    scf.yield
  }
  func.return
}"""


@pytest.mark.parametrize(("text", "message"), [
    (ARGUMENT, "XT3020"),
    (INSIDE, "XT3042"),
    (INSIDE.replace(", 3>", ">"), "XT3040"),
    (INSIDE.replace("memref.alloc() : memref<8x16xf32, 3>", "memref.alloc(%c1) : memref<?x16xf32, 3>"), "XT3041"),
])
def test_mistakes_in_text(text: str, message: str) -> None:
    with pytest.raises(xt.TextError, match=message):
        xt.parse(text)


@xt.kernel
def transposed_from_shared(A, C, *, rows, columns, dtype):
    """A tile goes through shared local memory, and is transposed as it is loaded."""
    memory = xt.alloc_slm((rows, columns), dtype)
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns))), xt.init_tile(memory, (0, 0), (rows, columns)))
    xt.barrier()
    tile = xt.load_tile(xt.init_tile(memory, (0, 0), (rows, columns)))
    xt.store_tile(xt.tile_transpose(tile), xt.init_tile(C, (0, 0), (columns, rows)))


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", ["i32", "i8", "f16"])
@pytest.mark.parametrize("rows", [1, 2, 4, 8, 3])
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_tile_of_few_rows_is_transposed(execution: Execution, rows: int, name: str) -> None:
    dtype, columns = dtypes.of(name), 48
    a = integers(np.random.default_rng(rows), dtype, rows, columns, most=90)
    c = np.full((columns + 1, rows + 1), 99, dtype.numpy)
    execution.bind(transposed_from_shared)[1](a, c[:columns, :rows], rows=rows, columns=columns, dtype=dtype)
    np.testing.assert_array_equal(c[:columns, :rows], a.T)
    assert (c[columns:] == 99).all()
    assert (c[:, rows:] == 99).all()


def test_an_array_that_no_device_has_is_refused_while_recording() -> None:
    @xt.kernel
    def vast(A):
        memory = xt.alloc_slm((1000000, 1000000), xt.f32)
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), xt.init_tile(memory, (0, 0), (8, 16)))

    with pytest.raises(xt.TargetError) as raised:
        vast.on("numpy")[1](np.zeros((8, 16), np.float32))
    assert raised.value.code == "XT4107"
    assert "alloc_slm" in str(raised.value)


LINE_IN_SHARED = """func.func @f(%A: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %m = memref.alloc() : memref<256xf32, 3>
  %d = xegpu.create_nd_tdesc %A, [%c0, %c0] : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
  %s = xegpu.create_nd_tdesc %m, [%c0, %c0], [%c16, %c16], [%c16, %c1] : memref<256xf32, 3>
    -> !xegpu.tensor_desc<8x16xf32, #xegpu.block_tdesc_attr<memory_scope = slm>>
  %v = xegpu.load_nd %d : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  xegpu.store_nd %v, %s : vector<8x16xf32>,
    !xegpu.tensor_desc<8x16xf32, #xegpu.block_tdesc_attr<memory_scope = slm>>
  %w = xegpu.load_nd %s : !xegpu.tensor_desc<8x16xf32, #xegpu.block_tdesc_attr<memory_scope = slm>> -> vector<8x16xf32>
  %e = xegpu.create_nd_tdesc %A, [%c16, %c0] : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
  xegpu.store_nd %w, %e : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}"""


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_sizes_and_strides_describe_an_array_of_one_dimension(execution: Execution) -> None:
    a = integers(np.random.default_rng(1), xt.f32, 64, 64, most=90)
    expected = a.copy()
    expected[16:24, :16] = a[:8, :16]
    execution.bind(xt.parse(LINE_IN_SHARED)["f"])[1](a)
    np.testing.assert_array_equal(a, expected)
