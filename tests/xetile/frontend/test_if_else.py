"""Conditions on the device: what ``xt.when`` and ``xt.otherwise`` choose, compared with plain Python's ``if``."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, LANES, NUMPY, Bordered, Execution, integers

pytestmark = pytest.mark.unoptimised

SHAPE = (8, 16)
GROUPS = 5
Body = Callable[[Any, Any, Any, Any, Any], Any]


def plain(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r < n):
        a = a + b
    return a - 1


def every_order(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    total = a * 0
    for i, condition in enumerate([r < n, r <= n, r > n, r >= n, r == n, r != n, r > 2, n == r + 1]):
        with x.when(condition):
            total = total + a * (i + 1) + b
    return total


def of_floats(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(number(x, r) * 0.5 >= 1.5):
        a = a + b
    with x.when(number(x, r) != 2.0):
        a = a * 3
    return a - 1


def both_conditions(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when((r > 0) & (r != n)):
        a = a + b
    with x.when((r == 0) | (r == n)):
        a = a * 2
    return a + 1


def chosen(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r < n):
        a = a + b
    with x.otherwise():
        a = a - b * 2
    return a + 1


def first_value_in_both(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r % 2 == 0):
        row, items = a + 1, [a, b * 2]
    with x.otherwise():
        row, items = b - 1, [b * 3, a]
    return row + items[0] * 2 - items[1]


def none_before(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    row, rows = None, [None, 3]
    with x.when(r == n):
        row, rows = a, [b, a]
    with x.otherwise():
        row, rows = b, [a * 2, b + 1]
    return row + rows[0] * 2 - rows[1]


def different_ones(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r < n):
        a = a + 1
    with x.otherwise():
        b = b - 1
    return a - b * 2


def only_otherwise(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r < n):
        b + 1
    with x.otherwise():
        a = b
    return a - b * 2


def swapped(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r >= n):
        a, b = b, a
    return a - b * 2


def swapped_in_both(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    c = a * 3
    with x.when(r >= n):
        a, b, c = b, c, a
    with x.otherwise():
        a, b, c = c, a, b
    return a - b * 2 + c * 5


def one_for_two(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r == n):
        a = b
    a = a + 1
    return a - b * 2


def in_containers(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    accs, pair, state = [a] * 3, (a, (b, a)), {"sum": b, "rest": {"last": a}}
    with x.when(r < n):
        accs[1] = accs[1] + b
        pair = (pair[1][0], (pair[0], pair[1][1] + 1))
        state["rest"]["last"] = state["sum"] * 2
    with x.otherwise():
        accs[2] = accs[0] - b
        accs[1] = accs[1] + 7
    return accs[0] + accs[1] * 2 + accs[2] * 3 + pair[0] * 5 - pair[1][1] + state["rest"]["last"]


def in_objects(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    state = SimpleNamespace(total=a, rows=[b])
    with x.when(r > 1):
        state.total, state.rows[0] = state.rows[0] + 1, state.total
    return state.total - state.rows[0] * 2


def closed_over(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    total = a

    def step() -> None:
        nonlocal total
        total = total + b

    with x.when(r < n):
        step()
        step()
    with x.otherwise():
        step()
    return total


def _clamped(x: Any, value: Any, rows: list[Any], r: Any, n: Any) -> Any:
    with x.when(r < n):
        value = value + rows[0]
        rows[0] = rows[0] * 2
    return value


def in_called_functions(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    rows = [b]
    first = _clamped(x, a, rows, r, n)
    return first + _clamped(x, first, rows, n, r) * 2 + rows[0]


def in_a_loop(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    total, count = a, x.scalar(3)
    for k in x.range(r + 2):
        with x.when(k % 2 == 1):
            total = total + b * number(x, k)
            count = count + k
        total = total - 1
    return total * number(x, count)


def around_a_loop(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r > 1):
        for k in x.range(r):
            a = a + b * number(x, k)
    with x.otherwise():
        for k in x.range(n):
            a = a - number(x, k + 1)
    return a


def nested(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r > 0):
        a = a + 1
        with x.when(r > n):
            a = a * 2
            for k in x.range(n):
                with x.when(k == 1):
                    a = a + b
                with x.otherwise():
                    b = b + 1
        with x.otherwise():
            b = b - 3
    return a - b * 2


def a_chain(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r == 0):
        value = a
    with x.otherwise():
        with x.when(r < n):
            value = b * 2
        with x.otherwise():
            value = a - b
    return value


def under_python(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    for i in range(4):
        if i == 2:
            continue
        with x.when(r == i):
            a = a * (i + 2)
        with x.otherwise():
            b = b + i
    return a + b


def under_conditions(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r > 0), x.when(r < 3):
        a = a + b
    return a * 2


def other_names(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    row, i = b, 7
    with x.when(r < n):
        row, i = r, 5
        a = a + b * number(x, row) + i
    row = a * 2
    for i in range(2):
        row = row + i
    return row + a


def untouched(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    with x.when(r < n):
        a = a + 0 * b
        a = a - 0 * b
    with x.when(r < n):
        b + a
    return a + b


def after_a_closure_over_an_index(x: Any, a: Any, b: Any, r: Any, n: Any) -> Any:
    for k in x.range(3):
        scale = lambda v: v * number(x, k)  # noqa: B023, E731 - the variable of this iteration
        a = a + scale(b)
    with x.when(r < n):
        a = a - b
    with x.otherwise():
        b = a + b
    return a + b


BODIES: tuple[Body, ...] = (
    plain, every_order, of_floats, both_conditions, chosen, first_value_in_both, none_before, different_ones,
    only_otherwise, swapped, swapped_in_both, one_for_two, in_containers, in_objects, closed_over, in_called_functions,
    in_a_loop, around_a_loop, nested, a_chain, under_python, under_conditions, other_names, untouched,
    after_a_closure_over_an_index,
)
"""Bodies take the language, two vectors, the position of the work-group and an argument of the kernel."""

NUMPY_LANGUAGE = SimpleNamespace(range=range, scalar=lambda value: value)


def number(language: Any, k: Any) -> Any:
    """A run-time index as a number that vectors can be multiplied by."""
    return k if language is NUMPY_LANGUAGE else k.to(xt.f32)


def in_plain_python(body: Body) -> Body:
    """The same body with Python's own ``if`` and ``else``."""
    text = textwrap.dedent(inspect.getsource(body))
    text = re.sub(r"with x\.when\((.*)\), x\.when\((.*)\):", r"if (\1) and (\2):", text)
    text = re.sub(r"with x\.when\((.*)\):", r"if \1:", text).replace("with x.otherwise():", "else:")
    assert "when" not in text
    scope = dict(globals())
    if body is in_called_functions:
        scope["_clamped"] = in_plain_python(_clamped)
    exec(text, scope)
    return scope[body.__name__]  # type: ignore[no-any-return]


