"""``atomic_rmw_tile``: every kind and element type, in every execution, and no update is lost."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, EXECUTIONS, NUMPY, Array, Bordered, Execution, integers
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.mlir.atomic_kind import KINDS, UPDATED, kinds_of

pytestmark = pytest.mark.unoptimised

SOME = [NUMPY, Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "dg2"), Execution("opencl:cpu", "pvc"),
        Execution("opencl:cpu", "dg2"), Execution("opencl:cpu", "cpu")]


@xt.kernel
def update(A, V, OLD, *, kind, shape=(8, 16), at=(0, 0), wg_map=None):
    row, column = xt.group_id(0) * shape[0] + at[0], xt.group_id(1) * shape[1] + at[1]
    value = xt.load_tile(xt.init_tile(V, (row, column), shape, wg_map=wg_map))
    old = xt.atomic_rmw_tile(kind, value, xt.init_tile(A, (row, column), shape, wg_map=wg_map))
    xt.store_tile(old, xt.init_tile(OLD, (row, column), shape, wg_map=wg_map))


@xt.kernel
def update_each(A, V, OLD, *, kinds):
    """The rows of A in groups of 16, a kind each."""
    column = xt.group_id(1) * 16
    for i, kind in enumerate(kinds):
        row = xt.group_id(0) * 8 + 16 * i
        value = xt.load_tile(xt.init_tile(V, (row, column), (8, 16)))
        old = xt.atomic_rmw_tile(kind, value, xt.init_tile(A, (row, column), (8, 16)))
        xt.store_tile(old, xt.init_tile(OLD, (row, column), (8, 16)))


@xt.kernel
def pile_up(A, OLD, *, kind="add", shape=(8, 16)):
    """All groups update one tile, each by its number plus one."""
    value = xt.full(shape, 1, A.dtype)
    old = xt.atomic_rmw_tile(kind, value, xt.init_tile(A, (0, 0), shape))
    xt.store_tile(old, xt.init_tile(OLD, (xt.group_id(0) * shape[0], 0), shape))


def viewed(array: Array, dtype: DType):
    return xt.view(array, dtype) if dtype is xt.tf32 else array


def expected(kind: str, dtype: DType, old: Array, value: Array) -> Array:
    """Old and value combined in plain NumPy, in the widest type, as the element type."""
    signed = f"{'u' if kind in ('maxu', 'minu') else dtype.numpy.kind}{dtype.bytes}"
    if not dtype.is_float:
        a, b = (side.view(signed).astype(object) for side in (old, value))
    else:
        a, b = (side.astype(np.float64) for side in (old, value))
    result = {"add": lambda: a + b, "mul": lambda: a * b, "max": lambda: np.maximum(a, b),
              "min": lambda: np.minimum(a, b), "and": lambda: a & b, "ori": lambda: a | b, "xor": lambda: a ^ b,
              "ass": lambda: b}[kind[:3]]()
    if dtype.is_float:
        return result.astype(dtype.numpy)
    wrapped = np.vectorize(lambda number: int(number) & (1 << dtype.bits) - 1, otypes=[object])(result)
    return wrapped.astype(f"u{dtype.bytes}").view(dtype.numpy)


def data(rng: np.random.Generator, dtype: DType, shape: tuple[int, int]) -> Array:
    """Integers of every size that the type holds, halves and quarters of small ones for floats."""
    if dtype.is_float:
        return (rng.integers(-60, 61, shape) / 4).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)


@pytest.mark.parametrize(("dtype", "execution"), [(dtype, execution) for dtype in UPDATED.elements for execution in SOME
                                                  if not (dtype is xt.f64 and execution.target == "dg2")], ids=str)
def test_every_kind_of_every_type(dtype, execution):
    """Tiles that hang over two edges: what is outside is not touched, and reads as zero."""
    rng, kinds = np.random.default_rng(5), kinds_of(dtype)
    rows = 16 * len(kinds)
    a, v = data(rng, dtype, (rows - 3, 29)), data(rng, dtype, (rows, 32))
    bordered, old = Bordered(dtype, (rows - 3, 29)), np.full((rows, 32), 7).astype(dtype.numpy)
    bordered.array[...] = a
    execution.bind(update_each)[2, 2](viewed(bordered.array, dtype), viewed(v, dtype), viewed(old, dtype), kinds=kinds)
    parts = [slice(16 * i, min(16 * i + 16, rows - 3)) for i in range(len(kinds))]
    bordered.check(np.concatenate([expected(kind, dtype, a[part], v[part, :29])
                                   for kind, part in zip(kinds, parts, strict=True)]))
    assert (old[:-3, :29] == a).all()
    assert (old[-3:] == 0).all()
    assert (old[:, 29:] == 0).all()


@pytest.mark.parametrize("dtype", [xt.i8, xt.i16], ids=str)
def test_narrow_signed_elements_on_the_device(dtype):
    """Narrow elements are updated by compare and swap, also as unsigned numbers."""
    test_every_kind_of_every_type(dtype, DEVICE[0])


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [xt.i32, xt.f32, xt.u8, xt.bf16], ids=str)
def test_no_update_is_lost(dtype, execution):
    """The old values that many groups find in one element are 0, 1, 2 ... in some order."""
    groups = 100
    a, old = np.zeros((8, 16), dtype.numpy), np.full((groups * 8, 16), 120, dtype.numpy)
    execution.bind(pile_up)[groups](a, old)
    assert (a.astype(int) == groups).all()
    found = np.sort(old.reshape(groups, 8, 16).astype(int), axis=0)
    assert (found == np.arange(groups)[:, None, None]).all()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_exchanges_form_a_history(execution):
    """Exchange between groups: each value is found once, but for the last."""
    @xt.kernel
    def swap(A, V, OLD):
        here = (xt.group_id(0) * 8, 0)
        value = xt.load_tile(xt.init_tile(V, here, (8, 16)))
        old = xt.atomic_rmw_tile("exchange", value, xt.init_tile(A, (0, 0), (8, 16)))
        xt.store_tile(old, xt.init_tile(OLD, here, (8, 16)))

    groups, rng = 30, np.random.default_rng(1)
    a = rng.integers(-9, 0, (8, 16)).astype(np.float32)
    v = rng.permuted(np.broadcast_to(np.arange(groups)[:, None, None], (groups, 8, 16)), axis=0).astype(np.float32)
    old, before = np.zeros((groups * 8, 16), np.float32), a.copy()
    execution.bind(swap)[groups](a, v.reshape(-1, 16), old)
    history = np.concatenate([old.reshape(groups, 8, 16), a[None]])
    values = np.concatenate([v, before[None]])
    assert (np.sort(history, axis=0) == np.sort(values, axis=0)).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_in_a_loop_on_a_tile_that_moves(execution):
    @xt.kernel
    def histogram(A, V):
        tile = xt.init_tile(A, (0, 0), (16, 16))
        value = xt.load_tile(xt.init_tile(V, (xt.group_id(0) * 16, 0), (16, 16)))
        for _ in xt.range(0, 3):
            xt.atomic_rmw_tile("add", value, tile)
            value = value + 1.0
            tile = xt.update_tile_offset(tile, 0, 8)

    rng = np.random.default_rng(2)
    a, v = integers(rng, "f32", 16, 30), integers(rng, "f32", 64, 16)
    result = np.pad(a, ((0, 0), (0, 2)))
    for step in range(3):
        result[:, 8 * step:8 * step + 16] += v.reshape(4, 16, 16).sum(0) + 4 * step
    execution.bind(histogram)[4](a, v)
    assert (a == result[:, :30]).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
@pytest.mark.parametrize("view", [lambda whole: whole.T, lambda whole: whole[::-1, ::2]], ids=["columns", "strided"])
def test_arrays_of_any_strides(view, execution):
    rng = np.random.default_rng(3)
    whole = integers(rng, "i32", 24, 48)
    a = view(whole)
    v, old, before = integers(rng, "i32", *a.shape), np.zeros(a.shape, np.int32), a.copy()
    execution.bind(update)[-(-a.shape[0] // 8), -(-a.shape[1] // 16)](a, v, old, kind="add")
    assert (a == before + v).all()
    assert (old == before).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
@pytest.mark.parametrize("shape", [(8, 8), (32, 32), (24, 48), (1, 16)], ids=str)
def test_tiles_of_other_shapes(shape, execution):
    rng = np.random.default_rng(4)
    a, v, old = integers(rng, "f32", 50, 70), integers(rng, "f32", 50, 70), np.zeros((50, 70), np.float32)
    before = a.copy()
    execution.bind(update)[-(-50 // shape[0]), -(-70 // shape[1])](a, v, old, kind="addf", shape=shape)
    assert (a == before + v).all()
    assert (old == before).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
@pytest.mark.parametrize("map_", [xt.wg_map((2, 2), (8, 16)), xt.wg_map((1, 2), (16, 16))], ids=str)
def test_a_work_groups_tile(map_, execution):
    rng = np.random.default_rng(6)
    a, v, old = integers(rng, "f32", 50, 70), integers(rng, "f32", 50, 70), np.zeros((50, 70), np.float32)
    before = a.copy()
    execution.bind(update)[2, 2](a, v, old, kind="max", shape=(32, 64), wg_map=map_)
    assert (a == np.maximum(before, v)).all()
    assert (old == before).all()


def test_elements_that_several_subgroups_own():
    a = np.zeros((32, 32), np.float32)
    with pytest.raises(xt.ShapeError, match="XT2522") as caught:
        update.lower(a, a, a, kind="add", shape=(16, 32), wg_map=xt.wg_map((4, 1), (8, 32))).opencl  # noqa: B018
    assert "sg_layout x sg_data" in str(caught.value)


@pytest.mark.parametrize("execution", SOME, ids=str)
@pytest.mark.parametrize(("kind", "keeps"), [("max", True), ("min", True), ("maxnumf", False), ("minnumf", False)])
def test_nan(kind, keeps, execution):
    a = np.tile(np.array([[np.nan, 1, np.nan, 3]], np.float32), (8, 4))
    v = np.tile(np.array([[2, np.nan, np.nan, 5]], np.float32), (8, 4))
    old = np.zeros_like(a)
    execution.bind(update)[1, 1](a, v, old, kind=kind)
    nan = np.nan
    last = 5 if kind.startswith("max") else 3
    result = np.tile(np.array([[nan, nan, nan, last] if keeps else [2, 1, nan, last]], np.float32), (8, 4))
    np.testing.assert_array_equal(a, result)


def test_text_goes_round():
    specs = [xt.Spec((None, None), "i32")] * 3
    rng = np.random.default_rng(8)
    a, v = integers(rng, "i32", 13, 29), integers(rng, "i32", 13, 29)
    for stage, text in update.lower(*specs, kind="xor").stages.items():
        read = xt.parse(text)
        assert str(read) == text
        target, old = a.copy(), np.zeros_like(a)
        read["update"].on("numpy")[2, 2](target, v, old)
        assert (target == a ^ v).all(), stage
        assert (old == a).all(), stage


def test_the_tile_is_an_output():
    specs = [xt.Spec((None, None), "i32")] * 3
    lowered = update.lower(*specs, kind="add")
    assert lowered.written == (0, 2)
    assert xt.parse(lowered.xegpu)["update"].lower(*specs).written == (0, 2)
    a = np.zeros((8, 16), np.int32)
    a.flags.writeable = False
    with pytest.raises(xt.ElementTypeError, match="XT1045"):
        update[1, 1](a, np.ones((8, 16), np.int32), np.ones((8, 16), np.int32), kind="add")


@pytest.mark.parametrize(("dtype", "kind", "names"), [("f32", "addi", "addf"), ("f32", "and", "addf"),
                                                     ("i32", "addf", "addi"), ("u32", "maxs", "maxu"),
                                                     ("i32", "sub", "addi")])
def test_a_kind_that_the_type_has_not(dtype, kind, names):
    with pytest.raises(xt.ElementTypeError, match="XT1450") as caught:
        update.lower(*[xt.Spec((64, 64), dtype)] * 3, kind=kind)
    assert names in str(caught.value)
    assert "test_atomics.py" in str(caught.value)


def test_what_is_no_kind():
    with pytest.raises(xt.ElementTypeError, match="XT1447"):
        update.lower(*[xt.Spec((64, 64), "f32")] * 3, kind=3)


def test_masks_are_for_scattered_tiles():
    @xt.kernel
    def masked(A, M):
        mask = xt.load_tile(xt.init_tile(M, (0, 0), (8, 16)))
        xt.atomic_rmw_tile("add", xt.zeros((8, 16), xt.f32), xt.init_tile(A, (0, 0), (8, 16)), mask)

    with pytest.raises(xt.ShapeError, match="XT2115"):
        masked.lower(xt.Spec((8, 16), "f32"), xt.Spec((8, 16), "i1"))


NATIVE = {("f32", "addf"): "atomic_fadd.ugm.d32", ("f32", "maxnumf"): "atomic_fmax.ugm.d32",
          ("i32", "addi"): "atomic_iadd.ugm.d32", ("u32", "maxu"): "atomic_umax.ugm.d32",
          ("i32", "mins"): "atomic_smin.ugm.d32", ("i32", "xori"): "atomic_xor.ugm.d32",
          ("f32", "assign"): "atomic_store.ugm.d32"}


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
@pytest.mark.parametrize(("dtype", "kind"), NATIVE)
def test_native_updates_are_one_message_a_register(dtype, kind, target):
    require_ocloc()
    lowered = update.lower(*[xt.Spec((4096, 4096), dtype)] * 3, kind=kind, target=target)
    assert str(lowered.isa()).count(NATIVE[dtype, kind]) == 128 // lowered.target.subgroup_size
    assert (lowered.report().spill_size, lowered.report().private_size) == (0, 0)


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
@pytest.mark.parametrize(("dtype", "kind"), [("f16", "addf"), ("bf16", "addf"), ("f32", "maximumf"), ("i32", "muli"),
                                            ("u8", "addi"), ("i16", "maxs")])
def test_other_updates_compare_and_swap(dtype, kind, target):
    require_ocloc()
    lowered = update.lower(*[xt.Spec((4096, 4096), dtype)] * 3, kind=kind, target=target)
    assert str(lowered.isa()).count("atomic_icas.ugm.d32") == 128 // lowered.target.subgroup_size
    assert (lowered.report().spill_size, lowered.report().private_size) == (0, 0)


def test_the_table_of_kinds_is_complete():
    assert len(KINDS) == 16
    assert kinds_of(dtypes.i1) == ()
    assert all(kinds_of(dtype) for dtype in UPDATED.elements)


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_a_batch_of_matrices(execution):
    """Each group updates its matrix and the next one; there is none behind the last."""
    @xt.kernel
    def spread(A, V, OLD):
        value = xt.load_tile(xt.init_tile(V, (0, 0), (16, 16)))
        for i in range(2):
            tile = xt.init_tile(A, (xt.group_id(0) + i, 0, 0), (16, 16))
            old = xt.atomic_rmw_tile("addi", value, tile)
            xt.store_tile(old, xt.init_tile(OLD, (2 * xt.group_id(0) + i, 0, 0), (16, 16)))

    rng = np.random.default_rng(9)
    a, v, old = integers(rng, "i32", 3, 13, 15), integers(rng, "i32", 16, 16), np.full((6, 13, 15), 99, np.int32)
    before = a.copy()
    execution.bind(spread)[3](a, v, old)
    assert (a == before + v[:13, :15] * np.array([1, 2, 2])[:, None, None]).all()
    assert (old[0] == before[0]).all()
    assert (old[5] == 0).all()
    assert (np.sort([old[1], old[2]], axis=0) == np.sort([before[1], before[1] + v[:13, :15]], axis=0)).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_under_a_condition(execution):
    @xt.kernel
    def some(A, B):
        one, two = xt.init_tile(A, (0, 0), (8, 16)), xt.init_tile(B, (0, 0), (8, 16))
        old = xt.zeros((8, 16), xt.i32)
        with xt.when(xt.group_id(0) > 2):
            old = xt.atomic_rmw_tile("add", xt.full((8, 16), 1, xt.i32), one)
            one = xt.update_tile_offset(one, 1, 0)
        xt.atomic_rmw_tile("max", old, two)
        xt.atomic_rmw_tile("add", xt.full((8, 16), 10, xt.i32), one)

    a, b = np.zeros((9, 16), np.int32), np.full((8, 16), -5, np.int32)
    execution.bind(some)[5](a, b)
    assert (a == np.array([32, *[52] * 7, 20])[:, None]).all()
    assert b.max() >= 1


@xt.kernel
def row_sums(A, C, *, M, N):
    """Sums of rows, added up by all groups: a column of fewer elements than a subgroup has lanes."""
    a = xt.load_tile(xt.init_tile(A, (xt.group_id(0) * M, 0), (M, N)))
    xt.atomic_rmw_tile("add", xt.tile_reduce("add", a, 1), xt.init_tile(C, (0, 0), (M, 1)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 8, 24])
def test_lanes_that_hold_copies_take_no_part(execution: Execution, rows: int) -> None:
    a = integers(np.random.default_rng(rows), "f32", 4 * rows, 32, most=9)
    c = np.zeros((rows, 1), np.float32)
    execution.bind(row_sums)[4](a, c, M=rows, N=32)
    np.testing.assert_array_equal(c[:, 0], a.reshape(4, rows, 32).sum(axis=(0, 2)))


IN_SHARED_MEMORY = """
func.func @shared(%A: memref<16xT>, %C: memref<18xT>) {
  %c0 = arith.constant 0 : index
  %iota = xegpu.iota %c0 {axis = 1 : i64} : vector<1x16xindex>
  %lanes = vector.shape_cast %iota : vector<1x16xindex> into vector<16xindex>
  %one = arith.constant dense<1> : vector<16xindex>
  %two = arith.constant dense<2> : vector<16xindex>
  %nine = arith.constant dense<9> : vector<16xindex>
  %half = arith.divsi %lanes, %two : vector<16xindex>
  %next = arith.addi %lanes, %one : vector<16xindex>
  %all = arith.constant dense<true> : vector<16xi1>
  %some = arith.cmpi ne, %lanes, %nine : vector<16xindex>
  #slm = !xegpu.tdesc_attr<memory_scope=slm, scattered=true>
  %slm = memref.alloc() : memref<16xT, slm>
  %a = XeGPU.create_tdesc %A, %lanes : memref<16xT>, vector<16xindex> into tensor_desc<16xT, #scattered>
  %c = XeGPU.create_tdesc %C, %next : memref<18xT>, vector<16xindex> into tensor_desc<16xT, #scattered>
  %each = XeGPU.create_tdesc %slm, %lanes : memref<16xT, slm>, vector<16xindex> into tensor_desc<16xT, #slm>
  %pairs = XeGPU.create_tdesc %slm, %half : memref<16xT, slm>, vector<16xindex> into tensor_desc<16xT, #slm>
  %v = XeGPU.load_gather %a, %all : tensor_desc<16xT, #scattered>, vector<16xi1> -> vector<16xT>
  XeGPU.store_scatter %v, %each, %all : vector<16xT>, vector<16xi1>, tensor_desc<16xT, #slm>
  gpu.barrier
  %o = XeGPU.atomic_rmw "addf" %v, %pairs, %some : vector<16xT>, tensor_desc<16xT, #slm>, vector<16xi1> to vector<16xT>
  gpu.barrier
  %w = XeGPU.load_gather %each, %all : tensor_desc<16xT, #slm>, vector<16xi1> -> vector<16xT>
  XeGPU.store_scatter %w, %c, %all : vector<16xT>, vector<16xi1>, tensor_desc<16xT, #scattered>
  func.return
}
"""


def _shared(dtype: DType):
    return xt.parse(IN_SHARED_MEMORY.replace("xT", f"x{dtype}"))["shared"]


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [xt.f32, xt.bf16], ids=str)
def test_shared_local_memory(dtype, execution):
    """Pairs of lanes add to one element, but for lane 9."""
    a, c = integers(np.random.default_rng(4), dtype, 1, 16)[0], np.full(18, 7, dtype.numpy)
    added = np.where(np.arange(16) == 9, 0, a.astype(int)).reshape(8, 2).sum(1)
    execution.bind(_shared(dtype))[1,](a, c)
    assert (c.astype(int) == [7, *(a[:8].astype(int) + added), *a[8:].astype(int), 7]).all()


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_shared_local_memory_in_machine_code(target):
    require_ocloc()
    asm = str(_shared(xt.bf16).lower(xt.Spec((16,), "bf16"), xt.Spec((18,), "bf16"), target=target).isa())
    assert "atomic_icas.slm.d32" in asm
    assert "atomic_icas.ugm" not in asm
