"""Element-wise statements: arithmetic, comparisons, conversions, functions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.generator import Generator
from tests.fuzz.numerics import BITS, EXACT, FLOATS, HOLDS, SIGNED, UNSIGNED, apply, convert, is_float, limits
from tests.fuzz.program import Shape, Value
from tests.fuzz.statements import memory, scalars

CALCULATED = (*FLOATS, *SIGNED, *UNSIGNED)
Bounds = tuple[int | None, int | None]


def calculated(value: Value) -> bool:
    """Whether a vector's type has arithmetic for any values."""
    return value.dtype in CALCULATED


def truth(value: Value) -> bool:
    """Whether a vector is one of truth values."""
    return value.dtype == "i1"


def tame(generator: Generator, value: Value, most: int) -> Value:
    """The vector with its integers in -most to most: as it is, or clamped, masked or converted."""
    if value.most is not None and value.most <= most:
        return value
    shape: Shape = value.shape  # type: ignore[assignment]
    if value.dtype in SIGNED or value.dtype in UNSIGNED:
        mask = (1 << most.bit_length() - 1) - 1 or 1
        return generator.let(f"{{0}} & {mask}", (value,), lambda state, v: v & np.asarray(mask, v.dtype), value.dtype,
                             shape, value.map, low=0, high=mask)
    if value.most is not None:
        return generator.let(f"xt.maximum(xt.minimum({{0}}, {most}), -{most})", (value,),
                             lambda state, v: apply(lambda x: np.clip(x, -most, most), value.dtype, v), value.dtype,
                             shape, value.map, low=-most, high=most, zero_sign=False)
    return generator.let(f"xt.where({{0}} > 1, xt.full({shape}, {most}, xt.{value.dtype}"
                         + (f", wg_map={value.map}" if value.map else "") + "), 0)", (value,),
                         lambda state, v: np.where(v.astype(np.float64) > 1, most, 0).astype(v.dtype), value.dtype,
                         shape, value.map, low=0, high=most)


def partner(generator: Generator, value: Value) -> Value | int:
    """Second operand of a vector: another one, one that is broadcast to it, a run-time number or a Python one."""
    choices = generator.choices
    same = generator.vectors(lambda each: each.dtype == value.dtype and each.map == value.map
                             and (each.shape == value.shape or (not generator.mapped and _broadcasts(each, value))))
    kind = choices.below(6)
    if kind < 3 and same:
        return choices.pick(same[:6])
    if kind == 3:
        number = choices.pick((1, 2, 3, 5, 0, 7, -1, -3, 100))
        low = limits(value.dtype)[0] if not is_float(value.dtype) else -9
        return max(number, low)
    if kind == 4 and (found := scalars.converted(generator, value.dtype)):
        return found
    shape: Shape = value.shape  # type: ignore[assignment]
    return memory.load(generator, shape, value.dtype, value.map)


def _broadcasts(value: Value, to: Value) -> bool:
    return bool(value.shape) and all(a in (b, 1) for a, b in zip(value.shape, to.shape, strict=True))


def lifted(value: Any) -> Any:
    """A number of each instance, to stand beside vectors."""
    return value[:, None, None] if np.ndim(value) == 1 else value


def bounded(dtype: str, low: int | None, high: int | None) -> Bounds:
    """Bounds of a result in its type, which wraps around where it does not hold them."""
    if is_float(dtype) or low is None or high is None:
        return low, high
    bottom, top = limits(dtype)
    if bottom <= low and high <= top:
        return low, high
    return bottom, top


def combine(generator: Generator, left: Value, right: Value | int, sign: str, function: Callable[..., Any],
            bounds: Bounds, template: str = "", *, zero_sign: bool = True) -> Value:
    """A binary operation of a vector and its partner."""
    operands = (left,) if isinstance(right, int) else (left, right)
    name = str(right) if isinstance(right, int) else "{1}"
    swap = not template and generator.choices.chance(0.2) and sign in "+*&|^"
    text = template.format("{0}", name) if template else f"{name} {sign} {{0}}" if swap else f"{{0}} {sign} {name}"

    def evaluate(state: Any, a: Any, b: Any = right) -> Any:
        b = np.asarray(b, HOLDS[left.dtype]) if isinstance(b, int) else lifted(b)
        return np.broadcast_to(apply(function, left.dtype, a, b), a.shape)

    return generator.let(text, operands, evaluate, left.dtype, left.shape, left.map, low=bounds[0], high=bounds[1],
                         zero_sign=zero_sign and all(each.zero_sign for each in operands))


