"""Transfers of vectors of any rank from Python: every permutation, edges, promises, run-time paddings, work-groups."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, LANES, NUMPY, Execution
from xetile.dialect.permutation_map import Permutation

Array = np.ndarray[Any, Any]


def slice_of(array: Array, indices: tuple[int, ...], shape: tuple[int, ...], permutation: Permutation,
             padding: float) -> Array:
    """Reference of ``transfer_read``, element by element as SuperVector.md says it."""
    found = np.full(shape, padding, array.dtype)
    for execution in np.ndindex(*shape):
        at = list(indices)
        for axis, offset in zip(permutation, execution, strict=True):
            if axis is not None:
                at[axis] += offset
        if all(0 <= index < size for index, size in zip(at, array.shape, strict=True)):
            found[execution] = array[tuple(at)]
    return found


def written(array: Array, value: Array, indices: tuple[int, ...], permutation: Permutation) -> Array:
    """Reference of ``transfer_write``: the array behind it."""
    result = array.copy()
    for execution in np.ndindex(*value.shape):
        at = list(indices)
        for axis, offset in zip(permutation, execution, strict=True):
            assert axis is not None
            at[axis] += offset
        if all(0 <= index < size for index, size in zip(at, array.shape, strict=True)):
            result[tuple(at)] = value[execution]
    return result


def numbers(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-50, 50, shape).astype(np.float32)


@xt.kernel
def through(A, C, p, *, indices, shape, permutation, padding):
    """A slice of A to the start of C, whose dimensions are the vector's."""
    pad = p if padding == "run-time" else padding
    v = xt.vector.transfer_read(A, indices, shape, permutation=permutation, padding=pad)
    xt.vector.transfer_write(v + v, C, (0,) * C.rank)


def check_read(execution: Execution, array: Array, indices: tuple[int, ...], shape: tuple[int, ...],
               permutation: Permutation, padding: Any) -> None:
    value = -3.0 if padding == "run-time" else padding
    expected = slice_of(array, indices, shape, permutation, 0 if value is None else value)
    out = np.full([size + 2 for size in shape], 7, np.float32)
    whole = out.copy()
    whole[tuple(slice(size) for size in shape)] = 2 * expected
    execution.bind(through)[1,](array, out, np.float32(-3), indices=indices, shape=shape, permutation=permutation,
                                padding=padding)
    np.testing.assert_array_equal(out, whole)


def _permutations() -> list[tuple[int, Permutation]]:
    """For memory of one to three dimensions, every way in which a vector of one to three can run along it."""
    found = []
    for rank, dimensions in itertools.product((1, 2, 3), (1, 2, 3)):
        for axes in itertools.product((None, *range(rank)), repeat=dimensions):
            named = [axis for axis in axes if axis is not None]
            if len(set(named)) == len(named):
                found.append((rank, axes))
    return found


EVERY = _permutations()


PADDINGS = [0, 5, "run-time", None]


@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.everything) for turn in (1, 2, 3))])
@pytest.mark.parametrize("padding", PADDINGS, ids=str)
def test_every_permutation(padding: Any, turn: int) -> None:
    """In each turn every permutation occurs, with one of the paddings."""
    rng = np.random.default_rng(1)
    assert len(EVERY) == 83
    for number, (rank, permutation) in enumerate(EVERY):
        if (number + turn) % len(PADDINGS) != PADDINGS.index(padding):
            continue
        shape = tuple(rng.integers(1, 7, len(permutation)).tolist())
        array = numbers(rng, *(9, 7, 8)[:rank])
        indices = (0,) * rank if padding is None else tuple(rng.integers(-2, 9, rank).tolist())
        check_read(NUMPY, array, indices, shape, permutation, padding)
        if number // 4 % 5 == 0:  # the lowered form of some of them, others for each padding
            check_read(LANES[number // 4 % len(LANES)], array, indices, shape, permutation, padding)


LOWERED: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], Permutation, Any]] = {
    "a window": ((40, 70), (15, 30), (32, 48), (0, 1), 0),
    "transposed": ((40, 70), (-3, 30), (48, 32), (1, 0), 4),
    "a row, repeated": ((40, 70), (7, 60), (16, 32), (None, 1), "run-time"),
    "a column, repeated": ((40, 70), (30, 7), (16, 32), (0, None), 2),
    "one element": ((40, 70), (7, 9), (128,), (None,), None),
    "a row of a batch": ((3, 20, 40), (2, 5, 30), (64,), (2,), 1),
    "a matrix of a batch that is not there": ((3, 20, 40), (3, 5, 0), (16, 32), (1, 2), 6),
    "across a batch": ((6, 5, 40), (1, 2, 8), (4, 16), (0, 2), "run-time"),
    "the specification's": ((7, 3, 6, 2), (1, 2, 3, 1), (3, 4, 5), (2, None, 0), None),
    "three dimensions": ((6, 5, 40), (4, -1, 35), (3, 4, 16), (0, 1, 2), 9),
    "a line": ((100,), (70,), (64,), (0,), 3),
}


