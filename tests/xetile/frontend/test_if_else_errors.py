"""What goes wrong with ``xt.when``, ``xt.otherwise``, barriers and fences: each mistake has a message of its own."""

from __future__ import annotations

import re
from contextlib import ExitStack, suppress
from typing import Any

import pytest

import xetile as xt

SHAPE = (8, 16)
SPEC = xt.Spec(SHAPE, xt.f32)


def _constant(A: Any, C: Any, n: Any) -> None:
    with xt.when(True):
        pass


def _counted(A: Any, C: Any, n: Any) -> None:
    with xt.when(n):
        pass


def _vector(A: Any, C: Any, n: Any) -> None:
    with xt.when(xt.load_tile(xt.init_tile(A, (0, 0), SHAPE))):
        pass


def _text(A: Any, C: Any, n: Any) -> None:
    with xt.when("n > 0"):
        pass


def _not_entered(A: Any, C: Any, n: Any) -> None:
    xt.when(n > 0)
    xt.barrier()


def _in_a_stack(A: Any, C: Any, n: Any) -> None:
    with ExitStack() as stack:
        stack.enter_context(xt.when(n > 0))


def _returned(A: Any, C: Any, n: Any) -> None:
    with xt.when(n > 0):
        return
    xt.barrier()


def _broken(A: Any, C: Any, n: Any) -> None:
    for _ in range(3):
        with xt.when(n > 0):
            break
        xt.barrier()


def _continued(A: Any, C: Any, n: Any) -> None:
    for _ in xt.range(n):
        with xt.when(n > 0):
            continue
        xt.barrier()


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


def _one_list(A: Any, C: Any, n: Any) -> None:
    first = second = [xt.zeros(SHAPE, xt.f32)]
    with xt.when(n > 0):
        second = [first[0] + 1]
    xt.store_tile(second[0] + first[0], xt.init_tile(C, (0, 0), SHAPE))


def _made_inside(A: Any, C: Any, n: Any) -> None:
    with xt.when(n > 0):
        total = xt.load_tile(xt.init_tile(A, (0, 0), SHAPE)) * 2
    xt.store_tile(total, xt.init_tile(C, (0, 0), SHAPE))


def _made_in_when(A: Any, C: Any, n: Any) -> None:
    with xt.when(n > 0):
        total = xt.load_tile(xt.init_tile(A, (0, 0), SHAPE)) * 2
    with xt.otherwise():
        xt.store_tile(total, xt.init_tile(C, (0, 0), SHAPE))


def _no_when(A: Any, C: Any, n: Any) -> None:
    with xt.otherwise():
        pass


def _something_between(A: Any, C: Any, n: Any) -> None:
    total = xt.zeros(SHAPE, xt.f32)
    with xt.when(n > 0):
        total = total + 1
    total = total + 2
    with xt.otherwise():
        total = total - 1


def _rebound_between(A: Any, C: Any, n: Any) -> None:
    total = other = xt.zeros(SHAPE, xt.f32)
    with xt.when(n > 0):
        total = total + 1
    total = other
    with xt.otherwise():
        total = total - 1


def _twice(A: Any, C: Any, n: Any) -> None:
    with xt.when(n > 0):
        xt.fence()
    with xt.otherwise():
        xt.fence()
    with xt.otherwise():
        xt.fence()


def _differing(A: Any, C: Any, n: Any) -> None:
    with xt.when(n > 0):
        total = xt.zeros(SHAPE, xt.f32)
    with xt.otherwise():
        total = xt.zeros(SHAPE, xt.f16)
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


def _barrier_of_some(A: Any, C: Any, n: Any) -> None:
    position, first = xt.subgroup_id() // 2, xt.scalar(0)
    for _ in xt.range(n):
        first = first + position
    with xt.when(n > 0), xt.when(first == 0):
        xt.barrier()


