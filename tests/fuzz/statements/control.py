"""Loops and conditions, with the values that they carry and choose."""

from __future__ import annotations

from tests.fuzz.generator import Generator, Statement
from tests.fuzz.numerics import EXACT, is_float
from tests.fuzz.program import Loop, Value, When
from tests.fuzz.statements import memory, scalars
from tests.fuzz.statements.elementwise import CALCULATED, tame

INSIDE: list[Statement] = []
"""Statements of a body, among them those of this module."""


def _inside(generator: Generator, most: int) -> None:
    for _ in range(most):
        with generator.choices.span():
            if not generator.choices.chance(0.7):
                break
            generator.choices.pick(INSIDE)(generator)


def _copy(generator: Generator, value: Value, letter: str = "c", *, uniform: bool = False) -> Value:
    copy = Value(generator.name(letter), value.dtype, value.shape, value.map, value.low, value.high, value.exact,
                 value.zero_sign, uniform and value.uniform, value.array)
    generator.scope.append(copy)
    return copy


def _as(generator: Generator, before: Value, body_start: int) -> Value:
    """A value of the body that may stand for what a loop carries: of its type, and within its bounds."""
    fitting = [each for each in generator.scope[body_start:][::-1] if each.dtype == before.dtype and each.exact
               and each.shape == before.shape and each.map == before.map and each.array is before.array]
    if not fitting:
        return before
    value = generator.choices.pick(fitting)
    if before.dtype == "tile" or before.low is None or value.shape == ():
        return value
    if value.low is not None and before.high is not None and value.high is not None and \
            before.low <= value.low and value.high <= before.high:
        return value
    return tame(generator, value, before.most or 1)


def loop(generator: Generator) -> None:
    """``xt.range``: of a constant, an argument, a size or a number of the instance."""
    choices = generator.choices
    if generator.depth >= 2:
        return
    counts = generator.scalars(lambda each: each.dtype == "index" and each.low is not None and (each.high or 0) <= 64)
    runtime = choices.chance(0.6) and counts
    stop: Value | int = choices.pick(counts) if runtime else choices.pick((2, 1, 3, 0, 4))
    step = choices.pick((1, 1, 2, 3)) if not isinstance(stop, Value) or (stop.high or 0) <= 8 else 16
    start: Value | int = choices.pick((0, 0, 1, -2))
    options = choices.pick(("", "", "", ", unroll=2", ", unroll=4"))
    carried_from = [each for each in generator.scope if each.exact and each.dtype not in ("e4m3", "e5m2", "i1")
                    and (each.shape or each.dtype == "tile") and _room(each)]
    before = [choices.pick(carried_from[::-1][:8]) for _ in range(choices.between(0, 2))] if carried_from else []
    before = list(dict.fromkeys(before))
    uniform = not isinstance(stop, Value) or stop.uniform
    high = max(start, (stop.high if isinstance(stop, Value) else stop) or 0)
    with generator.nested(uniform=uniform) as body:
        index = Value(generator.name("i"), "index", (), low=start, high=high, uniform=False)
        generator.scope.append(index)
        inside = []
        for each in before:
            copy = _copy(generator, each)
            if each.low is not None:
                copy.low, copy.high = _widened(each)
            copy.zero_sign = False
            inside.append(copy)
        body_start = len(generator.scope)
        _inside(generator, 5)
        yielded = [_as(generator, copy, body_start) for copy in inside]
    node = Loop(index, start, stop, step, options, body, counted=not choices.chance(0.2))
    behind = []
    for copy in inside:
        value = _copy(generator, copy)
        if copy.low is None:
            value.low = value.high = None
        behind.append(value)
    node.carried = list(zip(before, inside, yielded, behind, strict=True))
    generator.body.append(node)
    generator.features.add(("run-time loop" if runtime else "loop") if node.counted else "while loop")


def _room(value: Value) -> bool:
    """Whether a value may be carried: a tile, a free float, or integers with bounds that are a type's own."""
    return value.dtype == "tile" or value.dtype in CALCULATED


def _widened(value: Value) -> tuple[int, int]:
    """Bounds of what a loop carries: symmetric, so that what the body gives can be brought into them."""
    most = max(value.most or 0, 7)
    most = (1 << most.bit_length()) - 1
    if is_float(value.dtype):
        most = min(most, EXACT[value.dtype])
        return -most, most
    low, high = memory.limits(value.dtype)
    return max(low, min(value.low or 0, -most)), min(high, max(value.high or 0, most))


def when(generator: Generator) -> None:
    """``xt.when``, with or without ``xt.otherwise``."""
    if generator.depth >= 2:
        return
    choices = generator.choices
    condition = scalars.condition(generator)
    if condition is None:
        return
    sources = [each for each in generator.scope if each.exact and each.shape and each.dtype != "tile"
               and each.dtype not in ("e4m3", "e5m2", "i1")]
    before = list(dict.fromkeys(choices.pick(sources[::-1][:8]) for _ in range(choices.between(1, 2)))) \
        if sources else []
    results: list[list[Value]] = []
    bodies = []
    for _ in range(2 if choices.chance(0.6) else 1):
        with generator.nested(uniform=condition.uniform) as body:
            start = len(generator.scope)
            _inside(generator, 4)
            found = []
            for each in before:
                fitting = [value for value in generator.scope[start:][::-1] if value.dtype == each.dtype
                           and value.exact and value.shape == each.shape and value.map == each.map]
                found.append(choices.pick(fitting) if fitting else each)
            results.append(found)
        bodies.append(body)
    node = When(condition, bodies[0], bodies[1] if len(bodies) == 2 else None)
    second = results[1] if len(results) == 2 else before
    for position, each in enumerate(before):
        then, other = results[0][position], second[position]
        behind = _copy(generator, each)
        known = then.low is not None and other.low is not None
        behind.low = min(then.low, other.low) if known else None  # type: ignore[type-var]
        behind.high = max(then.high, other.high) if known else None  # type: ignore[type-var]
        behind.zero_sign = then.zero_sign and other.zero_sign
        node.chosen.append((then, other, behind))
    generator.body.append(node)
    generator.features.add("when")