def _spread(names: Iterable[str]) -> list[tuple[str, Execution]]:
    """Each case in two of the lowered forms, in turns."""
    return [(name, LANES[(number + step) % 4]) for number, name in enumerate(names) for step in (0, 2)]


@pytest.mark.parametrize(("name", "execution"), _spread(LOWERED), ids=str)
def test_lowered(name: str, execution: Execution) -> None:
    sizes, *rest = LOWERED[name]
    check_read(execution, numbers(np.random.default_rng(2), *sizes), *rest)


@xt.kernel
def many(M, B, L, O, p):  # noqa: E741
    """One of each kind in one kernel, a block of rows of O each."""
    turned = xt.vector.transfer_read(M, (-3, 30), (8, 16), permutation=(1, 0), padding=4)
    row = xt.vector.transfer_read(M, (7, 60), (4, 16), permutation=(None, 1), padding=p)
    across = xt.vector.transfer_read(B, (1, 2, 30), (8, 16), permutation=(0, 2), padding=p)
    cube = xt.vector.transfer_read(B, (4, -1, 30), (2, 8, 16), padding=9)
    line = xt.vector.transfer_read(L, (70,), 48, padding=3)
    xt.vector.transfer_write(turned, O, (0, 0, 0), permutation=(1, 2))
    xt.vector.transfer_write(row, O, (1, 0, 0), permutation=(1, 2))
    xt.vector.transfer_write(across, O, (2, 0, 0), permutation=(1, 2))
    xt.vector.transfer_write(cube * 2.0, O, (3, 0, 0))
    xt.vector.transfer_write(line, O, (5, 3, 0), permutation=(2,))
    xt.vector.transfer_write(turned, O, (6, 0, 1), permutation=(1, 2))  # a column of it falls outside
    xt.vector.transfer_write(turned, O, (7, 4, 3), permutation=(2, 1))


@pytest.mark.parametrize("execution", DEVICE, ids=str)
def test_on_the_device(execution: Execution) -> None:
    rng = np.random.default_rng(3)
    m, b, line = numbers(rng, 40, 70), numbers(rng, 6, 5, 40), numbers(rng, 100)
    out = np.full((8, 9, 16), 7, np.float32)
    expected = out.copy()
    turned = slice_of(m, (-3, 30), (8, 16), (1, 0), 4)
    blocks = [(turned, (0, 0, 0), (1, 2)), (slice_of(m, (7, 60), (4, 16), (None, 1), -3), (1, 0, 0), (1, 2)),
              (slice_of(b, (1, 2, 30), (8, 16), (0, 2), -3), (2, 0, 0), (1, 2)),
              (2 * slice_of(b, (4, -1, 30), (2, 8, 16), (0, 1, 2), 9), (3, 0, 0), (0, 1, 2)),
              (slice_of(line, (70,), (48,), (0,), 3), (5, 3, 0), (2,)), (turned, (6, 0, 1), (1, 2)),
              (turned, (7, 4, 3), (2, 1))]
    for value, indices, permutation in blocks:
        expected = written(expected, value, indices, permutation)
    execution.bind(many)[1,](m, b, line, out, np.float32(-3))
    np.testing.assert_array_equal(out, expected)


@xt.kernel
def back(V, O, *, shape, indices, permutation):  # noqa: E741
    v = xt.vector.transfer_read(V, (0,) * V.rank, shape)
    xt.vector.transfer_write(v, O, indices, permutation=permutation)


WRITES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], Permutation]] = {
    "transposed, over an edge": ((16, 32), (40, 20), (20, -1), (1, 0)),
    "the specification's, smaller": ((8, 4, 16), (2, 9, 20, 12), (1, 2, 3, 5), (3, 1, 2)),
    "across a batch": ((4, 16), (5, 3, 20), (2, 1, 3), (0, 2)),
    "a line": ((48,), (60,), (20,), (0,)),
    "a matrix that is not there": ((8, 16), (3, 20, 20), (-1, 2, 3), (1, 2)),
}


@pytest.mark.parametrize(("name", "execution"), [*((name, NUMPY) for name in WRITES), *_spread(WRITES)], ids=str)
def test_writes(name: str, execution: Execution) -> None:
    shape, sizes, indices, permutation = WRITES[name]
    value, out = numbers(np.random.default_rng(4), *shape), np.full(sizes, 7, np.float32)
    expected = written(out, value, indices, permutation)
    execution.bind(back)[1,](value, out, shape=shape, indices=indices, permutation=permutation)
    np.testing.assert_array_equal(out, expected)