def interval(function: Callable[[int, int], int], left: Value, right: Value | int) -> Bounds:
    """Bounds of a monotonic function of two bounded integers."""
    low, high = (right, right) if isinstance(right, int) else (right.low, right.high)
    if left.low is None or left.high is None or low is None or high is None:
        return None, None
    corners = [function(a, b) for a in (left.low, left.high) for b in (low, high)]
    return min(corners), max(corners)


def arithmetic(generator: Generator) -> Value | None:
    """``+``, ``-``, ``*``."""
    left = generator.vector(calculated)
    if left is None:
        return None
    right, sign = partner(generator, left), generator.choices.pick("+-*")
    function: Callable[..., Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    bounds = bounded(left.dtype, *interval(function, left, right))
    if bounds is None:
        half = limits(left.dtype)[1].bit_length() // 2 - 1
        left = tame(generator, left, 2**half - 1)
        right = right if isinstance(right, int) else tame(generator, right, 2**half - 1) if right.shape else 3
        bounds = bounded(left.dtype, *interval(function, left, right))
        if bounds is None:
            return None
    generator.features.add("arithmetic")
    return combine(generator, left, right, sign, function, bounds)


def _power_of_two(bounds: Bounds) -> int:
    low, high = bounds
    assert low is not None
    assert high is not None
    return 1 << max(high, -low - 1).bit_length()


def bitwise(generator: Generator) -> Value | None:
    """``&``, ``|``, ``^``, ``~`` of integers and truth values."""
    left = generator.vector(lambda each: not is_float(each.dtype))
    if left is None:
        return None
    sign = generator.choices.pick("&|^~")
    if left.dtype == "i1":
        same = generator.vectors(lambda each: each.dtype == "i1" and each.shape == left.shape and each.map == left.map)
        right: Value | int = generator.choices.pick(same)
        bounds: Bounds = 0, 1
    else:
        right = partner(generator, left)
        ends = interval(min, left, right)[0], interval(max, left, right)[1]
        reach = _power_of_two(ends)
        bottom, top = limits(left.dtype)
        bounds = (0 if ends[0] is not None and ends[0] >= 0 else max(-reach, bottom)), min(reach - 1, top)
    generator.features.add("bitwise")
    if sign == "~":
        if left.dtype in UNSIGNED:
            bounds = limits(left.dtype)
        elif left.dtype != "i1":
            bounds = ~left.high, ~left.low  # type: ignore[operator]
        invert = np.logical_not if left.dtype == "i1" else np.invert
        return generator.let("~{0}", (left,), lambda state, v: invert(v), left.dtype, left.shape, left.map,
                             low=bounds[0], high=bounds[1])
    function = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}[sign]
    return combine(generator, left, right, sign, function, bounds)


