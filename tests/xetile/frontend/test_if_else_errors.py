"""Mistakes with ``xt.when``, ``xt.otherwise``, barriers and fences: each has a message of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import xetile as xt

SHAPE = (8, 16)
SPEC = xt.Spec(SHAPE, xt.f32)


def _raised(A: Any, C: Any, n: Any) -> None:
    with suppress(KeyError), xt.when(n > 0):
        raise KeyError
    xt.barrier()


def _changed_type(A: Any, C: Any, n: Any) -> None:
    total = xt.zeros(SHAPE, xt.f32)
    with xt.when(n > 0):
        total = total.to(xt.f16)
    xt.store_tile(total, xt.init_tile(C, (0, 0), SHAPE))


def _changed_number(A: Any, C: Any, n: Any) -> None:
    step = 1
    with xt.when(n > 0):
        step = 2
    xt.store_tile(xt.full(SHAPE, step, xt.f32), xt.init_tile(C, (0, 0), SHAPE))


def _changed_flag(A: Any, C: Any, n: Any) -> None:
    empty = True
    with xt.when(n > 0):
        empty = False
    if empty:
        xt.barrier()


def _changed_in_a_loop(A: Any, C: Any, n: Any) -> None:
    total, scale = xt.zeros(SHAPE, xt.f32), 1
    for _ in range(2):
        total = total * scale
        with xt.when(n > 0):
            scale = 2


def _grown(A: Any, C: Any, n: Any) -> None:
    rows: list[Any] = []
    with xt.when(n > 0):
        rows.append(xt.zeros(SHAPE, xt.f32))
    for row in rows:
        xt.store_tile(row, xt.init_tile(C, (0, 0), SHAPE))


def _made_in_when(A: Any, C: Any, n: Any) -> None:
    with xt.when(n > 0):
        total = xt.load_tile(xt.init_tile(A, (0, 0), SHAPE)) * 2
    with xt.otherwise():
        xt.store_tile(total, xt.init_tile(C, (0, 0), SHAPE))


def _vector_or_none(A: Any, C: Any, n: Any) -> None:
    rows = [None, None]
    with xt.when(n > 0):
        rows = [xt.zeros(SHAPE, xt.f32)] * 2
    with xt.otherwise():
        rows = [xt.zeros(SHAPE, xt.f32), None]
    xt.store_tile(rows[1], xt.init_tile(C, (0, 0), SHAPE))


def _shorter(A: Any, C: Any, n: Any) -> None:
    with xt.when(n > 0):
        rows = [xt.zeros(SHAPE, xt.f32)] * 2
    with xt.otherwise():
        rows = [xt.zeros(SHAPE, xt.f32)]
    xt.store_tile(rows[0], xt.init_tile(C, (0, 0), SHAPE))


def _other_keys(A: Any, C: Any, n: Any) -> None:
    value = xt.zeros(SHAPE, xt.f32)
    with xt.when(n > 0):
        rows = {"a": value + 1, "b": value}
    with xt.otherwise():
        rows = {"a": value, "c": value}
    xt.store_tile(rows["a"], xt.init_tile(C, (0, 0), SHAPE))


def _differing_numbers(A: Any, C: Any, n: Any) -> None:
    with xt.when(n > 0):
        scale = 2
    with xt.otherwise():
        scale = 3
    xt.store_tile(xt.full(SHAPE, scale, xt.f32), xt.init_tile(C, (0, 0), SHAPE))


def _barrier_in_a_loop(A: Any, C: Any, n: Any) -> None:
    for _ in xt.range(n, n + xt.subgroup_id()):
        xt.barrier()


def _barrier_by_a_choice(A: Any, C: Any, n: Any) -> None:
    rounds = n
    with xt.when(xt.subgroup_id() == 0):
        rounds = rounds + 1
    for _ in xt.range(rounds):
        xt.barrier()


def _fence_of_all(A: Any, C: Any, n: Any) -> None:
    xt.fence("gpu", "slm")


CASES: tuple[tuple[Any, str, str], ...] = (
    (_raised, "XT1321", "xt.when(n > 0)"),
    (_changed_type, "XT1311", "xt.when(n > 0)"),
    (_changed_number, "XT1312", "xt.when(n > 0)"),
    (_changed_flag, "XT1312", "xt.when(n > 0)"),
    (_changed_in_a_loop, "XT1312", "xt.when(n > 0)"),
    (_grown, "XT1313", "xt.when(n > 0)"),
    (_made_in_when, "XT1082", "xt.store_tile("),
    (_vector_or_none, "XT1323", "xt.otherwise()"),
    (_differing_numbers, "XT1323", "xt.otherwise()"),
    (_shorter, "XT1313", "xt.otherwise()"),
    (_other_keys, "XT1323", "xt.otherwise()"),
    (_barrier_in_a_loop, "XT1486", "xt.barrier()"),
    (_barrier_by_a_choice, "XT1486", "xt.barrier()"),
    (_fence_of_all, "XT3352", "xt.fence("),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__[1:])
def test_mistakes(case: tuple[Any, str, str]) -> None:
    function, code, source = case
    with pytest.raises(xt.XeError) as caught:
        xt.kernel(function).lower(SPEC, SPEC, 3)
    text = str(caught.value)
    assert caught.value.code == code, text
    assert source in text.splitlines()[2], text


def test_outside_a_kernel() -> None:
    for make in (lambda: xt.when(True), xt.otherwise, xt.barrier, xt.fence):
        with pytest.raises(xt.TraceError, match="XT1080"):
            make()


_TEXT = """
func.func @k(%A: memref<?x?xf32, strided<[?, ?]>>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %s = "gpu.subgroup_id"() : () -> index
  %c = arith.cmpi slt, %s, %n : index
  BODY
  func.return
}
"""


@pytest.mark.parametrize(("body", "code"), [
    ('scf.if %c {\n "gpu.barrier"() : () -> ()\n }', "XT1486"),
    ('scf.for %i = %zero to %s step %one {\n "gpu.barrier"() : () -> ()\n }', "XT1486"),
    ("%r = scf.if %c -> (index) {\n scf.yield %one : index\n } else {\n scf.yield %c : i1\n }",
     "XT1341"),
    ("%r = scf.if %c -> (index) {\n scf.yield %one : index\n }", "XT1340"),
    ('xegpu.fence {scope = "gpu", memory_kind = "shared"}', "XT3352"),
    ('xegpu.fence {scope = "system", memory_kind = "shared"}', "XT3352"),
    ('xegpu.fence {scope = "local", memory_kind = "shared"}', "XT1463"),
    ('xegpu.fence {scope = "gpu", memory_kind = "ugm"}', "XT1464"),
])
def test_text(body: str, code: str) -> None:
    with pytest.raises(xt.TextError) as caught:
        xt.parse(_TEXT.replace("BODY", body))
    assert caught.value.code == code