@xt.kernel
def promising(A, C, *, first, padding=None, in_bounds=True):
    v = xt.vector.transfer_read(A, (first, 0, 0), (4, 16), permutation=(0, 2), padding=padding)
    xt.vector.transfer_write(v, C, (first, 0, 0), permutation=(1, 2), in_bounds=in_bounds)


@pytest.mark.parametrize("target", ["pvc", "dg2", "cpu"])
def test_a_promise_leaves_no_comparison_in_the_code(target: str) -> None:
    spec = xt.Spec((None, None, None), "f32")
    held = promising.lower(spec, spec, first=1, target=target)
    careful = promising.lower(spec, spec, first=1, padding=0, in_bounds=False, target=target)
    assert "cmpi" not in held.stages["lower-supervector"]
    assert "cmpi" in careful.stages["lower-supervector"]
    assert not re.search(r"[<>]=? |\? ", held.opencl.replace("<<", "").replace(">>", "")), held.opencl
    assert re.search(r"< ", careful.opencl)
    assert str(xt.parse(held.stages["lower-supervector"])) == held.stages["lower-supervector"]


def test_a_broken_promise_is_seen_by_numpy() -> None:
    a = np.ones((5, 1, 16), np.float32)
    with pytest.raises(xt.ShapeError, match="XT6020") as error:
        promising.on("numpy")[1,](a, np.zeros((2, 9, 16), np.float32), first=2)
    assert "transfer_read(A, (first, 0, 0)" in str(error.value)
    with pytest.raises(xt.ShapeError, match="XT6020"):
        promising.on("numpy")[1,](a, np.zeros((2, 3, 16), np.float32), first=1)
    with pytest.raises(xt.ShapeError, match="XT3314"):
        promising.on("numpy:xegpu")[1,](a, np.zeros((2, 9, 16), np.float32), first=2)