@xt.kernel
def run(A, B, C, n, *, body):
    row = xt.group_id(0)
    a, b = (xt.load_tile(xt.init_tile(array, (0, 0), SHAPE)) for array in (A, B))
    xt.store_tile(body(xt, a, b, row, n), xt.init_tile(C, (row * SHAPE[0], 0), SHAPE))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, request.node.name)))


def compare(execution: Execution, body: Body, rng: np.random.Generator) -> None:
    a, b = (integers(rng, xt.f32, *SHAPE) for _ in range(2))
    for n in (0, 2, 7):
        c = np.full((GROUPS * SHAPE[0], SHAPE[1]), 77, np.float32)
        execution.bind(run)[GROUPS](a, b, c, n, body=body)
        wanted = [in_plain_python(body)(NUMPY_LANGUAGE, a.copy(), b.copy(), r, n) for r in range(GROUPS)]
        np.testing.assert_array_equal(c, np.concatenate(wanted))


@pytest.mark.parametrize("execution", [NUMPY, LANES[0], LANES[2]], ids=str)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_bodies(body: Body, execution: Execution, rng: np.random.Generator) -> None:
    compare(execution, body, rng)


@pytest.mark.parametrize("target", ["pvc", "dg2", "cpu"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_bodies_on_a_device(body: Body, target: str, rng: np.random.Generator) -> None:
    compare(Execution("opencl:cpu", target), body, rng)


@pytest.mark.parametrize("target", ["pvc", "dg2", "cpu"])
@pytest.mark.parametrize("body", [chosen, nested, first_value_in_both], ids=lambda body: body.__name__)
def test_every_stage_reads_back(body: Body, target: str, rng: np.random.Generator) -> None:
    a, b = (integers(rng, xt.f32, *SHAPE) for _ in range(2))
    wanted = np.concatenate([in_plain_python(body)(NUMPY_LANGUAGE, a, b, r, 2) for r in range(GROUPS)])
    stages = run.lower(a, b, np.zeros(wanted.shape, np.float32), 2, body=body, target=target).stages
    for name, text in stages.items():
        module = xt.parse(text)
        assert str(module) == text, name
        c = np.zeros(wanted.shape, np.float32)
        module["run"].on("numpy")[GROUPS](a, b, c, 2)
        np.testing.assert_array_equal(c, wanted, name)


def test_what_changes_is_all_that_is_chosen() -> None:
    text = run.lower(*[xt.Spec(SHAPE, xt.f32)] * 3, 2, body=untouched).xetile
    assert re.findall(r"scf\.if %\d+(.*)", text) == [" -> (vector<8x16xf32>) {", " {"]
    assert text.count("else") == 1


@xt.kernel
def gemm(A, B, C, *, BM, BN, BK, sg):
    """A @ B over the steps along K that are no multiple of three; work-groups on the diagonal give twice that."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    acc = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    steps = xt.scalar(0)
    for k in xt.range(0, A.shape[1], BK):
        with xt.when(k % (3 * BK) != 0):
            acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
            steps = steps + 1
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    with xt.when(xt.group_id(0) == xt.group_id(1)):
        acc = acc * 2
    with xt.when(steps > 0):
        xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_products_at_work_group_level(execution: Execution, rng: np.random.Generator) -> None:
    a, b = integers(rng, xt.bf16, 70, 176), integers(rng, xt.bf16, 176, 90)
    c = Bordered(xt.f32, (70, 90))
    execution.bind(gemm)[3, 2](a, b, c.array, BM=32, BN=64, BK=32, sg=(2, 2))
    used = np.arange(176) // 32 % 3 != 0
    wanted = a[:, used].astype(np.float32) @ b[used].astype(np.float32)
    for i in range(2):
        wanted[i * 32:(i + 1) * 32, i * 64:(i + 1) * 64] *= 2
    c.check(wanted)


@xt.kernel(subgroups=(2, 2))
def by_subgroup(A, B, C, *, BM=16, BN=32, BK=32):
    """A @ B, but where the last subgroup works: that has the number of steps. The right ones give twice the result."""
    m, n = (xt.group_id(0) * 2 + xt.subgroup_id(0)) * BM, (xt.group_id(1) * 2 + xt.subgroup_id(1)) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    acc = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        with xt.when(xt.subgroup_id() < 3):
            acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        with xt.otherwise():
            acc = acc + 1
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    with xt.when(xt.subgroup_id(1) == 1):
        acc = acc * 2
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_subgroups_that_differ(execution: Execution, rng: np.random.Generator) -> None:
    a, b = integers(rng, xt.bf16, 64, 96), integers(rng, xt.bf16, 96, 128)
    c = np.full((64, 128), 77, np.float32)
    execution.bind(by_subgroup)[2, 2](a, b, c)
    wanted = (a.astype(np.float32) @ b.astype(np.float32)).reshape(2, 2, 16, 2, 2, 32)
    wanted[:, 1, :, :, 1] = 3
    wanted[:, :, :, :, 1] *= 2
    np.testing.assert_array_equal(c, wanted.reshape(64, 128))


@xt.kernel
def elsewhere(A, B, C, n):
    """Tiles of A, or of B in some work-groups, which go on in steps that depend on the group; some go a row lower."""
    row = xt.group_id(0)
    tile = xt.init_tile(A, (row * 8, 0), (8, 16))
    out = xt.init_tile(C, (row * 8, 0), (8, 16))
    for k in xt.range(2):
        with xt.when(row == n + k):
            tile = xt.init_tile(B, ((row - 1) * 8, 16), (8, 16))
        with xt.otherwise():
            tile = xt.update_tile_offset(tile, 0, 16)
        with xt.when(row > n):
            out = xt.update_tile_offset(out, 1, 0)
    xt.store_tile(xt.load_tile(tile, padding=3), out)


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_tiles_that_go_elsewhere(execution: Execution, offset: int, rng: np.random.Generator) -> None:
    """One array has rows at an odd pitch, which no block message reads."""
    a, b = integers(rng, xt.f32, 40, 48), integers(rng, xt.f32, 40, 48 + offset)[:, offset:]
    c = Bordered(xt.f32, (42, 16))
    c.array[...] = 0
    execution.bind(elsewhere)[5](a, b, c.array, 2)
    wanted = np.zeros((42, 16), np.float32)
    for r in range(5):
        array, top, left = a, r * 8, 0
        for k in range(2):
            array, top, left = (b, (r - 1) * 8, 16) if r == 2 + k else (array, top, left + 16)
        start = r * 8 + 2 * (r > 2)
        wanted[start:start + 8] = array[top:top + 8, left:left + 16]
    c.check(wanted)


@xt.kernel
def exchanged(A, B, C):
    """Two tiles that change places as often as the group's number says."""
    row = xt.group_id(0)
    one, other = xt.init_tile(A, (0, 0), SHAPE), xt.init_tile(B, (8, 0), SHAPE)
    for _ in xt.range(row):
        one, other = other, xt.update_tile_offset(one, 8, 16)
    xt.store_tile(xt.load_tile(one) - xt.load_tile(other) * 2, xt.init_tile(C, (row * 8, 0), SHAPE))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_tiles_that_loops_exchange(execution: Execution, rng: np.random.Generator) -> None:
    a, b = integers(rng, xt.f32, 40, 48), integers(rng, xt.f32, 40, 49)[:, 1:]
    c = np.full((40, 16), 77, np.float32)
    execution.bind(exchanged)[5](a, b, c)
    for row in range(5):
        (one, top, left), (two, low, right) = (a, 0, 0), (b, 8, 0)
        for _ in range(row):
            (one, top, left), (two, low, right) = (two, low, right), (one, top + 8, left + 16)
        wanted = one[top:top + 8, left:left + 16] - two[low:low + 8, right:right + 16] * 2
        np.testing.assert_array_equal(c[row * 8:row * 8 + 8], wanted)


def test_tiles_of_arrays_stored_in_another_order() -> None:
    by_columns = xt.Spec((40, 48), "f32", (1, 40))
    low = elsewhere.lower(xt.Spec((40, 48), "f32"), by_columns, xt.Spec((42, 16), "f32"), 2)
    with pytest.raises(xt.ShapeError, match="XT3525") as caught:
        assert low.opencl
    assert "with xt.when(row == n + k)" in str(caught.value) or "with xt.otherwise()" in str(caught.value)
    assert "stored in the same order" in caught.value.hint


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_a_condition_is_a_jump_and_the_products_stay(target: str) -> None:
    require_ocloc()
    specs = [xt.Spec((4096, 4096), "bf16")] * 2 + [xt.Spec((4096, 4096), "f32")]
    low = gemm.lower(*specs, target=target, BM=256, BN=256, BK=32, sg=(8, 4))
    report = low.report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert (report.loop["dpas"], report.loop["load_block2d"]) == (32, 3)
    text = str(low.isa())
    assert text.count("dpas.") == 32
    assert "goto" not in text  # lanes that differ would go on under a mask; one jump serves a whole subgroup
    assert len(re.findall(r"\bjmpi\b", text)) >= 3


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_subgroups_that_differ_keep_their_products(target: str) -> None:
    require_ocloc()
    specs = [xt.Spec((4096, 4096), "bf16")] * 2 + [xt.Spec((4096, 4096), "f32")]
    report = by_subgroup.lower(*specs, target=target).report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.mix.whole.categories["dpas"] == (16 if target == "dg2" else 8)