def shift(generator: Generator) -> Value | None:
    """``<<``, ``>>`` by a constant or by a vector of counts."""
    left = generator.vector(lambda each: each.dtype in SIGNED or each.dtype in UNSIGNED)
    if left is None:
        return None
    choices, bits = generator.choices, BITS[left.dtype]
    sign = choices.pick((">>", "<<"))
    if choices.chance(0.4):
        counts: Value | int = tame(generator, generator.choices.pick(generator.vectors(
            lambda each: each.dtype == left.dtype and each.shape == left.shape and each.map == left.map)), 7)
        if isinstance(counts, Value) and (counts.low is None or counts.low < 0):
            counts = generator.let("{0} & 7", (counts,), lambda state, v: v & np.asarray(7, v.dtype), left.dtype,
                                   left.shape, left.map, low=0, high=7)
    else:
        counts = choices.below(bits // 2 - 1 if sign == "<<" and left.dtype in SIGNED else bits)
    function = operator.rshift if sign == ">>" else operator.lshift
    low, high = interval(function, left, counts)
    if sign == "<<" and (found := bounded(left.dtype, low, high)) is None:
        return None
    if sign == "<<":
        low, high = found  # type: ignore[misc]
    generator.features.add("shift")
    return combine(generator, left, counts, sign, np.right_shift if sign == ">>" else np.left_shift, (low, high))


def division(generator: Generator) -> Value | None:
    """``/`` of floats, ``//`` and ``%`` of integers, by what is not zero."""
    left = generator.vector(calculated)
    if left is None:
        return None
    choices = generator.choices
    positive = choices.pick((3, 1, 2, 7, 10, 16))
    right: Value | int = positive
    if choices.chance(0.5) and (others := generator.vectors(
            lambda each: each.dtype == left.dtype and each.shape == left.shape and each.map == left.map)):
        other = choices.pick(others)
        if is_float(left.dtype):
            right = generator.let("xt.abs({0}) + 1", (other,), lambda state, v: apply(
                lambda x: x + x.dtype.type(1), left.dtype, np.abs(v)), left.dtype, left.shape, left.map)
            right.low, right.high = None, None
        else:
            small = tame(generator, other, 31)
            right = generator.let("({0} & 31) | 1", (small,), lambda state, v: v & np.asarray(31, v.dtype)
                                  | np.asarray(1, v.dtype), left.dtype, left.shape, left.map, low=1, high=31)
    if is_float(left.dtype):
        generator.features.add("float division")
        return combine(generator, left, right, "/", operator.truediv, (None, None))
    top = right if isinstance(right, int) else right.high
    assert top is not None
    assert left.low is not None
    assert left.high is not None
    generator.features.add("integer division")
    if choices.chance(0.5):
        return combine(generator, left, right, "//", np.floor_divide, (min(left.low, 0), max(left.high, 0)))
    return combine(generator, left, right, "%", np.remainder, (0, top - 1))


def selection(generator: Generator) -> Value | None:
    """``maximum``, ``minimum``, ``maxnum``, ``minnum``."""
    left = generator.vector(calculated)
    if left is None:
        return None
    right = partner(generator, left)
    kind = generator.choices.pick(("maximum", "minimum", *(("maxnum", "minnum") if is_float(left.dtype) else ())))
    function = {"maximum": np.maximum, "minimum": np.minimum, "maxnum": np.fmax, "minnum": np.fmin}[kind]
    bounds = interval(max if "max" in kind else min, left, right)
    return combine(generator, left, right, kind, function, bounds, f"xt.{kind}({{0}}, {{1}})", zero_sign=False)


def unary(generator: Generator) -> Value | None:
    """Negation, ``abs`` and what rounds."""
    value = generator.vector(calculated)
    if value is None:
        return None
    choices, floats = generator.choices, is_float(value.dtype)
    kind = choices.pick(("-", "abs", *(("floor", "ceil", "trunc", "round", "sqrt") if floats else ())))
    if kind in ("-", "abs"):
        function: Callable[..., Any] = np.negative if kind == "-" else np.abs
        low, high = value.low, value.high
        bounds: Bounds | None = (None, None)
        if low is not None and high is not None:
            ends = [-high, -low] if kind == "-" else [0 if low <= 0 <= high else min(abs(low), abs(high)),
                                                      max(abs(low), abs(high))]
            bounds = bounded(value.dtype, ends[0], ends[1])
        if bounds is None:
            return None
        text = "-{0}" if kind == "-" else "xt.abs({0})"
    else:
        function = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sqrt": np.sqrt}[kind]
        bounds = (None, None) if kind == "sqrt" else (value.low, value.high)
        text = f"xt.{kind}({{0}})"
        if kind == "sqrt" and (value.low is None or value.low < 0):
            text, function = "xt.sqrt(xt.abs({0}))", lambda v: np.sqrt(np.abs(v))
    generator.features.add("unary")
    return generator.let(text, (value,), lambda state, v: apply(function, value.dtype, v), value.dtype, value.shape,
                         value.map, low=bounds[0], high=bounds[1], zero_sign=value.zero_sign)


def power(generator: Generator) -> Value | None:
    """``**`` of small integers."""
    value = generator.vector(calculated)
    if value is None:
        return None
    exponent = generator.choices.pick((2, 3, 1, 4, 0) if not is_float(value.dtype) else (2, 1, 3))
    value = tame(generator, value, {1: 3, 2: 7}.get(BITS[value.dtype] // 8, 20))
    most = value.most
    assert most is not None
    bounds = bounded(value.dtype, -(most ** exponent) if exponent % 2 else 0, most ** exponent if exponent else 1)
    if bounds is None:
        return None
    return generator.let(f"{{0}} ** {exponent}", (value,), lambda state, v: apply(
        lambda x: x ** np.asarray(exponent, x.dtype), value.dtype, v), value.dtype, value.shape, value.map,
        low=bounds[0], high=bounds[1])


def fma(generator: Generator) -> Value | None:
    """``fma`` of integers in floats: exact."""
    value = generator.vector(lambda each: is_float(each.dtype) and each.dtype in FLOATS)
    if value is None:
        return None
    a, b = tame(generator, value, 15), tame(generator, memory.load(
        generator, value.shape, value.dtype, value.map), 15)  # type: ignore[arg-type]
    return generator.let("xt.fma({0}, {1}, {0})", (a, b), lambda state, x, y: apply(
        lambda p, q: p * q + p, value.dtype, x, y), value.dtype, value.shape, value.map, low=-240, high=240,
        zero_sign=False)


def comparison(generator: Generator) -> Value | None:
    """``<`` and its like."""
    left = generator.vector(lambda each: calculated(each) or each.dtype == "i1")
    if left is None:
        return None
    if left.dtype == "i1":
        same = generator.vectors(lambda each: each.dtype == "i1" and each.shape == left.shape and each.map == left.map)
        right: Value | int = generator.choices.pick(same)
        sign = generator.choices.pick(("==", "!="))
    else:
        right, sign = partner(generator, left), generator.choices.pick(("<", ">", "<=", ">=", "==", "!="))
    compare = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq,
               "!=": operator.ne}[sign]

    def function(state: Any, a: Any, b: Any = right) -> Any:
        b = np.asarray(b, HOLDS[left.dtype]) if isinstance(b, int) else lifted(b)
        return np.broadcast_to(compare(a, b), a.shape)

    operands = (left,) if isinstance(right, int) else (left, right)
    generator.features.add("comparison")
    return generator.let(f"{{0}} {sign} {right if isinstance(right, int) else '{1}'}", operands, function, "i1",
                         left.shape, left.map, low=0, high=1)


def where(generator: Generator) -> Value | None:
    """``where`` by a vector of truth values."""
    if generator.vector(truth) is None:
        comparison(generator)
    condition = generator.vector(truth)
    if condition is None:
        return None
    fitting = generator.vectors(lambda each: each.shape == condition.shape and each.map == condition.map
                                and each.dtype not in ("e4m3", "e5m2", "tf32"))
    if not fitting:
        return None
    left, choices = generator.choices.pick(fitting[:6]), generator.choices
    same = [each for each in fitting if each.dtype == left.dtype]
    right: Value | int = 1 if choices.chance(0.4) and left.dtype != "i1" else choices.pick(same[:6])
    swap = choices.chance(0.4)
    name = "1" if isinstance(right, int) else "{2}"
    low, high = interval(min, left, right)[0], interval(max, left, right)[1]

    def function(state: Any, c: Any, a: Any, b: Any = right) -> Any:
        b = np.asarray(b, HOLDS[left.dtype])
        return np.where(c, b, a) if swap else np.where(c, a, b)

    operands = (condition, left) if isinstance(right, int) else (condition, left, right)
    generator.features.add("where")
    return generator.let(f"xt.where({{0}}, {name}, {{1}})" if swap else f"xt.where({{0}}, {{1}}, {name})", operands,
                         function, left.dtype, left.shape, left.map, low=low, high=high,
                         zero_sign=all(each.zero_sign for each in operands))


def conversion(generator: Generator) -> Value | None:
    """``.to``."""
    value = generator.vector(lambda each: each.dtype != "tf32")
    if value is None:
        return None
    targets = ("f16",) if value.dtype in ("e4m3", "e5m2") else (*generator.types, *CALCULATED, "i1")
    target = generator.choices.pick(targets)
    low, high = value.low, value.high
    if value.dtype == "f64" and target in ("f16",):
        return None
    if target == "i1":
        low, high = 0, 1
    elif not is_float(target):
        bottom, top = limits(target)
        if low is None or high is None:
            low, high = bottom, top
        elif low < bottom or high > top:
            low, high = (max(low, bottom), min(high, top)) if is_float(value.dtype) else (bottom, top)
            if low > high:
                low = high = top if (value.low or 0) > top else bottom
    generator.features.add("conversion")
    return generator.let(f"{{0}}.to(xt.{target})", (value,), lambda state, v: convert(v, value.dtype, target), target,
                         value.shape, value.map, low=low, high=high, zero_sign=value.zero_sign)


def small_float(generator: Generator) -> Value | None:
    """``.to`` an 8-bit float, and ``.to`` f16, with which there is more to do."""
    value = generator.vector(lambda each: each.dtype in CALCULATED and each.dtype != "f64")
    if value is None:
        return None
    target = generator.choices.pick(("e4m3", "e5m2"))
    low, high = (value.low, value.high) if (value.most or 0) <= EXACT[target] else (None, None)

    def function(state: Any, v: Any) -> Any:
        return convert(convert(v, value.dtype, target), target, "f16")

    generator.features.add("8-bit float")
    return generator.let(f"{{0}}.to(xt.{target}).to(xt.f16)", (value,), function, "f16", value.shape, value.map,
                         low=low, high=high, zero_sign=value.zero_sign)


INEXACT: dict[str, tuple[Callable[..., Any], str]] = {
    "exp": (np.exp, "xt.minimum({0}, 5)"), "exp2": (np.exp2, "xt.minimum({0}, 5)"), "tanh": (np.tanh, "{0}"),
    "log": (np.log, "xt.abs({0}) + 1"), "log2": (np.log2, "xt.abs({0}) + 1"), "sin": (np.sin, "{0}"),
    "cos": (np.cos, "{0}"), "rsqrt": (lambda x: 1 / np.sqrt(x), "xt.abs({0}) + 1"), "atan": (np.arctan, "{0}"),
    "cbrt": (np.cbrt, "{0}"), "log1p": (np.log1p, "xt.abs({0})"), "expm1": (np.expm1, "xt.minimum({0}, 5)")}


def inexact(generator: Generator) -> Value | None:
    """A function that is rounded as each execution likes; only its store is left to do."""
    value = generator.vector(lambda each: each.dtype in ("f32", "f16", "bf16") and each.most is not None
                             and (each.most or 0) <= 100)
    if value is None:
        return None
    name = generator.choices.pick(tuple(INEXACT))
    function, inner = INEXACT[name]

    def evaluate(state: Any, v: Any) -> Any:
        wide = v.astype(np.float64)
        wide = np.abs(wide) + 1 if "+ 1" in inner else np.abs(wide) if "abs" in inner else \
            np.minimum(wide, 5) if "min" in inner else wide
        return function(wide).astype(HOLDS[value.dtype])

    generator.features.add("function")
    return generator.let(f"xt.{name}({inner})", (value,), evaluate, value.dtype, value.shape, value.map, exact=False)


def bitcast(generator: Generator) -> Value | None:
    """``bitcast`` between types of one size."""
    value = generator.vector(lambda each: each.zero_sign and each.dtype in CALCULATED
                             and (not is_float(each.dtype) or each.most is not None))
    if value is None:
        return None
    targets = [each for each in CALCULATED if BITS[each] == BITS[value.dtype] and each != value.dtype
               and not is_float(each)]
    target = generator.choices.pick(targets)
    low, high = limits(target)
    generator.features.add("bitcast")
    return generator.let(f"xt.bitcast({{0}}, xt.{target})", (value,),
                         lambda state, v: np.ascontiguousarray(v).view(HOLDS[target]), target, value.shape, value.map,
                         low=low, high=high)
