"""Statements on run-time numbers: positions, offsets, bounds of loops, conditions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.generator import Generator
from tests.fuzz.numerics import Array, convert
from tests.fuzz.program import Value


def constant(generator: Generator, number: int) -> Value:
    """A Python integer where an index is wanted."""
    value = Value(str(number), "index", (), low=number, high=number, uniform=True)
    value = generator.let(str(number), (), lambda state: np.full(state.count, number, np.int64), "index", (),
                          low=number, high=number, uniform=True)
    generator.scope.remove(value)  # not a traced value: it has no .to
    return value


def index(generator: Generator, axis: int, size: int) -> Value:
    """An offset along an axis: of the instance's own tile, a number of the program, or a constant."""
    choices = generator.choices
    kind = choices.below(8)
    if kind < 3:
        shift = choices.pick((0, 0, 0, -1, -3, 1, 7))
        return generator.let(f"{{0}} * {size}" + (f" + {shift}" if shift else ""), (generator.position[axis],),
                             lambda state, x: x * size + shift, "index", (), low=-3, high=16 * size + 7)
    if kind < 6 and (small := generator.scalars(lambda each: each.dtype == "index" and each.low is not None
                                                and each.low > -1000 and (each.high or 0) < 5000)):
        return choices.pick(small)
    return constant(generator, choices.pick((0, 1, 2, 3, 5, 8, 16, -1, -2, -5)))


def arithmetic(generator: Generator) -> Value | None:
    """Arithmetic of indices."""
    choices = generator.choices
    known = generator.scalars(lambda each: each.dtype == "index" and each.low is not None)
    if not known:
        return None
    left = choices.pick(known)
    kind = choices.pick(("+", "-", "*", "//", "%", "min", "max", "neg"))
    if kind == "neg":
        return _checked(generator, "-{0}", (left,), lambda state, x: -x, -left.high, -left.low)  # type: ignore[operator]
    number = choices.pick((1, 2, 3, 5, 8, 16))
    a, b = left.low, left.high
    assert a is not None
    assert b is not None
    if kind in ("//", "%"):
        function = operator.floordiv if kind == "//" else operator.mod
        low, high = (a // number, b // number) if kind == "//" else (0, number - 1)
        return _checked(generator, f"{{0}} {kind} {number}", (left,), lambda state, x: function(x, number), low, high)
    right = choices.pick(known) if choices.chance(0.5) else None
    c, d = (number, number) if right is None else (right.low, right.high)
    assert c is not None
    assert d is not None
    functions: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul,
                                                       "min": np.minimum, "max": np.maximum}
    function = functions[kind]
    bounds = [int(function(p, q)) for p in (a, b) for q in (c, d)]
    name = "{1}" if right is not None else str(number)
    text = f"{{0}} {kind} {name}" if kind in "+-*" else f"xt.{kind}imum({{0}}, {name})"
    return _checked(generator, text, (left,) if right is None else (left, right),
                    lambda state, x, y=number: function(x, y), min(bounds), max(bounds))


def _checked(generator: Generator, text: str, operands: tuple[Value, ...], function: Callable[..., Array], low: int,
             high: int) -> Value | None:
    """A number, unless it may leave 24 bits."""
    if max(-low, high) >= 2**24:
        return None
    return generator.let(text, operands, function, "index", (), low=low, high=high,
                         uniform=all(each.uniform for each in operands))


def argument(generator: Generator) -> Value | None:
    """A new number argument."""
    if len(generator.numbers) > 3 or generator.depth:
        return None
    return generator.number(generator.choices.pick(("index", "f32", "i64", "index")))


def converted(generator: Generator, dtype: str) -> Value | None:
    """A number of an element type, to be computed with beside vectors."""
    known = generator.scalars(lambda each: each.dtype == dtype)
    if known and generator.choices.chance(0.5):
        return generator.choices.pick(known)
    source = generator.scalars(lambda each: each.dtype in ("index", "i64", "f32") and each.low is not None
                               and each.dtype != dtype and (each.most or 0) < 2**15)
    if not source or dtype not in ("i32", "f32", "i64", "u32"):
        return None
    value = generator.choices.pick(source)
    if dtype == "u32" and (value.low or 0) < 0:
        return None
    return generator.let(f"{{0}}.to(xt.{dtype})", (value,), lambda state, x: convert(x, value.dtype, dtype), dtype, (),
                         low=value.low, high=value.high, uniform=value.uniform)


def condition(generator: Generator, *, uniform: bool = False) -> Value | None:
    """A comparison of indices, for ``when``."""
    known = generator.scalars(lambda each: each.dtype == "index" and (each.uniform or not uniform))
    if not known:
        return None
    left = generator.choices.pick(known)
    sign = generator.choices.pick(("<", ">", "==", "!=", "<=", ">="))
    compare = {"<": operator.lt, ">": operator.gt, "==": operator.eq, "!=": operator.ne, "<=": operator.le,
               ">=": operator.ge}[sign]
    number = generator.choices.pick((1, 0, 2, 3, 8))
    return generator.let(f"{{0}} {sign} {number}", (left,), lambda state, x: compare(x, number), "i1", (), low=0,
                         high=1, uniform=left.uniform)


def size_of(generator: Generator) -> Value | None:
    """A size of an array argument."""
    known = [each for each in generator.arrays if each.rank == 2]
    if not known:
        return None
    array, axis = generator.choices.pick(known), generator.choices.below(2)
    return generator.let(f"{array.name}.shape[{axis}]", (), lambda state: np.full(
        state.count, state.arrays[array.name].shape[axis], np.int64), "index", (), low=0, high=2000, uniform=True)