@xt.kernel
def distributed(A, C, *, sg=4):
    """vector<16x32x64> of the specification, distributed to the subgroups of a work-group by its collapsed rows."""
    map_ = xt.wg_map((sg, 1), (512 // sg, 64))
    v = xt.vector.transfer_read(A, (0, 1, 2), (16, 32, 64), permutation=(2, None, 0), padding=5, wg_map=map_)
    w = xt.vector.broadcast(1, (16, 32, 64), xt.f32, wg_map=map_)
    xt.vector.transfer_write(v + w, C, (1, 2, 3, 4), permutation=(3, 1, 2))


@pytest.mark.parametrize("execution", [NUMPY, *LANES[:1]], ids=str)
def test_dealt_to_a_work_group(execution: Execution) -> None:
    a, out = numbers(np.random.default_rng(5), 60, 3, 20), np.full((2, 33, 70, 22), 7, np.float32)
    value = slice_of(a, (0, 1, 2), (16, 32, 64), (2, None, 0), 5) + 1
    expected = out.copy()
    expected[1, 2:34, 3:67, 4:20] = value.transpose(1, 2, 0)[:31]
    execution.bind(distributed)[1,](a, out, sg=4 if execution is NUMPY else 32)
    np.testing.assert_array_equal(out, expected)


@xt.kernel
def cast(A, C):
    """The one vector of an argument, by way of shared local memory."""
    shared = xt.vector.type_cast(xt.alloc_slm((5, 4, 3), xt.f32))
    shared.store(xt.vector.type_cast(A, shape=(5, 4, 3)).load() * 2.0)
    xt.barrier()
    xt.vector.transfer_write(shared.load(), C, (0, 0, 0))


@pytest.mark.parametrize("execution", [NUMPY, *LANES], ids=str)
def test_type_cast(execution: Execution) -> None:
    a, out = numbers(np.random.default_rng(6), 5, 4, 3), np.full((5, 5, 4), 7, np.float32)
    expected = out.copy()
    expected[:, :4, :3] = 2 * a
    execution.bind(cast)[2,](a, out)
    np.testing.assert_array_equal(out, expected)
    if execution is NUMPY:
        with pytest.raises(xt.ShapeError, match="XT1047"):
            execution.bind(cast)[1,](a[:, :, :2], out)


@xt.kernel
def viewed(A, C):
    g = xt.group_id(0) * 8
    part = xt.vector.subview(xt.vector.subview(A, (g, 0, 4), (8, 1, 64)), (0, 1, 8), (8, 1, 32))
    v = xt.vector.transfer_read(part, (0, 0, 0), (8, 16), permutation=(0, 2), padding=3)
    w = xt.vector.transfer_read(part, (0, 0, xt.group_id(0)), (8, 16), permutation=(0, 2))
    xt.vector.transfer_write(v - w, xt.vector.subview(C, (g, 2), (8, 16)), (0, 0))


@pytest.mark.parametrize("execution", [NUMPY, LANES[2]], ids=str)
def test_views(execution: Execution) -> None:
    a, out = numbers(np.random.default_rng(7), 16, 3, 50), np.full((17, 20), 7, np.float32)
    expected = out.copy()
    for group in (0, 1):
        rows = a[8 * group:8 * group + 8, 1]
        expected[8 * group:8 * group + 8, 2:18] = rows[:, 12:28] - rows[:, 12 + group:28 + group]
    execution.bind(viewed)[2,](a, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [xt.bf16, xt.u8, xt.i64], ids=str)
def test_other_elements(dtype: Any) -> None:
    @xt.kernel
    def moved(A, C):
        v = xt.vector.transfer_read(A, (1, 1, 1), (4, 16), permutation=(2, 0), padding=1)
        xt.vector.transfer_write(v, C, (0, 0))

    a = np.random.default_rng(8).integers(0, 100, (9, 2, 4)).astype(dtype.numpy)
    for execution in (NUMPY, LANES[0]):
        out = np.zeros((4, 16), dtype.numpy)
        execution.bind(moved)[1,](a, out)
        np.testing.assert_array_equal(out, slice_of(a, (1, 1, 1), (4, 16), (2, 0), 1))


def _read(*given: Any, **named: Any) -> Any:
    return lambda A, C, v: xt.vector.transfer_read(A, *given, **named)


def _write(*given: Any, **named: Any) -> Any:
    return lambda A, C, v: xt.vector.transfer_write(v, A, *given, **named)


MISTAKES: dict[str, tuple[Any, str]] = {
    "too few indices": (_read((0, 0), (4, 16)), "XT1508"),
    "twice": (_read((0, 0, 0), (4, 4), permutation=(1, 1)), "XT2343"),
    "not there": (_read((0, 0, 0), (4, 4), permutation=(1, 3)), "XT2342"),
    "too short": (_read((0, 0, 0), (4, 4), permutation=(1,)), "XT1511"),
    "too many": (_read((0, 0, 0), (2, 2, 4, 4)), "XT1509"),
    "no permutation": (_read((0, 0, 0), (4,), permutation=("x",)), "XT1510"),
    "no shape": (_read((0, 0, 0), (0, 4)), "XT1507"),
    "run-time shape": (lambda A, C, v: xt.vector.transfer_read(A, (0, 0, 0), (A.shape[0],)), "XT1506"),
    "no array": (lambda A, C, v: xt.vector.transfer_read(v, (0, 0), 4), "XT1505"),
    "padding of another type": (lambda A, C, v: xt.vector.transfer_read(A, (0, 0, 0), 4, padding=A.shape[0]), "XT1203"),
    "a write that repeats": (_write((0, 0, 0), permutation=(None, 2)), "XT2347"),
    "other elements": (lambda A, C, v: xt.vector.transfer_write(v.to(xt.i32), A, (0, 0, 0)), "XT1501"),
    "no vector": (lambda A, C, v: xt.vector.transfer_write(1.0, A, (0, 0, 0)), "XT1225"),
    "a map that does not fit": (_read((0, 0, 0), (3, 5, 16), wg_map=xt.wg_map((2, 1), (8, 16))), "XT1153"),
    "cast without sizes": (lambda A, C, v: xt.vector.type_cast(A), "XT1502"),
    "cast of another rank": (lambda A, C, v: xt.vector.type_cast(A, shape=(3, 4)), "XT1503"),
    "stored in another shape": (lambda A, C, v: xt.vector.type_cast(C, shape=(4, 8)).store(v), "XT1500"),
    "a view that is left": (lambda A, C, v: xt.vector.transfer_read(xt.vector.subview(C, (0, 0), (8, 16)), (4, 8),
                                                                    (8, 8), padding=0), "XT1512"),
    "a view of too few sizes": (lambda A, C, v: xt.vector.subview(C, (0, 0), 8), "XT1504"),
    "a tile's function": (lambda A, C, v: xt.tile_transpose(xt.vector.transfer_read(A, (0, 0, 0), (2, 4, 4))),
                          "XT1122"),
    "single elements of shared memory": (
        lambda A, C, v: xt.vector.transfer_read(xt.alloc_slm((4, 8, 16), xt.f32), (0, 0, 0), (4, 16),
                                                permutation=(0, 2)),
        "XT2525"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    body, code = MISTAKES[name]

    @xt.kernel
    def wrong(A, C):
        v = xt.vector.transfer_read(C, (0, 0), (4, 16))
        made = body(A, C, v)
        if made is not None:
            xt.vector.transfer_write(made, C, (0, 0))

    with pytest.raises(xt.XeError) as error:
        wrong.lower(xt.Spec((None, None, None), "f32"), xt.Spec((None, None), "f32"), target="pvc").stages  # noqa: B018
    assert error.value.code == code
    assert error.value.location is not None
    assert error.value.location.line