def _barrier_in_a_loop(A: Any, C: Any, n: Any) -> None:
    for _ in xt.range(n, n + xt.subgroup_id()):
        xt.barrier()


def _barrier_by_a_choice(A: Any, C: Any, n: Any) -> None:
    rounds = n
    with xt.when(xt.subgroup_id() == 0):
        rounds = rounds + 1
    for _ in xt.range(rounds):
        xt.barrier()


def _dealt(A: Any, C: Any, n: Any) -> None:
    with xt.when(xt.subgroup_id() == 0):
        xt.store_tile(xt.zeros(SHAPE, xt.f32, wg_map=xt.wg_map((1, 1), SHAPE)),
                      xt.init_tile(C, (0, 0), SHAPE, wg_map=xt.wg_map((1, 1), SHAPE)))


def _fence_scope(A: Any, C: Any, n: Any) -> None:
    xt.fence("device")


def _fence_memory(A: Any, C: Any, n: Any) -> None:
    xt.fence(memory="shared")


def _fence_of_all(A: Any, C: Any, n: Any) -> None:
    xt.fence("gpu", "slm")


CASES: tuple[tuple[Any, type[Exception], str, str, str], ...] = (
    (_constant, xt.TraceError, "xt.when(True)", "the condition of xt.when is True", "plain `if`"),
    (_counted, xt.ElementTypeError, "xt.when(n)", "is a run-time index", r"xt\.when\(x != 0\)"),
    (_vector, xt.ElementTypeError, "xt.when(", "is a vector of 8x16 f32", r"xt\.where"),
    (_text, xt.ElementTypeError, "xt.when(", "is a str 'n > 0'", "compare run-time numbers"),
    (_not_entered, xt.TraceError, "xt.when(n > 0)", "outside a with statement, where it does nothing", "with xt.when"),
    (_in_a_stack, xt.TraceError, "xt.when(n > 0)", "is not in a with statement", "with xt.when"),
    (_returned, xt.TraceError, "xt.when(n > 0)", "left before its end, by return, break or continue", "rest behind it"),
    (_broken, xt.TraceError, "xt.when(n > 0)", "left before its end, by return, break or continue", "rest behind it"),
    (_continued, xt.TraceError, "xt.when(n > 0)", "left before its end, by return, break or continue", "rest behind"),
    (_raised, xt.TraceError, "xt.when(n > 0)", "left before its end, by an exception", "rest behind it"),
    (_changed_type, xt.TraceError, "xt.when(n > 0)", "vector of 8x16 f32 before xt.when and a vector of 8x16 f16",
     r"what xt\.when changes keeps its type: end the body with total = total\.to\(xt\.f32\)"),
    (_changed_number, xt.TraceError, "xt.when(n > 0)", "`step` is the Python number 1 before xt.when and the Python "
     "number 2 after its body, but the body is recorded whether", r"step = xt\.scalar\(1, xt\.index\)"),
    (_changed_flag, xt.TraceError, "xt.when(n > 0)", "`empty` is True before xt.when and False", "Python's own `if`"),
    (_changed_in_a_loop, xt.TraceError, "xt.when(n > 0)", "`scale` is the Python number 1 before xt.when", "xt.scalar"),
    (_grown, xt.TraceError, "xt.when(n > 0)", "`rows` holds 0 items before xt.when and 1", "make all 1 items before"),
    (_one_list, xt.TraceError, "xt.when(n > 0)", "are the same object before xt.when", "make a copy before xt.when"),
    (_made_inside, xt.TraceError, "xt.store_tile(", r"`total` is defined under a condition and is used outside",
     "a value of the same type before xt.when, or in xt.otherwise too"),
    (_made_in_when, xt.TraceError, "xt.store_tile(", "`total` is defined under a condition", "before xt.when"),
    (_no_when, xt.TraceError, "xt.otherwise()", "xt.otherwise does not follow an xt.when", "right behind"),
    (_something_between, xt.TraceError, "xt.otherwise()", "does not follow an xt.when", "right behind"),
    (_rebound_between, xt.TraceError, "xt.otherwise()", "does not follow an xt.when", "right behind"),
    (_twice, xt.TraceError, "xt.otherwise()", "does not follow an xt.when", "right behind"),
    (_differing, xt.TraceError, "xt.otherwise()", "a vector of 8x16 f32 after the body of xt.when and a vector of 8x16 "
     "f16 after that of xt.otherwise", "values of one type"),
    (_vector_or_none, xt.TraceError, "xt.otherwise()", "a vector of 8x16 f32 after .* and None after", "one type"),
    (_differing_numbers, xt.TraceError, "xt.otherwise()", "`scale` is the Python number 2 after the body of xt.when "
     "and the Python number 3 after", "xt.scalar makes one"),
    (_shorter, xt.TraceError, "xt.otherwise()", "`rows` holds 2 items before xt.otherwise and 1 after", "all 2 items"),
    (_other_keys, xt.TraceError, "xt.otherwise()", r"`rows\['b'\]` is a vector of 8x16 f32 after .* and missing after",
     "different names"),
    (_barrier_of_some, xt.TraceError, "xt.barrier()", "in a condition that depends on subgroup_id", "behind it"),
    (_barrier_in_a_loop, xt.TraceError, "xt.barrier()", "in a loop that depends on subgroup_id", "behind it"),
    (_barrier_by_a_choice, xt.TraceError, "xt.barrier()", "in a loop that depends on subgroup_id", "behind it"),
    (_dealt, xt.TraceError, "xt.when(", "depends on subgroup_id in a kernel whose tiles are distributed", "whole "
     "work-group"),
    (_fence_scope, xt.ElementTypeError, "xt.fence(", "xt.fence has no scope 'device'", "scope='workgroup' or scope="),
    (_fence_memory, xt.ElementTypeError, "xt.fence(", "xt.fence has no memory 'shared'", "memory='slm' or memory="),
    (_fence_of_all, xt.ShapeError, "xt.fence(", "shared local memory belongs to one work-group", "scope"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__[1:])
def test_mistakes(case: tuple[Any, type[Exception], str, str, str]) -> None:
    function, kind, source, message, hint = case
    with pytest.raises(kind) as caught:
        xt.kernel(function).lower(SPEC, SPEC, 3)
    text = str(caught.value)
    assert re.search(message, re.sub(r"\s+", " ", caught.value.message)), text
    assert re.search(hint, caught.value.hint), text
    assert source in text.splitlines()[2], text


def test_outside_a_kernel() -> None:
    for make in (lambda: xt.when(True), xt.otherwise, xt.barrier, xt.fence):
        with pytest.raises(xt.TraceError, match="only inside a kernel"):
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


@pytest.mark.parametrize(("body", "message"), [
    ('scf.if %c {\n "gpu.barrier"() : () -> ()\n }', "depends on subgroup_id"),
    ('scf.for %i = %zero to %s step %one {\n "gpu.barrier"() : () -> ()\n }', "depends on subgroup_id"),
    ("%r = scf.if %c -> (index) {\n scf.yield %one : index\n } else {\n scf.yield %c : i1\n }",
     r"scf.if: it gives \(index\), and a branch yields \(i1\)"),
    ("%r = scf.if %c -> (index) {\n scf.yield %one : index\n }", "no else branch"),
    ('xegpu.fence {scope = "gpu", memory_kind = "shared"}', "belongs to one work-group"),
    ('xegpu.fence {scope = "local", memory_kind = "shared"}', 'no scope "local"'),
    ('xegpu.fence {scope = "gpu", memory_kind = "ugm"}', 'no memory kind "ugm"'),
])
def test_text(body: str, message: str) -> None:
    with pytest.raises(xt.TextError, match=message):
        xt.parse(_TEXT.replace("BODY", body))
